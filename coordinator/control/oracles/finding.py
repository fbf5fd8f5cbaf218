"""The result of an invariant check, before `violations.py` merges repetitions."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from coordinator.control.oracles.partitions import Place
from coordinator.control.oracles.violation import OracleName, Severity, WrittenOffset
from coordinator.group.member_name import MemberName


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Findings with the same oracle, group and `about` are one entry of the list. A notice is logged once for each
    oracle, group and `subject`: a member, or "" where it concerns the whole group. For the rest see `Violation`.
    """

    oracle: OracleName
    severity: Severity
    group_id: str
    generation_id: int | None
    about: Hashable
    detail: str
    members: Sequence[MemberName] = ()
    places: Sequence[Place] = ()
    before: WrittenOffset | None = None
    after: WrittenOffset | None = None
    subject: Hashable = ""

    @property
    def key(self) -> Hashable:
        """Equal for findings of the same."""
        return self.oracle, self.group_id, self.about

    @property
    def notice_key(self) -> Hashable:
        """Equal for notices that share one line of the log."""
        return self.oracle, self.group_id, self.subject
