"""Timeouts: sessions, rebalances and pending member ids that expire, and requests that keep a member alive."""

from tests.oracle.member import Member, gather, share_out, stable
from tests.oracle.play import Play
from tests.oracle.session import session


@session(version=(0, 3, 4, 5, 9))
def a_session_ends_in_stable(play: Play, version: int) -> None:
    a = Member(play, "a", session_ms=1000, versions={"join": version})
    a.enter()
    a.sync()
    play.until_state("Empty")
    play.describe()
    a.heartbeat()
    a.join("with its old id")


@session()
def heartbeats_keep_a_member(play: Play) -> None:
    a = Member(play, "a", session_ms=1500)
    a.enter()
    a.sync()
    for _ in range(4):
        play.pause(600)
        a.heartbeat()
    play.until_state("Empty")
    a.heartbeat()


@session()
def commits_keep_a_member(play: Play) -> None:
    orders = play.topic()
    a = Member(play, "a", session_ms=1500)
    a.enter()
    a.sync()
    for _ in range(4):
        play.pause(600)
        a.commit({(orders, 0): 1})
    play.until_state("Empty")
    a.commit({(orders, 0): 2})


@session()
def refused_heartbeats_do_not_keep_a_member(play: Play) -> None:
    a = Member(play, "a", session_ms=1500)
    a.enter()
    a.sync()
    for _ in range(4):
        play.pause(500)
        a.heartbeat("another generation", generation_id=7)
    play.until_state("Empty")
    play.describe()


@session()
def a_session_ends_while_others_are_there(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=1000)
    stable(a, b)
    play.until_state("PreparingRebalance")
    a.heartbeat()
    b.heartbeat()
    play.describe()
    a.join()
    a.sync()
    play.describe()


@session()
def the_leaders_session_ends(play: Play) -> None:
    a, b = Member(play, "a", session_ms=1000), Member(play, "b")
    stable(a, b)
    play.until_state("PreparingRebalance")
    b.heartbeat()
    b.join()
    b.sync()
    play.describe()


@session()
def a_session_ends_before_the_leader_syncs(play: Play) -> None:
    a, b = Member(play, "a", session_ms=1000), Member(play, "b")
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    b.synced()
    play.describe()
    b.join()
    b.sync()


@session()
def a_parked_join_is_no_silence(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=1000)
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    play.pause(2000)
    b_still_there = play.describe()
    assert len(b_still_there.groups[0].members) == 2
    play.still_waits("b")
    a.join()
    b.joined()


@session()
def a_parked_sync_is_no_silence(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=1000)
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    play.pause(2000)
    play.still_waits("b")
    a.sync(b)
    b.synced()
    b.heartbeat()


@session(version=(4, 9))
def a_promise_ends(play: Play, version: int) -> None:
    a = Member(play, "a", session_ms=800, versions={"join": version})
    a.join()
    play.describe()
    a.heartbeat("it is no member yet", generation_id=0)
    play.pause(1600)
    a.join("too late")
    play.describe()


@session()
def a_promise_holds_a_rebalance_until_it_ends(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=1500)
    a.enter()
    a.sync()
    b.join()
    a.begin_join()
    play.still_waits("a")
    a.joined()
    play.describe()


@session()
def a_promise_given_up_ends_the_wait(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    a.enter()
    a.sync()
    b.join()
    a.begin_join()
    b.leave()
    a.joined()
    a.sync()
    play.describe()


@session(version=(0, 1, 4, 9))
def the_rebalance_timeout_removes_who_does_not_join(play: Play, version: int) -> None:
    timeout_ms = 1200
    a, b = Member(play, "a", versions={"join": version}), Member(play, "b", versions={"join": version})
    for each in (a, b):
        each.rebalance_ms = timeout_ms
        each.session_ms = timeout_ms if version == 0 else each.session_ms
    a.enter()
    a.sync()
    if version >= 4:
        b.join()
    b.begin_join()
    b.joined()
    a.heartbeat()
    play.describe()
    b.sync()


@session()
def the_longest_rebalance_timeout_counts(play: Play) -> None:
    a, b = Member(play, "a", rebalance_ms=500), Member(play, "b", rebalance_ms=2500)
    stable(a, b)
    c = Member(play, "c", rebalance_ms=500)
    c.join()
    c.begin_join()
    a.begin_join()
    play.pause(1000)
    play.still_waits("a")
    b.join()
    a.joined()
    c.joined()


@session(who=("leader", "follower"))
def a_missing_sync_removes_a_member(play: Play, who: str) -> None:
    a, b = Member(play, "a", rebalance_ms=1000), Member(play, "b", rebalance_ms=1000)
    stable(a, b)
    with play.quietly():
        gather(a, b)
    if who == "leader":
        b.begin_sync()
        b.synced()
        a.sync(b, note="too late")
        b.join()
        b.sync()
    else:
        a.sync(b)
        play.until_state("PreparingRebalance")
        b.sync(note="too late")
        a.join()
        a.sync()
    play.describe()


@session()
def nobody_syncs(play: Play) -> None:
    a, b = Member(play, "a", rebalance_ms=800), Member(play, "b", rebalance_ms=800)
    stable(a, b)
    with play.quietly():
        gather(a, b)
    play.until_state("Empty")
    a.heartbeat()
    b.sync()
    play.describe()


@session()
def a_new_member_may_be_silent_while_it_waits(play: Play) -> None:
    a = Member(play, "a")
    a.enter()
    a.sync()
    b = Member(play, "b", session_ms=800, versions={"join": 3})
    b.begin_join()
    play.pause(1800)
    play.still_waits("b")
    a.join()
    b.joined()
    share_out(a, b)


@session()
def a_lost_connection_is_no_leave(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=1500)
    stable(a, b)
    play.drop("b")
    play.describe()
    b.heartbeat("on another connection")
    play.drop("b")
    play.until_state("PreparingRebalance")
    play.describe()


@session()
def a_connection_is_lost_while_its_join_waits(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", session_ms=2000)
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    play.drop("b")
    a.join()
    play.describe()
    a.sync(b)
    b.sync(note="on another connection, with the generation of before")
    play.until_state("PreparingRebalance")
    play.describe()


@session(setup="tight")
def the_first_rebalance_waits_for_more(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    a.join()
    a.begin_join()
    play.describe()
    b.join()
    b.begin_join()
    a.joined()
    b.joined()
    share_out(a, b)
    play.describe()


@session(setup="tight")
def a_member_leaves_in_the_first_rebalance(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    a.join()
    a.begin_join()
    a.leave(by="x")
    a.joined()
    play.describe()
    b.join()
    b.join()
    b.sync()
    play.describe()


@session(setup="tight")
def an_emptied_group_begins_anew(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    a.enter()
    a.sync()
    a.leave()
    play.describe()
    b.join()
    b.begin_join()
    play.describe()
    b.joined()
    b.sync()


@session(setup="tight")
def a_rebalance_timeout_shorter_than_the_first_delay(play: Play) -> None:
    a = Member(play, "a", rebalance_ms=200)
    a.enter()
    a.sync()
    play.describe()


@session(setup="tight", version=(0, 3, 4, 9))
def a_group_is_full(play: Play, version: int) -> None:
    a, b, c = (Member(play, name, versions={"join": version}) for name in "abc")
    for each in (a, b):
        if version >= 4:
            each.join()
        each.begin_join()
    a.joined()
    b.joined()
    share_out(a, b)
    c.join("the third")
    c.join("a static third", version=5, group_instance_id="ic")
    play.describe()
    a.heartbeat()
    a.begin_join("the leader again")
    b.join("a follower again")
    a.joined()


@session(setup="tight")
def three_promises_for_two_places(play: Play) -> None:
    a, b, c = (Member(play, name) for name in "abc")
    for each in (a, b, c):
        each.join()
    a.begin_join()
    b.begin_join()
    c.join("one too many")
    a.joined()
    b.joined()
    c.heartbeat("it was forgotten", generation_id=1)
    c.join("with the promised id")
    play.describe()


@session(setup="tight")
def limits_of_this_broker(play: Play) -> None:
    a = Member(play, "a")
    a.join("too long here", session_timeout_ms=60_001)
    a.enter()
    a.sync()
    orders = play.topic()
    a.commit({(orders, 0): 1}, "a long note", metadata="123456789")
    a.commit({(orders, 0): 1}, "as long as can be", metadata="12345678")
    a.commit({(orders, 0): 1}, "letters of two bytes", metadata="éééééééé")
