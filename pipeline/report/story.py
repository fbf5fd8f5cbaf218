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
    "slow_revocation": ("member slow to give partitions back", "members slow to give partitions back"),
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
        return "There are no groups."
    lag = f" and were {count(totals['lag'], 'message')} behind in the end" if totals["n_measured"] else ""
    groups, commits = count(totals["n_groups"], "group"), count(totals["commits"], "time")
    return f"Nothing is wrong: {groups} committed {commits}{lag}."


def _name(group: str | None) -> str:
    return cut(group, _NAME)


def _period(gathered: Gathered) -> Line:
    info = gathered.info
    if info["first_record_ts"] is None:
        return Line("The offsets log holds no records yet.", "build_info")
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
        f"all{names}; {number(totals['n_simple'])} never had any."
    )
    if totals["n_consumer_groups"] or totals["n_migrations"]:
        text += (
            f" By then {number(totals['n_consumer_groups'])} followed the consumer protocol (KIP-848); "
            f"{count(totals['n_migrations'] or 0, 'migration')} between the protocols took place."
        )
    return Line(text, "velocity, rebalance_stats, group_kinds")


def _busiest(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["commits"]:
        return Line("Nobody committed anything in this period.", "velocity")
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
        text += f" Of all commits {number(transactional)} ({part}) came in transactions."
    return Line(text, "velocity: commits, advance, transactional_commits")


def _wasted(gathered: Gathered) -> Line:
    totals = gathered.totals
    unmoved = totals["unmoved_commits"]
    if not unmoved:
        return Line("Every commit moved its offset: none was wasted.", "velocity: unmoved_commits")
    text = (
        f"{count(unmoved, 'commit')} of {number(totals['commits'])} ({share(unmoved, totals['commits'])}) repeated "
        f"the offset before; {number(totals['idlest_commits'])} of them came from {_name(totals['idlest_group'])}."
    )
    return Line(text, "velocity: unmoved_commits")


def _lag(gathered: Gathered) -> Line:
    totals = gathered.totals
    if not totals["n_measured"]:
        return Line(
            "Lag is not known, as nobody said where the topics end: --bootstrap or --log-end-offsets can.",
            "lag",
        )
    rest = totals["n_partitions"] - totals["n_measured"]
    unknown = f" Of {count(rest, 'more partition')} the end is not known." if rest else ""
    lost = totals["lost"]
    gone = (
        f" {count(lost, 'message was', 'messages were').capitalize()} deleted before being read."
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
        text = "Nobody was behind." if totals["n_measured"] else "Who is furthest behind is not known either."
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
        f"Furthest behind was {_name(totals['laggard'])} with {count(totals['laggard_lag'], 'message')} "
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
            f" Leaders took {duration(totals['median_sync_ms'] / 1000)} to assign at the median and "
            f"{duration(totals['longest_sync_ms'] / 1000)} at most."
        )
    if totals["median_convergence_ms"] is not None:
        sync += (
            f" Epochs of consumer groups took {duration(totals['median_convergence_ms'] / 1000)} to converge at "
            f"the median and {duration(totals['longest_convergence_ms'] / 1000)} at most."
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
        return Line(
            "No rebalance came between two commits of a group with members." + left, "rebalance_stats"
        )
    text = (
        f"The longest time without a commit around a rebalance was {duration(longest / 1000)}, in "
        f"{_name(totals['longest_pause_group'])}.{left}"
    )
    return Line(text, "rebalance_stats: consumption_pause_ms, kind")


def _anomalies(gathered: Gathered) -> Line:
    kinds = gathered.anomaly_kinds
    if not kinds:
        return Line("Nothing looks wrong: no anomalies.", "anomalies")
    said = listed([count(n, *KINDS.get(kind, (kind, kind))) for kind, n in kinds.items()], len(KINDS))
    text = f"What looks wrong, in {count(gathered.totals['n_odd'], 'group')}: {said}."
    worst = gathered.worst_anomaly
    if worst is not None:
        text += (
            f" The longest way back was {count(worst['amount'], 'offset')}, in {_name(worst['group'])} on "
            f"{cut(worst['topic'], _NAME)} {worst['partition']}."
        )
    return Line(text, "anomalies")


def _log(gathered: Gathered) -> Line:
    parts = []
    if gathered.findings:
        kinds = {finding["kind"]: finding["n_of_kind"] for finding in gathered.findings}
        found = listed([f"{shown(kind).replace('_', ' ')} ({number(n)})" for kind, n in kinds.items()], 6)
        parts.append(f"Reading the log found: {found}; what is affected is listed at the end.")
    else:
        parts.append("The log was read without a finding.")
    if gathered.unknown:
        total = sum(row["n"] for row in gathered.unknown)
        verb = "is" if total == 1 else "are"
        parts.append(f"{count(total, 'record')} of other group protocols {verb} kept but not told here.")
    return Line(" ".join(parts), "ingest_findings, unknown_records")
