"""Contexts of requests: where the reply goes that a handler defers."""

import pytest

from coordinator.core.reply import Reply
from coordinator.core.response_status import CLOSE_CONNECTION, NO_RESPONSE
from coordinator.network.request_context import ApiCounts, QueuedReply, RequestContext, ResponseEncoder
from protocol.apis import APIS, ApiKey
from protocol.codec import decode
from protocol.framing import response_body_position
from protocol.messages.heartbeat import HeartbeatResponse
from tests.network.requests import CLIENT, StandInConnection

VERSION = 4
ENCODER = ResponseEncoder(APIS[ApiKey.HEARTBEAT], VERSION, ApiCounts())
RESPONSE = HeartbeatResponse(error_code=27)


class RecordingConnection(StandInConnection):
    """Keeps the frames that complete replies."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[QueuedReply] = []
        self.frames: list[bytes] = []
        self.problems: list[Exception] = []
        self.is_closed = False

    def open_reply(self, encoder: ResponseEncoder, correlation_id: int, blocks: bool) -> QueuedReply:
        reply = super().open_reply(encoder, correlation_id, blocks)
        self.replies.append(reply)
        return reply

    def add_frame(self, reply: QueuedReply, frame: bytearray) -> None:
        reply.frame = frame
        self.frames.append(bytes(frame))

    def fail(self, problem: Exception) -> None:
        self.problems.append(problem)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def connection() -> RecordingConnection:
    return RecordingConnection()


@pytest.fixture
def context(connection: RecordingConnection) -> RequestContext:
    return RequestContext(CLIENT, ENCODER, 77, connection, VERSION)


def sent_response(connection: RecordingConnection) -> HeartbeatResponse:
    """Return the response in the one frame, which must have the correlation id of the request."""
    [frame] = connection.frames
    assert frame[4:8] == (77).to_bytes(4, "big")
    position = response_body_position(ApiKey.HEARTBEAT, VERSION, frame[4:])
    response: HeartbeatResponse = decode(HeartbeatResponse, VERSION, frame[4:], position)
    return response


def test_a_deferred_reply_is_encoded_for_its_request(
    connection: RecordingConnection, context: RequestContext
) -> None:
    context.defer(blocks=False).send(RESPONSE)
    assert sent_response(connection) == RESPONSE
    assert not connection.replies[0].blocks


def test_a_handler_that_is_called_later_gets_the_reply_that_is_open(
    connection: RecordingConnection, context: RequestContext
) -> None:
    reply = context.defer(blocks=False)
    late_context = context.with_reply(reply)
    assert late_context.defer(blocks=True) is reply
    assert connection.replies == [reply]
    assert connection.replies[0].blocks
    assert (late_context.client, late_context.api_version) == (CLIENT, VERSION)


def test_transforms_of_callers_come_after_those_of_the_handlers_that_they_call(
    connection: RecordingConnection, context: RequestContext
) -> None:
    order: list[str] = []

    def record(name: str, response: HeartbeatResponse) -> HeartbeatResponse:
        order.append(name)
        return response

    of_fault = context.notify_deferred(lambda reply: reply.map(lambda response: record("fault", response)))
    of_guard = of_fault.map_reply(lambda response: record("guard", response))
    of_handler = of_guard.map_reply(lambda response: record("handler", response))
    of_handler.defer(False).send(RESPONSE)
    assert order == ["handler", "guard", "fault"]
    assert sent_response(connection) == RESPONSE


def test_a_context_of_a_reply_does_not_apply_its_transforms_again(
    connection: RecordingConnection, context: RequestContext
) -> None:
    calls: list[object] = []

    def count(response: object) -> object:
        calls.append(response)
        return response

    mapped = context.map_reply(count)
    reply = mapped.defer(True)
    mapped.with_reply(reply).defer(True).send(RESPONSE)
    assert len(calls) == 1


def test_the_caller_learns_of_the_reply(connection: RecordingConnection, context: RequestContext) -> None:
    replies: list[Reply] = []
    reply = context.notify_deferred(replies.append).defer(False)
    assert replies == [reply]


@pytest.mark.parametrize(("status", "closes"), [(NO_RESPONSE, False), (CLOSE_CONNECTION, True)])
def test_a_reply_without_a_response_sends_nothing(
    connection: RecordingConnection, context: RequestContext, status: object, closes: bool
) -> None:
    context.defer(blocks=True).send(status)
    assert connection.frames == [b""]
    assert connection.is_closed is closes


def test_a_response_that_cannot_be_encoded_fails_the_connection(
    connection: RecordingConnection, context: RequestContext
) -> None:
    context.defer(blocks=True).send(HeartbeatResponse(error_code=1 << 20))
    assert len(connection.problems) == 1
    assert connection.frames == []
