"""Any bytes give a message or Malformed, in bounded memory; both codecs judge alike."""

import tracemalloc
from random import Random
from typing import Any

import pytest

from protocol import codec, reference_codec
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.primitives import DecodingBudget, Malformed
from tests.protocol.declared import ALL, EXPLORE, full, name

# Bytes at which lengths, counts, booleans and varints change their meaning.
EDGES = (0x00, 0x01, 0x7F, 0x80, 0x81, 0xFF)


def verdict(decode: Any, cls: type[Any], version: int, data: bytes) -> Any:
    try:
        return decode(cls, version, data)
    except Malformed:
        return Malformed


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_every_truncation_and_every_extra_byte_is_malformed(declared: tuple[type[Any], int]) -> None:
    cls, version = declared
    data = codec.encode(full(cls, version), version)
    for end in range(len(data)):
        with pytest.raises(Malformed):
            codec.decode(cls, version, data[:end])
    with pytest.raises(Malformed):
        codec.decode(cls, version, data + b"\0")


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_damaged_and_random_bytes_are_judged_alike_by_both_codecs(declared: tuple[type[Any], int]) -> None:
    cls, version = declared
    whole = codec.encode(full(cls, version), version)
    chance = Random(f"{EXPLORE} {name(declared)}")
    for _ in range(EXPLORE or 20):
        data = damaged(whole, chance) if chance.random() < 0.8 else chance.randbytes(chance.randrange(60))
        assert verdict(codec.decode, cls, version, data) == verdict(
            reference_codec.decode, cls, version, data
        ), data.hex()


def damaged(data: bytes, chance: Random) -> bytes:
    """`data` with up to two bytes at one place replaced by up to three."""
    position = chance.randrange(len(data) + 1)
    put = bytes([chance.choice(EDGES)]) if chance.random() < 0.7 else chance.randbytes(chance.randrange(4))
    return data[:position] + put + data[position + chance.randrange(3) :]


REFUSED = {
    "an array count that the data cannot hold": (MetadataRequest, 0, "7fffffff"),
    "a compact array count that the data cannot hold": (MetadataRequest, 9, "ffffffff0f 00 00 00 00"),
    "a count below null": (MetadataRequest, 1, "fffffffe"),
    "a null array where it may not be null": (MetadataRequest, 0, "ffffffff"),
    "a null string where it may not be null": (HeartbeatRequest, 0, "ffff 00000001 0001 6d"),
    "a null compact string where it may not be null": (HeartbeatRequest, 4, "00 00000001 026d 00 00"),
    "a string length below null": (HeartbeatRequest, 3, "0001 67 00000001 0001 6d fffe"),
    "a string longer than the data": (HeartbeatRequest, 0, "7fff 67 00000001 0001 6d"),
    "a compact string of more than 32,767 bytes": (
        HeartbeatRequest,
        4,
        "818002" + 32_768 * "67" + "00000001 026d 00 00",
    ),
    "invalid UTF-8": (HeartbeatRequest, 0, "0001 ff 00000001 0001 6d"),
    "an encoded surrogate, which UTF-8 does not have": (HeartbeatRequest, 0, "0003 eda080 00000001 0001 6d"),
    "bytes longer than the data": (SyncGroupRequest, 0, "0001 67 00000001 0001 6d 00000001 0001 6d 7fffffff"),
    "a varint of six bytes": (HeartbeatRequest, 4, "8280808080 00 67 00000001 026d 00 00"),
    "a varint of 35 bits": (HeartbeatRequest, 4, "8280808010 67 00000001 026d 00 00"),
    "a varint that the data cuts": (HeartbeatRequest, 4, "80"),
    "a byte after the end": (HeartbeatRequest, 0, "0001 67 00000001 0001 6d 00"),
    "no tagged section": (HeartbeatRequest, 4, "0267 00000001 026d 00"),
    "more tagged fields than bytes": (HeartbeatRequest, 4, "0267 00000001 026d 00 ffffffff0f"),
    "an unknown tagged field longer than the data": (
        HeartbeatRequest,
        4,
        "0267 00000001 026d 00 01 05 7f 00",
    ),
    "the same unknown tag twice": (HeartbeatRequest, 4, "0267 00000001 026d 00 02 05 00 05 00"),
    "unknown tags out of order": (HeartbeatRequest, 4, "0267 00000001 026d 00 02 05 00 04 00"),
    "a known tag out of order": (ApiVersionsResponse, 3, "0000 01 00000000 02 03 0101 00 01 01"),
    "a known tag twice": (ApiVersionsResponse, 3, "0000 01 00000000 02 03 0101 03 0101"),
    "a known tagged field that is longer than its value": (
        ApiVersionsResponse,
        3,
        "0000 01 00000000 01 03 020100",
    ),
    "a known tagged field that is shorter than its value": (
        ApiVersionsResponse,
        3,
        "0000 01 00000000 01 01 04 0000000000000000",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_malformed(why: str) -> None:
    cls, version, text = REFUSED[why]
    data = bytes.fromhex(text)
    with pytest.raises(Malformed):
        codec.decode(cls, version, data)
    with pytest.raises(Malformed):
        reference_codec.decode(cls, version, data)


def test_unknown_tagged_fields_are_stepped_over() -> None:
    plain = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    data = bytes.fromhex("0267 00000001 026d 00 02 05 03 aabbcc 8001 00")
    assert codec.decode(HeartbeatRequest, 4, data) == plain
    assert reference_codec.decode(HeartbeatRequest, 4, data) == plain


COUNTS = {
    "array": (JoinGroupRequest, 0, "0001 67 00000001 0000 0000 7fffffff"),
    "compact array": (JoinGroupRequest, 9, "0267 00000001 00000001 01 00 01 ffffffff0f"),
    "array of integers": (OffsetFetchRequest, 6, "0267 02 0274 ffffffff07"),
    "nested array": (OffsetCommitRequest, 8, "0267 00000001 0267 00 02 0274 ffffffff07"),
    "array of wide structs": (FetchRequest, 4, "00000000 00000000 00000000 00000000 00 40000000"),
    "bytes": (JoinGroupRequest, 0, "0001 67 00000001 0000 0000 00000001 0000 7fffffff"),
    "string": (JoinGroupRequest, 9, "ffffffff0f"),
}


@pytest.mark.parametrize("what", COUNTS)
def test_an_absurd_count_sets_no_memory_aside(what: str) -> None:
    cls, version, text = COUNTS[what]
    data = bytes.fromhex(text) + bytes(1000)
    decode = codec.decoder(cls, version)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


SPENT = {
    "elements of an array in an array": (
        "0267 02 0274 04 00000000 00000001 00000002 00 00",
        DecodingBudget(4, 0),
    ),
    "elements of one array": ("0267 04 0274 01 00 0275 01 00 0276 01 00 00", DecodingBudget(3, 0)),
    "unknown tags of the message": ("0267 01 02 1400 1500", DecodingBudget(0, 2)),
    "unknown tags of its structs": ("0267 03 0274 01 01 1400 0275 01 01 1400 00", DecodingBudget(2, 2)),
}


@pytest.mark.parametrize("what", SPENT)
def test_a_request_has_a_budget(what: str) -> None:
    text, spent = SPENT[what]
    data = bytes.fromhex(text)
    message = codec.decode(OffsetFetchRequest, 6, data)
    assert codec.request_decoder(OffsetFetchRequest, 6, spent)(data) == message
    for less in (
        DecodingBudget(spent.elements - 1, spent.unknown_tags),
        DecodingBudget(spent.elements, spent.unknown_tags - 1),
    ):
        if min(less.elements, less.unknown_tags) >= 0:
            with pytest.raises(Malformed):
                codec.request_decoder(OffsetFetchRequest, 6, less)(data)
