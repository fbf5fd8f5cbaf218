"""Why a group of stock consumers rebalanced, as the ledger has it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.broker import EXTERNAL, Broker, eventually
from tests.interop.conftest import command_of
from tests.interop.daemon import Daemon
from tests.interop.driver import DRIVERS
from tests.interop.group import Group, partitions_of
from tests.interop.member import Board
from tests.interop.requirement import lacking

PARTITIONS = 6
SESSION_MS = 6_000
CONFLUENT = next(driver for driver in DRIVERS if driver.name == "confluent")

pytestmark = pytest.mark.interop


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def group(tmp_path: Path, ledger: Path, board: Board) -> Iterator[Group]:
    if EXTERNAL:
        lacking("only groupd has a ledger")
    daemon = Daemon(str(tmp_path / "data"), "-o", f"ledger.file={ledger}")
    try:
        group = Group(Broker(daemon.bootstrap, daemon), CONFLUENT, command_of(CONFLUENT), "billing", board)
        group.session_timeout_ms = SESSION_MS
        yield group
    finally:
        daemon.kill()


def named(partitions: set[tuple[str, int]]) -> list[str]:
    return [f"{topic}-{number}" for topic, number in sorted(partitions)]


def test_one_of_three_is_killed(group: Group, ledger: Path) -> None:
    group.broker.create_topic("orders", PARTITIONS)
    everything = partitions_of("orders", PARTITIONS)
    members = [group.join("orders") for _ in range(3)]
    group.converge(members, everything)
    dead, *others = members
    before = {member.name: set(member.owned) for member in members}
    dead.kill()
    group.converge(others, everything)

    def entries() -> list[dict[str, Any]]:
        return [json.loads(line) for line in ledger.read_text().splitlines()]

    eventually("the entry to be written", lambda: entries()[-1]["cause"] == "session expired")
    entry = entries()[-1]
    actor = entry["actor"]
    assert entry["result"] == "stable"
    assert SESSION_MS <= actor["last_heard_ms_ago"] == actor["real"]["last_heard_ms_ago"] < 2 * SESSION_MS
    rounding_ms = 1
    assert 0 < actor["real"]["connection_closed_ms_ago"] <= actor["real"]["last_heard_ms_ago"] + rounding_ms
    stories = {story["member_id"]: story for story in entry["members"]}
    gone = stories.pop(actor["member_id"])
    assert (gone["gone"], gone["lost"]) == ("session expired", named(before[dead.name]))
    assert {tuple(story["gained"]) for story in stories.values()} == {
        tuple(named(member.owned - before[member.name])) for member in others
    }
    for story in stories.values():
        assert 0 <= story["told_after_ms"] <= story["rejoined_after_ms"] <= story["synced_after_ms"]
    assert entry["awaited_longest"]["why"] == "told late"
    assert entry["unowned"] == []
