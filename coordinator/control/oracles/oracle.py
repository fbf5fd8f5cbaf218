"""What every oracle is: it hears events of some classes, and may ask for a look at a group later."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.group.events import Event

Hear = Callable[[Any], None]


class Oracle(Protocol):
    """One rule."""

    @property
    def name(self) -> OracleName:
        """The rule's."""

    @property
    def severities(self) -> frozenset[Severity]:
        """The severities that its findings can have. `docs/control.md` has the reasons."""

    @property
    def hears(self) -> Mapping[type[Event], Hear]:
        """What it does upon an event, by its class."""

    def look(self, group_id: str) -> None:
        """The time has come for which it had asked (`Watch.look_in`)."""
