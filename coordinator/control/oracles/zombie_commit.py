"""A commit was refused because its sender is no member any more, or missed a generation: what it has processed,
somebody else may process again, or has. Who commits without being a member, such as a tool, is none."""

from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.partitions import Place, held, name_of
from coordinator.control.oracles.violation import OracleName, Severity, WrittenOffset
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who, who_at
from coordinator.group.events import CommitRefused, Event
from coordinator.group.refusal_facts import RefusedOffset
from coordinator.group.view import GroupView, MemberView
from coordinator.net.peer import printable
from protocol.errors import ErrorCode

_ERRORS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

LOOK_EVERY_MS: Final = 100
"""Who owns the partition is looked up this often at most; of other commits it is not told."""


class ZombieCommit:
    """Hears of each commit that is refused."""

    name: Final = OracleName.ZOMBIE_COMMIT
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._next_look_ms = 0
        self.hears: dict[type[Event], Hear] = {CommitRefused: self._refused}

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def _may_look(self) -> bool:
        """A look at a group takes time, and whoever sends refused commits with a new id each time must not take
        that of others."""
        now_ms = self._watch.now_ms()
        if now_ms < self._next_look_ms:
            return False
        self._next_look_ms = now_ms + LOOK_EVERY_MS
        return True

    def _refused(self, event: CommitRefused) -> None:
        sender = event.member
        if event.error not in _ERRORS or not sender.member_id:
            return
        about = (sender.member_id, sender.client_id, event.error)
        if self._watch.found_again((self.name, event.group_id, about)):
            return
        view = self._watch.view(event.group_id) if self._may_look() else None
        first = event.offsets[0] if event.offsets else None
        owner = None if view is None or first is None else _owner(view, (first.topic, first.partition))
        asked = "" if event.generation_id is None else f" for generation {event.generation_id}"
        what = "" if first is None else f" of {printable(name_of(first[:2]))}={first.offset}"
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=about,
                detail=f"The commit{what} by {who_at(sender)}{asked} was refused: {event.error.name}"
                f"{_then(event, view, first, owner)}.",
                members=[sender] if owner is None else [sender, owner.name],
                places=[refused[:2] for refused in event.offsets],
                before=None if first is None else _written(first.committed, owner, view),
                after=None
                if first is None
                else WrittenOffset(
                    offset=first.offset,
                    member_id=sender.member_id,
                    client_id=sender.client_id,
                    generation_id=event.generation_id,
                ),
                subject=sender.member_id,
            )
        )


def _owner(view: GroupView, place: Place) -> MemberView | None:
    return next((member for member in view.members if place in (held(member) or ())), None)


def _then(
    event: CommitRefused, view: GroupView | None, first: RefusedOffset | None, owner: MemberView | None
) -> str:
    if not event.state:
        return ", there is no such group"
    said = f"; the group is {event.state}"
    said += "" if view is None else f" in generation {view.generation_id}"
    if first is None:
        return said
    had = "nothing is committed" if first.committed is None else f"{first.committed} is committed"
    return said + (
        f", where {had}" if owner is None else f", {who(owner.name)} owns the partition, where {had}"
    )


def _written(offset: int | None, owner: MemberView | None, view: GroupView | None) -> WrittenOffset:
    return WrittenOffset(
        offset=offset,
        member_id=None if owner is None else owner.name.member_id,
        client_id=None if owner is None else owner.name.client_id,
        generation_id=None if view is None else view.generation_id,
    )
