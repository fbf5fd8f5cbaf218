"""The last stored commits of each group, for reports. Commits are observed only with `oracle.commits`."""

from collections import OrderedDict, deque
from typing import Final

from msgspec import Struct

from coordinator.control.diagnosis.commit_observer import StoredCommit
from coordinator.core import clock
from coordinator.core.wire_name import wire_name

MAX_COMMITS: Final = 50
"""The maximum number of kept offsets of one group."""
MAX_GROUPS: Final = 1_000
"""The limit of groups with kept commits. The groups with the oldest commits are dropped."""


@wire_name("RecentCommit")
class RecentCommit(Struct, frozen=True, kw_only=True):
    """A stored offset. `at_ms` is Unix time. `generation_id` is -1 for a writer that is not a member. `before` is
    the replaced offset, null without one."""

    at_ms: int
    client_id: str
    member_id: str
    generation_id: int
    topic: str
    partition: int
    offset: int
    before: int | None


@wire_name("RecentCommitList")
class RecentCommitList(Struct, frozen=True, kw_only=True):
    """The last stored offsets of a group, oldest first."""

    group_id: str
    commits: list[RecentCommit]


class RecentCommits:
    """The last commits of all groups. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._by_group: OrderedDict[str, deque[tuple[int, StoredCommit]]] = OrderedDict()

    def add(self, commit: StoredCommit) -> None:
        """Keep a commit as the newest of its group."""
        found = self._by_group.get(commit.group_id)
        if found is None:
            found = self._by_group[commit.group_id] = deque(maxlen=MAX_COMMITS)
            if len(self._by_group) > MAX_GROUPS:
                self._by_group.popitem(last=False)
        else:
            self._by_group.move_to_end(commit.group_id)
        found.append((clock.wall_ms(), commit))

    def list_commits(self, group_id: str) -> RecentCommitList:
        """Return the kept commits of a group; none for an unknown group."""
        return RecentCommitList(
            group_id=group_id,
            commits=[
                RecentCommit(
                    at_ms=at_ms,
                    client_id=commit.writer.client_id,
                    member_id=commit.writer.member_id,
                    generation_id=commit.generation_id,
                    topic=commit.topic,
                    partition=commit.partition,
                    offset=commit.offset,
                    before=commit.before,
                )
                for at_ms, commit in self._by_group.get(group_id, ())
            ],
        )
