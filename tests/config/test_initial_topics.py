"""Topics that variables of other images ask for, as their start scripts read them."""

import pytest

from coordinator.config.initial_topics import InitialTopic, parse_initial_topics

KAFKA = "KAFKA_CREATE_TOPICS"


def parse(text: str, variable: str = KAFKA, **others: str) -> list[InitialTopic]:
    topics, problems = parse_initial_topics({variable: text, **others}, in_image=True)
    assert problems == []
    return topics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders:6:1", [InitialTopic(KAFKA, "orders", 6, 1)]),
        ("input:2:1, output:2:1", [InitialTopic(KAFKA, "input", 2, 1), InitialTopic(KAFKA, "output", 2, 1)]),
        ("a:1:1,b:2:3,", [InitialTopic(KAFKA, "a", 1, 1), InitialTopic(KAFKA, "b", 2, 3)]),
        ("\n  a:1:1,\n  b:1:1\n", [InitialTopic(KAFKA, "a", 1, 1), InitialTopic(KAFKA, "b", 1, 1)]),
        ("a:1:1,a:2:1", [InitialTopic(KAFKA, "a", 1, 1)]),
        ("a", [InitialTopic(KAFKA, "a")]),
        ("a:3", [InitialTopic(KAFKA, "a", 3)]),
        ("a::1", [InitialTopic(KAFKA, "a", -1, 1)]),
        ("a:1:1:compact", [InitialTopic(KAFKA, "a", 1, 1, {"cleanup.policy": "compact"})]),
        ("a:1:1:", [InitialTopic(KAFKA, "a", 1, 1)]),
        ("", []),
        (" , ", []),
    ],
)
def test_entries_are_names_partitions_replicas_and_a_policy(text: str, expected: list[InitialTopic]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "options", ["--config=retention.ms=60000 --config=a=b:c", "--config retention.ms=60000 --config 'a=b:c'"]
)
def test_options_of_kafka_topics_are_configs(options: str) -> None:
    (topic,) = parse(f"js.eval:100:1:delete {options}")
    assert topic.configs == {"cleanup.policy": "delete", "retention.ms": "60000", "a": "b:c"}


def test_options_need_no_policy() -> None:
    (topic,) = parse("a:1:1: --config=retention.ms=1")
    assert topic.configs == {"retention.ms": "1"}


def test_quotes_around_a_value_of_a_list_in_yaml_do_not_count() -> None:
    assert parse('"test-topic:1:1"', "CREATE_TOPICS") == [InitialTopic("CREATE_TOPICS", "test-topic", 1, 1)]
    assert [topic.name for topic in parse("'a:1:1,b:1:1'")] == ["a", "b"]


@pytest.mark.parametrize(
    ("separator", "text"), [(";", "a:1:1;b:1:1:compact,delete"), ("$'\\n'", "a:1:1\nb:1:1:compact,delete")]
)
def test_the_separator_may_be_another_one(separator: str, text: str) -> None:
    a, b = parse(text, KAFKA_CREATE_TOPICS_SEPARATOR=separator)
    assert a.name == "a"
    assert b.configs == {"cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    "entry",
    [
        "bad:x:1",
        "bad:1:-1",
        "bad:1:1:delete --config",
        "bad:1:1:delete --config=a",
        "bad:1:1:delete --replica-assignment=0",
        "bad:1:1:delete 'unclosed",
        "bad:99999999999:1",
        "bad:1:1:delete extra",
    ],
)
def test_an_invalid_entry_is_named_and_leaves_the_others(entry: str) -> None:
    topics, (problem,) = parse_initial_topics({KAFKA: f"good:1:1,{entry}"}, in_image=False)
    assert [topic.name for topic in topics] == ["good"]
    assert problem.startswith(f"{KAFKA}: {entry} ")
    assert "NAME:PARTITIONS:REPLICAS" in problem


def test_a_name_that_anybody_may_use_counts_in_the_image_alone() -> None:
    environment = {"CREATE_TOPICS": "a:1:1", KAFKA: "b:1:1"}
    assert [topic.name for topic in parse_initial_topics(environment, in_image=False)[0]] == ["b"]
    assert [topic.name for topic in parse_initial_topics(environment, in_image=True)[0]] == ["b", "a"]
