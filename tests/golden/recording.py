"""Recordings of a classic and a consumer group, as `groupd record` saves them, and the result of their replay."""

from typing import Any, Final

import urllib3
from pytest_groupd.daemon import SpawnedDaemon

from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording
from tests.clients.command import COMMAND
from tests.golden.versions import golden_path, write_json

RESULTS: Final = "recordings.json"
GROUPS: Final = {"billing": "classic", "shipping": "consumer"}


def file_name(group_id: str) -> str:
    """The file of a recorded group."""
    return f"{group_id}.groupd-rec"


def generate(version: str) -> None:
    """Replaces the recordings."""
    results = {}
    with SpawnedDaemon(COMMAND, []) as daemon, urllib3.PoolManager(retries=False) as pool:
        daemon.ensure()
        with daemon.namespace("golden", topics={"orders": 4}) as broker:
            for group_id, protocol in GROUPS.items():
                broker.call("PUT", "recordings", group_id)
                _live(broker, group_id, protocol)
                url = f"{daemon.url}/v1/namespaces/golden/recordings/{group_id}"
                recording = pool.request("GET", url).data
                with open(golden_path(version, file_name(group_id)), "wb") as file:
                    file.write(recording)
                results[group_id] = play(recording)
    write_json(version, RESULTS, results)


def play(recording: bytes) -> dict[str, Any]:
    """How many inputs were played and generations or epochs began, and the first input with another outcome."""
    comparison = compare_recording(read_recording(recording.splitlines(keepends=True), any_version=True))
    different = comparison.different
    return {
        "inputs": comparison.inputs,
        "generations": comparison.generations,
        "different": None if different is None else different.line.number,
    }


def _live(broker: Any, group_id: str, protocol: str) -> None:
    """A group gains members, one of them static, loses one by its timeout and one by its own will, and commits."""
    group = broker.group(group_id)
    group.stand_in("alice", ["orders"], group_protocol=protocol)
    group.wait(state="Stable", members=1, owned=["orders"])
    bob = group.stand_in("bob", ["orders"], group_protocol=protocol, group_instance_id="bob-1")
    carol = group.stand_in("carol", ["orders"], group_protocol=protocol)
    group.wait(state="Stable", members=3, owned=["orders"])
    bob.stall()
    group.clock.advance("10m", silent=["bob"])
    group.wait(state="Stable", members=2, owned=["orders"], absent=["bob"])
    carol.leave()
    group.wait(state="Stable", members=1, owned=["orders"])
    group.member("alice").expire()
    group.wait(state="Stable", members=1, owned=["orders"])
    for one in group.stand_ins():
        broker.call("DELETE", "groups", group_id, "stand-ins", one.client_id)
    group.wait(members=0)
    group.set_offsets({"orders-0": 3, "orders-1": 5})
