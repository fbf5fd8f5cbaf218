"""Sessions that end, and clients that authenticate again in time, or not (KIP-368)."""

from typing import Any

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from tests.oracle.member import Member, protocols
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant
from tests.oracle.sasl import Talk
from tests.oracle.secured import BRIEF, SESSION_MS, SHA_256, enter, make_users
from tests.oracle.session import session

IN = ("handshake 1 PLAIN", "plain 2 a good one", "heartbeat 4")
AGAIN = ("handshake 1 PLAIN", "plain 2 a good one", "metadata 12")
PAST_MS = SESSION_MS + 500
A_SECOND_MS = 1300
MOVES: dict[str, tuple[str, ...]] = {
    "at once": AGAIN,
    "with a handshake of long ago": ("handshake 0 PLAIN", "bare a good one", "metadata 12"),
    "with tokens of long ago": ("handshake 1 PLAIN", "plain 0 a good one", "metadata 12"),
    "twice within a second": (*AGAIN, "handshake 1 PLAIN", "metadata 12"),
    "as another": ("handshake 1 PLAIN", "plain 2 another's", "metadata 12"),
    "as another, long ago": ("handshake 0 PLAIN", "bare another's"),
    "by another mechanism": ("handshake 1 SCRAM-SHA-256", "scram 2 SCRAM-SHA-256"),
    "by an unknown mechanism": ("handshake 1 GSSAPI", "metadata 12"),
    "with a wrong password": ("handshake 1 PLAIN", "plain 2 a wrong password", "metadata 12"),
    "with a wrong password, long ago": ("handshake 0 PLAIN", "bare a wrong password"),
    "with an unknown user": ("handshake 1 PLAIN", "plain 2 an unknown user"),
    "with a token that is none": ("handshake 1 PLAIN", "plain 2 two parts"),
    "with a token alone": ("plain 2 a good one", "metadata 12"),
    "with a token alone, long ago": ("plain 0 a good one", "metadata 12"),
    "with a request instead of a token": ("handshake 1 PLAIN", "metadata 12"),
    "with versions instead of a token": ("handshake 1 PLAIN", "versions 3"),
    "with a handshake instead of a token": ("handshake 1 PLAIN", "handshake 1 PLAIN"),
    "with bytes that are too many": ("handshake 1 PLAIN", "bytes that are too many"),
    "with bytes of a negative size": ("handshake 1 PLAIN", "bytes of a negative size"),
    "with versions before": ("versions 3", "versions 3", *AGAIN),
}


@session(setup=SECURED, moves=MOVES)
def moves_of_a_client_that_is_in(play: Play, moves: str) -> None:
    if any("scram" in move for move in MOVES[moves]):
        make_users(play, play.name("alice"))
    talk = Talk(play, BRIEF).say(*IN, *MOVES[moves])
    talk.stays_open()
    talk.close()


@session(setup=SECURED)
def a_second_reauthentication_after_a_second(play: Play) -> None:
    talk = Talk(play, BRIEF).say(*IN, *AGAIN)
    play.pause(A_SECOND_MS)
    talk.say(*AGAIN, "handshake 1 PLAIN", "metadata 12")
    talk.close()


LATE: dict[str, tuple[str, ...]] = {
    "a request": ("heartbeat 4",),
    "the same request": ("metadata 12",),
    "versions": ("versions 3",),
    "a token alone": ("plain 2 a good one",),
    "a handshake": AGAIN,
    "a handshake of long ago": ("handshake 0 PLAIN", "bare a good one", "metadata 12"),
    "an unknown mechanism": ("handshake 1 GSSAPI",),
    "bytes of three": ("bytes of three bytes",),
}


@session(setup=SECURED, moves=LATE)
def moves_after_the_end_of_a_session(play: Play, moves: str) -> None:
    talk = Talk(play, BRIEF).say(*IN)
    play.pause(PAST_MS)
    talk.say(*LATE[moves])
    talk.stays_open()
    talk.close()


@session(setup=SECURED)
def a_session_that_goes_on(play: Play) -> None:
    """A session with a re-authentication in time lasts as long again."""
    talk = Talk(play, BRIEF).say(*IN)
    play.pause(SESSION_MS // 2)
    talk.say(*AGAIN)
    play.pause(SESSION_MS * 3 // 4)
    talk.say("heartbeat 4")
    play.pause(SESSION_MS // 2)
    talk.say("heartbeat 4")
    talk.close()


@session(setup=SECURED)
def a_session_that_ends_while_its_client_waits(play: Play) -> None:
    """What waits is answered; the next request is not."""
    enter(play, "late", listener=BRIEF, mechanism=SHA_256)
    grant(play, "late", "READ GROUP g")
    first = Member(play, "a", rebalance_ms=30_000)
    first.enter()
    first.sync()
    asked: dict[str, Any] = {
        "group_id": play.group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    }
    given = play.ask(JoinGroupRequest(member_id="", **asked), 4, "late").member_id
    waiting = play.wire("late")
    waiting.send(JoinGroupRequest(member_id=given, **asked), 4)
    play.until_state("PreparingRebalance")
    play.pause(PAST_MS)
    play.tell("late", "has its answer" if waiting.has_answer() else "waits")
    first.join("lets the other in")
    answer = waiting.take()
    play.tell("late JoinGroup, past its session", int(answer.error_code))
    beat = HeartbeatRequest(group_id=play.group, generation_id=answer.generation_id, member_id=given)
    play.ask(beat, 4, "late", "after that")
