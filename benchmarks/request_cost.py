"""What does one request cost in executed code: Python calls, C calls and bytecodes?

The real server runs in this process, on real files in a temporary directory, without sockets, threads and clocks
(`in_process.py`). Timers that a request waits for are part of its cost; periodic work is not. The counts repeat
exactly, on a busy machine too, so that a change of 1 % is visible. They say nothing of the kernel, of C code and of
caches: a change that is cheaper here still needs a measured rate.

Hold a change to the figures of the commit before it:

    python -m benchmarks.request_cost --compare            all requests beside request_cost.json; 1 if any is dearer
    python -m benchmarks.request_cost --compare commit     only names that contain "commit"
    python -m benchmarks.request_cost commit --functions 20    the functions with the most bytecodes
    python -m benchmarks.request_cost --without-repeat-cache   every request is decoded and handled
    python -m benchmarks.request_cost --write              keep the figures of this version of Python

`--write` belongs into the commit that changes the figures, with its reason. Bounds of the bytecodes are in
`bounds.toml`; `make bench` and `tests/benchmarks/test_request_cost.py` judge them. Bytecodes differ between
minor versions of Python: bounds are those of `BOUND_PYTHON`, and `--compare` needs figures of the version
that runs it.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import CodeType
from typing import Final

from benchmarks.execution_counter import ExecutionCounter, ExecutionCounts
from benchmarks.groups import CONNECTIONS
from benchmarks.in_process import is_native, start_server
from benchmarks.json_command import ROOT, run_json_command
from benchmarks.member import TOPIC
from benchmarks.report import Report
from benchmarks.request_kinds import KINDS, PARTITIONS, RequestKind

AT_ONCE: Final = (1, 10, CONNECTIONS)
"""Requests in one iteration of the event loop, each of another client."""
WARM_UP: Final = 5
"""Uncounted rounds that generate codecs and fill caches."""
ROUNDS: Final = 2
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
BOUND_PYTHON: Final = "3.11"
assert WARM_UP + ROUNDS <= PARTITIONS, "commits of other partitions would repeat"
COMMITTED: Final = Path(__file__).with_suffix(".json")

Costs = dict[str, dict[int, ExecutionCounts]]
"""By the name of the kind and the requests at once: the cost of one request."""


def figure_name(kind: str, at_once: int) -> str:
    """Return the name of a figure in bounds.toml."""
    return f"{kind}, {at_once} at once"


FIGURES: Final = tuple(figure_name(kind, at_once) for kind in KINDS for at_once in AT_ONCE)
"""Bytecodes of one request."""


def count_requests(
    kind: type[RequestKind], clients: int, *, has_repeat_cache: bool = True
) -> ExecutionCounter:
    """Count the executed code of `ROUNDS` rounds on a new server. Raises ValueError if the server refuses a
    request.

    `clients` is the number of clients that send a request in one iteration of the event loop.
    """
    counter = ExecutionCounter(is_native)
    run_rounds(kind, clients, counter, ROUNDS, has_repeat_cache=has_repeat_cache)
    return counter


def run_rounds(
    kind: type[RequestKind],
    clients: int,
    measurement: AbstractContextManager[object],
    rounds: int,
    *,
    has_repeat_cache: bool = True,
    has_control_plane: bool = True,
) -> None:
    """Send requests to a new server: `WARM_UP` rounds, then `rounds` measured ones.

    Args:
        kind: the kind of request.
        clients: the number of clients that send a request in one iteration of the event loop.
        measurement: the context manager around each measured exchange.
        rounds: the number of measured rounds.
        has_repeat_cache: whether the connections cache repeated heartbeats.
        has_control_plane: whether the control plane observes the groups.

    Raises:
        ValueError: the server refuses a request.
    """
    topics = [(TOPIC, PARTITIONS)]
    with start_server(kind.properties, topics, has_control_plane=has_control_plane) as server:
        if not has_repeat_cache:
            server.switch_off_repeat_cache()
        prepared = kind(server)
        for number in range(WARM_UP + rounds):
            _run_round(prepared, clients, number, measurement if number >= WARM_UP else nullcontext())


def _run_round(
    kind: RequestKind, clients: int, round_number: int, measurement: AbstractContextManager[object]
) -> None:
    kind.prepare_round(clients)
    of_clients = [kind.requests(client, round_number) for client in range(clients)]
    for step in zip(*of_clients, strict=True):
        frames = [(kind.clients[client], request.encode()) for client, request in enumerate(step)]
        with measurement:
            answers = kind.server.exchange(frames, kind.passing_ms)
        for request, answer in zip(step, answers, strict=True):
            request.check_answer(answer)


def measure_costs(
    names: Iterable[str], sizes: Sequence[int] = AT_ONCE, *, has_repeat_cache: bool = True
) -> Costs:
    """Return the costs of some kinds. See `count_requests`."""
    costs: Costs = {}
    for name in names:
        costs[name] = {}
        for size in sizes:
            counter = count_requests(KINDS[name], size, has_repeat_cache=has_repeat_cache)
            costs[name][size] = counter.total.divided_by(size * ROUNDS)
    return costs


def measure_in_new_process(*arguments: str, hash_seed: str = "random") -> Costs:
    """Return the costs that a process of its own counts. See `run_json_command`."""
    return _from_json(run_json_command("benchmarks.request_cost", *arguments, hash_seed=hash_seed))


def _to_json(costs: Costs) -> dict[str, dict[str, list[float]]]:
    return {
        name: {str(size): [round(count, 2) for count in cost] for size, cost in sizes.items()}
        for name, sizes in costs.items()
    }


def _from_json(document: Mapping[str, Mapping[str, Sequence[float]]]) -> Costs:
    return {
        name: {int(size): ExecutionCounts(*counts) for size, counts in sizes.items()}
        for name, sizes in document.items()
    }


def committed_costs() -> Costs | None:
    """Return the figures in `COMMITTED`; None where it has none of this version of Python."""
    document = json.loads(COMMITTED.read_text()).get(PYTHON) if COMMITTED.exists() else None
    return None if document is None else _from_json(document)


def write_costs(costs: Costs) -> None:
    """Replace the figures of this version of Python in `COMMITTED`."""
    document = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    document[PYTHON] = _to_json(costs)
    versions = (
        f"{json.dumps(version)}: {{\n{_lines(document[version])}\n }}" for version in sorted(document)
    )
    COMMITTED.write_text("{\n " + ",\n ".join(versions) + "\n}\n")


def _lines(costs: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    return ",\n".join(f"  {json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in costs.items())


async def measure(sizes: Sequence[int] = AT_ONCE) -> Report:
    """Count in a process of its own. Other versions of Python than `BOUND_PYTHON` have no figures to judge."""
    costs = measure_in_new_process("--at-once", *map(str, sizes))
    report = Report(
        "Executed code of a request",
        "Python calls, C calls and bytecodes of one request inside the server, without sockets. 1, 10 or "
        f"{CONNECTIONS} clients send a request in one iteration of the event loop, each for a group of its own on "
        f"a partition of its own; {ROUNDS} rounds after {WARM_UP} that are not counted. The files are real. Timers "
        "that a request waits for are counted, periodic work is not; of the event loop only its calls are "
        "counted, as calls of C functions. The counts are exact and repeat in every process. The transaction is "
        f"three requests and the marker. CPython {PYTHON}; bounds are those of {BOUND_PYTHON}.",
        ["request", "at once", "Python calls", "C calls", "bytecodes"],
        [
            [name, str(size), *(f"{count:,.0f}" for count in cost)]
            for name, of_sizes in costs.items()
            for size, cost in of_sizes.items()
        ],
    )
    if PYTHON == BOUND_PYTHON:
        report.figures = {
            figure_name(name, size): cost.bytecodes
            for name, of_sizes in costs.items()
            for size, cost in of_sizes.items()
        }
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


# The command


def _print_costs(costs: Costs) -> None:
    print(f"{'request':<32}{'at once':>8}{'Python calls':>14}{'C calls':>10}{'bytecodes':>12}")
    for name, sizes in costs.items():
        for size, cost in sizes.items():
            calls, c_calls, bytecodes = cost
            print(f"{name:<32}{size:>8}{calls:>14,.1f}{c_calls:>10,.1f}{bytecodes:>12,.1f}")


def _print_differences(costs: Costs, before: Costs) -> bool:
    """Print the costs that changed. Return whether any request has more bytecodes."""
    dearer = same = 0
    for name, sizes in costs.items():
        for size, cost in sizes.items():
            old = before.get(name, {}).get(size)
            now = ExecutionCounts(*(round(count, 2) for count in cost))
            if old is None:
                print(f"{figure_name(name, size):<46} new: {now.bytecodes:,.1f} bytecodes")
            elif old == now:
                same += 1
            else:
                dearer += now.bytecodes > old.bytecodes
                ratio = now.bytecodes / old.bytecodes
                print(
                    f"{figure_name(name, size):<46}"
                    f" bytecodes {old.bytecodes:>9,.1f} -> {now.bytecodes:>9,.1f} ({ratio:.3f})"
                    f"  Python calls {old.python_calls:,.1f} -> {now.python_calls:,.1f}"
                    f"  C calls {old.c_calls:,.1f} -> {now.c_calls:,.1f}"
                )
    print(f"{same} figures are those of {COMMITTED.name}, {dearer} are higher in bytecodes")
    return dearer > 0


def _print_functions(
    names: Sequence[str], sizes: Sequence[int], most: int, *, has_repeat_cache: bool
) -> None:
    for name in names:
        for size in sizes:
            counter = count_requests(KINDS[name], size, has_repeat_cache=has_repeat_cache)
            print(
                f"\n{figure_name(name, size)}: bytecodes, calls and C calls of each function for one request"
            )
            for code, bytecodes in counter.bytecodes.most_common(most):
                counts = (bytecodes, counter.python_calls[code], counter.c_calls[code])
                columns = "".join(f"{count / size / ROUNDS:>10.1f}" for count in counts)
                print(f"{columns}  {_place(code)}")


def _place(code: CodeType) -> str:
    path = Path(code.co_filename)
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    return f"{shown}:{code.co_firstlineno} {code.co_qualname}"


def main() -> None:
    """Count, then print, compare or keep the costs. Exits with 1 when `--compare` finds a dearer request."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.request_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a request's name; all without one")
    parser.add_argument(
        "--at-once", nargs="+", type=int, default=AT_ONCE, metavar="N", help="default: 1 10 50"
    )
    parser.add_argument("--compare", action="store_true", help="print differences to the committed figures")
    parser.add_argument("--write", action="store_true", help=f"replace the figures in {COMMITTED.name}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--functions", type=int, metavar="N", help="print the N dearest functions of each")
    parser.add_argument(
        "--without-repeat-cache", action="store_true", help="answer no request from the cache"
    )
    arguments = parser.parse_args()
    wanted = [part.lower() for part in arguments.names] or [""]
    names = [name for name in KINDS if any(part in name.lower() for part in wanted)]
    if not names:
        parser.error(f"no request has such a name; there are {', '.join(KINDS)}")
    if not all(0 < size <= CONNECTIONS for size in arguments.at_once):
        parser.error(f"--at-once takes numbers from 1 to {CONNECTIONS}")
    if sys.flags.optimize:
        parser.error("python -O leaves out assertions, so that the counts differ; run it without -O")
    has_repeat_cache = not arguments.without_repeat_cache
    before = committed_costs() if arguments.compare else None
    if arguments.compare and before is None:
        parser.error(f"{COMMITTED.name} has no figures of Python {PYTHON}; write them with --write")
    if arguments.write and (
        len(names) < len(KINDS) or tuple(arguments.at_once) != AT_ONCE or not has_repeat_cache
    ):
        parser.error("--write keeps the figures of all requests: leave out names and other options")
    if arguments.functions:
        _print_functions(names, arguments.at_once, arguments.functions, has_repeat_cache=has_repeat_cache)
        return
    costs = measure_costs(names, arguments.at_once, has_repeat_cache=has_repeat_cache)
    if arguments.json:
        print(json.dumps(_to_json(costs)))
    else:
        _print_costs(costs)
    if arguments.write:
        write_costs(costs)
    if before is not None:
        sys.exit(_print_differences(costs, before))


if __name__ == "__main__":
    main()
