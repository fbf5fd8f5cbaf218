"""How long does a commit take while clients commit at a rate of their own, well below what the server can do?"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.commit import ALWAYS, COMMIT_VERSION, PAGE_CACHE, start_committing
from benchmarks.comparison import QUANTILES, Pace
from benchmarks.flood import Load, Side, waited_ms
from benchmarks.groups import CONNECTIONS, OFFSETS_PARTITIONS, SHARES, speaking
from benchmarks.open_loop import Offered, Plan, offer_to
from benchmarks.peers import KAFKA, KFAKE, MOCK, Peers
from benchmarks.report import Absolute, Report, spread
from benchmarks.warm_up import METHOD, MOST_WINDOWS, warm_up_sides

PER_SECOND: Final = 2_000
FULL: Final = Pace(5, 10.0, MOST_WINDOWS)
QUICK: Final = Pace(1, 0.5, 1)
WINDOW_SECONDS: Final = 1.0
FLOOD: Final = Load(CONNECTIONS, 1)
OTHERS: Final = (MOCK, KFAKE, KAFKA)
SHARE: Final = max(SHARES)
RATIOS: Final = {f"{label} of always to os": quantile for quantile, label in QUANTILES.items()}
FIGURES: Final = tuple(RATIOS)


async def measure(pace: Pace = FULL, others: Sequence[str] = OTHERS) -> Report:
    """Rounds of all servers in turn, each warm."""
    plan = Plan(PER_SECOND, pace.seconds, CONNECTIONS)
    seen: dict[str, list[Offered]] = {}
    busy: dict[str, list[float]] = {}
    with ExitStack() as stack:
        frames, peers = await start_committing(stack, others)
        report = _report(peers, pace)
        sides = {
            name: Side(server, await speaking(server, each, SHARE)) for name, (server, each) in frames.items()
        }
        report.unsettled = await warm_up_sides(sides, [FLOOD], pace.windows, WINDOW_SECONDS)
        for _ in range(pace.rounds):
            for name, side in sides.items():
                before = side.server.cpu_seconds()
                seen.setdefault(name, []).append(await asyncio.to_thread(offer_to, side, plan))
                busy.setdefault(name, []).append((side.server.cpu_seconds() - before) / pace.seconds)
    for name, runs in seen.items():
        waits = [spread(_waits(runs, quantile), ".2f") for quantile in QUANTILES]
        late = spread([waited_ms(run.late, 0.99) for run in runs], ".2f")
        to_os = [_to_os(seen, name, quantile) if name != PAGE_CACHE else [] for quantile in QUANTILES]
        cells = [*waits, late, f"{max(busy[name]):.0%}"]
        report.rows.append(
            [name, *map(Absolute, cells), *(spread(each, ".2f") if each else "" for each in to_os)]
        )
    report.figures = {figure: median(_to_os(seen, ALWAYS, quantile)) for figure, quantile in RATIOS.items()}
    return report


def _waits(runs: list[Offered], quantile: float) -> list[float]:
    return [waited_ms(run.latencies, quantile) for run in runs]


def _to_os(seen: dict[str, list[Offered]], name: str, quantile: float) -> list[float]:
    pairs = zip(_waits(seen[name], quantile), _waits(seen[PAGE_CACHE], quantile), strict=True)
    return [mine / its for mine, its in pairs]


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Commits at a fixed rate",
        f"{PER_SECOND:,} commits a second (OffsetCommit v{COMMIT_VERSION}) over {CONNECTIONS} connections, "
        f"each for four groups in turn, which lie on all {OFFSETS_PARTITIONS} offsets partitions; "
        f"{pace.rounds} rounds of {pace.seconds:g} s, the servers in turn.{peers.left_out} Every commit has "
        "its time before the round begins, and its latency counts from then (an open loop), so that a "
        "stall is seen by all commits that it held up. Sent late: how much of that p99 is the load "
        f"generator's own. {METHOD} What it was warmed up with is {FLOOD} in flight, the closed loop of the "
        "other benchmarks. Busy: the server's share of one core.",
        ["server", "p50 ms", "p99 ms", "sent late, p99 ms", "busy", "p50 to os", "p99 to os"],
    )
