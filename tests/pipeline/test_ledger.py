"""What the report takes from the daemon's ledger."""

import json
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from pipeline.errors import BadInput
from pipeline.report.ledger import in_short, read_ledger
from pipeline.report.rebalances import worst
from storage.files import OsFiles
from tests.broker.harness import Client, join_alone
from tests.control.serving import controlled
from tests.pipeline.hand_made import at


def entry(group: str, generation: int, cause: str, client: str | None = None) -> str:
    actor = None if client is None else {"client_id": client, "client_host": "/10.0.0.1"}
    return json.dumps({"group_id": group, "generation_id": generation, "cause": cause, "actor": actor}) + "\n"


async def test_what_the_daemon_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    properties = {"ledger.file": str(path), "group.initial.rebalance.delay.ms": "0"}
    async with controlled(tmp_path / "data", properties, OsFiles()) as (server, control):
        assert isinstance(server, Server)
        assert isinstance(control, ControlPlane)
        async with Client(server, "alice") as alice:
            member_id, _ = await join_alone(alice, "billing")
            await control.member_commands.expire_member("billing", member_id, None)
        await control.finish()
    found = read_ledger(str(path), ["billing"])["billing"]
    assert [why.partition("@")[0] for why in found.values()][-1].endswith("alice")
    assert len(set(found)) == len(found) >= 2


def test_the_older_file_comes_first_and_other_groups_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "l"
    Path(f"{path}.1").write_text(entry("g", 1, "member joined", "a") + entry("g", 2, "member left", "a"))
    path.write_text(entry("g", 2, "session expired", "b") + entry("h", 1, "member joined") + '{"cut": ')
    found = read_ledger(str(path), ["g"])
    assert found == {"g": {1: "member joined: a@10.0.0.1", 2: "session expired: b@10.0.0.1"}}
    assert in_short(found["g"]) == "member joined (1 time) and session expired (1 time)"


@pytest.mark.parametrize("line", ["no json", "[]", "{}", '{"group_id": 1, "generation_id": 1, "cause": ""}'])
def test_what_is_no_ledger_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "l"
    path.write_text(entry("g", 1, "member joined") + line + "\n")
    with pytest.raises(BadInput, match="line 2"):
        read_ledger(str(path), ["g"])
    with pytest.raises(BadInput, match="missing"):
        read_ledger(str(tmp_path / "missing"), ["g"])


def test_a_rebalance_says_what_the_log_and_the_ledger_know() -> None:
    row = {"log_offset": 7, "generation": 3, "record_ts": at(0), "sync_ms": 1, "convergence_ms": None}
    row |= {"pause_spans_empty": False, "consumption_pause_ms": 5}
    cause = {"log_offset": 7, "cause": "went", "came": [], "went": ["b@h"], "came_back": [], "moved": None}
    (told,) = worst([row], [cause], 5, {3: "session expired: b@h"})
    assert "b@h left" in told["why"]
    assert "session expired" in told["why"]
