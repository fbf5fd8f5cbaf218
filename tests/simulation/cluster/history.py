"""What must hold of all that clients were told.

Each partition is one register: a commit writes a value that no other commit writes, a fetch reads the newest. The
final log gives the order of the writes, so that linearizability needs no search: every operation has its place in
the log (a write its own, a read that of what it read), and one that ended before another began must not stand
behind it.
"""

from dataclasses import dataclass


class Broken(AssertionError):
    """A history that no correct cluster could have."""


@dataclass
class Operation:
    """`ended_ms` None: nobody knows what became of it. `value` is what was written, or read ("" for nothing)."""

    partition: int
    is_write: bool
    began_ms: float
    ended_ms: float | None = None
    value: bytes = b""


def check(operations: list[Operation], logs: dict[int, list[bytes]]) -> None:
    """Raises Broken where an acknowledged commit is not in the log, or a history is not linearizable."""
    for partition, log in logs.items():
        places = {value: place for place, value in enumerate(log, 1)}
        if len(places) != len(log):
            raise Broken(f"partition {partition} has a value twice")
        done = [each for each in operations if each.partition == partition]
        began = {each.value: each.began_ms for each in done if each.is_write}
        placed = []
        for operation in done:
            if operation.ended_ms is None:
                continue
            if operation.value and operation.value not in places:
                raise Broken(f"lost: {operation}")
            if operation.value and began[operation.value] > operation.ended_ms:
                raise Broken(f"read before it was written: {operation}")
            placed.append((places.get(operation.value, 0), operation))
        _check_order(placed)


def _check_order(placed: list[tuple[int, Operation]]) -> None:
    ended = sorted(placed, key=lambda each: each[1].ended_ms or 0.0)
    newest, at = 0, 0
    for place, operation in sorted(placed, key=lambda each: each[1].began_ms):
        while at < len(ended) and (ended[at][1].ended_ms or 0.0) < operation.began_ms:
            newest = max(newest, ended[at][0])
            at += 1
        if place < newest or (operation.is_write and place == newest):
            raise Broken(f"stale: {operation} after the one at {newest}, itself at {place}")
