"""The log partitions of a group, inferred from the groups in each partition."""

from collections.abc import Collection
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.log_files import LogFiles
from pipeline.placement import possible_counts, that_may_hold
from pipeline.segments import find_partitions
from protocol.partitioner import partition_for
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.random_logs import Log
from tests.pipeline.test_decode import commit_record


@given(st.sets(st.text(max_size=8), min_size=1), st.integers(1, 200))
@settings(max_examples=60)
def test_the_true_count_is_always_possible(groups: set[str], partitions: int) -> None:
    counts = possible_counts([(partition_for(group, partitions), group) for group in groups])
    assert counts is None or partitions in counts


def test_many_groups_leave_one_count() -> None:
    groups = [f"group-{number}" for number in range(40)]
    assert possible_counts([(partition_for(group, 50), group) for group in groups]) == [50]
    assert possible_counts([(49 - partition_for(group, 50), group) for group in groups]) == []
    assert possible_counts([]) is None


def looked_at(made: LogDirectory, groups: Collection[str]) -> set[int]:
    files = LogFiles(made.path)
    return {one.number for one in that_may_hold(files, find_partitions(files), groups)}


def test_only_the_partitions_of_a_group_are_looked_at(tmp_path: Path) -> None:
    made = LogDirectory(tmp_path / "data")
    logs = {number: Log() for number in (3, 4, 12, 29, 47)}  # as of one broker among several
    for name in (f"g{number}" for number in range(200)):
        if partition_for(name, 50) in logs.keys() - {4, 12}:
            logs[partition_for(name, 50)].append([commit_record(name, 0)])
    for name in ("test-group", "my-group"):
        logs[12].append([commit_record(name, 1)])
    for number, log in logs.items():
        made.write_log(number, log)
    assert looked_at(made, ["test-group"]) == {12}
    assert looked_at(made, ["group", "grp"]) == {29, 47}
    assert looked_at(made, ["nobody"]) == {partition_for("nobody", 50)} & logs.keys()
    stray = Log()
    stray.append([commit_record("test-group", 2)])
    made.write_log(4, stray)
    assert looked_at(made, ["test-group"]) == logs.keys()
