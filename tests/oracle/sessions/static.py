"""Static members (KIP-345, KIP-814): replaced, fenced, silent, removed."""

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.oracle.member import Member, gather, share_out, stable
from tests.oracle.offsets import fetch_request
from tests.oracle.play import Play
from tests.oracle.session import session

JOIN_VERSIONS = (5, 6, 7, 8, 9)


def static(play: Play, name: str, version: int = 9, **fields: object) -> Member:
    """Create a member with the instance id `i` + name."""
    return Member(play, name, instance=f"i{name}", versions={"join": version}, **fields)  # type: ignore[arg-type]


def new_process(old: Member, name: str) -> Member:
    """The same instance again, on another connection and without a memory."""
    return Member(
        old.play,
        name,
        instance=old.instance,
        protocols=old.protocols,
        versions=old.versions,
        session_ms=old.session_ms,
        rebalance_ms=old.rebalance_ms,
    )


@session(version=JOIN_VERSIONS)
def a_static_member_from_join_to_removal(play: Play, version: int) -> None:
    a = static(play, "a", version)
    a.join()
    play.describe()
    a.sync()
    a.heartbeat()
    orders = play.topic()
    a.commit({(orders, 0): 3})
    a.join("again, with its id")
    a.sync()
    a.leave("by its instance", member_id="")
    a.heartbeat("it was removed")
    play.describe()
    play.ask(fetch_request(play.group, 9), 9)


@session(version=JOIN_VERSIONS)
def a_follower_is_replaced_in_stable(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    again = new_process(b, "c")
    again.join()
    play.describe()
    again.sync()
    again.heartbeat()
    a.heartbeat()
    b.heartbeat("the old process")
    b.sync(note="the old process")
    b.join("the old process")
    b.leave("the old process")
    b.commit({(play.topic(), 0): 1}, "the old process")


@session(version=JOIN_VERSIONS)
def the_leader_is_replaced_in_stable(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    again = new_process(a, "c")
    again.join()
    again.sync(note="brings nothing")
    b.heartbeat()
    play.describe()
    again.begin_join("as the leader, with its id")
    b.heartbeat()
    b.join()
    again.joined()
    share_out(again, b)
    play.describe()


@session(version=(5, 8, 9))
def a_replaced_member_with_other_metadata(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    again = new_process(b, "c")
    again.join("the protocol stays", protocols=["range:other"])
    play.describe()
    a.heartbeat()
    once_more = new_process(b, "d")
    once_more.join("one protocol more", protocols=["range:other", "roundrobin"])
    a.heartbeat()
    play.describe()


@session(version=(5, 8, 9))
def a_replaced_member_changes_the_protocol(play: Play, version: int) -> None:
    both = ("range", "roundrobin")
    a, b = static(play, "a", version, protocols=both), static(play, "b", version, protocols=both)
    stable(a, b)
    again = new_process(b, "c")
    again.begin_join("only the other one", protocols=["roundrobin"])
    a.heartbeat()
    play.describe()
    a.join()
    again.joined()
    a.sync(again)
    again.sync()
    play.describe()
    last = new_process(a, "d")
    last.join("a protocol that nobody else has", protocols=["strange"])
    play.describe()


@session(version=(5, 8, 9))
def a_member_is_replaced_while_it_joins(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    again = new_process(b, "c")
    again.begin_join()
    b.joined()
    again.heartbeat(by="x")
    a.join()
    again.joined()
    share_out(a, again)
    play.describe()


@session(version=(5, 8, 9))
def a_member_is_replaced_before_it_synced(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    again = new_process(b, "c")
    again.begin_join()
    b.synced()
    a.heartbeat()
    a.join()
    again.joined()
    share_out(a, again)
    play.describe()


@session(version=(5, 8, 9))
def the_leader_is_replaced_before_it_synced(play: Play, version: int) -> None:
    a, b = static(play, "a", version), static(play, "b", version)
    stable(a, b)
    with play.quietly():
        gather(a, b)
    again = new_process(a, "c")
    again.begin_join()
    b.heartbeat()
    b.join()
    again.joined()
    play.describe()
    share_out(again, b)


@session()
def the_only_member_is_replaced_before_it_synced(play: Play) -> None:
    a = static(play, "a")
    a.join()
    again = new_process(a, "c")
    again.join()
    a.sync(note="the old process")
    again.sync()
    play.describe()


@session(state=("preparing", "completing", "stable"))
def instances_that_are_not_the_callers(play: Play, state: str) -> None:
    a, b = static(play, "a"), static(play, "b")
    stable(a, b)
    with play.quietly():
        if state == "completing":
            gather(a, b)
        elif state == "preparing":
            b.begin_join(protocols=["range:other"])
    orders = play.topic()
    for who, member_id, instance in (
        ("an unknown member", "nobody", "ia"),
        ("no member", "", "ia"),
        ("the instance of another", a.member_id, "ib"),
        ("an unknown instance", a.member_id, "ix"),
        ("no instance", a.member_id, None),
    ):
        caller = {"member_id": member_id, "group_instance_id": instance}
        if instance is not None:
            a.heartbeat(who, by="x", **caller)
            a.commit({(orders, 0): 1}, who, by="x", **caller)
            Member(play, "x", generation=a.generation).sync(note=who, **caller)
            if member_id:
                Member(play, "x").join(who, **caller)
                a.leave(who, by="x", **caller)
        else:
            a.heartbeat(who, by="x", **caller)
    play.describe()


@session()
def the_operator_removes_members(play: Play) -> None:
    a, b, c = static(play, "a"), static(play, "b"), static(play, "c")
    stable(a, b, c)
    identities = [
        MemberIdentity(member_id="", group_instance_id="ib", reason="gone"),
        MemberIdentity(member_id="", group_instance_id="ib", reason="again"),
        MemberIdentity(member_id="", group_instance_id="unknown"),
        MemberIdentity(member_id=a.member_id, group_instance_id="ic"),
        MemberIdentity(member_id="nobody", group_instance_id="ic"),
    ]
    play.ask(LeaveGroupRequest(group_id=play.group, members=identities), 5, "x")
    play.describe()
    a.heartbeat()
    b.heartbeat()
    c.heartbeat()


@session(version=(3, 4, 5))
def several_leave_together(play: Play, version: int) -> None:
    a, b, c = static(play, "a"), Member(play, "b"), Member(play, "c")
    stable(a, b, c)
    identities = [
        MemberIdentity(member_id=c.member_id),
        MemberIdentity(member_id=c.member_id),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=a.member_id, group_instance_id="ia"),
        MemberIdentity(member_id=b.member_id, group_instance_id="strange"),
    ]
    play.ask(LeaveGroupRequest(group_id=play.group, members=identities), version, "x")
    play.describe()
    b.heartbeat()


@session()
def a_static_and_a_dynamic_member_together(play: Play) -> None:
    a, b = static(play, "a"), Member(play, "b")
    stable(a, b)
    again = new_process(a, "c")
    again.join()
    b.heartbeat()
    b.leave()
    again.heartbeat()
    again.join()
    again.sync()
    play.describe()


@session()
def an_instance_with_a_promised_id(play: Play) -> None:
    a = Member(play, "a")
    a.join()
    a.join("now with an instance", group_instance_id="late")
    play.describe()


@session()
def odd_instances(play: Play) -> None:
    for number, instance in enumerate(("", " ", "x" * 300, "ünï", "a/b")):
        member = Member(play, f"m{number}", group=play.name(f"g{number}"), instance=instance)
        member.join()
        play.describe(member.group)
        member.leave("by its instance", member_id="")
        play.describe(member.group, note="afterwards")


@session()
def a_silent_static_member_stays_through_a_rebalance(play: Play) -> None:
    a = static(play, "a", rebalance_ms=1000)
    b = static(play, "b", rebalance_ms=1000)
    stable(a, b)
    a.begin_join()
    a.joined()
    play.describe()
    a.sync(b)
    b.heartbeat("with the generation of before")
    again = new_process(b, "c")
    again.join()
    again.sync()


@session()
def a_static_member_returns_after_its_session(play: Play) -> None:
    a = static(play, "a", session_ms=800)
    a.join()
    a.sync()
    play.until_state("Empty")
    a.heartbeat()
    play.describe()
    a.join("with its old id")
    a.join("without an id", member_id="")
    a.sync()
    play.describe()


@session()
def bad_timeouts_of_a_replacing_member(play: Play) -> None:
    a = static(play, "a")
    a.join()
    a.sync()
    again = new_process(a, "c")
    again.join("too short", session_timeout_ms=50)
    a.heartbeat()
