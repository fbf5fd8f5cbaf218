"""`groupd acl`, against a daemon with an authorizer."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import run_groupd
from tests.cli.test_serve import FREE, Daemon
from tests.free_ports import free_ports
from tests.shared_fixtures import shared

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
Result = subprocess.CompletedProcess[str]


@shared(Daemon.is_alive, scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    data = tmp_path_factory.mktemp("data")
    options = ("-o", AUTHORIZER, "-o", "super.users=User:ANONYMOUS", "--profile", "test")
    daemon = Daemon(*FREE, "--data-dir", str(data), *options)
    yield daemon
    code, _, err = daemon.stop()
    assert code == 0
    assert "Traceback" not in err


def acl(daemon: Daemon, *arguments: str) -> Result:
    return run_groupd("acl", *arguments, "--bootstrap", f"127.0.0.1:{daemon.port}")


def done(daemon: Daemon, *arguments: str) -> str:
    """What a command prints that ends well."""
    result = acl(daemon, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()[1:]]


READ_TOPIC = ["TOPIC", "orders", "LITERAL", "ALLOW", "User:alice", "READ", "*"]
READ_GROUP = ["GROUP", "*", "LITERAL", "ALLOW", "User:alice", "READ", "*"]
WRITE_TOPICS = ["TOPIC", "ord", "PREFIXED", "DENY", "User:*", "ALTER_CONFIGS", "10.0.0.0/8"]


def test_acls_are_added_and_removed(daemon: Daemon) -> None:
    reading = ("--allow-principal", "User:alice", "--operation", "read", "--topic", "orders", "--group", "*")
    assert rows(done(daemon, "add", *reading)) == [READ_TOPIC, READ_GROUP]
    denied = ("--deny-principal", "User:*", "--deny-host", "10.0.0.0/8", "--operation", "AlterConfigs")
    assert rows(done(daemon, "add", *denied, "--topic", "ord", "--prefixed")) == [WRITE_TOPICS]

    assert rows(done(daemon)) == [READ_TOPIC, WRITE_TOPICS, READ_GROUP]
    matching = ("--topic", "orders", "--resource-pattern-type", "match")
    assert rows(done(daemon, "list", *matching)) == [READ_TOPIC, WRITE_TOPICS]
    listed = json.loads(done(daemon, "list", "--principal", "User:alice", "--json"))
    assert [one["resource_type"] for one in listed["acls"]] == ["TOPIC", "GROUP"]

    assert rows(done(daemon, "remove", "--topic", "ord")) == []
    assert rows(done(daemon, "remove", "--allow-principal", "User:alice", "--group", "*")) == [READ_GROUP]
    assert rows(done(daemon, "remove", "--all")) == [READ_TOPIC, WRITE_TOPICS]
    assert rows(done(daemon)) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "--allow-principal", "User:a", "--operation", "write", "--group", "g"), "of a GROUP"),
        (("add", "--topic", "orders"), "--allow-principal"),
        (("add", "--allow-principal", "User:a"), "--topic"),
        (("add", "--allow-principal", "alice", "--topic", "orders"), "User:alice"),
        (("add", "--allow-principal", "User:a", "--deny-host", "h", "--topic", "t"), "--deny-principal"),
        (("add", "--allow-principal", "User:a", "--allow-host", "1.2.3.4/40", "--topic", "t"), "1.2.3.4/40"),
        (("remove",), "--all"),
        (("remove", "--topic", "orders", "--all"), "--all"),
        (("list", "--prefixed", "--resource-pattern-type", "match"), "contradict"),
        (("list", "--topic", ""), "empty"),
        (("list", "--bootstrap", "nowhere"), "HOST:PORT"),
    ],
)
def test_invalid_arguments_are_usage_errors(arguments: tuple[str, ...], why: str) -> None:
    result = run_groupd("acl", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert why in result.stderr


def test_an_unreachable_broker_is_an_error() -> None:
    result = run_groupd("acl", "list", "--bootstrap", f"127.0.0.1:{free_ports(1)[0]}")
    assert (result.returncode, result.stdout) == (3, "")
    assert "does not answer" in result.stderr


def test_without_an_authorizer_the_broker_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    daemon = Daemon(*FREE, "--data-dir", str(tmp_path_factory.mktemp("plain")), "--profile", "test")
    try:
        result = acl(daemon, "list")
        assert (result.returncode, result.stdout) == (1, "")
        assert "SECURITY_DISABLED: No Authorizer is configured" in result.stderr
    finally:
        daemon.stop()


def test_acls_of_a_stopped_daemon_act_when_it_starts(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path))
    reading = ("--allow-principal", "User:alice", "--operation", "read", "--topic", "orders")
    for _ in range(2):
        result = run_groupd("acl", "add", *reading, "--group", "*", *where)
        assert (result.returncode, result.stderr) == (0, "")
        assert rows(result.stdout) == [READ_TOPIC, READ_GROUP]
    assert rows(run_groupd("acl", "list", *where).stdout) == [READ_TOPIC, READ_GROUP]
    assert rows(run_groupd("acl", "remove", "--topic", "orders", *where).stdout) == [READ_TOPIC]
    daemon = Daemon(*FREE, *where, "-o", AUTHORIZER, "-o", "super.users=User:ANONYMOUS")
    try:
        assert rows(done(daemon)) == [READ_GROUP]
        locked = run_groupd("acl", "list", *where)
        assert (locked.returncode, locked.stdout) == (3, "")
        assert str(tmp_path) in locked.stderr
    finally:
        assert daemon.stop()[0] == 0
    both = run_groupd("acl", "list", *where, "--bootstrap", "127.0.0.1:1")
    assert both.returncode == 2
    assert "contradict" in both.stderr
