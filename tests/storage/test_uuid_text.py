import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.topic_partition import uuid_from_text, uuid_to_text


def test_kafkas_well_known_ids() -> None:
    assert uuid_to_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"


@given(st.binary(min_size=16, max_size=16))
def test_ids_come_back(raw: bytes) -> None:
    assert uuid_from_text(uuid_to_text(raw)) == raw


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "B", "é" * 22])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        uuid_from_text(text)


def test_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        uuid_to_text(bytes(15))
