import pytest

from coordinator.config.config_def import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.topics.topic_name import find_name_error, is_internal, metric_name


@pytest.mark.parametrize("name", ["a", "orders", "A.b_c-9", "...", "_", "__mine", "x" * 249, "0"])
def test_legal_names(name: str) -> None:
    assert find_name_error(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "a\n", "café", "a:b", "a\x00", "a,b"]
)
def test_illegal_names(name: str) -> None:
    assert find_name_error(name)


def test_a_long_name_or_value_is_shortened_in_the_error() -> None:
    """Old versions of CreateTopics have room for 32,767 bytes of an error."""
    name_error = find_name_error("x" * 32_700)
    assert name_error is not None
    with pytest.raises(InvalidConfig) as refused:
        TOPIC_CONFIG_KEYS["retention.ms"].parse_from_client("x" * 32_700)
    assert max(len(name_error), len(str(refused.value))) < 1500


def test_names_that_metrics_cannot_tell_apart() -> None:
    assert metric_name("a.b") == metric_name("a_b")
    assert metric_name("a.b") != metric_name("a-b")


def test_internal_topics() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
