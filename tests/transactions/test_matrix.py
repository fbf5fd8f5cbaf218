"""Every state, every request, every kind of caller: Kafka's error and the effect.

A cell is the error code, `>` with the next state if a record is written, and `+` with the increase of the epoch.
States are - (unknown), E (Empty), O (Ongoing), PC, PA (PrepareCommit, PrepareAbort), CC, CA (Complete*). A state
with 2 was ended by EndTxn v5, which raises the epoch, and a state with 1 by an older version.

`current` has the producer id and epoch of the transactional id, `behind` the epoch before, `ahead` the one after,
`foreign` another producer id; `nobody` has none. Codes are those of the newest version: see
`test_older_versions_...`.
"""

from typing import NamedTuple

import pytest

from coordinator.transactions.transaction_event_types import TransactionRequestRefused
from protocol.error_codes import ErrorCode
from tests.transactions.coordinator import A0, B0, FIRST_ID, Coordinator

TABLE = """
request      | caller  | -   | E      | O       | PC1 | PA1 | CC1    | CA1    | PC2 | PA2 | CC2    | CA2
init         | nobody  | 0>E | 0>E+1  | 51>PA+1 | 51  | 51  | 0>E+1  | 0>E+1  | 51  | 51  | 0>E+1  | 0>E+1
init         | current | 0>E | 0>E+1  | 51>PA+1 | 51  | 51  | 0>E+1  | 0>E+1  | 51  | 51  | 0>E+1  | 0>E+1
init         | behind  | 0>E | 90     | 51>PA+1 | 51  | 51  | 90     | 90     | 51  | 51  | 0>E    | 0>E
init         | ahead   | 0>E | 90     | 51>PA+1 | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
init         | foreign | 0>E | 90     | 90      | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
init no time | nobody  | 50  | 50     | 50      | 50  | 50  | 50     | 50     | 50  | 50  | 50     | 50
init long    | nobody  | 50  | 50     | 50      | 50  | 50  | 50     | 50     | 50  | 50  | 50     | 50
init half    | nobody  | 42  | 42     | 42      | 42  | 42  | 42     | 42     | 42  | 42  | 42     | 42
add          | current | 49  | 0>O    | 0>O     | 51  | 51  | 0>O    | 0>O    | 51  | 51  | 0>O    | 0>O
add          | behind  | 49  | 90     | 90      | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
add          | ahead   | 49  | 90     | 90      | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
add          | foreign | 49  | 49     | 49      | 51  | 51  | 49     | 49     | 51  | 51  | 49     | 49
add known    | current | 49  | 0>O    | 0       | 51  | 51  | 0>O    | 0>O    | 51  | 51  | 0>O    | 0>O
add nothing  | current | 49  | 0>O    | 0       | 51  | 51  | 0>O    | 0>O    | 51  | 51  | 0>O    | 0>O
verify       | current | 49  | 120    | 120     | 51  | 51  | 120    | 120    | 51  | 51  | 120    | 120
verify known | current | 49  | 120    | 0       | 51  | 51  | 120    | 120    | 51  | 51  | 120    | 120
verify known | behind  | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
verify known | ahead   | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
verify known | foreign | 49  | 49     | 49      | 49  | 49  | 49     | 49     | 49  | 49  | 49     | 49
commit v4    | current | 49  | 48     | 0>PC    | 51  | 51  | 0      | 48     | 51  | 51  | 0      | 48
commit v4    | behind  | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
commit v4    | ahead   | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
commit v4    | foreign | 49  | 49     | 49      | 49  | 49  | 49     | 49     | 49  | 49  | 49     | 49
abort v4     | current | 49  | 48     | 0>PA    | 51  | 51  | 48     | 0      | 51  | 51  | 48     | 0
abort v4     | behind  | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
abort v4     | ahead   | 49  | 90     | 90      | 90  | 90  | 90     | 90     | 90  | 90  | 90     | 90
abort v4     | foreign | 49  | 49     | 49      | 49  | 49  | 49     | 49     | 49  | 49  | 49     | 49
commit v5    | current | 49  | 48     | 0>PC+1  | 51  | 51  | 48     | 48     | 51  | 51  | 48     | 48
commit v5    | behind  | 49  | 90     | 90      | 51  | 51  | 0      | 48     | 51  | 51  | 0      | 48
commit v5    | ahead   | 49  | 90     | 90      | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
commit v5    | foreign | 49  | 49     | 49      | 51  | 51  | 49     | 49     | 51  | 51  | 49     | 49
abort v5     | current | 49  | 0>CA+1 | 0>PA+1  | 51  | 51  | 0>CA+1 | 0>CA+1 | 51  | 51  | 0>CA+1 | 0>CA+1
abort v5     | behind  | 49  | 90     | 90      | 51  | 51  | 48     | 0      | 51  | 51  | 48     | 0
abort v5     | ahead   | 49  | 90     | 90      | 51  | 51  | 90     | 90     | 51  | 51  | 90     | 90
abort v5     | foreign | 49  | 49     | 49      | 51  | 51  | 49     | 49     | 51  | 51  | 49     | 49
"""

NAMES = {
    "-": "", "E": "Empty", "O": "Ongoing", "PC": "PrepareCommit", "PA": "PrepareAbort", "CC": "CompleteCommit",
    "CA": "CompleteAbort",
}  # fmt: skip
LEVELS = (0, 1, 2)
FOREIGN_ID = 77


class Cell(NamedTuple):
    """The entry of a table for one request in one state."""

    request: str
    caller: str
    column: str
    expected: str


def cells() -> list[Cell]:
    header, *rows = ([word.strip() for word in line.split("|")] for line in TABLE.strip().splitlines())
    return [
        Cell(row[0], row[1], column, expected)
        for row in rows
        for column, expected in zip(header[2:], row[2:], strict=True)
    ]


def given(column: str, level: int) -> Coordinator:
    """A coordinator with a transactional id in a state, at an epoch above 0."""
    coordinator = Coordinator(transaction_version=level)
    if column == "-":
        return coordinator
    for _ in range(3):
        coordinator.init()
    producer_id, epoch = coordinator.current()
    if column != "E":
        coordinator.add(A0, producer_id=producer_id, epoch=epoch)
    if column not in ("E", "O"):
        coordinator.end(column[1] == "C", producer_id, epoch, version=5 if column[2] == "2" else 4)
        if column[0] == "C":
            coordinator.finish_markers()
    assert coordinator.state() == NAMES[column.rstrip("12")]
    return coordinator


def who(coordinator: Coordinator, caller: str, column: str) -> tuple[int, int]:
    """Producer id and epoch of a caller."""
    producer_id, epoch = (FIRST_ID, 2) if column == "-" else coordinator.current()
    return {
        "nobody": (-1, -1),
        "current": (producer_id, epoch),
        "behind": (producer_id, epoch - 1),
        "ahead": (producer_id, epoch + 1),
        "foreign": (FOREIGN_ID, epoch),
    }[caller]


def ask(
    coordinator: Coordinator, request: str, producer_id: int, epoch: int, version: int | None = None
) -> ErrorCode:
    """Send the request of a row; its error."""
    verb, *words = request.split()
    if verb == "init":
        timeout_ms = {"no": 0, "long": 900_001}.get(words[0] if words else "", 60_000)
        given_id = 5 if words == ["half"] else producer_id
        return coordinator.init(
            given_id, epoch, timeout_ms=timeout_ms, version=5 if version is None else version
        ).error
    if verb in ("add", "verify"):
        partitions = {"": [B0], "known": [A0], "nothing": []}[words[0] if words else ""]
        errors = coordinator.add(*partitions, producer_id=producer_id, epoch=epoch, verifies=verb == "verify")
        refused = [event.error for event in coordinator.find_events(TransactionRequestRefused)]
        return errors[partitions[0]] if partitions else refused[0] if refused else ErrorCode.NONE
    end_version = int(words[0][1:]) if version is None else version
    return coordinator.end(verb == "commit", producer_id, epoch, version=end_version).error


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cell", cells(), ids=lambda cell: "-".join(cell[:3]).replace(" ", "_"))
def test_what_kafka_answers(cell: Cell, level: int) -> None:
    coordinator = given(cell.column, level)
    before = None if cell.column == "-" else coordinator.value()
    producer_id, epoch = who(coordinator, cell.caller, cell.column)
    written = len(coordinator.records)
    coordinator.events.clear()
    error = ask(coordinator, cell.request, producer_id, epoch)

    code, _, then = cell.expected.partition(">")
    state, _, rise = then.partition("+")
    assert error == int(code)
    if not then:
        assert len(coordinator.records) == written
        return
    assert coordinator.state() == NAMES[state]
    assert len(coordinator.records) == written + (2 if then == "CA+1" else 1)
    if before is not None:
        assert coordinator.current() == (before.producer_id, before.producer_epoch + int(rise or 0))


def versions(request: str) -> range:
    """Return the versions of a request that name a producer id and have the meaning of its row."""
    return range(3, 6) if request == "init" else range(5, 6) if request.endswith("v5") else range(5)


FENCED = [
    (cell, version)
    for cell in cells()
    if cell.expected == "90" and not cell.request.startswith(("add", "verify"))
    for version in versions(cell.request)
]


@pytest.mark.parametrize(("cell", "version"), FENCED)
def test_older_versions_are_told_that_the_epoch_is_invalid(cell: Cell, version: int) -> None:
    coordinator = given(cell.column, 2)
    error = ask(coordinator, cell.request, *who(coordinator, cell.caller, cell.column), version)
    assert error == (90 if version >= (4 if cell.request == "init" else 2) else 47)


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_without_a_name_is_refused(version: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(tid="", version=version).error == 42
    assert coordinator.end(True, tid="", version=version).error == 42
    assert set(coordinator.add(A0, B0, tid="").values()) == {42}
    assert set(coordinator.add(A0, B0, tid="", verifies=True).values()) == {42}
    assert coordinator.describe("").error_code == 42
    assert coordinator.shard.list_transactional_ids() == []


def test_the_table_has_every_request_for_every_caller() -> None:
    asked = {(cell.request, cell.caller) for cell in cells()}
    for request in ("init", "add", "verify known", "commit v4", "abort v4", "commit v5", "abort v5"):
        for caller in ("current", "behind", "ahead", "foreign"):
            assert (request, caller) in asked
