import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.record import MAX_VARLONG_BYTES, SMALL, decode_varint, encode_varint, varint_size
from storage.storage_errors import CorruptBatch

VARLONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@given(VARLONGS)
def test_the_size_is_that_of_the_encoding(value: int) -> None:
    assert varint_size(value) == len(encode_varint(value))


@given(VARLONGS, st.binary(max_size=4), st.binary(max_size=4))
def test_any_integer_comes_back_from_any_position(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    decoded = decode_varint(before + encoded + after, len(before), MAX_VARLONG_BYTES)
    assert decoded == (value, len(before) + len(encoded))


@given(VARLONGS)
def test_every_proper_prefix_is_refused(value: int) -> None:
    encoded = encode_varint(value)
    for length in range(len(encoded)):
        with pytest.raises(CorruptBatch):
            decode_varint(encoded[:length], 0, MAX_VARLONG_BYTES)


def test_an_encoding_that_never_ends_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        decode_varint(b"\xff" * 100, 0)


def test_the_table_agrees_with_the_decoder() -> None:
    assert [decode_varint(encoded, 0)[0] for encoded in SMALL] == list(range(len(SMALL)))
