"""Replays of recorded simulator runs, in this process and in others, give identical results."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.control.recording.json_codec import ValueDecoder, ValueEncoder
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_export import export_group, import_group
from coordinator.group.group_requests import Request
from coordinator.group.group_shard import GroupShard, ShardDecorator
from tests.control.replay.__main__ import play, record
from tests.control.replay.runs import MIDDLE, run
from tests.simulation.consumers.run import ConsumerSimulation
from tests.simulation.faults import GROUPS
from tests.simulation.run import Simulation

SEEDS = 10
OTHER_SEEDS = 4


@pytest.mark.parametrize("begins_after", [0, MIDDLE], ids=["new", "middle"])
@pytest.mark.parametrize("of_consumers", [False, True], ids=["classic", "consumer"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_replay_repeats_the_recording(seed: int, of_consumers: bool, begins_after: int) -> None:
    done = run(seed, of_consumers=of_consumers, begins_after=begins_after)
    assert done.recorder.recordings
    with done.core():
        for recorded in done.recorded():
            assert recorded.end == "it goes on"
            comparison = compare_recording(recorded)
            assert comparison.different is None, format_comparison(comparison)
            assert comparison.inputs == recorded.inputs


def test_the_runs_have_all_kinds_of_inputs() -> None:
    """Else the test above is worth little."""
    kinds, requests = set[str](), set[str]()
    snapshots = 0
    for seed in range(SEEDS):
        for of_consumers in (False, True):
            for recorded in run(seed, of_consumers=of_consumers, begins_after=MIDDLE).recorded():
                snapshots += recorded.header["start"] != "empty"
                kinds |= {line.kind for line in recorded.lines}
                requests |= {line.fields["request"] for line in recorded.lines if line.kind == "request"}
    assert snapshots >= SEEDS
    assert kinds == {"request", "fire", "beat", "load", "unload"}
    assert requests >= {
        *("JoinGroupRequest", "SyncGroupRequest", "HeartbeatRequest", "LeaveGroupRequest", "FetchOffsets"),
        *("ConsumerGroupHeartbeatRequest", "OffsetCommitRequest", "TxnOffsetCommitRequest", "EndTransaction"),
        *("TopicsChanged", "WorkDone", "DescribeGroupsRequest"),
    }


def test_another_process_repeats_the_recording(tmp_path: Path) -> None:
    paths = record(range(OTHER_SEEDS), tmp_path)
    said = play(paths, hash_seed=4242)
    assert len(said) == len(paths) > OTHER_SEEDS
    assert [text for text in said if not text.startswith("identical: ")] == []


def sort_indexes(exported: Any) -> Any:
    """Sort the indexes that records rebuild in another order; they serve lookups only."""
    consumer = exported["durable"]["consumer"]
    if consumer is not None:
        for name in ("holders", "stable"):
            if "$d" in consumer[name]:
                consumer[name] = sorted(json.dumps(_sort_pairs(pair)) for pair in consumer[name]["$d"])
    return exported


def _sort_pairs(pair: list[Any]) -> list[Any]:
    key, value = pair
    return [key, sorted(value["$d"]) if isinstance(value, dict) else value]


class _Rebuilt(ShardDecorator):
    """Exports each group before each request, and imports it into another shard, which then exports the same."""

    __slots__ = ()

    count = 0

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        for group_id in GROUPS:
            said = ValueEncoder().encode(export_group(self.inner, group_id))
            other = GroupShard(self.inner.config, self.inner.topics, self.inner.consumer_config)
            import_group(other, group_id, ValueDecoder().decode(said))
            assert sort_indexes(ValueEncoder().encode(export_group(other, group_id))) == sort_indexes(said)
            assert other.view_group(group_id, now) == self.inner.view_group(group_id, now)
            assert other.list_deadlines(group_id) == self.inner.list_deadlines(group_id)
            other.check_invariants()
            type(self).count += 1
        return super().handle(request, context, now)


@pytest.mark.parametrize("kind", [Simulation, ConsumerSimulation])
def test_a_group_is_rebuilt_as_it_is_at_any_time(kind: type[Simulation | ConsumerSimulation]) -> None:
    _Rebuilt.count = 0
    for seed in (3, 4):
        kind(seed, shard=lambda *arguments: _Rebuilt(GroupShard(*arguments))).run(150)
    assert _Rebuilt.count > 100


def test_a_group_with_only_a_pending_target_is_replayed() -> None:
    """The recording begins when the first member has joined and nothing is written yet."""
    done = run(221, of_consumers=True, begins_after=MIDDLE)
    (recorded,) = [one for one in done.recorded() if one.group_id == "g"]
    cut_out = ValueDecoder().decode(recorded.header["start"])
    assert cut_out.soft.awaited is not None
    assert (cut_out.soft.classic, cut_out.soft.consumer, cut_out.durable.consumer) == (None, None, None)
    with done.core():
        assert compare_recording(recorded).different is None
