"""Replies that come later: transforms, delayed handlers, clients that disconnect."""

import pytest

from coordinator.core.reply import InternalReply, Reply, defer_mapped
from coordinator.core.response_status import AWAITING_DISK, BLOCKED, CLOSE_CONNECTION, NO_RESPONSE


class Recorder:
    """Records the responses and failures of replies."""

    def __init__(self) -> None:
        self.responses: list[object] = []
        self.problems: list[Exception] = []
        self.reply = InternalReply(self.responses.append, self.problems.append)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_the_transform_that_was_added_last_is_applied_first(recorder: Recorder) -> None:
    recorder.reply.map(lambda text: text + " for the client")
    recorder.reply.map(lambda text: text + ", complete")
    recorder.reply.send("group")
    assert recorder.responses == ["group, complete for the client"]


@pytest.mark.parametrize("status", [NO_RESPONSE, CLOSE_CONNECTION])
def test_where_there_is_no_response_nothing_is_transformed(recorder: Recorder, status: object) -> None:
    recorder.reply.map(lambda _: "a response")
    recorder.reply.send(status)
    assert recorder.responses == [status]


def test_a_transform_may_keep_the_response_and_send_it_later(recorder: Recorder) -> None:
    kept: list[object] = []

    def keep(response: object) -> object:
        kept.append(response)
        return BLOCKED

    recorder.reply.map(keep)
    recorder.reply.send("late")
    assert recorder.responses == []
    recorder.reply.send(*kept)
    assert recorder.responses == ["late"]


def test_a_transform_that_fails_fails_the_reply(recorder: Recorder) -> None:
    recorder.reply.map(lambda response: response.missing)
    recorder.reply.send("text")
    assert recorder.responses == []
    assert isinstance(recorder.problems[0], AttributeError)


def test_what_a_delayed_handler_returns_is_sent(recorder: Recorder) -> None:
    recorder.reply.begin_work(lambda: recorder.responses.append("abandoned"))
    recorder.reply.complete_with(lambda number: number + 1, 1)
    assert recorder.responses == [2]
    assert not recorder.reply.is_in_progress
    recorder.reply.abandon()
    assert recorder.responses == [2]


@pytest.mark.parametrize("status", [BLOCKED, AWAITING_DISK])
def test_a_delayed_handler_may_defer_the_reply_again(recorder: Recorder, status: object) -> None:
    def handle() -> object:
        recorder.reply.begin_work(lambda: recorder.responses.append("abandoned"))
        return status

    recorder.reply.complete_with(handle)
    assert recorder.reply.is_in_progress
    assert recorder.responses == []
    recorder.reply.abandon()
    assert recorder.responses == ["abandoned"]


def test_a_delayed_handler_that_fails_fails_the_reply(recorder: Recorder) -> None:
    recorder.reply.complete_with(int, "x")
    assert isinstance(recorder.problems[0], ValueError)
    assert recorder.responses == []


def test_a_failure_without_a_listener_is_raised() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        InternalReply(print).complete_with(int, "x")


def test_the_end_of_the_client_is_reported_once(recorder: Recorder) -> None:
    recorder.reply.on_abandoned = lambda: recorder.responses.append("abandoned")
    recorder.reply.abandon()
    recorder.reply.abandon()
    assert recorder.responses == ["abandoned"]


def test_a_deferred_reply_can_be_mapped(recorder: Recorder) -> None:
    def defer(blocks: bool) -> Reply:
        assert blocks
        return recorder.reply

    defer_mapped(defer, str.upper, True).send("text")
    assert recorder.responses == ["TEXT"]
