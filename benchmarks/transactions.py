"""How many transactions can a second of server CPU commit, and how long does one take?

Each transaction does the work of a stream processor: ten records to one partition, the offset of one partition of
its group, and the commit. A producer begins the next one after the EndTxn response, before all markers are written.
Both servers make it retry at intervals of `add.partitions.to.txn.retry.backoff.ms`, so a single producer mostly
waits. Apache Kafka acknowledges records in the page cache, as `log.flush=os` does.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.commit import ALWAYS, FLUSH, OPTIONS, PAGE_CACHE
from benchmarks.comparison import FULL, QUANTILES, Pace, figures, latency_ratios, ratios
from benchmarks.connection import Connection
from benchmarks.flood import Load
from benchmarks.groups import CONNECTIONS, OFFSETS_PARTITIONS, group_names, join_all
from benchmarks.member import TOPIC
from benchmarks.peers import KAFKA, Peers, start_peers
from benchmarks.process import Server, groupd
from benchmarks.producer import BACKOFF_SECONDS, RECORDS, VALUE, Producer, Transacted, keep_transacting
from benchmarks.report import Absolute, Report, spread
from benchmarks.warm_up import IN_A_ROW, METHOD, warm_up

LOADS: Final = (Load(1, 1), Load(CONNECTIONS, 1))
PARTITIONS: Final = 6
_MANY: Final = LOADS[-1]
RATES: Final = {
    f"{_MANY}, always to Kafka": (_MANY, ALWAYS, KAFKA),
    f"{_MANY}, os to Kafka": (_MANY, PAGE_CACHE, KAFKA),
}
LATENCIES: Final = {f"{_MANY}, {label} of os to Kafka": quantile for quantile, label in QUANTILES.items()}
FIGURES: Final = (*RATES, *LATENCIES)

Seen = Mapping[tuple[str, Load], Sequence[Transacted]]


class _Side:
    """A compared server, with producers that have their ids."""

    def __init__(self, server: Server, producers: Sequence[Producer]) -> None:
        self._server = server
        self._producers = producers

    @classmethod
    async def open(cls, server: Server, groups: Sequence[str]) -> "_Side":
        """Create a producer for each group; a group has one member."""
        producers = []
        for number, member in enumerate(await join_all(server, groups)):
            member.connection.transport.abort()
            producers.append(Producer(await Connection.open(server), member, number % PARTITIONS))
        await asyncio.gather(*(producer.begin() for producer in producers))
        return cls(server, producers)

    async def window(self, load: Load, seconds: float) -> Transacted:
        """Run transactions with one producer per connection of the load."""
        return await keep_transacting(self._server, self._producers[: load.connections], seconds)


async def measure(pace: Pace = FULL, others: Sequence[str] = (KAFKA,)) -> Report:
    """Measure all servers in turn with each number of producers."""
    groups = group_names(CONNECTIONS)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(groupd(*OPTIONS, "-o", f"log.flush={flush}"))
            for name, flush in FLUSH.items()
        }
        peers = await start_peers(stack, others, TOPIC, groups)
        servers |= peers.servers
        report = _report(peers, pace)
        sides = {name: await _Side.open(server, groups) for name, server in servers.items()}
        await _warm_up(report, sides, pace)
        seen: dict[tuple[str, Load], list[Transacted]] = {}
        for _ in range(pace.rounds):
            for load in LOADS:
                for name, side in sides.items():
                    seen.setdefault((name, load), []).append(await side.window(load, pace.seconds))
    report.rows = [_row(seen, name, load) for load in LOADS for name in sides]
    report.figures = figures(seen, RATES)
    if KAFKA in sides:
        for figure, quantile in LATENCIES.items():
            report.figures[figure] = median(latency_ratios(seen, PAGE_CACHE, KAFKA, _MANY, quantile))
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


async def _warm_up(report: Report, sides: Mapping[str, _Side], pace: Pace) -> None:
    for name, side in sides.items():
        for load in reversed(LOADS):

            async def window(side: _Side = side, load: Load = load) -> float:
                return (await side.window(load, pace.seconds)).per_cpu_second

            warmed = await warm_up(window, pace.windows)
            if not warmed.is_settled:
                report.unsettled.append(f"{name} at {load} ({warmed})")
    if pace.windows < IN_A_ROW:
        report.unsettled = ["all of them, for want of time"]


def _row(seen: Seen, name: str, load: Load) -> list[str]:
    runs = seen[name, load]
    cells = [
        spread([run.per_second for run in runs], ".0f"),
        spread([run.per_cpu_second for run in runs], ".0f"),
        f"{max(run.cpu_share for run in runs):.0%}",
        *(spread([run.waited_ms(quantile) for run in runs], ".1f") for quantile in QUANTILES),
    ]
    to_it = ["" if name in FLUSH else spread(ratios(seen, mine, name, load), ".2f") for mine in FLUSH]
    again = spread([run.asked_again for run in runs], ".2f")
    return [str(load.connections), name, *map(Absolute, cells), again, *to_it]


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Transactions per server CPU-second",
        f"Producers, one connection each, with one transaction after the other: {RECORDS} records of {len(VALUE)} "
        f"bytes to one of {PARTITIONS} partitions (Produce v12, which adds the partition), the offset of one "
        "partition for a group of one member (TxnOffsetCommit v5, which adds the group), EndTxn v5, each sent "
        f"when the one before is answered. Ids and groups lie on all {OFFSETS_PARTITIONS} partitions of their "
        "topics. The producer is refused while its last transaction has not ended everywhere, and asks again "
        f"after {BACKOFF_SECONDS * 1000:.0f} ms; so does the server, out of its sight. {pace.rounds} rounds of "
        f"{pace.seconds:g} s, the servers in turn. `always`: what is answered waits for fdatasync; `os`: it "
        "waits for the write, as Kafka's does. Kafka: a real broker, with the JVM options of its start "
        f"script.{peers.left_out} {METHOD} Latency is seen by the client, from the first request of a "
        "transaction to the answer to its last. Busy: the server's share of one core. The last two columns "
        "compare transactions per CPU-second.",
        [
            *("producers", "server", "a second", "per CPU-second", "busy", "p50 ms", "p99 ms", "refused"),
            *(f"{name} to it" for name in FLUSH),
        ],
    )
