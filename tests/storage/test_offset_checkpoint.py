import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.offset_checkpoint import read_offsets, write_offsets
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition
from tests.storage.faulty_files import FaultyFiles

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
OFFSETS = st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**62))


def test_the_text_is_kafkas() -> None:
    files = FaultyFiles()
    offsets = {TopicPartition("orders", 1): 77, TopicPartition("__consumer_offsets", 12): 5}
    write_offsets(files, "/points", offsets)
    assert files.read("/points") == b"0\n2\n__consumer_offsets 12 5\norders 1 77\n"


@given(OFFSETS)
def test_offsets_come_back_and_survive_a_crash(offsets: dict[TopicPartition, int]) -> None:
    files = FaultyFiles()
    write_offsets(files, "/points", offsets)
    assert read_offsets(files.crash(), "/points") == offsets


def test_a_file_that_is_missing_or_was_never_filled_has_no_entries() -> None:
    files = FaultyFiles()
    assert read_offsets(files, "/points") == {}
    files.write("/points", b"")
    assert read_offsets(files, "/points") == {}


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "1\n0\n",
        "0\n",
        "0\nx\n",
        "0\n1\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na x 1\n",
        "0\n1\na 0 -1\n",
        "\xff",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    files = FaultyFiles()
    files.write("/points", text.encode("latin-1"))
    with pytest.raises(DamagedFile) as caught:
        read_offsets(files, "/points")
    assert caught.value.path == "/points"
