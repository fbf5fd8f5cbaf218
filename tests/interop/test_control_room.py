"""Stock clients of every language in a group that is controlled over HTTP: they know nothing of it, and live on.

The tests of a client share one group, of three members with the default session of 45 s."""

import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.interop.broker import Broker
from tests.interop.conftest import command_of, fresh
from tests.interop.control_room import ACTOR
from tests.interop.crew import DEFAULT_SESSION_MS, Crew
from tests.interop.driver import DRIVERS, Driver
from tests.interop.member import Member, Partition
from tests.shared_fixtures import shared

LOADING_MS: Final = 1_500
CONTROLLED: Final = [driver for driver in DRIVERS if not driver.commits_by_itself]
EXPIRY_CALLBACK: Final = {
    **dict.fromkeys(("confluent", "kafka_python", "java", "franz_go"), "lost"),
    "aiokafka": "revoked",
}
"""The callback by which a client takes the partitions of an expired member. kafkajs has no such callback."""
KEEPS_GENERATION: Final = ("confluent", "kafka_python", "java")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.violates("flapping", "zombie_commit", "commit_went_back"),
    pytest.mark.parametrize("crew", CONTROLLED, ids=str, indirect=True, scope="module"),
]


def _lives(crew: Crew) -> bool:
    return not any(member.broke for member in crew.members)


@shared(_lives, scope="module")
def crew(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Crew]:
    """The members of one client."""
    driver: Driver = request.param
    crew = Crew(broker, driver, command_of(driver), fresh("group"))
    yield crew
    crew.dispose()


@pytest.fixture(autouse=True)
def complete(crew: Crew) -> None:
    """However the test before has left the group."""
    crew.complete()


def test_only_the_killed_member_of_three_expires(crew: Crew) -> None:
    before = crew.room.member_ids()
    dead = crew.members[0]
    crew.kill(dead)
    after = crew.room.wait(members=3)

    began_s = time.monotonic()
    advanced = crew.room.post("/clock/advance", by=f"{DEFAULT_SESSION_MS}ms")
    crew.room.wait(state="Stable", members=2, owned=[crew.topic])
    took_s = time.monotonic() - began_s

    assert took_s < DEFAULT_SESSION_MS / 1000, f"{took_s:.1f} s\n{crew.board.report()}"
    assert [(fired["timer"], fired["member"]) for fired in advanced["fired"]] == [("session", dead.name)]
    crew.ready()
    assert crew.room.member_ids() == {name: one for name, one in before.items() if name != dead.name}
    (entry,) = crew.room.entries(after)
    assert (entry["cause"], entry["actor"]["client_id"]) == ("session expired", dead.name)
    actor = entry["actor"]
    assert actor["last_heard_ms_ago"] >= DEFAULT_SESSION_MS
    # A member that was read from the disk has no connection that is known to be its own until it joins again.
    assert (actor["real"]["last_heard_ms_ago"] or 0) < DEFAULT_SESSION_MS
    assert ("clock", ACTOR) in [(act["kind"], act["by"]) for act in entry["also"]]


def test_an_expired_live_member_rejoins_under_a_new_id(crew: Crew) -> None:
    before = crew.room.member_ids()
    after = crew.room.wait(members=3)
    expired = crew.members[1]
    seen = len(expired.events)
    owned = set(expired.owned)

    crew.room.post(f"/members/{expired.name}/expire")
    crew.ready(rebalanced={"cause": "session expired", "client": expired.name}, after=after)

    now = crew.room.member_ids()
    assert {name for name in now if now[name] != before[name]} == {expired.name}
    first, *more = crew.room.entries(after)
    assert (first["cause"], first["actor"]["member_id"]) == ("session expired", before[expired.name])
    expiry = f"expire {expired.name} ({before[expired.name]})"
    assert {"kind": "member", "what": expiry, "by": ACTOR} in first["also"]
    if crew.group.assignor != "cooperative-sticky":  # there, a member that revokes partitions joins again
        assert {entry["actor"]["client_id"] for entry in more} <= {expired.name}
    assert "session expired" not in {entry["cause"] for entry in more}
    if callback := EXPIRY_CALLBACK.get(crew.driver.name):
        _assert_first_loss(crew, expired, seen, callback, owned)


def _assert_first_loss(crew: Crew, member: Member, since: int, callback: str, owned: set[Partition]) -> None:
    """Assert which callback first takes partitions of a member after `since` events, and that it takes `owned`.

    An "assigned" may come first. franz-go calls that back after each rebalance, at its leisure: the one of the
    rebalance before may be printed after the group is Stable and each member owns its assignment.
    """
    crew.board.wait(f"{member.name} to lose its partitions", lambda: bool(member.losses(since)))
    loss = member.losses(since)[0]
    assert loss["event"] == callback, crew.board.report()
    assert {(topic, number) for topic, number in loss["partitions"]} == owned, crew.board.report()


def test_a_coordinator_that_is_read_anew(crew: Crew) -> None:
    """Some clients rejoin by themselves; then the ledger names them."""
    before = crew.room.describe()
    owned = {member.name: set(member.owned) for member in crew.members}
    after = crew.room.wait(members=3)

    moved = crew.room.post("/failover", loading=f"{LOADING_MS}ms")
    assert moved["served_after_ms"] >= LOADING_MS
    crew.ready()
    crew.all_commit()

    entries = crew.room.entries(after)
    if crew.driver.name in KEEPS_GENERATION:
        assert entries == []
        assert crew.room.describe()["generation_id"] == before["generation_id"]
        assert moved["group"]["generation_kept"]
        assert crew.room.member_ids() == {one["client_id"]: one["member_id"] for one in before["members"]}
        assert {member.name: set(member.owned) for member in crew.members} == owned
    for entry in entries:
        assert entry["actor"]["client_id"] in owned
        assert entry["cause"] in ("leader rejoined", "metadata changed", "member joined"), entry


def test_a_held_sync_group_answer(crew: Crew) -> None:
    slow = crew.members[2]
    fault = f"hold-{crew.group.name}"
    match = {"api": "SyncGroup", "group": crew.group.name, "client_id": slow.name}
    crew.room.ask("POST", "/faults", {"name": fault, "match": match, "do": {"at": "answer", "hold": True}})
    try:
        after = crew.room.wait(members=3)
        crew.room.post(f"/members/{slow.name}/expire")
        crew.room.ask("POST", f"/faults/{fault}/wait", {"hit": 1, "within": "60s"})
        assert f"fault {fault} holds the answer to the SyncGroup of {slow.name}" in crew.room.explain()
        assert crew.room.ask("POST", f"/faults/{fault}/release", {})["released"] == 1
        crew.ready(rebalanced={"cause": "session expired", "client": slow.name}, after=after)
    finally:
        crew.room.ask("DELETE", f"/faults/{fault}")
    crew.all_commit()


def test_errors_on_heartbeats(crew: Crew) -> None:
    """NOT_COORDINATOR has a client look for the coordinator, and find it where it was."""
    told = crew.members[0]
    fault = f"beat-{crew.group.name}"
    match = {"api": "Heartbeat", "group": crew.group.name, "client_id": told.name}
    rule = {"name": fault, "match": match, "times": 2, "do": {"at": "request", "error": "NOT_COORDINATOR"}}
    crew.room.ask("POST", "/faults", rule)
    try:
        status = crew.room.ask("POST", f"/faults/{fault}/wait", {"hit": 2, "within": "60s"})
        assert (status["state"], status["last"]["client_id"]) == ("spent", told.name)
    finally:
        crew.room.ask("DELETE", f"/faults/{fault}")
    crew.ready()
    crew.all_commit()


def test_a_commit_with_a_lost_answer_is_durable(crew: Crew) -> None:
    """The commit is durable. The client may send it again or report the error."""
    crew.all_commit()
    unlucky = crew.members[1]
    fault = f"lost-{crew.group.name}"
    match = {"group": crew.group.name, "client_id": unlucky.name}
    crew.room.ask("POST", "/faults", {"name": fault, "use": "lost-commit-answer", "match": match})
    try:
        crew.produce()
        crew.consumed()
        unlucky.say("commit")
        crew.room.ask("POST", f"/faults/{fault}/wait", {"hit": 1, "within": "60s"})
        crew.room.post("/check", committed=crew.last_offsets(unlucky.owned))
    finally:
        crew.room.ask("DELETE", f"/faults/{fault}")
    crew.ready()
    crew.all_commit()
