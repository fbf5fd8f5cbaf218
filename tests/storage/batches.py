"""Records and logs that the tests of this package share."""

from hypothesis import strategies as st

from storage.record import Record, append_keys_and_values

TIMESTAMPS = st.integers(-1, 2**48)
OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OPTIONAL_BYTES), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(-1), TIMESTAMPS, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS),
    min_size=1,
    max_size=20,
)


def at_offsets(records: list[Record], base_offset: int) -> list[Record]:
    """The records as a log returns them."""
    return [record._replace(offset=base_offset + delta) for delta, record in enumerate(records)]


def keys_and_values(section: bytes, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Those of a whole section."""
    found: list[tuple[bytes | None, bytes | None]] = []
    append_keys_and_values(found, section, 0, len(section), count)
    return found


def record(number: int, timestamp_ms: int | None = None, size: int = 20) -> Record:
    """A record that can be told from others."""
    text = f"{number}-".encode()
    value = (text * (size // len(text) + 1))[:size]
    return Record(-1, 1000 + number if timestamp_ms is None else timestamp_ms, b"k%d" % number, value)
