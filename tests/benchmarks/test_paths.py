"""The files of a request: the same path in every process, and within its bounds."""

import json
import sys
from collections.abc import Iterator
from types import CodeType

import pytest

from benchmarks import paths as command
from benchmarks.bounds import judge, read_bounds
from benchmarks.paths import (
    EXPLAIN_IN_COMMAND,
    EXPLAIN_IN_DAEMON,
    FIGURES,
    JOIN_GROUP,
    OFFSET_COMMIT,
    PATHS,
    Function,
    RequestPath,
    Visit,
    bounded_figures,
    find_product_function,
    record_in_new_process,
)
from coordinator.cli.control.api_client import ApiClient
from coordinator.control.diagnosis.group_diagnosis import explain_snapshot
from protocol.codec import decode, encode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.partitioner import compute_java_hash
from storage.files import OsFile


@pytest.fixture(scope="module")
def paths() -> dict[str, RequestPath]:
    """All paths."""
    return record_in_new_process(hash_seed="1")


def test_no_path_runs_through_more_than_its_bound(paths: dict[str, RequestPath]) -> None:
    bounds = read_bounds({"paths": FIGURES}, only="paths")
    figures = bounded_figures(paths)
    assert {bound.figure for bound in bounds} == figures.keys()
    outside = [str(one) for one in judge(bounds, figures, [], 0.0) if one.verdict.is_failure]
    assert outside == [], "shorten the path, or change benchmarks/bounds.toml with a reason"


def test_paths_are_the_same_in_another_process_with_other_hashes(paths: dict[str, RequestPath]) -> None:
    again = record_in_new_process(hash_seed="2")
    assert {name: path.calls for name, path in again.items()} == {
        name: path.calls for name, path in paths.items()
    }
    assert list(again) == list(PATHS)


def codecs(path: RequestPath) -> list[str]:
    return [visit.file.partition("<")[2] for visit in path.visits() if "<" in visit.file]


def test_a_path_reaches_from_the_request_to_its_answer(paths: dict[str, RequestPath]) -> None:
    for name in (OFFSET_COMMIT, JOIN_GROUP):
        first, *_, last = codecs(paths[name])
        assert first.startswith(f"decode request {name}Request")
        assert last.startswith(f"encode bounded {name}Response")
    assert find_product_function(OsFile.fdatasync.__code__) in paths[OFFSET_COMMIT].calls


def test_the_command_and_the_daemon_have_paths_of_their_own(paths: dict[str, RequestPath]) -> None:
    in_command, in_daemon = (set(paths[name].calls) for name in (EXPLAIN_IN_COMMAND, EXPLAIN_IN_DAEMON))
    assert find_product_function(ApiClient.get_json.__code__) in in_command - in_daemon
    assert find_product_function(explain_snapshot.__code__) in in_daemon - in_command


# The recorder


def test_files_functions_calls_and_switches_are_counted() -> None:
    first, second = Function("a.py", "first", 1), Function("a.py", "second", 5)
    other = Function("b.py", "first", 1)
    path = RequestPath([first, first, other, second, first, second])
    assert path.figures == {"files": 2, "functions": 3, "calls": 6, "switches": 2}
    assert list(path.visits()) == [
        Visit("a.py", ["first"]),
        Visit("b.py", ["first"]),
        Visit("a.py", ["second", "first"]),
    ]


def test_product_functions_are_recorded_inside_the_block_and_nothing_else_is() -> None:
    profiled = sys.getprofile()
    with RequestPath() as path:
        for text in ("a", "b"):
            compute_java_hash(text)
        json.dumps({"a": 1}, indent=1)
    compute_java_hash("c")
    assert path.calls == [find_product_function(compute_java_hash.__code__)] * 2
    assert sys.getprofile() is profiled


def test_a_path_inside_of_another_takes_the_calls_for_itself() -> None:
    with RequestPath() as outer:
        compute_java_hash("a")
        with RequestPath() as inner:
            compute_java_hash("b")
            compute_java_hash("c")
        compute_java_hash("d")
    assert (len(outer.calls), len(inner.calls)) == (2, 2)


def test_each_generated_codec_is_a_file_of_the_protocol() -> None:
    request = HeartbeatRequest(group_id="billing", generation_id=1, member_id="a")
    data = encode(request, 3)
    with RequestPath() as path:
        encode(request, 3)
        decode(HeartbeatRequest, 3, data)
    assert codecs(path) == ["encode HeartbeatRequest v3>", "decode HeartbeatRequest v3>"]


TEXT = """
class Shape:
    def area(self):
        return sum(side for side in [lambda: 1])
"""


def code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


def test_module_bodies_class_bodies_and_parts_of_functions_are_no_functions() -> None:
    file = compute_java_hash.__code__.co_filename
    found = [find_product_function(code) for code in code_objects(compile(TEXT, file, "exec"))]
    assert {one.name for one in found if one is not None} == {"Shape.area", "Shape.area.<locals>.<lambda>"}
    assert len(found) > 4, "the text has a module, a class and a generator expression besides"


# The command


def test_the_command_prints_each_file_with_its_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [Function("a.py", "f", 1), Function("b.py", "g", 1), Function("a.py", "h", 5)]
    monkeypatch.setattr(command, "PATHS", {"JoinGroup": lambda **_: RequestPath(calls)})
    monkeypatch.setattr("sys.argv", ["paths", "join", "--files"])
    command.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["JoinGroup", "2", "3", "3", "2"]
    assert lines[-3:] == [["1", "a.py:", "f"], ["2", "b.py:", "g"], ["a.py:", "h"]]


def test_a_name_of_no_path_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["paths", "Joyn"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "OffsetCommit" in capsys.readouterr().err
