"""`python -m benchmarks [NAME …] [--quick]`: measure and write RESULTS.md. Takes an hour.

Ends with what lies outside of its bounds (bounds.toml), and with 1 if anything does.
"""

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import uvloop

from benchmarks import (
    cluster,
    cluster_load,
    commit,
    commit_offsets,
    compaction,
    comparison,
    consumer_heartbeat,
    consumer_join,
    health,
    heartbeat,
    load,
    memory,
    namespaces,
    offered_rate,
    paths,
    pipeline,
    pipeline_scale,
    produce_fetch,
    rebalance,
    reconnects,
    request_cost,
    secured,
    startup,
    takeover,
    transactions,
)
from benchmarks.bounds import BadBounds, Bound, Judged, judge, read_bounds, table
from benchmarks.neighbours import Neighbours
from benchmarks.peers import KFAKE, MOCK, WITHOUT_KAFKA
from benchmarks.report import Report, write_result

FULL: Final[dict[str, Callable[[], Awaitable[Report]]]] = {
    "request_cost": request_cost.measure,
    "paths": paths.measure,
    "startup": startup.measure,
    "namespaces": namespaces.measure,
    "health": health.measure,
    "heartbeat": heartbeat.measure,
    "commit": commit.measure,
    "commit_offsets": commit_offsets.measure,
    "produce_fetch": produce_fetch.measure,
    "cluster": cluster.measure,
    "cluster_load": cluster_load.measure,
    "takeover": takeover.measure,
    "offered_rate": offered_rate.measure,
    "transactions": transactions.measure,
    "secured": secured.measure,
    "reconnects": reconnects.measure,
    "rebalance": rebalance.measure,
    "consumer_heartbeat": consumer_heartbeat.measure,
    "consumer_join": consumer_join.measure,
    "memory": memory.measure,
    "load": load.measure,
    "compaction": compaction.measure,
    "pipeline": pipeline.measure,
    "pipeline_scale": lambda: pipeline_scale.measure(pipeline_scale.SMALL),
}
QUICK: Final[dict[str, Callable[[], Awaitable[Report]]]] = {
    "request_cost": lambda: request_cost.measure((1, 10)),
    "paths": paths.measure,
    "startup": lambda: startup.measure(runs=3),
    "namespaces": lambda: namespaces.measure(20, 1),
    "health": lambda: health.measure(runs=3),
    "heartbeat": lambda: heartbeat.measure(comparison.QUICK, WITHOUT_KAFKA),
    "commit": lambda: commit.measure(comparison.QUICK),
    "commit_offsets": lambda: commit_offsets.measure(comparison.QUICK, (KFAKE,)),
    "produce_fetch": lambda: produce_fetch.measure(comparison.QUICK, ()),
    "cluster": lambda: cluster.measure(comparison.QUICK, with_kafka=False),
    "cluster_load": lambda: cluster_load.measure(20_000, 1),
    "takeover": lambda: takeover.measure(2, 1, with_kafka=False),
    "offered_rate": lambda: offered_rate.measure(offered_rate.QUICK, (MOCK, KFAKE)),
    "transactions": lambda: transactions.measure(comparison.QUICK, ()),
    "secured": lambda: secured.measure(comparison.QUICK, with_kafka=False),
    "reconnects": lambda: reconnects.measure(comparison.QUICK, 50, with_kafka=False),
    "rebalance": lambda: rebalance.measure(1, 1, (KFAKE,)),
    "consumer_heartbeat": lambda: consumer_heartbeat.measure(comparison.QUICK, (KFAKE,)),
    "consumer_join": lambda: consumer_join.measure(1, 1, (KFAKE,)),
    "memory": lambda: memory.measure(groups=20, consumer_groups=8),
    "load": lambda: load.measure(sizes=(20_000,), rounds=1),
    "compaction": lambda: compaction.measure(commits=150_000, rounds=1, seconds=0.5),
    "pipeline": lambda: pipeline.measure(commits=20_000, rounds=1),
    "pipeline_scale": lambda: pipeline_scale.measure(commits=20_000),
}


FIGURES: Final[dict[str, Sequence[str]]] = {
    "request_cost": request_cost.FIGURES,
    "paths": paths.FIGURES,
    "startup": startup.FIGURES,
    "namespaces": namespaces.FIGURES,
    "health": health.FIGURES,
    "heartbeat": heartbeat.FIGURES,
    "commit": commit.FIGURES,
    "commit_offsets": commit_offsets.FIGURES,
    "produce_fetch": produce_fetch.FIGURES,
    "cluster": cluster.FIGURES,
    "cluster_load": cluster_load.FIGURES,
    "takeover": takeover.FIGURES,
    "offered_rate": offered_rate.FIGURES,
    "transactions": transactions.FIGURES,
    "secured": secured.FIGURES,
    "reconnects": reconnects.FIGURES,
    "rebalance": rebalance.FIGURES,
    "consumer_heartbeat": consumer_heartbeat.FIGURES,
    "consumer_join": consumer_join.FIGURES,
    "memory": memory.FIGURES,
    "load": load.FIGURES,
    "compaction": compaction.FIGURES,
    "pipeline": pipeline.FIGURES,
    "pipeline_scale": pipeline_scale.FIGURES,
}
"""What each benchmark measures that may have a bound."""


async def _measure(names: list[str], bounds: list[Bound], quick: bool) -> list[Judged]:
    judged: list[Judged] = []
    for name in names:
        neighbours, began = Neighbours(), time.monotonic()
        report = await (QUICK if quick else FULL)[name]()
        print(report.markdown(neighbours.stolen), flush=True)
        print(f"({name}: {time.monotonic() - began:.0f} s)\n", flush=True)
        if not quick:
            own = [bound for bound in bounds if bound.benchmark == name]
            verdicts = judge(own, report.figures, report.absent, neighbours.stolen)
            write_result(report, neighbours, verdicts)
            judged += verdicts
    return judged


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*FULL, []], metavar="NAME", help=", ".join(FULL))
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; writes nothing")
    arguments = parser.parse_args()
    try:
        bounds = read_bounds(FIGURES)
    except BadBounds as error:
        parser.error(str(error))
    judged = uvloop.run(_measure(arguments.names or list(FULL), bounds, arguments.quick))
    if arguments.quick:
        print("a quick run shows that all of it works; its figures are neither kept nor judged")
    else:
        print(*table(judged), sep="\n")
    sys.exit(any(one.verdict.is_failure for one in judged))


if __name__ == "__main__":
    main()
