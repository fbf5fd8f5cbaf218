"""Summarise the period in ten lines, each with the tables of its numbers, and the verdict."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from pipeline.report.gather import Gathered
from pipeline.report.verdict import Context, Finding, verdict
from pipeline.report.words import count, cut, duration, length, listed, moment, number, share, shown

KINDS: Final = {
    "offset_rewind": ("offset that went backwards", "offsets that went backwards"),
    "outside_ownership": ("partition committed without an owner", "partitions committed without an owner"),
    "mixed_commits": (
        "group that mixes plain and transactional commits",
        "groups that mix plain and transactional commits",
    ),
    "stuck_partition": ("stuck partition", "stuck partitions"),
    "slow_revocation": ("slow revocation by a member", "slow revocations by members"),
    "rebalance_storm": ("rebalance storm", "rebalance storms"),
    "flapping_group": ("flapping group", "flapping groups"),
    "abandoned_group": ("abandoned group", "abandoned groups"),
    "regular_leaving": ("client that leaves regularly", "clients that leave regularly"),
    "expiring_offsets": ("topic with offsets about to expire", "topics with offsets about to expire"),
}
"""The singular and the plural of each kind of anomaly."""

_NAME: Final = 60


class Line(NamedTuple):
    """One or two sentences and the source of their numbers."""

    text: str
    source: str


def story(gathered: Gathered) -> list[Line]:
    """Return the ten lines of the summary."""
    tellers: tuple[Callable[[Gathered], Line], ...] = (
        _period, _groups, _busiest, _wasted, _lag, _laggard, _rebalances, _pauses, _anomalies, _log,
    )  # fmt: skip
    return [teller(gathered) for teller in tellers]


def findings_of(gathered: Gathered) -> list[Finding]:
    """Return the findings on the gathered data, the worst first."""
    period_s = (gathered.end - gathered.start) / timedelta(seconds=1)
    return verdict(gathered.troubles, Context(gathered.now, gathered.totals["lag"], period_s))


def healthy(gathered: Gathered) -> str:
    """Return the line for a period without problems."""
    totals = gathered.totals
    if not totals["n_groups"]:
        return "The log has no groups."
    lag = f" and were {count(totals['lag'], 'message')} behind at the end" if totals["n_measured"] else ""
    groups, commits = count(totals["n_groups"], "group"), count(totals["commits"], "time")
    return f"No problems: {groups} committed {commits}{lag}."


def _name(group: str | None) -> str:
    return cut(group, _NAME)


def _period(gathered: Gathered) -> Line:
    info = gathered.info
    if info["first_record_ts"] is None:
        return Line("The offsets log has no records yet.", "build_info")
    start, end = gathered.start, gathered.end
    text = (
        f"From {moment(start)} to {moment(end)} UTC, {length(start, end)}: the log "
        f"holds {count(info['commits'], 'commit')}, {count(info['removed_offsets'], 'removed offset')} and "
        f"{count(info['group_records'], 'group record')} in all."
    )
    return Line(text, "build_info")


def _groups(gathered: Gathered) -> Line:
    totals = gathered.totals
    empty = [_name(group) for group in totals["empty_groups"]]
    names = f": {listed(empty)}" if 0 < totals["n_empty"] <= len(empty) else ""
    text = (
        f"{count(totals['n_groups'], 'group').capitalize()}, of which {number(totals['n_committing'])} committed. "
        f"At the end {number(totals['n_with_members'])} had members, {number(totals['n_empty'])} had lost "
        f"all members{names}; {number(totals['n_simple'])} never had members."
    )
    if totals["n_consumer_groups"] or totals["n_migrations"]:
        text += (
            f" At the end {number(totals['n_consumer_groups'])} used the consumer protocol (KIP-848), after "
            f"{count(totals['n_migrations'] or 0, 'migration')} between the protocols."
        )
    return Line(text, "velocity, rebalance_stats, group_kinds")


def _busiest(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["commits"]:
        return Line("No group committed in this period.", "velocity")
    seconds = max((gathered.end - gathered.start) / timedelta(seconds=1), 1)
    text = (
        f"Groups advanced by {count(totals['advance'], 'offset')}, {number(totals['advance'] / seconds)} a second. "
        f"The busiest was {_name(totals['busiest_group'])} with {count(totals['busiest_commits'], 'commit')} "
        f"({share(totals['busiest_commits'], totals['commits'])} of all) for "
        f"{count(totals['busiest_advance'], 'offset')}."
    )
    transactional = totals["transactional_commits"]
    if transactional:
        part = share(transactional, totals["commits"])
        text += f" Transactions made {number(transactional)} ({part}) of all commits."
    return Line(text, "velocity: commits, advance, transactional_commits")


def _wasted(gathered: Gathered) -> Line:
    totals = gathered.totals
    unmoved = totals["unmoved_commits"]
    if not unmoved:
        return Line("Every commit moved its offset.", "velocity: unmoved_commits")
    text = (
        f"{count(unmoved, 'commit')} of {number(totals['commits'])} ({share(unmoved, totals['commits'])}) repeated "
        f"the previous offset; {number(totals['idlest_commits'])} of them by {_name(totals['idlest_group'])}."
    )
    return Line(text, "velocity: unmoved_commits")


def _lag(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["n_measured"]:
        return Line(
            "Lag is unknown, because the ends of topics are missing: use --bootstrap or --log-end-offsets.",
            "lag",
        )
    rest = totals["n_partitions"] - totals["n_measured"]
    unknown = f" The end of {count(rest, 'more partition')} is unknown." if rest else ""
    lost = totals["lost"]
    gone = (
        f" {count(lost, 'message was', 'messages were').capitalize()} deleted before a group read them."
        if lost
        else ""
    )
    text = (
        f"Groups were {count(totals['lag'], 'message')} behind in {count(totals['n_measured'], 'partition')} "
        f"at {moment(gathered.info['lag_ts'])} UTC.{gone}{unknown}"
    )
    return Line(text, "lag; build_info: lag_ts")


def _laggard(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["lag"]:
        text = "No group was behind." if totals["n_measured"] else "The group with the most lag is unknown."
        return Line(text, "lag")
    since = ""
    if totals["unread_since_ts"] is not None:
        waited = (totals["measured_ts"] - totals["unread_since_ts"]) / timedelta(seconds=1)
        since = (
            f" The oldest unread message of all had waited for about {duration(waited)}."
            if waited > 0
            else ""
        )
    text = (
        f"{_name(totals['laggard'])} had the most lag, with {count(totals['laggard_lag'], 'message')} "
        f"({share(totals['laggard_lag'], totals['lag'])} of all lag).{since}"
    )
    return Line(text, "lag: lag, unread_since_ts")


def _rebalances(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["n_rebalances"]:
        return Line("No group rebalanced.", "rebalance_stats")
    sync = ""
    if totals["median_sync_ms"] is not None:
        sync = (
            f" Leaders took {duration(totals['median_sync_ms'] / 1000)} (median) to assign, and "
            f"{duration(totals['longest_sync_ms'] / 1000)} at most."
        )
    if totals["median_convergence_ms"] is not None:
        sync += (
            f" Epochs of consumer groups took {duration(totals['median_convergence_ms'] / 1000)} (median) "
            f"to converge, and {duration(totals['longest_convergence_ms'] / 1000)} at most."
        )
    text = (
        f"{count(totals['n_rebalances'], 'rebalance').capitalize()} in {count(totals['n_rebalancing'], 'group')}, "
        f"most in {_name(totals['restless_group'])} ({number(totals['restless_rebalances'])}).{sync}"
    )
    return Line(text, "rebalance_stats: kind = 'rebalance', sync_ms, convergence_ms")


def _pauses(gathered: Gathered) -> Line:
    totals = gathered.totals
    longest = totals["longest_pause_ms"]
    emptied = totals["n_emptied"]
    left = (
        f" Groups lost their last member {count(emptied, 'time')}."
        if emptied
        else " No group lost its last member."
    )
    if longest is None:
        return Line("No group with members rebalanced between two commits." + left, "rebalance_stats")
    text = (
        f"The longest time without a commit around a rebalance was {duration(longest / 1000)}, in "
        f"{_name(totals['longest_pause_group'])}.{left}"
    )
    return Line(text, "rebalance_stats: consumption_pause_ms, kind")


def _anomalies(gathered: Gathered) -> Line:
    kinds = gathered.anomaly_kinds
    if not kinds:
        return Line("There are no anomalies.", "anomalies")
    said = listed([count(n, *KINDS.get(kind, (kind, kind))) for kind, n in kinds.items()], len(KINDS))
    text = f"Anomalies in {count(gathered.totals['n_odd'], 'group')}: {said}."
    worst = gathered.worst_anomaly
    if worst is not None:
        text += (
            f" The longest rewind was {count(worst['amount'], 'offset')}, in {_name(worst['group'])} on "
            f"{cut(worst['topic'], _NAME)} {worst['partition']}."
        )
    return Line(text, "anomalies")


def _log(gathered: Gathered) -> Line:
    parts = []
    if gathered.findings:
        kinds = {finding["kind"]: finding["n_of_kind"] for finding in gathered.findings}
        found = listed([f"{shown(kind).replace('_', ' ')} ({number(n)})" for kind, n in kinds.items()], 6)
        parts.append(
            f"The ingest found irregularities of the log: {found}; the end of the report lists them."
        )
    else:
        parts.append("The ingest found no irregularities of the log.")
    if gathered.unknown:
        total = sum(row["n"] for row in gathered.unknown)
        verb = "is" if total == 1 else "are"
        parts.append(f"{count(total, 'record')} of other group protocols {verb} kept but not in this report.")
    return Line(" ".join(parts), "ingest_findings, unknown_records")
