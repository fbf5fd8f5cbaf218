"""Commands that ask a running daemon, against a daemon that runs, with stock consumers in its groups."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.cli.in_process import run_groupd
from tests.cli.terminal import environment
from tests.cli.test_serve import FREE, TIMEOUT_S, Daemon
from tests.shared_fixtures import shared

PARTITIONS = 6
OVERTAKEN = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS)
Result = subprocess.CompletedProcess[str]


@shared(Daemon.is_alive, scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    data = tmp_path_factory.mktemp("data")
    daemon = Daemon(*FREE, "--data-dir", str(data), "--topic", f"orders:{PARTITIONS}", "--profile", "test")
    yield daemon
    code, _, err = daemon.stop()
    assert code == 0
    assert "Traceback" not in err


def run(daemon: Daemon, *arguments: str) -> Result:
    return run_groupd(*arguments, "--url", f"127.0.0.1:{daemon.http_port}", GROUPD_ACTOR="a test")


def done(daemon: Daemon, *arguments: str) -> str:
    """What a command prints that ends well."""
    result = run(daemon, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@contextmanager
def consuming(daemon: Daemon, group: str, *client_ids: str) -> Iterator[None]:
    """Consumers of `orders`, which commit their first position and poll until the end. A group with a commit still
    exists after they have left."""
    over = threading.Event()
    threads = [threading.Thread(target=_consume, args=(daemon, group, name, over)) for name in client_ids]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)


def _consume(daemon: Daemon, group: str, client_id: str, over: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{daemon.port}",
            "group.id": group,
            "client.id": client_id,
            "heartbeat.interval.ms": 100,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"], on_assign=_commit_start)
    while not over.is_set():
        consumer.poll(0.1)
    consumer.close()


def _commit_start(consumer: Consumer, assigned: list[TopicPartition]) -> None:
    starts = [TopicPartition(each.topic, each.partition, 0) for each in assigned]
    try:
        consumer.commit(offsets=starts, asynchronous=False)
    except KafkaException as failure:
        # A rebalance overtook the commit: the consumer commits again after its next assignment.
        if failure.args[0].code() not in OVERTAKEN:
            raise


def settle(daemon: Daemon, group: str, members: int) -> str:
    return done(
        daemon,
        "wait",
        group,
        "--state",
        "Stable",
        "--members",
        str(members),
        "--owned",
        "orders",
        "--within",
        "60s",
    )


def test_a_group_is_waited_for_listed_described_and_explained(daemon: Daemon) -> None:
    with consuming(daemon, "billing", "alice", "bob"):
        assert "billing is Stable" in settle(daemon, "billing", 2)
        assert ["billing", "Stable", "2"] in [
            line.split()[:3] for line in done(daemon, "groups").splitlines()
        ]
        described = done(daemon, "groups", "describe", "billing")
        assert all(word in described for word in ("alice", "bob", "orders: 0-2", "orders: 3-5"))
        both = json.loads(done(daemon, "groups", "describe", "billing", "--json"))
        assert {member["client_id"] for member in both["group"]["members"]} == {"alice", "bob"}
        assert "billing" in done(daemon, "explain", "billing")
        assert "billing" in done(daemon, "top")
        entry = json.loads(done(daemon, "ledger", "billing", "--last", "1", "--json"))["entries"][-1]
        assert (entry["result"], entry["members_count"]) == ("stable", 2)
        assert f"#{entry['generation_id']}" in done(daemon, "ledger", "billing", "--last", "1")
        late = run(daemon, "wait", "billing", "--members", "4", "--within", "200ms")
        assert (late.returncode, late.stdout) == (1, "")
        assert "4 members wanted" in late.stderr.splitlines()[0]


def test_a_group_with_a_shared_client_id_is_described(daemon: Daemon) -> None:
    with consuming(daemon, "shared", "worker", "worker"):
        settle(daemon, "shared", 2)
        rows = [line.split() for line in done(daemon, "groups", "describe", "shared").splitlines()]
        owners = {row[-1] for row in rows if row[:1] == ["orders"]}
        assert len(owners) == 2
        assert all(owner.startswith("worker-…") for owner in owners)


def test_unknown_groups_and_invalid_arguments_are_errors(daemon: Daemon) -> None:
    unknown = run(daemon, "groups", "describe", "nobody")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
    assert "nobody" in unknown.stderr
    assert run(daemon, "wait", "nobody", "--state", "Happy").returncode == 2
    assert run(daemon, "fault", "add", "x", "--match", "colour=red", "--hold").returncode == 2
    assert run(daemon, "explain", "a/b ü?%").returncode in (0, 1)


def test_a_misspelt_name_is_answered_with_the_nearest(daemon: Daemon) -> None:
    hold = ("--at", "request", "--hold")
    for arguments, meant in (
        (("fault", "add", "x", "--match", "api=SyncGruop", *hold), "SyncGroup"),
        (("fault", "add", "x", "--match", "clinet_id=bob", *hold), "client_id"),
        (
            ("fault", "add", "x", "--at", "request", "--error", "rebalance_in_progres"),
            "REBALANCE_IN_PROGRESS",
        ),
        (("fault", "add", "lost-comit-answer"), "lost-commit-answer"),
        (("wait", "billing", "--state", "Stabel"), "Stable"),
        (("namespace", "add", "-o", "group.initial.rebalance.dely.ms=0"), "group.initial.rebalance.delay.ms"),
    ):
        refused = run(daemon, *arguments)
        assert refused.returncode == 2, refused
        assert f"did you mean {meant}?" in refused.stderr
    assert "No faults" in done(daemon, "fault")


def test_names_that_are_empty_are_no_condition(daemon: Daemon) -> None:
    assert "nobody" in done(daemon, "wait", "nobody", "--absent", "", "--clients", "", "--within", "1s")


def test_watch_prints_events(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "coordinator", "watch", "watched", "--after", "-1", "--json"]
    url = ["--url", f"127.0.0.1:{daemon.http_port}"]
    with subprocess.Popen([*command, *url], stdout=subprocess.PIPE, text=True, env=environment()) as watch:
        assert watch.stdout is not None
        with consuming(daemon, "watched", "alice"):
            seen = [json.loads(watch.stdout.readline()) for _ in range(2)]
            while seen[-1]["kind"] != "RebalanceCompleted":
                seen.append(json.loads(watch.stdout.readline()))
        watch.terminate()
    assert {event["group_id"] for event in seen} == {"watched"}
    assert {"MemberJoined", "RebalanceStarted", "GroupStabilized"} <= {event["kind"] for event in seen}
    assert [event["seq"] for event in seen] == sorted(event["seq"] for event in seen)


def test_a_clock_is_held_and_moved(daemon: Daemon) -> None:
    with consuming(daemon, "timed", "alice", "bob"):
        settle(daemon, "timed", 2)
        done(daemon, "clock", "timed", "freeze")
        assert json.loads(done(daemon, "clock", "timed", "--json"))["frozen"]
        assert "frozen" in done(daemon, "clock", "timed")
        moved = json.loads(done(daemon, "clock", "timed", "advance", "1h", "--json"))
        assert (moved["by_ms"], moved["silent"]) == (3_600_000, [])
        settle(daemon, "timed", 2)
        assert done(daemon, "clock", "timed", "advance", "1m", "--silent", "bob")
        done(daemon, "wait", "timed", "--rebalanced", "cause=session expired,client=bob", "--within", "30s")
        done(daemon, "clock", "timed", "run")
        done(daemon, "clock", "timed", "reset")
        assert not json.loads(done(daemon, "clock", "timed", "--json"))["frozen"]
        assert "session expired: bob" in done(daemon, "ledger", "timed", "--last", "10")


def test_a_member_is_expired_and_a_coordinator_moves(daemon: Daemon) -> None:
    with consuming(daemon, "moved", "alice", "bob"):
        settle(daemon, "moved", 2)
        assert "bob" in done(daemon, "expire", "moved", "bob")
        done(daemon, "wait", "moved", "--rebalanced", "client=bob", "--within", "30s")
        settle(daemon, "moved", 2)
        stranger = run(daemon, "expire", "moved", "mallory")
        assert stranger.returncode == 1
        assert "mallory" in stranger.stderr
        assert "moved" in done(
            daemon, "failover", "moved", "--not-coordinator", "100ms", "--loading", "100ms"
        )
        settle(daemon, "moved", 2)


def test_a_fault_is_made_waited_for_let_go_and_removed(daemon: Daemon) -> None:
    with consuming(daemon, "faulty", "alice"):
        settle(daemon, "faulty", 1)
        match = "api=Heartbeat,group=faulty"
        assert "slow" in done(daemon, "fault", "add", "slow", "--match", match, "--at", "request", "--hold")
        assert run(daemon, "fault", "add", "slow", "--match", match, "--hold").returncode == 1
        done(daemon, "fault", "wait", "slow", "--hit", "1", "--within", "30s")
        assert json.loads(done(daemon, "fault", "show", "slow", "--json"))["holding"] == 1
        assert "slow" in done(daemon, "fault")
        done(daemon, "fault", "release", "slow")
        done(daemon, "fault", "rm", "slow")
        done(daemon, "fault", "add", "loading", "--match", "group=nobody")
        done(daemon, "fault", "rm", "--all")
        assert json.loads(done(daemon, "fault", "--json"))["faults"] == []
        settle(daemon, "faulty", 1)


def test_offsets_are_set_and_the_group_is_deleted(daemon: Daemon) -> None:
    with consuming(daemon, "reset", "alice"):
        settle(daemon, "reset", 1)
        refused = run(daemon, "groups", "reset", "reset", "--to", "0", "--topic", "orders")
        assert (refused.returncode, refused.stdout) == (1, "")
    done(daemon, "wait", "reset", "--state", "Empty", "--within", "30s")
    arguments = ("groups", "reset", "reset", "--to", "7", "--topic", "orders:0,1")
    dry = run(daemon, *arguments, "--dry-run")
    assert "nothing was changed" in dry.stderr
    assert done(daemon, *arguments) == dry.stdout
    done(daemon, "wait", "reset", "--committed", "orders-0=7,orders-1=7", "--within", "10s")
    assert ["orders", "0", "7", "0"] in [
        line.split() for line in done(daemon, "groups", "reset", "reset", "--to", "earliest").splitlines()
    ]
    assert done(daemon, "groups", "delete", "reset") == "reset is deleted\n"
    assert run(daemon, "groups", "describe", "reset").returncode == 1
