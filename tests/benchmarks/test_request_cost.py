"""The cost of a request in executed code: the same in every process, and within its bounds."""

import sys
from pathlib import Path
from types import CodeType

import pytest

from benchmarks import request_cost as command
from benchmarks.bounds import judge, read_bounds
from benchmarks.execution_counter import ExecutionCounter, ExecutionCounts
from benchmarks.request_cost import (
    AT_ONCE,
    BOUND_PYTHON,
    FIGURES,
    PYTHON,
    Costs,
    figure_name,
    measure_in_new_process,
)
from benchmarks.request_kinds import KINDS

ONE, SEVERAL = AT_ONCE[:2]


@pytest.fixture(scope="module")
def costs() -> Costs:
    """The costs of all requests, one and several in one iteration of the event loop."""
    return measure_in_new_process("--at-once", str(ONE), str(SEVERAL), hash_seed="1")


def test_counts_are_the_same_in_another_process_with_other_hashes(costs: Costs) -> None:
    again = measure_in_new_process("--at-once", str(ONE), hash_seed="2")
    assert again == {name: {ONE: sizes[ONE]} for name, sizes in costs.items()}
    assert again.keys() == KINDS.keys()


@pytest.mark.skipif(PYTHON != BOUND_PYTHON, reason=f"bytecodes are bounded for Python {BOUND_PYTHON}")
def test_no_request_costs_more_bytecodes_than_its_bound(costs: Costs) -> None:
    figures = {
        figure_name(name, size): cost.bytecodes
        for name, sizes in costs.items()
        for size, cost in sizes.items()
    }
    bounds = read_bounds({"request_cost": FIGURES}, only="request_cost")
    counted = [bound for bound in bounds if bound.figure in figures]
    assert len(counted) == len(figures)
    outside = [str(one) for one in judge(counted, figures, [], 0.0) if one.verdict.is_failure]
    assert outside == [], (
        "make it cheaper, or change benchmarks/bounds.toml and request_cost.json with a reason"
    )


def test_a_heartbeat_costs_more_without_the_cache_of_repeated_requests(costs: Costs) -> None:
    uncached = measure_in_new_process("heartbeat", "--at-once", str(ONE), "--without-repeat-cache")
    assert uncached["Heartbeat"][ONE].bytecodes > 2 * costs["Heartbeat"][ONE].bytecodes


# The counter


def add_three(value: int) -> int:
    return add_one(add_one(add_one(value)))


def add_one(value: int) -> int:
    return value + 1


def add_lengths(first: str, second: str) -> int:
    return len(first) + len(second)


def is_add_one(code: CodeType) -> bool:
    return code is add_one.__code__


def test_calls_are_counted_by_kind() -> None:
    with ExecutionCounter(lambda code: code.co_filename != __file__) as counter:
        add_three(1)
        add_lengths("a", "b")
    assert counter.python_calls == {add_three.__code__: 1, add_one.__code__: 3, add_lengths.__code__: 1}
    assert counter.c_calls[add_lengths.__code__] == 2
    assert counter.bytecodes[add_one.__code__] % 3 == 0
    assert counter.bytecodes[add_one.__code__] >= 9


def test_a_function_that_stands_for_a_native_one_is_a_c_call_of_its_caller() -> None:
    with ExecutionCounter(is_add_one) as counter:
        add_three(1)
    assert counter.python_calls[add_three.__code__] == 1
    assert counter.c_calls[add_three.__code__] == 3
    assert add_one.__code__ not in counter.bytecodes


def test_counts_add_up_and_end_with_the_block() -> None:
    counter = ExecutionCounter(lambda code: code.co_filename != __file__)
    traced = sys.gettrace()
    for _ in range(2):
        with counter:
            add_one(1)
        add_one(1)
    assert counter.python_calls == {add_one.__code__: 2}
    assert sys.gettrace() is traced


# The command


def compare(
    monkeypatch: pytest.MonkeyPatch, before: ExecutionCounts, now: ExecutionCounts
) -> int | str | None:
    monkeypatch.setattr(command, "committed_costs", lambda: {"Heartbeat": {1: before}})
    monkeypatch.setattr(command, "measure_costs", lambda *_, **__: {"Heartbeat": {1: now}})
    monkeypatch.setattr("sys.argv", ["request_cost", "heartbeat", "--compare"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


@pytest.mark.parametrize(("bytecodes", "code"), [(99.0, 0), (100.0, 0), (100.25, 1)])
def test_the_comparison_fails_when_a_request_has_more_bytecodes_than_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytecodes: float, code: int
) -> None:
    before = ExecutionCounts(10.0, 5.0, 100.0)
    assert int(compare(monkeypatch, before, before._replace(bytecodes=bytecodes)) or 0) == code
    is_named = figure_name("Heartbeat", 1) in capsys.readouterr().out
    assert is_named == (bytecodes != 100.0)


def test_costs_are_written_and_read_for_each_version_of_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "COMMITTED", tmp_path / "costs.json")
    assert command.committed_costs() is None
    costs = {"Heartbeat": {1: ExecutionCounts(10.0, 5.5, 100.25), 10: ExecutionCounts(9.0, 5.0, 98.0)}}
    command.write_costs(costs)
    monkeypatch.setattr(command, "PYTHON", "3.99")
    assert command.committed_costs() is None
    command.write_costs({})
    assert command.committed_costs() == {}
    monkeypatch.setattr(command, "PYTHON", PYTHON)
    assert command.committed_costs() == costs
