"""The repository's own rules, checked on every file: sizes, names, and the modules that may call the outside world.

Each rule is a function from a file to the lines that break it. The same functions run on small samples
that break the rule, so that a rule which no longer sees anything fails here too.
"""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

import pytest

import tests
from tests.tooling.prose import count_habits, folder_of, python_prose, short_docstrings

ROOT = Path(tests.__file__).parents[1]
DAEMON = ("protocol", "storage", "coordinator")
SYNCHRONOUS = (
    "protocol/", "storage/", "coordinator/group/", "coordinator/transactions/",
)  # fmt: skip
CLOCK = "coordinator/core/clock.py"
TIME_BUDGET = "coordinator/core/time_budget.py"
SLICE_OF_ITS_OWN = "coordinator/broker/log_cleaner.py"
"""The log cleaner pauses after 2 ms, so that compaction takes a small share of the loop."""
FILES = ("storage/files.py", "coordinator/http/index_page.py")
ASYNC_FILES = "coordinator/core/async_files.py"
KNOWS_CLASS_NAMES = (
    "coordinator/core/wire_name.py",
    "coordinator/config/config_def.py",
    "coordinator/cli/wire/",
)
PRODUCT = (*DAEMON, "pipeline", "distribution", "clients")
ERROR_MESSAGES = "protocol/error_messages.py"
"""Kafka's own sentences."""
REPLAYS = (
    "coordinator/runtime/",
    "coordinator/group/consumer/group_conversion.py",  # a store of its own, for the records of a conversion
    "coordinator/group/group_export.py",  # a new shard, from the records of an export
    "coordinator/group/group_invariants.py",  # a copy, for comparison
    "coordinator/topics/kafka_metadata_log.py",  # the metadata log of a Kafka cluster: no machine
)
"""May apply records."""
KAFKA_CLASS_NAMES = "protocol/messages/"
"""Parts of messages have Kafka's names, which repeat from message to message."""
SHARED_CLASS_NAMES = {
    "Connection", "Context", "Fault", "Finding", "Group", "Member", "Problem", "Settings",
    "Severity",
}  # fmt: skip
"""Names that several classes of the product have: each is public in `groupd_client` or occurs in the pipeline. A
change may only take names out."""
MAX_SHARED_CLASS_NAMES = 15
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
POSTPONED = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")
CLOCK_CALLS = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "time.sleep", "datetime.now", "datetime.utcnow", "datetime.datetime.now",
    "date.today",
}  # fmt: skip
FILE_CALLS = {
    "open", "io.open", "os.open", "os.write", "os.pwrite", "os.read", "os.pread", "os.fsync", "os.fdatasync",
    "os.replace", "os.rename", "os.remove", "os.unlink", "os.mkdir", "os.makedirs", "shutil.rmtree",
}  # fmt: skip
REFERENCE = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)+:[a-z_]\w*")
FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root and its text."""

    path: str
    text: str

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[Any]]:
        """The nodes of its syntax tree by type: one walk for all rules."""
        found: dict[type[ast.AST], list[Any]] = {}
        waiting: list[ast.AST] = [ast.parse(self.text)]
        while waiting:
            node = waiting.pop()
            found.setdefault(type(node), []).append(node)
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    waiting += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    waiting.append(value)
        return found

    def find(self, *types: type[Node]) -> Iterator[Node]:
        """The nodes of these types."""
        for each in types:
            yield from self.nodes.get(each, ())


Rule = Callable[[Source], Iterator[str]]


@dataclass(frozen=True)
class Examination:
    """The results of all files: the lines that break each rule, the files of each class of the product, and by
    folder the habits of its prose and, of the product, the docstrings that are too short."""

    problems: dict[Rule, list[str]]
    classes: dict[str, list[str]]
    habits: Counter[str]
    short_docstrings: Counter[str]


def python_files() -> list[Path]:
    roots = (*PRODUCT, "release", "tests", "benchmarks", "docker", "docs")
    found = [ROOT / "hatch_build.py", *(path for root in roots for path in (ROOT / root).rglob("*.py"))]
    return sorted(path for path in found if not {"node_modules", "build"} & set(path.relative_to(ROOT).parts))


@cache
def examine_files() -> Examination:
    """Apply all rules to all files.

    Syntax trees are not kept: hundreds of megabytes would slow down the garbage collector of every later test.
    """
    found = Examination({rule: [] for rule in RULES}, defaultdict(list), Counter(), Counter())
    files = python_files()
    assert len(files) > 50
    for path in files:
        source = Source(path.relative_to(ROOT).as_posix(), path.read_text())
        for rule, problems in found.problems.items():
            problems += rule(source)
        for name in defined_classes(source):
            found.classes[name].append(source.path)
        folder = folder_of(source.path)
        if source.path != ERROR_MESSAGES:
            found.habits[folder] += sum(map(count_habits, python_prose(source.nodes, source.text)))
        if source.path.split("/")[0] in PRODUCT:
            found.short_docstrings[folder] += len(short_docstrings(source.nodes))
    return found


def defined_classes(source: Source) -> Iterator[str]:
    """The classes of a file of the product. A leading underscore does not make a name another one."""
    if source.path.split("/")[0] in PRODUCT and not source.path.startswith(KAFKA_CLASS_NAMES):
        yield from (node.name.lstrip("_") for node in source.find(ast.ClassDef))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute chain; what is neither gives an empty first part."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def plain_names(source: Source) -> dict[str, str]:
    """What names brought in by `from x import y` or `import x as y` stand for."""
    names: dict[str, str] = {}
    for node in source.find(ast.ImportFrom):
        if node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for plain in source.find(ast.Import):
        names |= {alias.asname: alias.name for alias in plain.names if alias.asname}
    return names


def calls(source: Source) -> Iterator[tuple[int, str]]:
    names = plain_names(source)
    for node in source.find(ast.Call):
        first, dot, rest = dotted(node.func).partition(".")
        yield node.lineno, names.get(first, first) + dot + rest


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """By any statement or call."""
    for node in source.find(ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    for taken in source.find(ast.ImportFrom):
        yield from ((taken.lineno, f"{taken.module}.{alias.name}") for alias in taken.names)
    for call in source.find(ast.Call):
        if dotted(call.func).endswith("import_module"):
            yield from ((call.lineno, str(of.value)) for of in call.args if isinstance(of, ast.Constant))


def in_daemon(source: Source) -> bool:
    return source.path.split("/")[0] in DAEMON


def long_files(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{source.path}: {lines} lines"


def long_functions(source: Source) -> Iterator[str]:
    if source.text.count("\n") < MAX_FUNCTION_LINES:
        return  # not worth parsing
    functions: Iterator[ast.FunctionDef | ast.AsyncFunctionDef] = source.find(
        ast.FunctionDef, ast.AsyncFunctionDef
    )
    for node in functions:
        assert node.end_lineno is not None
        lines = node.end_lineno - node.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{source.path}:{node.lineno}: {node.name} has {lines} lines"


def vague_names(source: Source) -> Iterator[str]:
    parts = source.path.removesuffix(".py").split("/")
    if VAGUE_NAMES & set(parts):
        yield f"{source.path}: says nothing about what is inside"


def postponed_work(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if any(mark in line for mark in POSTPONED):
            yield f"{source.path}:{number}: {line.strip()}"


def clock_calls(source: Source) -> Iterator[str]:
    if in_daemon(source) and source.path != CLOCK:
        for line, name in calls(source):
            if name in CLOCK_CALLS or name.endswith("loop.time"):
                yield f"{source.path}:{line}: {name}"


def second_slices(source: Source) -> Iterator[str]:
    """How long work may take in an iteration of the loop is defined once. A file may neither define another slice
    nor compare a duration with its own number of nanoseconds."""
    if not source.path.startswith("coordinator/") or source.path in (TIME_BUDGET, SLICE_OF_ITS_OWN):
        return
    targets = [target for node in source.find(ast.Assign) for target in node.targets]
    targets += [node.target for node in source.find(ast.AnnAssign)]
    for target in targets:
        if re.fullmatch(r"\w*SLICE_(NS|US|MS|S)", dotted(target)):
            yield f"{source.path}:{target.lineno}: {dotted(target)}"
    for compared in source.find(ast.Compare):
        sides = [compared.left, *compared.comparators]
        called = [
            dotted(call.func) for side in sides for call in ast.walk(side) if isinstance(call, ast.Call)
        ]
        numbers = [side for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, int)]
        if numbers and any(name.endswith(("monotonic_ns", "monotonic_ms")) for name in called):
            yield f"{source.path}:{compared.lineno}: a duration is compared with a number"


def file_calls(source: Source) -> Iterator[str]:
    if in_daemon(source) and source.path not in FILES:
        for line, name in calls(source):
            if name in FILE_CALLS or name.rpartition(".")[2] in FILE_METHODS:
                yield f"{source.path}:{line}: {name}"


def asynchronous_files(source: Source) -> Iterator[str]:
    """aiofiles opens files itself where nobody sees it: all that is taken of it is what runs a call of `Files`."""
    if not in_daemon(source):
        return
    for line, name in imports(source):
        is_wrap = source.path == ASYNC_FILES and name == "aiofiles.os.wrap"
        if name.split(".")[0] == "aiofiles" and not is_wrap:
            yield f"{source.path}:{line}: {name}"


def asynchronous_functions(source: Source) -> Iterator[str]:
    if source.path.startswith(SYNCHRONOUS):
        for node in source.find(ast.AsyncFunctionDef):
            yield f"{source.path}:{node.lineno}: async def {node.name}"


def numbered_errors(source: Source) -> Iterator[str]:
    """A message with `[Errno 13]`, the text of an OSError in Python's form."""
    if not source.path.startswith((*DAEMON, "pipeline")):
        return
    for handler in source.find(ast.ExceptHandler):
        if handler.name is None or handler.type is None:
            continue
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if "OSError" not in map(dotted, caught):
            continue
        for node in ast.walk(handler):
            shown: list[ast.expr] = []
            if isinstance(node, ast.FormattedValue):
                shown = [node.value]
            elif isinstance(node, ast.Call) and dotted(node.func).startswith(
                ("str", "repr", "print", "_LOG.")
            ):
                shown = node.args
            for value in shown:
                if isinstance(value, ast.Name) and value.id == handler.name:
                    yield f"{source.path}:{value.lineno}: {value.id} is shown without storage.storage_errors"


def swallowed_errors(source: Source) -> Iterator[str]:
    if not in_daemon(source):
        return
    for node in source.find(ast.ExceptHandler):
        if dotted(node.type or ast.Name("BaseException")) in ("Exception", "BaseException") and all(
            isinstance(statement, ast.Pass | ast.Continue) for statement in node.body
        ):
            yield f"{source.path}:{node.lineno}: an exception vanishes"


def handmade_error_responses(source: Source) -> Iterator[str]:
    """A whole response with an error: `protocol/error_response.py` knows its form in each version.

    The rule sees errors that are named in the call, not those in variables.
    """
    if not source.path.startswith("coordinator/"):
        return
    for node in source.find(ast.Call):
        errors = [dotted(each.value) for each in node.keywords if each.arg == "error_code"]
        named = [error for error in errors if error.startswith("ErrorCode.") and error != "ErrorCode.NONE"]
        if named and dotted(node.func).endswith("Response"):
            yield f"{source.path}:{node.lineno}: {dotted(node.func)} without protocol.error_response"


def replays_outside_of_runtime(source: Source) -> Iterator[str]:
    """Only the runtime applies records to the state of a machine: those of an outcome, and those of the log.

    A method that is called `replay` may pass a record on.
    """
    if not source.path.startswith("coordinator/") or source.path.startswith(REPLAYS):
        return
    passes_on = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in source.find(ast.FunctionDef)
        if node.name.lstrip("_").startswith("replay")
    ]
    for node in source.find(ast.Call):
        is_replay = isinstance(node.func, ast.Attribute) and node.func.attr == "replay"
        if is_replay and not any(node.lineno in lines for lines in passes_on):
            yield f"{source.path}:{node.lineno}: write the record with OutcomeBuilder.write_fact"


def class_names(source: Source) -> Iterator[str]:
    """Classes leave the process under their wire names, and messages of Kafka under Kafka's names.

    Errors for programmers may name a class.
    """
    if not source.path.startswith("coordinator/") or source.path.startswith(KNOWS_CLASS_NAMES):
        return
    for node in source.find(ast.Attribute):
        if node.attr in ("__name__", "__qualname__", "__module__"):
            yield f"{source.path}:{node.lineno}: {node.attr} is used without coordinator.core.wire_name"


def dangling_references(source: Source) -> Iterator[str]:
    """Type checkers do not read references."""
    if not source.path.startswith("coordinator/"):
        return
    for node in source.find(ast.Constant):
        if isinstance(node.value, str) and REFERENCE.fullmatch(node.value):
            try:
                resolve_name(f"coordinator.{node.value}")
            except (ImportError, AttributeError) as error:
                yield f"{source.path}:{node.lineno}: {error}"


@cache
def layered_modules() -> frozenset[str]:
    """The modules that the layers in pyproject.toml name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    return frozenset(name.strip() for layer in layers for name in re.split("[|:]", layer))


def modules_without_layer(source: Source) -> Iterator[str]:
    """A module that no layer names, by itself or by its package, may import everything."""
    if not source.path.startswith("coordinator/") or source.path.endswith("/__init__.py"):
        return
    parts = source.path.removesuffix(".py").split("/")
    packages = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    if not packages & layered_modules():
        yield f"{source.path} is in no layer of pyproject.toml"


BROKEN: list[tuple[Rule, str, str]] = [
    (long_files, "storage/log.py", "a = 1\n" * (MAX_FILE_LINES + 1)),
    (long_files, "pipeline/rows.py", "a = 1\n" * (MAX_FILE_LINES + 1)),
    (long_files, "tests/log.py", "a = 1\n" * (MAX_FILE_LINES + 1)),
    (long_functions, "storage/log.py", "def f():\n" + "    a = 1\n" * MAX_FUNCTION_LINES),
    (vague_names, "coordinator/utils.py", ""),
    (vague_names, "coordinator/common/state.py", ""),
    (postponed_work, "storage/log.py", f"a = 1  # {POSTPONED[0]} later\n"),
    (clock_calls, "coordinator/runtime/coordinator_partition.py", "import time\ntime.monotonic()\n"),
    (clock_calls, "coordinator/runtime/coordinator_partition.py", "from time import monotonic as m\nm()\n"),
    (clock_calls, "coordinator/runtime/coordinator_partition.py", "self.loop.time()\n"),
    (second_slices, "coordinator/runtime/timers.py", "SLICE_MS: Final = 5\n"),
    (second_slices, "coordinator/runtime/timers.py", "_SLICE_NS = 2_000_000\n"),
    (second_slices, "coordinator/http/page.py", "if clock.monotonic_ns() - began_ns > 5_000_000:\n    f()\n"),
    (file_calls, "coordinator/config.py", "open('x')\n"),
    (file_calls, "coordinator/config.py", "import os\nos.fsync(1)\n"),
    (file_calls, "coordinator/config.py", "from pathlib import Path\nPath('x').read_text()\n"),
    (asynchronous_files, "coordinator/runtime/partition_loader.py", "import aiofiles\n"),
    (asynchronous_files, "coordinator/runtime/partition_loader.py", "import aiofiles.os as files\n"),
    (
        asynchronous_files,
        "coordinator/runtime/partition_loader.py",
        "def f():\n    from aiofiles.os import wrap\n",
    ),
    (asynchronous_files, "coordinator/runtime/partition_loader.py", "importlib.import_module('aiofiles')\n"),
    (asynchronous_files, ASYNC_FILES, "from aiofiles.os import wrap, replace\n"),
    (asynchronous_files, ASYNC_FILES, "from aiofiles import open\n"),
    (asynchronous_functions, "storage/log.py", "async def f(): ...\n"),
    (numbered_errors, "storage/log.py", "try:\n    f()\nexcept OSError as e:\n    g(f'no: {e}')\n"),
    (numbered_errors, "pipeline/log.py", "try:\n    f()\nexcept (A, OSError) as e:\n    g(str(e))\n"),
    (numbered_errors, "storage/log.py", "try:\n    f()\nexcept OSError as e:\n    _LOG.error('%s', e)\n"),
    (swallowed_errors, "storage/log.py", "try:\n    f()\nexcept Exception:\n    pass\n"),
    (swallowed_errors, "storage/log.py", "try:\n    f()\nexcept:\n    pass\n"),
    (
        handmade_error_responses,
        "coordinator/apis/find_coordinator.py",
        "FindCoordinatorResponse(error_code=ErrorCode.NOT_COORDINATOR)\n",
    ),
    (
        replays_outside_of_runtime,
        "coordinator/group/offsets/group_offset_commit.py",
        "def commit(store):\n    store.replay(key, value, -1)\n",
    ),
    (class_names, "coordinator/control/stream.py", "kind = type(event).__name__\n"),
    (
        dangling_references,
        "coordinator/cli/log.py",
        "SUBCOMMANDS = {'ping': 'cli.ping:comand'}\n",
    ),
    (dangling_references, "coordinator/cli/log.py", "COMMAND = 'cli.pin:command'\n"),
    (
        class_names,
        "coordinator/control/recording/json_codec.py",
        "tag = f'{cls.__module__}.{cls.__qualname__}'\n",
    ),
    (modules_without_layer, "coordinator/core/event_order.py", ""),
    (modules_without_layer, "coordinator/shapes/square.py", ""),
]
RULES = sorted({rule for rule, _, _ in BROKEN}, key=lambda rule: rule.__name__)

pytestmark = pytest.mark.xdist_group(name="tidy")
"""One process examines all files."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Rule) -> None:
    assert examine_files().problems[rule] == []


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_the_rule_sees_what_breaks_it(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) != []


def test_a_class_name_stands_for_one_class() -> None:
    shared = {name for name, paths in examine_files().classes.items() if len(paths) > 1}
    assert shared - SHARED_CLASS_NAMES == set(), "give each class a name of its own"
    assert SHARED_CLASS_NAMES - shared == set(), "take these names out of SHARED_CLASS_NAMES"
    assert len(SHARED_CLASS_NAMES) <= MAX_SHARED_CLASS_NAMES


def test_nothing_is_postponed_in_other_files() -> None:
    suffixes = {".md", ".txt", ".yml", ".toml", ".js", ".go", ".java"}
    roots = (
        "docs",
        "docker",
        "benchmarks",
        "tests",
        "README.md",
        "CONTRIBUTING.md",
        "Makefile",
        "pyproject.toml",
    )
    for name in roots:
        top = ROOT / name
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.suffix in suffixes | {""} and path.is_file() and "node_modules" not in path.parts:
                text = path.read_text(errors="replace")
                assert not any(mark in text for mark in POSTPONED), f"{path.relative_to(ROOT)}"
