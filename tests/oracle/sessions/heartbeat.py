"""Heartbeat."""

from protocol.messages.heartbeat import HeartbeatRequest
from tests.oracle.member import Member, stable
from tests.oracle.play import Play
from tests.oracle.session import session


@session(version=range(5))
def a_beat_of_nobody(play: Play, version: int) -> None:
    play.ask(HeartbeatRequest(group_id=play.group, generation_id=1, member_id="nobody"), version)
    play.ask(
        HeartbeatRequest(group_id="", generation_id=1, member_id="nobody"), version, note="empty group id"
    )


@session(version=range(5))
def a_member_beats(play: Play, version: int) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    a.heartbeat(version=version)
    b.heartbeat(version=version)
    b.heartbeat("an older generation", version=version, generation_id=1)
    b.heartbeat("a later generation", version=version, generation_id=3)
    b.heartbeat("no generation", version=version, generation_id=-1)
    b.heartbeat("no member id", version=version, member_id="")
    b.begin_join("rejoins changed", protocols=["range:other"])
    a.heartbeat("the others shall join", version=version)
    play.describe()
    a.join()
    b.joined()
    a.heartbeat("in CompletingRebalance", version=version)
