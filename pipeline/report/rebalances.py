"""Select the most expensive rebalances of a group and explain the cause of each."""

from typing import Any, Final

from pipeline.gold import causes
from pipeline.gold.rebalance_causes import MIGRATED
from pipeline.report.words import count, cut, listed, number

Row = dict[str, Any]
_NAMES: Final = 3
_NAME: Final = 40
_LEDGER: Final = 80
_WHY: Final = {
    causes.UNKNOWN: "unknown: the log begins here",
    causes.FIRST: "the first members joined",
    causes.CAME: "joined",
    causes.WENT: "left",
    causes.CAME_BACK: "returned with another member id",
    causes.CHANGED_MEMBERS: "joined and left",
    causes.SUBSCRIPTION: "the subscriptions changed",
    causes.PARTITIONS: "the partitions changed",
    causes.ASSIGNOR: "the assignor changed",
    causes.SECOND_STEP: "the second step of a cooperative assignor",
    causes.JOINED_AGAIN: "a member joined again without a change",
    causes.LAST_WENT: "the last member left",
    MIGRATED: "the group migrated to the other protocol",
}


def worst(
    rebalances: list[Row], of_causes: list[Row], limit: int, ledger: dict[int, str] | None = None
) -> list[Row]:
    """Return the rebalances with the longest pauses, then with the slowest convergence or assignment, with the
    added columns `why` and `what_moved`.

    Args:
        rebalances: the rows of `rebalance_stats` of one group.
        of_causes: its rows of `rebalance_causes`.
        limit: the maximum number.
        ledger: the causes in the daemon's ledger, by generation.
    """
    known = {row["log_offset"]: row for row in of_causes}

    def cost(row: Row) -> tuple[Any, ...]:
        pause = 0 if row["pause_spans_empty"] else row["consumption_pause_ms"] or 0
        return pause, row["convergence_ms"] or 0, row["sync_ms"] or 0, row["log_offset"]

    told = []
    for row in sorted(rebalances, key=cost, reverse=True)[:limit]:
        of_log, of_ledger = known.get(row["log_offset"]), (ledger or {}).get(row["generation"])
        said = why(of_log) + (f" (the ledger: {cut(of_ledger, _LEDGER)})" if of_ledger else "")
        told.append(row | {"why": said, "what_moved": what_moved(of_log)})
    return told


def why(row: Row | None) -> str:
    """Describe the cause of a rebalance with the clients involved."""
    if row is None:
        return "unknown"
    who = [(causes.CAME, row["came"]), (causes.WENT, row["went"]), (causes.CAME_BACK, row["came_back"])]
    told = [f"{_listed(names)} {_WHY[how]}" for how, names in who if names]
    if row["cause"] in (causes.CAME, causes.WENT, causes.CAME_BACK, causes.CHANGED_MEMBERS) and told:
        return "; ".join(told)
    return _WHY[row["cause"]]


def what_moved(row: Row | None) -> str:
    """Describe the number of moved partitions and of needless moves."""
    if row is None or row["moved"] is None:
        return "—"
    text = f"{number(row['moved'])} of {number(row['n_partitions'])}"
    return f"{text}, {number(row['needless'])} needless" if row["needless"] else text


def causes_in_short(of_causes: list[Row], limit: int = 4) -> str:
    """Count the causes: `came back 20 times, went 3 times`."""
    found: dict[str, int] = {}
    for row in of_causes:
        found[row["cause"]] = found.get(row["cause"], 0) + 1
    ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return listed([f"{_WHY[cause]} ({count(n, 'time')})" for cause, n in ranked], limit)


def _listed(names: list[str]) -> str:
    counted = dict.fromkeys(names)
    return listed([cut(name, _NAME) for name in counted], _NAMES)
