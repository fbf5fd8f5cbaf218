"""The response to each request in each state of a group: the cells of the table in docs/state-machine.md.

Strangers send their requests first, because they do not change the group; members follow.
"""

from collections.abc import Callable
from typing import Any

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.oracle.member import Member, commit_request, gather, stable
from tests.oracle.offsets import delete_request, fetch_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session


class Scene:
    """A group in some state: its members and a pending member id."""

    def __init__(self, play: Play, state: str) -> None:
        self.play = play
        self.orders = play.topic()
        self.leader = Member(play, "a")
        self.follower = Member(play, "b")
        self.pending = Member(play, "p")
        with play.quietly():
            STATES[state](self)
        play.describe()

    def strangers(self) -> list[tuple[str, dict[str, Any]]]:
        """Return rejected callers by the reason of the rejection."""
        known = self.follower.member_id or "nobody"
        return [
            ("an unknown member", {"member_id": "nobody"}),
            ("no member id", {"member_id": ""}),
            ("an older generation", {"member_id": known, "generation": self.follower.generation - 1}),
            ("a later generation", {"member_id": known, "generation": self.follower.generation + 1}),
            ("no generation", {"member_id": known, "generation": -1}),
            ("an unknown instance", {"member_id": known, "group_instance_id": "i"}),
            ("a promised member", {"member_id": self.pending.member_id or "nobody"}),
        ]


def _missing(scene: Scene) -> None:
    pass


def _empty(scene: Scene) -> None:
    stable(scene.leader, scene.follower)
    scene.leader.leave()
    scene.follower.leave()
    scene.play.until_state("Empty")


def _empty_with_offsets(scene: Scene) -> None:
    request = commit_request(scene.play.group, {(scene.orders, 0): 5})
    scene.play.ask(request, 9)


def _promised(scene: Scene) -> None:
    scene.pending.join()


def _preparing(scene: Scene) -> None:
    stable(scene.leader, scene.follower)
    scene.pending.join()
    third = Member(scene.play, "c")
    third.join()
    third.begin_join()


def _completing(scene: Scene) -> None:
    stable(scene.leader, scene.follower)
    gather(scene.leader, scene.follower)
    scene.pending.join()


def _stable(scene: Scene) -> None:
    stable(scene.leader, scene.follower)
    scene.leader.commit({(scene.orders, 0): 5})
    scene.pending.join()


def _deleted(scene: Scene) -> None:
    _empty(scene)
    scene.play.ask(DeleteGroupsRequest(groups_names=[scene.play.group]), 2)


STATES: dict[str, Callable[[Scene], None]] = {
    "missing": _missing,
    "empty": _empty,
    "offsets_only": _empty_with_offsets,
    "promised_only": _promised,
    "preparing": _preparing,
    "completing": _completing,
    "stable": _stable,
    "deleted": _deleted,
}


@session(state=STATES)
def heartbeats_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    for version in (0, 2, 3, 4):
        for who, caller in scene.strangers():
            if "group_instance_id" in caller and version < 3:
                continue
            fields = {"generation_id": caller.get("generation", scene.follower.generation)}
            fields |= {name: value for name, value in caller.items() if name != "generation"}
            scene.follower.heartbeat(who, by="x", version=version, **fields)
        scene.follower.heartbeat("a follower", by="x", version=version)
        scene.leader.heartbeat("the leader", by="x", version=version)


@session(state=STATES)
def syncs_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    stranger = Member(play, "x")
    for version in (0, 2, 3, 5):
        for who, caller in scene.strangers():
            if "group_instance_id" in caller and version < 3:
                continue
            fields = {"generation_id": caller.get("generation", scene.follower.generation)}
            fields |= {name: value for name, value in caller.items() if name != "generation"}
            stranger.sync(note=who, version=version, **fields)
    if state == "completing":
        scene.follower.begin_sync("a follower")
        scene.leader.sync(scene.follower, note="the leader")
        scene.follower.synced()
    else:
        scene.follower.sync(note="a follower")
        scene.leader.sync(scene.follower, note="the leader")
    play.describe(note="afterwards")


@session(state=STATES)
def joins_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    stranger = Member(play, "x")
    for version in (0, 3, 5, 9):
        stranger.join("an unknown member", version=version, member_id="nobody")
        stranger.join(
            "a member of another type", version=version, member_id="nobody", protocol_type="connect"
        )
        if version >= 5:
            known = scene.follower.member_id or "nobody"
            stranger.join("an unknown instance", version=version, member_id=known, group_instance_id="i")
            stranger.member_id = ""
    for version in (4, 9):
        Member(play, "n").join("somebody new", version=version)
    if state in ("preparing", "completing", "stable"):
        stranger.join("other protocols", version=3, protocols=["strange"])
        stranger.join("another type", version=3, protocol_type="connect")
    play.describe(note="afterwards")


@session(state=STATES)
def members_join_again_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    if state == "preparing":
        scene.follower.begin_join("a follower")
        scene.leader.begin_join("the leader")
        play.describe(note="a promised member is missing")
        scene.pending.leave()
        scene.leader.joined()
        scene.follower.joined()
    elif state == "completing":
        scene.follower.join("a follower, unchanged")
        scene.leader.join("the leader, unchanged")
        scene.follower.begin_join("a follower, changed", protocols=["range:other"])
        scene.leader.heartbeat()
    elif state == "stable":
        scene.follower.join("a follower, unchanged")
        scene.leader.begin_join("the leader, unchanged")
        scene.follower.heartbeat()
    else:
        scene.follower.join("one that was a member", member_id=scene.follower.member_id or "nobody")
    play.describe(note="afterwards")


@session(state=STATES)
def leaves_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    for version in (0, 2, 3, 5):
        scene.follower.leave("an unknown member", by="x", version=version, member_id="nobody")
    strangers = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id=scene.follower.member_id or "nobody", group_instance_id="i"),
    ]
    play.ask(LeaveGroupRequest(group_id=play.group, members=strangers), 5, "x", "strangers together")
    play.ask(LeaveGroupRequest(group_id=play.group, members=[]), 5, "x", "nobody")
    play.describe(note="nothing has changed")
    scene.pending.leave("a promised member", by="x", member_id=scene.pending.member_id or "nobody")
    play.describe(note="without it")
    scene.follower.leave("a follower", by="x", member_id=scene.follower.member_id or "nobody")
    play.describe(note="without the follower")
    scene.leader.leave("the leader", by="x", member_id=scene.leader.member_id or "nobody")
    play.describe(note="without the leader")


@session(state=STATES)
def commits_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    offsets: dict[tuple[Topic | str, int], int] = {(scene.orders, 0): 7, (scene.orders, 9): 1}
    for version in (2, 6, 7, 8, 9, 10):
        for who, caller in scene.strangers():
            if "group_instance_id" in caller and version < 7:
                continue
            fields = {
                "generation_id_or_member_epoch": caller.get("generation", scene.follower.generation),
                **{name: value for name, value in caller.items() if name != "generation"},
            }
            scene.follower.commit(offsets, who, by="x", version=version, **fields)
        scene.follower.commit(offsets, "a follower", by="x", version=version)
        scene.leader.commit({("nowhere", 0): 1}, "the leader, an unknown topic", by="x", version=version) if (
            version < 10
        ) else None
    play.ask(commit_request(play.group, offsets), 9, "x", "by no member")
    play.ask(fetch_request(play.group, 9), 9, "x")


@session(state=STATES)
def fetches_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    for version in (1, 2, 5, 7, 8, 9, 10):
        play.ask(fetch_request(play.group, version, {scene.orders: [0, 1, 9]}), version)
        if version >= 2:
            play.ask(fetch_request(play.group, version), version, note="all")
        if version >= 7:
            request = fetch_request(play.group, version, {scene.orders: [0]}, require_stable=True)
            play.ask(request, version, note="stable ones")


@session(state=STATES)
def descriptions_by_state(play: Play, state: str) -> None:
    Scene(play, state)
    for version in range(7):
        play.describe(version=version)
        if version >= 3:
            request = DescribeGroupsRequest(groups=[play.group], include_authorized_operations=True)
            play.ask(request, version, note="with operations")


@session(state=STATES)
def deletions_by_state(play: Play, state: str) -> None:
    scene = Scene(play, state)
    play.ask(delete_request(play.group, {scene.orders: [0, 9], "nowhere": [0]}), 0)
    play.ask(fetch_request(play.group, 9), 9, note="what is left")
    for version in range(4):
        play.ask(DeleteGroupsRequest(groups_names=[play.group]), version)
    play.describe(note="afterwards")
    play.ask(fetch_request(play.group, 9), 9, note="afterwards")
