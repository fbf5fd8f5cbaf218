"""Through how many files does a reader follow one request?

    python -m benchmarks.paths                     the figures of all paths
    python -m benchmarks.paths explain             only names that contain "explain"
    python -m benchmarks.paths commit --files      the path in order, file by file
    python -m benchmarks.paths join --with-control-plane     with the observers of groups, see below

The request runs in this process (`in_process.py`), after others of its kind have warmed the server up, and
`sys.setprofile` reports each call of a function. The figures are:

files      Product files of which at least one function is called: those of the packages `coordinator`,
           `protocol` and `storage`. Each generated codec is a file of `protocol`, too.
functions  Different functions and methods that are called in these files. A lambda is one.
calls      Calls of them. Each resumption of a generator or coroutine is one.
switches   Calls in another file than the call before. Returns do not count: the next call of the caller is
           compared with the call before it, too.

Not counted are the standard library and other packages; the execution of a module or class body; comprehensions
and generator expressions, which a reader sees in the function around them; methods that `dataclass` and
`NamedTuple` generate; and a file from which the path takes only constants or classes without methods in Python. The
event loop, clocks, transports and threads are replaced by those of `in_process.py`: the flush of a commit is a part
of its path, the loop of the flush thread is not.

The paths are:

OffsetCommit            From the bytes of the request to those of the answer, which waits for the disk (the
                        default of `log.flush`). A classic member commits a new offset of the same partition.
JoinGroup               The same, for a member with a member id that joins an empty classic group. The answer
                        comes after the initial rebalance delay (3 s).
explain in the command  `groupd explain GROUP` from its entry point to its end; standard output is not a terminal.
explain in the daemon   From the bytes of the HTTP request of this command to those of the answer. The group has
                        two members and waits for one of them to join again.

The connection is open before the request. The server has no authorizer, faults, namespaces or group clocks, and
does not answer from its cache of repeated requests. OffsetCommit and JoinGroup run without the control plane
(rebalance ledger, event stream, waits, invariant checks), which observes groups in every daemon but takes no part
in these answers. `--with-control-plane` counts its functions, too.

The counts repeat exactly. Bounds are in `bounds.toml`; `make bench` and `tests/benchmarks/test_paths.py`
judge them.
"""

import argparse
import gc
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, Self

import coordinator
import protocol.codec
import storage
from benchmarks.connection import encode_frame
from benchmarks.in_process import InProcessClient, InProcessServer, complete, start_server
from benchmarks.in_process_http import InProcessHttp, run_command
from benchmarks.json_command import ROOT, run_json_command
from benchmarks.member import JOIN_VERSION, TOPIC, Member
from benchmarks.report import Report
from benchmarks.request_cost import WARM_UP, run_rounds
from benchmarks.request_kinds import PARTITIONS, DurableOffsetCommit, JoinGroup, RequestKind
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse

OFFSET_COMMIT: Final = "OffsetCommit"
JOIN_GROUP: Final = "JoinGroup"
EXPLAIN_IN_COMMAND: Final = "explain in the command"
EXPLAIN_IN_DAEMON: Final = "explain in the daemon"

_PROTOCOL: Final = str(Path(protocol.codec.__file__).parent.relative_to(ROOT))
_PACKAGES: Final = tuple(
    f"{folder}/" for package in (coordinator, protocol, storage) for folder in package.__path__
)
_CODEC: Final = re.compile(r"<((?:decode|encode) .+)>")
"""The file name that `protocol/codec.py` gives to generated code."""
_PARTS_OF_FUNCTIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class Function(NamedTuple):
    """A function of the product; `name` is its qualified name."""

    file: str
    """Relative to the repository."""
    name: str
    line: int


class Visit(NamedTuple):
    """Successive calls of one file."""

    file: str
    functions: Sequence[str]
    """Names, each once, in the order of their first calls."""


@cache
def find_product_function(code: CodeType) -> Function | None:
    """Return the product function of a code object; None for code that is not counted."""
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in _PARTS_OF_FUNCTIONS:
        return None  # modules and class bodies lack CO_OPTIMIZED
    if codec := _CODEC.fullmatch(code.co_filename):
        file = f"{_PROTOCOL}/<{codec[1]}>"
    elif code.co_filename.startswith(_PACKAGES):
        file = str(Path(code.co_filename).relative_to(ROOT))
    else:
        return None
    return Function(file, code.co_qualname, code.co_firstlineno)


class RequestPath:
    """The calls of a request in their order. A context manager that adds the calls of the current thread inside it.

    While one is entered inside another, only the inner one adds calls.
    """

    def __init__(self, calls: Iterable[Function] = ()) -> None:
        self.calls = list(calls)

    def __enter__(self) -> Self:
        self._outer, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # a collection calls finalizers at any time
        sys.setprofile(self._profile)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.setprofile(self._outer)
        if self._collects:
            gc.enable()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (function := find_product_function(frame.f_code)) is not None:
            self.calls.append(function)

    @property
    def figures(self) -> dict[str, int]:
        """The figures by their units."""
        return {
            "files": len({function.file for function in self.calls}),
            "functions": len(set(self.calls)),
            "calls": len(self.calls),
            "switches": sum(before.file != after.file for before, after in pairwise(self.calls)),
        }

    def visits(self) -> Iterator[Visit]:
        """Yield the files as the request comes to them; a file again when it comes back."""
        for file, calls in groupby(self.calls, key=lambda function: function.file):
            yield Visit(file, list(dict.fromkeys(function.name for function in calls)))


# The paths


def _record_request(kind: type[RequestKind], *, has_control_plane: bool) -> RequestPath:
    path = RequestPath()
    run_rounds(kind, 1, path, 1, has_repeat_cache=False, has_control_plane=has_control_plane)
    return path


@cache
def _record_explain() -> Mapping[str, RequestPath]:
    """Record the command and the daemon, which answers it with its control plane, at once."""
    paths = {EXPLAIN_IN_COMMAND: RequestPath(), EXPLAIN_IN_DAEMON: RequestPath()}
    with start_server(RequestKind.properties, [(TOPIC, PARTITIONS)]) as server:
        server.switch_off_repeat_cache()
        command = ("explain", _prepare_rebalance(server))
        http = InProcessHttp(server)
        for _ in range(WARM_UP):
            run_command(http, command, nullcontext(), nullcontext())
        run_command(http, command, paths[EXPLAIN_IN_COMMAND], paths[EXPLAIN_IN_DAEMON])
    return paths


def _prepare_rebalance(server: InProcessServer) -> str:
    """Have the second member of a group join, so that the group waits for the first. Return its name."""
    clients = [InProcessClient(server, number) for number in range(2)]
    first, second = (Member(client, "billing") for client in clients)
    complete(first.join())
    refused = complete(clients[1].request(second.join_request(), JOIN_VERSION, JoinGroupResponse))
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED, refused
    second.member_id = refused.member_id
    server.deliver([(clients[1], encode_frame(second.join_request(), JOIN_VERSION))])
    return second.group_id


PATHS: Final[Mapping[str, Callable[..., RequestPath]]] = {
    OFFSET_COMMIT: partial(_record_request, DurableOffsetCommit),
    JOIN_GROUP: partial(_record_request, JoinGroup),
    EXPLAIN_IN_COMMAND: lambda **_: _record_explain()[EXPLAIN_IN_COMMAND],
    EXPLAIN_IN_DAEMON: lambda **_: _record_explain()[EXPLAIN_IN_DAEMON],
}
"""Functions that take `has_control_plane` and record a path, by its name."""
BOUNDED: Final = ("files", "functions", "switches")
"""Figures that have bounds, by their units."""


def figure_name(path: str, unit: str) -> str:
    """Return the name of a figure in bounds.toml."""
    return f"{path}, {unit}"


FIGURES: Final = tuple(figure_name(path, unit) for path in PATHS for unit in BOUNDED)


def bounded_figures(paths: Mapping[str, RequestPath]) -> dict[str, float]:
    """Return the figures of paths by their names in bounds.toml."""
    return {figure_name(name, unit): path.figures[unit] for name, path in paths.items() for unit in BOUNDED}


def record_in_new_process(*arguments: str, hash_seed: str = "random") -> dict[str, RequestPath]:
    """Return the paths that a process of its own records, by their names. See `run_json_command`."""
    document = run_json_command("benchmarks.paths", *arguments, hash_seed=hash_seed)
    return {name: RequestPath(Function(*call) for call in calls) for name, calls in document.items()}


async def measure() -> Report:
    """Count in a process of its own."""
    paths = record_in_new_process()
    return Report(
        "Files of a request",
        "Product files and functions that one warm request runs through, and how often a call is in another file "
        "than the call before. OffsetCommit waits for the disk, and JoinGroup for the initial rebalance delay; "
        "both are counted without the control plane, which only observes them. A generated codec is one file. "
        "The counts are exact.",
        ["path", "files", "functions", "calls", "switches"],
        [[name, *map(str, path.figures.values())] for name, path in paths.items()],
        bounded_figures(paths),
    )


# The command


def _print_figures(paths: Mapping[str, RequestPath]) -> None:
    print(f"{'path':<28}{'files':>8}{'functions':>11}{'calls':>8}{'switches':>10}")
    for name, path in paths.items():
        files, functions, calls, switches = path.figures.values()
        print(f"{name:<28}{files:>8}{functions:>11}{calls:>8}{switches:>10}")


def _print_files(name: str, path: RequestPath) -> None:
    """Print all visits. A file has a number where the request comes to it for the first time."""
    print(f"\n{name}: " + ", ".join(f"{count} {unit}" for unit, count in path.figures.items()))
    numbers: dict[str, int] = {}
    for visit in path.visits():
        number = "" if visit.file in numbers else str(numbers.setdefault(visit.file, len(numbers) + 1))
        print(f"{number:>4}  {visit.file}: {', '.join(visit.functions)}")


def main() -> None:
    """Record paths and print them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paths",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a path's name; all without one")
    parser.add_argument("--files", action="store_true", help="print each path in order, file by file")
    parser.add_argument("--json", action="store_true", help="print the calls of each path as JSON")
    parser.add_argument(
        "--with-control-plane", action="store_true", help="count the functions that observe groups"
    )
    arguments = parser.parse_args()
    wanted = [part.lower() for part in arguments.names] or [""]
    names = [name for name in PATHS if any(part in name.lower() for part in wanted)]
    if not names:
        parser.error(f"no path has such a name; there are {', '.join(PATHS)}")
    paths = {name: PATHS[name](has_control_plane=arguments.with_control_plane) for name in names}
    if arguments.json:
        print(json.dumps({name: path.calls for name, path in paths.items()}))
        return
    _print_figures(paths)
    if arguments.files:
        for name, path in paths.items():
            _print_files(name, path)


if __name__ == "__main__":
    main()
