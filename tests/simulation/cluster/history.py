"""The consistency of all responses to clients.

Each partition is one register: a commit writes a unique value, and a fetch reads the newest value. The final log
orders the writes, so the linearizability check needs no search. A write has its own place in the log, and a read
has the place of the value that it read. An operation that ended before another began must not come after it.
"""

from dataclasses import dataclass


class Broken(AssertionError):
    """A history that no correct cluster could have."""


@dataclass
class Operation:
    """An operation of a client. `ended_ms` is None if its outcome is unknown.

    `value` is the written value, or the value read ("" for none).
    """

    partition: int
    is_write: bool
    began_ms: float
    ended_ms: float | None = None
    value: bytes = b""


def check(operations: list[Operation], logs: dict[int, list[bytes]]) -> None:
    """Check the operations against the final log of each partition. Raises Broken if an acknowledged commit is not
    in the log, or if the operations are not linearizable.
    """
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
