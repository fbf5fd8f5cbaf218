"""The response to each request in each state of a consumer group, by the epoch in the request.

Strangers send their requests first, because they do not change the group; members follow.
"""

from collections.abc import Callable

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.oracle.consumer import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    ClassicConsumer,
    Consumer,
    known_topic,
    look,
    mixed,
    stable,
)
from tests.oracle.member import stable as stable_classic
from tests.oracle.offsets import delete_request
from tests.oracle.peers import CONSUMERS
from tests.oracle.play import Play
from tests.oracle.session import session


class Scene:
    """A group in some state, and the member that sends requests."""

    def __init__(self, play: Play, state: str) -> None:
        self.play = play
        self.orders = known_topic(play, partitions=4)
        self.caller = Consumer(play, "a", [self.orders])
        self.other = Consumer(play, "b", [self.orders])
        with play.quietly():
            STATES[state](self)
        look(play)

    def epochs(self) -> dict[str, int]:
        """Those that a request may name, by how they relate to the member's."""
        now = max(self.caller.epoch, 1)
        return {"older": now - 1, "now": now, "newer": now + 1, "much newer": now + 1000}

    def callers(self) -> dict[str, str]:
        """Member ids by role."""
        return {"a": self.caller.member_id or "", "nobody": "nobody", "no member": ""}


def _missing(scene: Scene) -> None:
    pass


def _empty(scene: Scene) -> None:
    stable(scene.caller)
    scene.caller.leave()
    scene.caller.epoch = 2


def _stable(scene: Scene) -> None:
    stable(scene.caller, scene.other)


def _unrevoked(scene: Scene) -> None:
    stable(scene.caller)
    scene.other.join()
    scene.caller.heartbeat()


def _unreleased(scene: Scene) -> None:
    stable(scene.other)
    scene.caller.join()
    scene.other.heartbeat()
    scene.caller.heartbeat()


def _behind(scene: Scene) -> None:
    stable(scene.caller)
    scene.other.join()


def _away(scene: Scene) -> None:
    scene.caller.instance = "i"
    stable(scene.caller, scene.other)
    epoch = scene.caller.epoch
    scene.caller.leave("for a while", LEAVE_FOR_A_WHILE)
    scene.caller.epoch = epoch


def _mixed(scene: Scene) -> None:
    scene.caller, _ = mixed(scene.play, scene.orders)


def _classic(scene: Scene) -> None:
    stable_classic(ClassicConsumer(scene.play, "k", topics=[scene.orders]))


STATES: dict[str, Callable[[Scene], None]] = {
    "missing": _missing,
    "empty": _empty,
    "stable": _stable,
    "unrevoked": _unrevoked,
    "unreleased": _unreleased,
    "behind": _behind,
    "away": _away,
    "mixed": _mixed,
    "classic": _classic,
}


def _heartbeats(scene: Scene) -> None:
    for who, member_id in list(scene.callers().items())[::-1]:
        for relation, epoch in scene.epochs().items():
            scene.caller.heartbeat(f"{who}, {relation}", "x", member_id=member_id, member_epoch=epoch)
            scene.caller.epoch = scene.epochs()["now"]
        if who != "a":
            for leaving in (LEAVE, LEAVE_FOR_A_WHILE):
                scene.caller.heartbeat(f"{who}, {leaving}", "x", member_id=member_id, member_epoch=leaving)


def _leaves(scene: Scene) -> None:
    for epoch in (LEAVE_FOR_A_WHILE, LEAVE, LEAVE):
        scene.caller.heartbeat(f"a, {epoch}", "x", member_epoch=epoch)
        look(scene.play, f"after {epoch}")


def _joins(scene: Scene) -> None:
    scene.caller.join("again")
    look(scene.play, "a joined again")
    Consumer(scene.play, "c", [scene.orders]).join("somebody new")


def _classic_heartbeats(scene: Scene) -> None:
    classic = ClassicConsumer(scene.play, "k", instance=scene.caller.instance)
    for who, member_id in scene.callers().items():
        for relation, epoch in scene.epochs().items():
            classic.heartbeat(f"{who}, {relation}", "x", member_id=member_id, generation_id=epoch)


def _syncs(scene: Scene) -> None:
    classic = ClassicConsumer(scene.play, "k", instance=scene.caller.instance)
    for who, member_id in scene.callers().items():
        for relation, epoch in scene.epochs().items():
            classic.sync(note=f"{who}, {relation}", member_id=member_id, generation_id=epoch)


def _commits(scene: Scene) -> None:
    for version in (8, 9, 10):
        for who, member_id in scene.callers().items():
            for relation, epoch in {**scene.epochs(), "none": -1}.items():
                scene.caller.commit(
                    {(scene.orders, 0): epoch}, f"{who}, {relation}", version, by="x", member_id=member_id,
                    generation_id_or_member_epoch=epoch,
                )  # fmt: skip


def _fetches(scene: Scene) -> None:
    for who, member_id in {**scene.callers(), "null": None}.items():
        for relation, epoch in {**scene.epochs(), "none": -1}.items():
            asked = scene.caller.fetching(scene.orders, 9, member_id=member_id, member_epoch=epoch)
            scene.play.ask(OffsetFetchRequest(groups=[asked]), 9, "x", f"{who}, {relation}")


def _classic_leaves(scene: Scene) -> None:
    classic = ClassicConsumer(scene.play, "k")
    classic.leave("nobody", "x", member_id="nobody")
    classic.leave("an unknown instance", "x", member_id="", group_instance_id="j")
    classic.leave("a", "x", member_id="a", group_instance_id=scene.caller.instance)


def _deletions(scene: Scene) -> None:
    scene.play.ask(delete_request(scene.play.group, {scene.orders: [0]}), 0)
    scene.play.ask(DeleteGroupsRequest(groups_names=[scene.play.group]), 2)


REQUESTS: dict[str, Callable[[Scene], None]] = {
    "heartbeats": _heartbeats,
    "leaves": _leaves,
    "joins": _joins,
    "classic_heartbeats": _classic_heartbeats,
    "syncs": _syncs,
    "commits": _commits,
    "fetches": _fetches,
    "classic_leaves": _classic_leaves,
    "deletions": _deletions,
}


@session(setup=CONSUMERS, request=REQUESTS, state=STATES)
def consumers_by_state(play: Play, request: str, state: str) -> None:
    scene = Scene(play, state)
    REQUESTS[request](scene)
    look(play, "afterwards")
    play.describe(version=6, note="afterwards")
