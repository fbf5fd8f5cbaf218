"""Generate the pages about states from the tables of transitions that the cores assert.

python -m docs.generate_state_machine
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from coordinator.group.classic import classic_state_machine as classic_group
from coordinator.transactions import transaction_state_machine as transaction


@dataclass(frozen=True)
class Page:
    """A page about the states that a module declares."""

    path: Path
    title: str
    numbers: str
    """The meanings of the error codes in its tables."""
    module: ModuleType
    """Has MEANINGS, TRANSITIONS, and prose in its docstring, between the first paragraph and the last."""
    begins: str
    """The event that creates an object in the first state."""
    undrawn: tuple[tuple[Enum, Enum], ...] = ()
    """Transitions that would only clutter the diagram."""

    @property
    def meanings(self) -> Mapping[Any, str]:
        """The meaning of each state."""
        meanings: Mapping[Any, str] = self.module.MEANINGS
        return meanings

    @property
    def transitions(self) -> Mapping[tuple[Any, Any], str]:
        """The cause of each transition."""
        transitions: Mapping[tuple[Any, Any], str] = self.module.TRANSITIONS
        return transitions

    def text(self) -> str:
        """Return the text of the page."""
        source = self.module.__name__.replace(".", "/")
        introduction = (
            f"# {self.title}\n\n"
            f"This page is generated from `{source}.py` by\n"
            f"`python -m docs.generate_state_machine`; a test fails if it is stale. Numbers in a table are\n"
            f"Kafka's error codes: {self.numbers}."
        )
        prose = (self.module.__doc__ or "").split("\n\n")[1:-1]
        parts = [introduction, *prose, self._diagram(), self._states(), self._transitions()]
        return "\n\n".join(parts) + "\n"

    def _diagram(self) -> str:
        first = next(iter(self.meanings))
        arrows = [
            f"    {source.value} --> {target.value}: {cause}"
            for (source, target), cause in self.transitions.items()
            if (source, target) not in self.undrawn
        ]
        lines = ["stateDiagram-v2", f"    [*] --> {first.value}: {self.begins}", *arrows]
        return "\n".join(["## Diagram", "", "```mermaid", *lines, "```"])

    def _states(self) -> str:
        rows = [f"| {name.value} | {meaning} |" for name, meaning in self.meanings.items()]
        return "\n".join(["## States", "", "| state | meaning |", "|---|---|", *rows])

    def _transitions(self) -> str:
        rows = [
            f"| {source.value} | {target.value} | {cause} |"
            for (source, target), cause in self.transitions.items()
        ]
        head = ["## Transitions", "", "The code asserts that no other transition happens.", ""]
        return "\n".join([*head, "| from | to | cause |", "|---|---|---|", *rows])


CLASSIC_GROUP: Final = Page(
    Path(__file__).with_name("state-machine.md"),
    "The states of a classic group",
    "0 NONE, 15 COORDINATOR_NOT_AVAILABLE, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS",
    classic_group,
    "a new group",
    undrawn=tuple(
        (source, target)
        for source, target in classic_group.TRANSITIONS
        if target is classic_group.DEAD and source is not classic_group.EMPTY
    ),
)
TRANSACTION: Final = Page(
    Path(__file__).with_name("transaction-state-machine.md"),
    "The states of a transactional id",
    "0 NONE, 48 INVALID_TXN_STATE, 51 CONCURRENT_TRANSACTIONS, 90 PRODUCER_FENCED,\n120 TRANSACTION_ABORTABLE",
    transaction,
    "InitProducerId with a new transactional id",
    undrawn=tuple(
        (source, target)
        for source, target in transaction.TRANSITIONS
        if target is transaction.DEAD and source is not transaction.EMPTY
    ),
)
PAGES: Final = (CLASSIC_GROUP, TRANSACTION)


if __name__ == "__main__":
    for page in PAGES:
        page.path.write_text(page.text())
