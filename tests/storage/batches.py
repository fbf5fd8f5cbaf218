"""Records and logs that the tests of this package share."""

from random import Random

from hypothesis import strategies as st

from storage.record import Record, append_keys_and_values

TIMESTAMPS = st.integers(-1, 2**48)
OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OPTIONAL_BYTES), max_size=3).map(tuple)
DRAWN_RECORDS = st.lists(
    st.builds(Record, st.just(-1), TIMESTAMPS, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS),
    min_size=1,
    max_size=20,
)
"""Records of which Hypothesis draws each field: slow, for the tests that encode and decode records."""
HEADER_NAMES = ("", "h", "größe", "日本語", "\0", "longer-1")


def random_records(seed: int, count: int) -> list[Record]:
    """Records with any of the fields that `DRAWN_RECORDS` may have. The same arguments give the same records."""
    random = Random(seed)

    def some_bytes() -> bytes | None:
        length = random.choice([0, random.randint(1, 5), random.randint(6, 40)])
        return random.choice([None, random.randbytes(length), random.randbytes(length)])

    return [
        Record(
            -1,
            random.choice([-1, 0, 2**48, random.randrange(2**48)]),
            some_bytes(),
            some_bytes(),
            tuple((random.choice(HEADER_NAMES), some_bytes()) for _ in range(random.choice([0, 0, 1, 3]))),
        )
        for _ in range(count)
    ]


RECORDS = st.builds(random_records, st.integers(0, 2**32), st.integers(1, 12))
"""Records for tests. Two drawn numbers decide everything, which is ten times as fast."""


def at_offsets(records: list[Record], base_offset: int) -> list[Record]:
    """The records as a log returns them."""
    return [record._replace(offset=base_offset + delta) for delta, record in enumerate(records)]


def keys_and_values(section: bytes, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Those of a whole section."""
    found: list[tuple[bytes | None, bytes | None]] = []
    append_keys_and_values(found, section, 0, len(section), count)
    return found


def record(number: int, timestamp_ms: int | None = None, size: int = 20) -> Record:
    """Return a distinguishable record."""
    text = f"{number}-".encode()
    value = (text * (size // len(text) + 1))[:size]
    return Record(-1, 1000 + number if timestamp_ms is None else timestamp_ms, b"k%d" % number, value)
