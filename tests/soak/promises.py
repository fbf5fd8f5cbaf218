"""The acknowledged commits, and so the valid last offsets of the daemon.

Members of a group commit for the same partition one after the other, from processes whose lines arrive in any
order. A commit may be the last one unless a commit sent after its end was *acknowledged*. The daemon may have
written a rejected or unanswered commit until shortly after its client gave up.
"""

from dataclasses import dataclass
from typing import Final

Place = tuple[str, str, int]
"""Group, topic, partition."""

_FOREVER: Final = 2**63
LATE_NS: Final = 10_000_000_000
"""The time after a client gave up or died in which its requests may still be processed."""


@dataclass(eq=False, slots=True)
class Write:
    """One partition of one commit."""

    token: str
    offset: int
    asked_ns: int
    over_ns: int = _FOREVER
    is_kept: bool = False


class Promises:
    """Of all members of all groups."""

    def __init__(self) -> None:
        self.kept = 0
        """Commits that were acknowledged."""
        self.failed = 0
        self._open: dict[str, list[tuple[Place, Write]]] = {}
        self._writes: dict[Place, list[Write]] = {}
        self._gone: tuple[set[str], set[str]] = (set(), set())
        """Deleted groups and topics, of which lines of members may still be on their way."""

    def asked(self, at_ns: int, token: str, offsets: dict[Place, int]) -> None:
        """A commit is being sent."""
        self._open[token] = [
            (place, Write(token, offset, at_ns))
            for place, offset in offsets.items()
            if not self._is_gone(place)
        ]
        for place, write in self._open[token]:
            self._writes.setdefault(place, []).append(write)

    def was_kept(self, at_ns: int, token: str) -> None:
        """Record an acknowledged commit: commits that ended before its begin cannot be the last one."""
        self.kept += 1
        for place, write in self._open.pop(token):
            write.over_ns, write.is_kept = at_ns, True
            self._prune(place)

    def has_failed(self, at_ns: int, token: str) -> None:
        """It was not."""
        self.failed += 1
        for place, write in self._open.pop(token):
            write.over_ns = at_ns + LATE_NS
            self._prune(place)

    def has_died(self, at_ns: int, name: str) -> None:
        """Record the death of a member: its pending commits were not acknowledged."""
        for token in [token for token in self._open if token.rpartition(".")[0] == name]:
            self.has_failed(at_ns, token)

    def _prune(self, place: Place) -> None:
        writes = self._writes[place]
        newest_ns = max((write.asked_ns for write in writes if write.is_kept), default=0)
        self._writes[place] = [write for write in writes if write.over_ns >= newest_ns]

    def group_deleted(self, group: str) -> None:
        """With its offsets. Its name does not come again."""
        self._forget(0, group)

    def topic_deleted(self, topic: str) -> None:
        """Forget a deleted topic with its commits. Its name is not used again."""
        self._forget(1, topic)

    def _forget(self, part: int, name: str) -> None:
        self._gone[part].add(name)
        for place in [place for place in self._writes if place[part] == name]:
            del self._writes[place]
        for token, writes in self._open.items():
            self._open[token] = [(place, write) for place, write in writes if place[part] != name]

    def _is_gone(self, place: Place) -> bool:
        return place[0] in self._gone[0] or place[1] in self._gone[1]

    def broken(self, found: dict[Place, tuple[int, str]]) -> list[str]:
        """Return contradictions to the daemon's offsets. `found` is offset and metadata by place."""
        wrong: list[str] = []
        for place, writes in self._writes.items():
            may_be = {(write.offset, write.token) for write in writes}
            says = found.get(place)
            if says is None and any(write.is_kept for write in writes):
                wrong.append(f"{place}: an acknowledged commit is lost: {sorted(may_be)}")
            elif says is not None and says not in may_be:
                wrong.append(f"{place}: {says}, which has to be one of {sorted(may_be)}")
        wrong += [
            f"{place}: {found[place]}, which nobody committed" for place in found.keys() - self._writes.keys()
        ]
        return wrong
