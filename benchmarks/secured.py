"""What do TLS, SASL and 10,000 ACLs cost a heartbeat and a commit?

The listeners of every protocol of groupd and Kafka have the same configuration and get the same requests. A groupd
without security shows the cost of the authorizer.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.commit import COMMIT_VERSION, commit_frame
from benchmarks.comparison import QUANTILES, Pace, Seen, figures, ratios
from benchmarks.connection import encode_frame
from benchmarks.flood import Load, Side, in_turn
from benchmarks.groups import CONNECTIONS, group_names, join_all, speaking
from benchmarks.heartbeat import NEWEST
from benchmarks.member import Member
from benchmarks.peers import KAFKA
from benchmarks.process import Server
from benchmarks.report import Absolute, Report, spread
from benchmarks.secured_servers import (
    ACLS,
    LISTENERS,
    PLAINTEXT,
    SASL_SSL,
    new_certificate,
    open_groupd,
    secured_groupd,
    secured_kafka,
)
from benchmarks.warm_up import method, warm_up_sides
from tests.interop.build import CannotBuild

FULL: Final = Pace(5, 1.0, 8)
LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
GROUPD: Final = "groupd"
OPEN: Final = "groupd without an authorizer"
HEARTBEATS: Final = "heartbeats"
COMMITS: Final = "commits"
REQUESTS: Final = (HEARTBEATS, COMMITS)


def _to_open(request: str, load: Load) -> str:
    return f"{request}, {load}, {PLAINTEXT} to no authorizer"


def _to_kafka(request: str, load: Load) -> str:
    return f"{request}, {load}, {SASL_SSL} to Kafka"


FIGURES: Final = (
    *(_to_open(request, load) for request in REQUESTS for load in LOADS),
    *(_to_kafka(request, load) for request in REQUESTS for load in LOADS),
)


def _frame(member: Member, request: str) -> bytes:
    return commit_frame(member) if request == COMMITS else encode_frame(member.heartbeat_request(), NEWEST)


async def measure(pace: Pace = FULL, *, with_kafka: bool = True) -> Report:
    """Measure all listeners of all servers in turn, heartbeats first."""
    names = group_names(CONNECTIONS)
    with ExitStack() as stack:
        certificate = new_certificate(stack)
        reached = {GROUPD: await secured_groupd(stack, certificate, names)}
        missing = ""
        try:
            if with_kafka:
                reached[KAFKA] = await secured_kafka(stack, certificate, names)
        except CannotBuild as problem:
            missing = f" {KAFKA} is not there ({' '.join(str(problem).split())})."
        without = open_groupd(stack)
        members = {name: await join_all(listening[PLAINTEXT], names) for name, listening in reached.items()}
        members[OPEN] = await join_all(without, names)
        report = _report(pace, missing)
        for request in REQUESTS:
            sides = {OPEN: await _side(without, members[OPEN], request)}
            for listener in LISTENERS:
                for name, listening in reached.items():
                    sides[_side_name(name, listener)] = await _side(
                        listening[listener], members[name], request
                    )
            never = await warm_up_sides(sides, LOADS, pace.windows, pace.seconds)
            report.unsettled += [f"{request}, {each}" for each in never]
            _add(report, request, await in_turn(sides, LOADS, pace.rounds, pace.seconds))
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _side_name(name: str, listener: str) -> str:
    return f"{name}, {listener}"


async def _side(server: Server, members: Sequence[Member], request: str) -> Side:
    return Side(server, await speaking(server, [_frame(member, request) for member in members], 1))


def _add(report: Report, request: str, seen: Seen) -> None:
    """Add the rows and the figures of one request."""
    for load in LOADS:
        without = [_rate(seen, OPEN, load), *_waits(seen, OPEN, load), "", *[""] * len(QUANTILES)]
        report.rows.append([request, str(load), OPEN, *without, "", ""])
        for listener in LISTENERS:
            ours, its = _side_name(GROUPD, listener), _side_name(KAFKA, listener)
            to_kafka = spread(ratios(seen, ours, its, load), ".3g") if (its, load) in seen else ""
            to_open = spread(ratios(seen, ours, OPEN, load), ".3g")
            cells = [
                cell for side in (ours, its) for cell in (_rate(seen, side, load), *_waits(seen, side, load))
            ]
            report.rows.append([request, str(load), listener, *cells, to_kafka, to_open])
    wanted = {_to_open(request, load): (load, _side_name(GROUPD, PLAINTEXT), OPEN) for load in LOADS}
    wanted |= {
        _to_kafka(request, load): (load, _side_name(GROUPD, SASL_SSL), _side_name(KAFKA, SASL_SSL))
        for load in LOADS
    }
    report.figures |= figures(seen, wanted)


def _rate(seen: Seen, side: str, load: Load) -> str:
    """Return the rate; "" for a missing side."""
    runs = seen.get((side, load), ())
    return Absolute(spread([run.per_cpu_second for run in runs], "k")) if runs else ""


def _waits(seen: Seen, side: str, load: Load) -> list[str]:
    """Return the quantiles of latency; "" for a side that is not there, and for several requests in flight."""
    runs = seen.get((side, load), ()) if load.in_flight == 1 else ()
    return [
        Absolute(spread([run.waited_ms(quantile) for run in runs], ".2f")) if runs else ""
        for quantile in QUANTILES
    ]


def _wait_columns(name: str) -> list[str]:
    return [f"{name} {label} ms" for label in QUANTILES.values()]


def _report(pace: Pace, missing: str) -> Report:
    return Report(
        "Heartbeats and commits behind TLS, SASL and ACLs, per server CPU-second",
        "groupd and Kafka with the same listeners (TLS as both like it best, a key of RSA, 2,048 bits; SASL: "
        f"SCRAM-SHA-256), and an authorizer with {ACLS:,} ACLs, of which one on the group and one on the topic "
        f"allow what is asked. {CONNECTIONS} connections with 1 or 32 requests in flight each (Heartbeat "
        f"v{NEWEST}, OffsetCommit v{COMMIT_VERSION} of one partition), each for one group of one member; "
        f"{pace.rounds} rounds of {pace.seconds:g} s, all in turn. `log.flush=os`: the answer waits for the "
        f"write, as Kafka's does. Kafka: a real broker, with the JVM options of its start script.{missing} "
        f"{method(pace.windows)} Latency is seen by the client, with one request in flight.",
        [
            *("requests", "in flight", "listener"),
            *(column for name in (GROUPD, KAFKA) for column in (name, *_wait_columns(name))),
            *("groupd to Kafka", "to no authorizer"),
        ],
    )
