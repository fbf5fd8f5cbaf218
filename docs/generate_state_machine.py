"""Writes docs/state-machine.md from the table of transitions that the core asserts.

python -m docs.generate_state_machine
"""

from pathlib import Path
from typing import Final

from coordinator.group import state
from coordinator.group.state import MEANINGS, TRANSITIONS, ClassicGroupState

PAGE: Final = Path(__file__).with_name("state-machine.md")
_INTRODUCTION: Final = """# The states of a classic group

Generated from `coordinator/group/state.py` by `python -m docs.generate_state_machine`; a test fails when it is
stale. A number in a table is Kafka's error code: 0 none, 15 COORDINATOR_NOT_AVAILABLE, 25 UNKNOWN_MEMBER_ID,
27 REBALANCE_IN_PROGRESS.

"""


def page() -> str:
    """The page as it should be."""
    prose = (state.__doc__ or "").split("\n\n")[1:-1]
    parts = [_INTRODUCTION + "\n\n".join(prose), _diagram(), _states(), _transitions()]
    return "\n\n".join(parts) + "\n"


def _diagram() -> str:
    arrows = [
        f"    {source.value} --> {target.value}: {cause}"
        for (source, target), cause in TRANSITIONS.items()
        if target is not ClassicGroupState.DEAD or source is ClassicGroupState.EMPTY
    ]
    lines = ["stateDiagram-v2", f"    [*] --> {ClassicGroupState.EMPTY.value}: a new group", *arrows]
    return "\n".join(["## Diagram", "", "```mermaid", *lines, "```"])


def _states() -> str:
    rows = [f"| {name.value} | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join(["## States", "", "| state | meaning |", "|---|---|", *rows])


def _transitions() -> str:
    rows = [
        f"| {source.value} | {target.value} | {cause} |" for (source, target), cause in TRANSITIONS.items()
    ]
    head = ["## Transitions", "", "Any other is a bug, and asserted not to happen.", ""]
    return "\n".join([*head, "| from | to | when |", "|---|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page())
