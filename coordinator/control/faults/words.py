"""What a fault has to do with a group that waits, in sentences for people."""

from collections.abc import Mapping
from typing import Final

from coordinator import clock
from coordinator.control.faults.fault import Fault
from coordinator.net.peer import printable
from protocol.apis import APIS

MOST_HINTS: Final = 10
_WORDS: Final = {"hold": "holds", "delay": "delays", "swallow": "has swallowed"}


def holding_hints(fault: Fault, group_id: str) -> list[str]:
    """One sentence for each request or answer of a group that a fault keeps."""
    hints: list[str] = []
    for holding in fault.holdings:
        if group_id not in holding.asked.group_ids or len(hints) >= MOST_HINTS:
            continue
        api = APIS[holding.asked.key].name
        what = f"the answer to the {api}" if fault.action.at == "answer" else f"the {api}"
        seconds = (clock.monotonic_ns() - holding.since_ns) / 1e9
        ends = (
            f"DELETE /v1/faults/{fault.name} ends its connection"
            if holding.kind == "swallow"
            else f"POST /v1/faults/{fault.name}/release lets it go"
        )
        hints.append(
            f"fault {fault.name} {_WORDS[holding.kind]} {what} of {printable(holding.asked.client_id)} since "
            f"{seconds:.1f} s, and nothing that follows on its connection is processed: {ends}"
        )
    return hints


def ghost_hints(fault: Fault, members: Mapping[str, str]) -> list[str]:
    """One sentence for each member of a group that was told to be none. In: client ids by member id."""
    return [
        f"fault {fault.name} told {printable(members[ghost])} UNKNOWN_MEMBER_ID, of which the group did not hear: "
        f"it has joined under a new id, and {printable(ghost)} is a member until its session ends"
        for ghost in list(fault.ghosts)[:MOST_HINTS]
        if ghost in members
    ]
