"""Something that a group is to be: what every condition can be asked."""

from typing import Any, Protocol

from msgspec import Struct

from coordinator.control.waits.sight import GroupSight


class Unmet(Struct, frozen=True, kw_only=True):
    """A condition that does not hold. `condition` is its field in the body, `wanted` what that says, `is_` (on the
    wire "is") what is so instead."""

    condition: str
    wanted: Any
    is_: Any


class Condition(Protocol):
    """See the top of this file. What it says of a group is printable."""

    def holds(self, sight: GroupSight) -> bool:
        """Whether it is so at a moment."""

    def unmet(self, sight: GroupSight) -> Unmet:
        """What is so instead; it does not hold."""

    def why(self, sight: GroupSight) -> str:
        """The same in a sentence, without a full stop, that names whose doing it is; "" where the state of the
        group says all there is to say."""

    def achieved(self, sight: GroupSight) -> str:
        """What is so, in a few words; it holds. "" where the state of the group says it."""

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """The topics that it is about."""

    def due_ms(self, sight: GroupSight) -> int | None:
        """In what group time it may hold without anything happening; None where time alone changes nothing."""

    @property
    def reads_offsets(self) -> bool:
        """Whether it has to know what is committed."""


class BaseCondition:
    """What most conditions answer."""

    reads_offsets = False

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        return ""

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """See `Condition`."""
        return frozenset()

    def due_ms(self, sight: GroupSight) -> int | None:
        """See `Condition`."""
        return None
