"""What an oracle has found, before it is a violation: the same again is no other one."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from coordinator.control.oracles.partitions import Place
from coordinator.control.oracles.violation import Level, OracleName, WrittenOffset
from coordinator.group.member_name import MemberName


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`about`, with the oracle and the group, is what makes it the same as another; for the rest see
    `Violation`."""

    oracle: OracleName
    level: Level
    group_id: str
    generation_id: int | None
    about: Hashable
    detail: str
    members: Sequence[MemberName] = ()
    places: Sequence[Place] = ()
    before: WrittenOffset | None = None
    after: WrittenOffset | None = None

    @property
    def key(self) -> Hashable:
        """Equal for findings of the same."""
        return self.oracle, self.group_id, self.about
