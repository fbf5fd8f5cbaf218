"""Headers and frames, from explicit bytes: the quirks of Kafka's headers are all here."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.serial import entity_reader, entity_writer

from protocol import codec
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.framing import (
    RequestHeader,
    UnknownApi,
    UnsupportedVersion,
    encode_request,
    encode_response,
    parse_request_header,
    response_body_position,
)
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.primitives import Malformed
from tests.protocol.declared import examples, full

HEARTBEAT = HeartbeatRequest(group_id="grp", generation_id=3, member_id="m-1")
SERVED = [
    (key, version)
    for key, api in APIS.items()
    for version in range(api.versions.first, api.versions.last + 1)
]


def served_name(case: Any) -> str:
    return f"{APIS[case[0]].name}-v{case[1]}"


def test_a_request_before_flexible_versions() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 0, 7, "me", HEARTBEAT)
    assert frame == bytes.fromhex("0000001a 000c 0000 00000007 0002 6d65  0003 677270 00000003 0003 6d2d31")
    assert parse_request_header(bytes(frame[4:])) == RequestHeader(12, 0, 7, "me", 12)


def test_in_flexible_versions_the_client_id_keeps_its_old_length_and_tags_follow() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 7, "me", HEARTBEAT)
    header, body = "000c 0004 00000007 0002 6d65 00", "04 677270 00000003 04 6d2d31 00 00"
    assert frame == bytes.fromhex(f"0000001b {header} {body}")
    assert parse_request_header(bytes(frame[4:])) == RequestHeader(12, 4, 7, "me", 13)


def test_tags_of_the_header_are_stepped_over() -> None:
    header = parse_request_header(
        bytes.fromhex("000c 0004 00000007 0002 6d65 02 00 01 ff 8001 02 aabb  04 677270")
    )
    assert header.body_position == 21


def test_a_client_id_may_be_null_or_empty() -> None:
    assert parse_request_header(bytes.fromhex("000c 0000 00000007 ffff")) == RequestHeader(12, 0, 7, None, 10)
    assert parse_request_header(bytes.fromhex("000c 0000 00000007 0000")) == RequestHeader(12, 0, 7, "", 10)
    assert bytes(encode_request(12, 0, 7, None, HEARTBEAT))[12:14] == b"\xff\xff"


def test_a_response_before_flexible_versions_begins_with_the_correlation_id_alone() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert encode_response(12, 1, 7, response) == bytes.fromhex("0000000a 00000007 00000000 001b")


def test_a_response_of_a_flexible_version_has_a_tagged_section_in_its_header() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.NONE)
    assert encode_response(12, 4, 7, response) == bytes.fromhex("0000000c 00000007 00 00000000 0000 00")


@pytest.mark.parametrize("version", range(6))
def test_the_response_to_api_versions_never_has_tags_in_its_header(version: int) -> None:
    frame = bytes(encode_response(18, version, 7, ApiVersionsResponse(error_code=0, api_keys=[])))
    assert frame[4:10] == bytes.fromhex("00000007 0000")
    assert response_body_position(18, version, frame[4:]) == 4


@pytest.mark.parametrize(
    "frame", ["", "000000", "00000007", "00000007 01", "00000007 01 00 05 aa", "00000007 ffff"]
)
def test_bytes_that_are_no_response_header(frame: str) -> None:
    with pytest.raises(Malformed):
        response_body_position(ApiKey.HEARTBEAT, 4, bytes.fromhex(frame))


def test_tags_of_a_response_header_are_stepped_over() -> None:
    assert (
        response_body_position(ApiKey.HEARTBEAT, 4, bytes.fromhex("00000007 01 00 01 aa  00000000 0000 00"))
        == 8
    )


def test_a_version_of_api_versions_to_come_is_answered_in_the_form_of_v0() -> None:
    with pytest.raises(UnsupportedVersion) as refused:
        parse_request_header(bytes.fromhex("0012 0063 0000002a 0002 6d65 00 aaaaaaaa"))
    header = refused.value.header
    assert (header.api_key, header.api_version, header.correlation_id) == (18, 99, 42)
    only = ApiVersion(api_key=18, min_version=0, max_version=5)
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
    frame = encode_response(header.api_key, 0, header.correlation_id, answer)
    assert frame == bytes.fromhex("00000010 0000002a 0023 00000001 0012 0000 0005")


@pytest.mark.parametrize(
    "head",
    [
        "000c 0005 00000007 0000",
        "000c ffff 00000007 0000",
        "0001 0003 00000007 0000",
        "0001 0013 00000007 0000",
    ],
)
def test_versions_outside_the_served_range(head: str) -> None:
    with pytest.raises(UnsupportedVersion):
        parse_request_header(bytes.fromhex(head))


@pytest.mark.parametrize("key", ["0004", "0026", "7fff", "ffff"])
def test_keys_that_are_not_served(key: str) -> None:
    with pytest.raises(UnknownApi):
        parse_request_header(bytes.fromhex(f"{key} 0000 00000007 0000"))


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "000c 0004 0000",
        "000c 0004 00000007 00",
        "000c 0004 00000007 0002 6d",
        "000c 0004 00000007 0002 6d65",
        "000c 0004 00000007 7fff 6d65 00",
        "000c 0004 00000007 fffe 00",
        "000c 0004 00000007 0001 ff 00",
        "000c 0004 00000007 0000 01 00 05 aa",
        "000c 0004 00000007 0000 02 01 00 01 00",
        "000c 0004 00000007 0000 ffffffffffff",
    ],
)
def test_bytes_that_are_no_header(frame: str) -> None:
    with pytest.raises(Malformed):
        parse_request_header(bytes.fromhex(frame))


@examples(500)
@given(frame=st.binary(max_size=40) | st.binary(max_size=30).map(bytes.fromhex("000c0004").__add__))
def test_any_bytes_are_a_header_or_malformed(frame: bytes) -> None:
    try:
        header = parse_request_header(frame)
    except Malformed:
        return
    assert 10 <= header.body_position <= len(frame)


@examples(60)
@given(
    case=st.sampled_from(SERVED),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_request_headers_as_kio_reads_and_writes_them(
    case: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    key, version = case
    entity: Any = KioRequestHeaderV2 if version in APIS[key].flexible else KioRequestHeaderV1
    message = full(APIS[key].request, version)
    frame = bytes(encode_request(key, version, correlation_id, client_id, message))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4

    expected, size = entity_reader(entity)(frame, 4)
    assert (expected.request_api_key, expected.request_api_version) == (key, version)
    assert (expected.correlation_id, expected.client_id) == (correlation_id, client_id)
    out = io.BytesIO()
    entity_writer(entity)(out, expected)

    parsed = parse_request_header(frame[4:])
    assert parsed == RequestHeader(key, version, correlation_id, client_id, len(out.getvalue()))
    assert frame[4 : 4 + size] == out.getvalue()
    assert codec.decode(APIS[key].request, version, frame[4:], parsed.body_position) == message


@pytest.mark.parametrize("case", SERVED, ids=served_name)
def test_a_response_frame_leads_back_to_its_message(case: tuple[int, int]) -> None:
    key, version = case
    message = full(APIS[key].response, version)
    frame = bytes(encode_response(key, version, 99, message))
    assert frame[:8] == (len(frame) - 4).to_bytes(4, "big") + (99).to_bytes(4, "big")
    body = response_body_position(key, version, frame[4:])
    assert codec.decode(APIS[key].response, version, frame[4:], body) == message
