"""The recorded frames of a conversation, and the selection that is kept."""

from protocol.apis import APIS, ApiKey
from protocol.framing import encode_request, encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.frames.choice import choose
from tests.frames.proxy import Conversation
from tests.frames.recording import Exchange

OF_NO_API = bytes.fromhex("0000000a 7f00 0000 00000007 ffff")


def asked(correlation_id: int, member_id: str = "m") -> bytes:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    return bytes(encode_request(ApiKey.HEARTBEAT, 3, correlation_id, "c", request))


def answered(correlation_id: int, error_code: int = 0) -> bytes:
    return bytes(
        encode_response(ApiKey.HEARTBEAT, 3, correlation_id, HeartbeatResponse(error_code=error_code))
    )


def exchange(member_id: str = "m", error_code: int = 0, client: str = "a") -> Exchange:
    frames = asked(1, member_id)[4:], answered(1, error_code)[4:]
    return Exchange(client, APIS[ApiKey.HEARTBEAT], 3, *frames)


def test_requests_find_their_answers() -> None:
    sent = bytearray(asked(1) + asked(2, "unanswered") + OF_NO_API + asked(3, "n"))
    received = bytearray(answered(3, 25) + answered(1))
    found = list(Conversation("a", sent, received).exchanges())
    assert [(each.request, each.response) for each in found] == [
        (asked(1)[4:], answered(1)[4:]),
        (asked(3, "n")[4:], answered(3, 25)[4:]),
    ]


def test_a_conversation_that_breaks_off_or_is_none_gives_what_it_has() -> None:
    whole = asked(1)
    received = bytearray(answered(1) + answered(2))
    for rest in (b"", b"\x00", asked(2)[:-1], b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
        conversation = Conversation("a", bytearray(whole + rest), received)
        assert [each.request for each in conversation.exchanges()] == [whole[4:]]


def test_a_refused_version_is_not_read_as_one_that_was_answered() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    sent = bytearray(encode_request(ApiKey.API_VERSIONS, 3, 1, "c", request))
    refusal = encode_response(ApiKey.API_VERSIONS, 0, 1, ApiVersionsResponse(error_code=35, api_keys=[]))
    assert list(Conversation("a", sent, bytearray(refusal)).exchanges()) == []


def test_what_shows_nothing_new_is_left_out() -> None:
    first, other_text, refused, no_member = exchange(), exchange("n"), exchange("m", 25), exchange("")
    assert choose([first, other_text]) == [first]
    assert choose([first, other_text, refused]) == [first, refused]
    assert set(choose([first, no_member])) == {no_member, first}


def test_every_client_and_version_counts_for_itself() -> None:
    mine, theirs = exchange(), exchange(client="b")
    assert choose([mine, theirs, mine]) == [mine, theirs]
