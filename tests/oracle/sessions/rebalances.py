"""Rebalances: triggers, the leader, the selected protocol, and requests during a rebalance."""

from tests.oracle.member import Member, gather, share_out, stable
from tests.oracle.play import Play
from tests.oracle.session import session


@session(version=(0, 3, 4, 5, 7, 9))
def a_follower_that_rejoins_unchanged_starts_none(play: Play, version: int) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.join(version=version)
    b.join("other timeouts", version=version, session_timeout_ms=30_000)
    a.heartbeat()
    b.sync()


@session(change=("metadata", "order", "more", "fewer"))
def a_follower_that_rejoins_changed_starts_one(play: Play, change: str) -> None:
    before = ("range:1", "roundrobin:1")
    after = {
        "metadata": ("range:1", "roundrobin:2"),
        "order": ("roundrobin:1", "range:1"),
        "more": (*before, "sticky"),
        "fewer": ("range:1",),
    }[change]
    a, b = Member(play, "a", protocols=before), Member(play, "b", protocols=before)
    stable(a, b)
    b.begin_join(protocols=after)
    a.heartbeat()
    a.join()
    b.joined()
    share_out(a, b)
    play.describe()


@session(version=(0, 3, 4, 5, 7, 9))
def the_leader_that_rejoins_starts_one(play: Play, version: int) -> None:
    a, b = Member(play, "a", versions={"join": version}), Member(play, "b", versions={"join": version})
    stable(a, b)
    a.begin_join()
    b.heartbeat()
    b.join()
    a.joined()
    share_out(a, b)


@session()
def the_only_member_rejoins(play: Play) -> None:
    a = Member(play, "a")
    a.enter()
    a.join("before it synced")
    a.sync()
    a.join()
    a.join("changed, before it synced", protocols=["range:other"])
    a.sync()
    play.describe()


@session()
def a_newcomer_interrupts_the_sync(play: Play) -> None:
    a, b, c = Member(play, "a"), Member(play, "b"), Member(play, "c")
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    c.join()
    c.begin_join()
    b.synced()
    a.heartbeat()
    a.sync(b, note="too late")
    b.begin_join()
    a.join()
    b.joined()
    c.joined()
    share_out(a, b, c)
    play.describe()


@session()
def a_follower_leaves_between_join_and_sync(play: Play) -> None:
    a, b, c = Member(play, "a"), Member(play, "b"), Member(play, "c")
    stable(a, b, c)
    with play.quietly():
        gather(a, b, c)
    b.begin_sync()
    c.leave()
    b.synced()
    a.heartbeat()
    a.sync(b, c, note="too late")
    b.begin_join()
    a.join()
    b.joined()


@session()
def the_leader_leaves(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    a.leave()
    b.heartbeat()
    b.join()
    b.sync()
    play.describe()


@session()
def the_leader_leaves_between_join_and_sync(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    a.leave()
    b.synced()
    b.join()
    b.sync()
    play.describe()


@session()
def the_leader_does_not_come_back(play: Play) -> None:
    a, b = Member(play, "a", rebalance_ms=1000), Member(play, "b", rebalance_ms=1000)
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    b.joined()
    a.heartbeat()
    a.join("with its old id")
    b.sync()
    play.describe()


@session()
def the_leader_leaves_while_the_others_join(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    a.leave()
    b.joined()
    b.sync()


@session()
def a_waiting_member_leaves(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.begin_join(protocols=["range:other"])
    b.leave(by="x")
    b.joined()
    a.heartbeat()
    a.join()
    a.sync()
    play.describe()


@session()
def everybody_leaves_one_after_the_other(play: Play) -> None:
    members = [Member(play, name) for name in "abcd"]
    stable(*members)
    for each in members:
        each.leave()
    play.describe()
    members[0].heartbeat()
    again = Member(play, "a")
    again.enter()
    again.sync()
    play.describe(note="a new life")


@session(count=(2, 3, 5, 8))
def members_join_at_the_same_time(play: Play, count: int) -> None:
    first, *others = (Member(play, f"m{number}") for number in range(count))
    first.enter()
    first.sync()
    for each in others:
        each.join()
    for each in others:
        each.begin_join()
    first.join()
    for each in others:
        each.joined()
    share_out(first, *others)
    play.describe()


@session(version=(0, 1, 2, 3))
def older_members_join_at_the_same_time(play: Play, version: int) -> None:
    first, *others = (Member(play, f"m{number}", versions={"join": version}) for number in range(4))
    first.join()
    for each in others:
        each.begin_join()
    first.join()
    for each in others:
        each.joined()
    share_out(first, *others)
    play.describe()


@session()
def members_of_every_version_in_one_group(play: Play) -> None:
    first, *others = (Member(play, f"v{number}", versions={"join": number}) for number in range(10))
    first.join()
    for each in others:
        if each.version("join") >= 4:
            each.join()
    for each in others:
        each.begin_join()
    first.join()
    for each in others:
        each.joined()
    first.sync(*others)
    for each in others:
        each.sync()
    play.describe()


@session()
def the_most_votes_win(play: Play) -> None:
    a = Member(play, "a", protocols=("range:1", "roundrobin:1"))
    b = Member(play, "b", protocols=("roundrobin:2", "range:2"))
    c = Member(play, "c", protocols=("roundrobin:3", "sticky:3", "range:3"))
    stable(a, b, c)
    play.describe()
    a.begin_join("wants another one", protocols=["sticky:1", "range:1"])
    b.begin_join()
    c.join()
    a.joined()
    b.joined()
    share_out(a, b, c)
    play.describe()


@session()
def a_member_without_a_common_protocol(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b", protocols=("range", "sticky"))
    stable(a, b)
    b.join("none that the other has", protocols=["sticky"])
    a.heartbeat()
    Member(play, "c", protocols=("sticky",)).join()
    Member(play, "d", protocol_type="connect").join()
    play.describe()


@session()
def a_group_of_another_type(play: Play) -> None:
    a = Member(play, "a", protocol_type="connect", protocols=("compatible:1", "sessioned:2"))
    b = Member(play, "b", protocol_type="connect", protocols=("sessioned:3",))
    stable(a, b)
    play.describe()
    Member(play, "c").join("a consumer")
    a.leave()
    b.leave()
    c = Member(play, "c")
    c.enter()
    c.sync()
    play.describe(note="a consumer group now")


@session()
def syncs_that_do_not_fit(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.sync(note="another type", protocol_type="connect")
    b.sync(note="another protocol", protocol_name="sticky")
    b.sync(note="no type", protocol_type=None)
    b.sync(note="no protocol", protocol_name=None)
    b.sync(note="another generation and another type", generation_id=7, protocol_type="connect")
    b.sync(note="no type and an unknown member", member_id="nobody", protocol_type=None)
    b.sync(note="no group and no type", group_id="", protocol_type=None)
    b.sync(note="before there were types", version=4)
    a.heartbeat()


@session()
def assignments_that_do_not_fit(play: Play) -> None:
    a, b, c = Member(play, "a"), Member(play, "b"), Member(play, "c")
    stable(a, b)
    with play.quietly():
        gather(a, b)
    c.member_id = "nobody"
    a.sync(c, note="nothing for one, something for a stranger")
    b.sync()
    a.sync(b, note="another assignment, too late")
    b.sync()
    play.describe()


@session()
def a_second_join_of_a_waiting_member(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.begin_join(protocols=["range:1"])
    again = Member(play, "c", member_id=b.member_id)
    again.begin_join(protocols=["range:2"])
    play.still_waits("b")
    a.join()
    again.joined()


@session()
def a_second_sync_of_a_waiting_member(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    with play.quietly():
        gather(a, b)
    b.begin_sync()
    again = Member(play, "c", member_id=b.member_id, generation=b.generation)
    again.begin_sync()
    play.still_waits("b")
    a.sync(b)
    again.synced()


@session()
def requests_behind_a_waiting_join(play: Play) -> None:
    a, b = Member(play, "a"), Member(play, "b")
    stable(a, b)
    b.begin_join(protocols=["range:1"])
    request, version = b.sync_request((), {})
    play.park(request, version, "b", "behind the join")
    a.join()
    b.joined()
    play.answer("b")
    b.begin_sync()
    a.sync(b)
    b.synced()


@session()
def the_generation_goes_on(play: Play) -> None:
    a = Member(play, "a")
    for _ in range(3):
        a.enter()
        a.sync()
        a.leave()
        a.member_id = ""
    play.describe()


@session(client_id=("", "x" * 200, "with space", "ünï"))
def client_ids(play: Play, client_id: str) -> None:
    play.wire("odd", client_id or None)
    a = Member(play, "odd")
    a.enter()
    a.sync()
    play.describe()


@session()
def group_ids_of_every_kind(play: Play) -> None:
    for number, name in enumerate(("x" * 249, "x" * 300, "ünï", "a b", "a\nb", "..", "__consumer_offsets")):
        a = Member(play, f"m{number}", group=play.name(name))
        a.enter()
        a.sync()
        a.leave()
        play.describe(a.group)
