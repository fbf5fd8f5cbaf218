"""A group from its first member to its deletion, in every version of every request."""

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.oracle.member import Member
from tests.oracle.offsets import fetch_request
from tests.oracle.play import Play
from tests.oracle.session import session

OF_ITS_TIME = {
    # JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, DescribeGroups, DeleteGroups
    0: (0, 0, 0, 0, 2, 1, 0, 0),
    1: (1, 0, 0, 0, 2, 1, 0, 0),
    2: (2, 1, 1, 1, 3, 3, 1, 0),
    3: (3, 2, 2, 2, 4, 4, 2, 1),
    4: (4, 2, 2, 2, 5, 5, 3, 1),
    5: (5, 3, 3, 3, 7, 5, 4, 1),
    6: (6, 4, 4, 4, 8, 6, 5, 2),
    7: (7, 5, 4, 4, 8, 7, 5, 2),
    8: (8, 5, 4, 5, 8, 8, 5, 2),
    9: (9, 5, 4, 5, 9, 9, 6, 3),
}
"""The versions that a client of some release speaks together, by its version of JoinGroup."""


@session(version=range(10))
def one_member_from_join_to_leave(play: Play, version: int) -> None:
    join, sync, heartbeat, leave, commit, fetch, describe, delete = OF_ITS_TIME[version]
    orders = play.topic(partitions=3)
    member = Member(
        play,
        "a",
        reason="it begins",
        versions={"join": join, "sync": sync, "heartbeat": heartbeat, "leave": leave, "commit": commit},
    )
    play.describe(version=describe, note="before")
    member.enter()
    play.describe(version=describe, note="after the join")
    member.sync()
    member.heartbeat()
    member.commit({(orders, 0): 5, (orders, 1): 0, (orders, 7): 1})
    play.ask(fetch_request(play.group, fetch, {orders: [0, 1, 2, 7]}), fetch)
    play.describe(version=describe, note="in the middle")
    member.leave()
    member.heartbeat("it has left")
    play.describe(version=describe, note="after the leave")
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), delete)
    play.describe(version=describe, note="after the deletion")


@session(version=range(10))
def three_members_come_and_go(play: Play, version: int) -> None:
    sync, heartbeat, leave = OF_ITS_TIME[version][1:4]
    versions = {"join": version, "sync": sync, "heartbeat": heartbeat, "leave": leave}
    a, b, c = (Member(play, name, versions=versions) for name in "abc")
    a.enter()
    a.sync()
    for newcomer, older in ((b, [a]), (c, [a, b])):
        if version >= 4:
            newcomer.join()
        newcomer.begin_join()
        for each in older:
            each.heartbeat("is told to join")
        for each in older[1:]:
            each.begin_join()
        a.join()
        for each in (*older[1:], newcomer):
            each.joined()
        followers = [*older[1:], newcomer]
        for each in followers:
            each.begin_sync()
        a.sync(*followers)
        for each in followers:
            each.synced()
    play.describe()
    b.leave()
    c.begin_join()
    a.join()
    c.joined()
    play.describe(note="b has left")
    a.sync(c)
    c.sync()
    c.leave()
    a.leave()
    play.describe(note="all have left")


@session(version=range(10))
def names_that_cannot_be(play: Play, version: int) -> None:
    member = Member(play, "a", versions={"join": version})
    member.join("no group id", group_id="")
    member.join("a session that is too short", session_timeout_ms=50)
    member.join("a session that is too long", session_timeout_ms=1_800_001)
    member.join("the member of no group", member_id="nobody")
    member.join("no protocol type", protocol_type="")
    member.join("no protocols", protocols=[])
    play.describe()


@session(version=range(4))
def find_one_coordinator(play: Play, version: int) -> None:
    play.ask(FindCoordinatorRequest(key=play.group), version)
    play.ask(FindCoordinatorRequest(key=""), version, note="no key")
    if version >= 1:
        for key_type in (2, 3, -1):
            request = FindCoordinatorRequest(key="a:b:0", key_type=key_type)
            play.ask(request, version, note=f"key type {key_type}")


@session(version=(4, 5, 6))
def find_many_coordinators(play: Play, version: int) -> None:
    keys = [play.group, play.name("h"), "", play.group]
    for key_type in (0, 2, 3):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        play.ask(request, version, note=f"key type {key_type}")
    play.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[]), version, note="no keys")
