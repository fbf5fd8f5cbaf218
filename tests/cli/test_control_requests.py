"""What commands that ask a running daemon ask it for."""

from collections.abc import Iterator
from typing import Any

import click
import pytest

from coordinator.cli.main import groupd
from coordinator.http.api.api_route import ApiRoute, StreamRoute
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from tests.cli.fake_daemon import FakeDaemon, find_route


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon().running() as daemon:
        yield daemon


@pytest.mark.parametrize(
    ("command", "line", "body"),
    [
        ("expire billing bob", "POST /v1/groups/billing/members/bob/expire", None),
        ("failover billing", "POST /v1/groups/billing/failover", {}),
        (
            "failover billing --not-coordinator 500ms --loading 1500 --settle 2s",
            "POST /v1/groups/billing/failover",
            {"not_coordinator": "500ms", "loading": "1500ms", "settle": "2s"},
        ),
        ("failover billing --to 2", "POST /v1/groups/billing/failover", {"to": 2}),
        ("cluster", "GET /v1/cluster", None),
        ("cluster status", "GET /v1/cluster", None),
        ("cluster move --group billing --to 2", "POST /v1/cluster/move", {"group": "billing", "to": 2}),
        (
            "cluster move --partition 17 --to 3 --hold-loading 3s",
            "POST /v1/cluster/move",
            {"partition": 17, "to": 3, "hold_loading": "3s"},
        ),
        (
            "cluster move --topic orders --partition 0 --to 1",
            "POST /v1/cluster/move",
            {"topic": "orders", "partition": 0, "to": 1},
        ),
        ("cluster stop 2", "POST /v1/cluster/brokers/2/stop", None),
        ("cluster start 2", "POST /v1/cluster/brokers/2/start", None),
        ("clock", "GET /v1/clock", None),
        ("clock billing", "GET /v1/groups/billing/clock", None),
        ("clock freeze", "PUT /v1/clock", {"frozen": True}),
        ("clock freeze show", "GET /v1/groups/freeze/clock", None),
        ("clock billing freeze", "PUT /v1/groups/billing/clock", {"frozen": True}),
        (
            "clock billing freeze --except gone",
            "PUT /v1/groups/billing/clock",
            {"frozen": True, "except": "gone"},
        ),
        ("clock billing run", "PUT /v1/groups/billing/clock", {"frozen": False}),
        ("clock billing step", "POST /v1/groups/billing/clock/step", {}),
        ("clock step --silent bob", "POST /v1/clock/step", {"silent": ["bob"]}),
        ("clock advance 45s", "POST /v1/clock/advance", {"by": "45s"}),
        (
            "clock billing advance 45s --silent bob,carol --silent dave --settle 5s",
            "POST /v1/groups/billing/clock/advance",
            {"by": "45s", "silent": ["bob", "carol", "dave"], "settle": "5s"},
        ),
        ("fault", "GET /v1/faults", None),
        ("fault list", "GET /v1/faults", None),
        ("fault show slow", "GET /v1/faults/slow", None),
        ("fault rm slow", "DELETE /v1/faults/slow", None),
        ("fault rm --all", "DELETE /v1/faults", None),
        ("fault release slow", "POST /v1/faults/slow/release", {}),
        ("fault release slow --one oldest", "POST /v1/faults/slow/release", {"one": "oldest"}),
        ("fault wait slow", "POST /v1/faults/slow/wait", {"hit": 1, "within": "10s"}),
        ("fault wait slow --hit 3 --within 1m", "POST /v1/faults/slow/wait", {"hit": 3, "within": "1m"}),
        ("namespace", "GET /v1/namespaces", None),
        ("namespace list", "GET /v1/namespaces", None),
        (
            "namespace add",
            "POST /v1/namespaces",
            {"name": None, "topics": {}, "config": {}, "durable": False},
        ),
        (
            "namespace add t-1 --topic orders:6 --topic payments:1 -o num.partitions=3 --durable",
            "POST /v1/namespaces",
            {
                "name": "t-1",
                "topics": {"orders": 6, "payments": 1},
                "config": {"num.partitions": "3"},
                "durable": True,
            },
        ),
        ("namespace reset t-1 --namespace t-2", "POST /v1/namespaces/t-1/reset", None),
        (
            "namespace advertise default PLAINTEXT=localhost:49153",
            "PUT /v1/namespaces/default/advertised",
            {"PLAINTEXT": "localhost:49153"},
        ),
        ("clock freeze --namespace t-1", "PUT /v1/namespaces/t-1/clock", {"frozen": True}),
        ("ledger", "GET /v1/ledger", None),
        ("ledger billing --last 1", "GET /v1/groups/billing/ledger", None),
    ],
)
def test_a_command_sends_its_request_and_prints_the_answer(
    daemon: FakeDaemon, command: str, line: str, body: object
) -> None:
    daemon.texts[line] = "said\nby the daemon\n"
    result = daemon.run(*command.split())
    assert (result.stdout, result.stderr, result.exit_code) == ("said\nby the daemon\n", "", 0)
    assert [asked.line for asked in daemon.asked] == [line]
    assert daemon.last().body == body
    route = find_route(*line.split(" "))
    assert route is not None
    assert route.command.split()[0] == command.split()[0]
    if daemon.last().method != "GET":
        assert daemon.last().headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "route", [*ALL_ROUTES, *ALL_STREAMS], ids=lambda route: f"{getattr(route, 'method', 'GET')} {route.path}"
)
def test_the_command_of_an_operation_exists(route: ApiRoute | StreamRoute) -> None:
    command: click.Command = groupd
    for word in route.command.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, route.command
        command = found


def test_a_clock_that_is_taken_away_is_shown(daemon: FakeDaemon) -> None:
    daemon.values["DELETE /v1/groups/billing/clock"] = None
    daemon.texts["GET /v1/groups/billing/clock"] = "as the process\n"
    assert daemon.run("clock", "billing", "reset").stdout == "as the process\n"
    assert [asked.method for asked in daemon.asked] == ["DELETE", "GET"]


def test_namespaces_are_removed_by_name_or_all_but_the_daemons_own(daemon: FakeDaemon) -> None:
    for name in ("t-1", "t-2"):
        daemon.values[f"DELETE /v1/namespaces/{name}"] = None
    described = [{"name": "default", "created_ms": None}, {"name": "t-2", "created_ms": 1, "groups": 3}]
    daemon.values["GET /v1/namespaces"] = {"namespaces": described, "most": 256}
    assert daemon.run("namespace", "rm", "t-1", "t-2").exit_code == 0
    assert daemon.run("namespace", "rm", "--all").exit_code == 0
    removed = [asked.line for asked in daemon.asked if asked.method == "DELETE"]
    assert removed == [f"DELETE /v1/namespaces/{name}" for name in ("t-1", "t-2", "t-2")]
    for wrong in ([], ["t-1", "--all"], [""]):
        assert daemon.run("namespace", "rm", *wrong).exit_code == 2


def test_the_page_is_opened_where_it_is(daemon: FakeDaemon) -> None:
    for base in ("", "/namespaces/t-1"):
        daemon.values[f"GET /v1{base}/board"] = {}
    for options, where in (([], "#/default"), (["a/b", "--namespace", "t-1"], "#/t-1/a%2Fb")):
        said = daemon.run("console", "--print", *options)
        assert (said.exit_code, said.stdout) == (0, f"{daemon.url}/{where}\n")
    assert daemon.run("console", "--json").stdout == f'{{"url":"{daemon.url}/#/default"}}\n'


def test_json_is_printed_as_it_is(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups/billing/explain"] = {"text": "x", "more": [1, None]}
    result = daemon.run("explain", "billing", "--json")
    assert result.stdout == '{"text":"x","more":[1,null]}\n'
    assert "text/plain" not in daemon.last().headers["Accept"]


def test_names_of_groups_may_be_anything(daemon: FakeDaemon) -> None:
    for name, path in (("a/b?c d%", "a%2Fb%3Fc%20d%25"), ("..", "%2E%2E"), ("größe", "gr%C3%B6%C3%9Fe")):
        daemon.run("explain", name)
        assert daemon.last().path == f"/v1/groups/{path}/explain"
    assert daemon.run("explain", "").exit_code == 2


def test_requests_carry_the_actor_and_the_token(daemon: FakeDaemon) -> None:
    daemon.run("clock", "freeze", USER="")
    assert daemon.last().headers["X-Groupd-Actor"] == "the command line"
    daemon.run("clock", "freeze", USER="root")
    assert daemon.last().headers["X-Groupd-Actor"] == "root at the command line"
    assert "Authorization" not in daemon.last().headers
    daemon.run("clock", "freeze", GROUPD_ACTOR="nightly\r\nX: y", GROUPD_TOKEN="secret")
    assert daemon.last().headers["X-Groupd-Actor"] == "nightly??X: y"
    assert daemon.last().headers["Authorization"] == "Bearer secret"
    daemon.run("clock", "freeze", "--token", "other", GROUPD_TOKEN="secret")
    assert daemon.last().headers["Authorization"] == "Bearer other"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--state Stable --members 3 --owned orders", {"state": "Stable", "members": 3, "owned": ["orders"]}),
        ("--members 2..4", {"members": {"min": 2, "max": 4}}),
        ("--members 3..", {"members": {"min": 3}}),
        ("--members ..0", {"members": {"max": 0}}),
        ("--members 0", {"members": 0}),
        ("--clients alice,bob --absent carol", {"clients": ["alice", "bob"], "absent": ["carol"]}),
        (
            "--owner orders-3=alice,orders-4=b=c --committed orders-0=41",
            {"owner": {"orders-3": "alice", "orders-4": "b=c"}, "committed": {"orders-0": 41}},
        ),
        ("--lag-max 0 --topics orders", {"lag_max": 0, "topics": ["orders"]}),
        ("--generation 4", {"generation": {"min": 4}}),
        ("--rebalanced client=bob --after 431", {"rebalanced": {"client": "bob"}, "after": 431}),
        ("--rebalanced any --after 5f3a9c1e.431", {"rebalanced": {}, "after": "5f3a9c1e.431"}),
        ("--rebalanced any", {"rebalanced": {}}),
        ("--quiet 5s", {"quiet": "5s"}),
    ],
)
def test_conditions_of_a_wait(daemon: FakeDaemon, options: str, wanted: dict[str, Any]) -> None:
    daemon.texts["POST /v1/groups/billing/wait"] = "billing is so\n"
    result = daemon.run("wait", "billing", *options.split(), "--within", "2s")
    assert (result.stdout, result.exit_code) == ("billing is so\n", 0)
    assert daemon.last().body == wanted | {"within": "2s"}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (
            "lost --match api=OffsetCommit,client_id=alice --at answer --drop --times 1",
            {
                "name": "lost",
                "match": {"api": "OffsetCommit", "client_id": "alice"},
                "times": 1,
                "do": {"at": "answer", "drop": True},
            },
        ),
        (
            "--match api=SyncGroup --match api=JoinGroup,generation>=3,first_join=true --hold --always",
            {
                "match": {"api": ["SyncGroup", "JoinGroup"], "generation": ">=3", "first_join": True},
                "times": None,
                "do": {"hold": True},
            },
        ),
        (
            "e --match version<5 --at answer --error not-coordinator --partitions orders-0,orders-1 --skip 2",
            {
                "name": "e",
                "match": {"version": "<5"},
                "skip": 2,
                "do": {"at": "answer", "error": "NOT_COORDINATOR", "partitions": ["orders-0", "orders-1"]},
            },
        ),
        ("e --at request --error -1", {"name": "e", "do": {"at": "request", "error": -1}}),
        ("lost-commit-answer", {"name": "lost-commit-answer", "use": "lost-commit-answer"}),
        (
            "x --use loading --match group=billing --for 60s --probability 0.5 --seed 7",
            {
                "name": "x",
                "use": "loading",
                "match": {"group": "billing"},
                "for": "60s",
                "probability": 0.5,
                "seed": 7,
            },
        ),
        (
            "d --at request --delay 200ms --jitter 50ms",
            {"name": "d", "do": {"at": "request", "delay": {"ms": 200, "jitter_ms": 50}}},
        ),
        ("d --at answer --delay 2s", {"name": "d", "do": {"at": "answer", "delay": "2s"}}),
        ("d --at answer --throttle 2s", {"name": "d", "do": {"at": "answer", "throttle_ms": 2000}}),
        (
            "c --at answer --coordinator 2@[::1]:9092",
            {
                "name": "c",
                "do": {"at": "answer", "coordinator": {"node_id": 2, "host": "::1", "port": 9092}},
            },
        ),
        (
            "disk --at append --fail ENOSPC --torn-bytes 7",
            {"name": "disk", "do": {"at": "append", "fail": "ENOSPC", "torn_bytes": 7}},
        ),
        (
            "k --at after_append --crash process",
            {"name": "k", "do": {"at": "after_append", "crash": "process"}},
        ),
        ("s --at request --swallow", {"name": "s", "do": {"at": "request", "swallow": True}}),
        (
            "m --on GroupStabilized,group=billing,generation>=3 --failover --loading 1500ms",
            {
                "name": "m",
                "on": {"event": "GroupStabilized", "group": "billing", "generation": ">=3"},
                "do": {"failover": {"loading": "1500ms"}},
            },
        ),
        (
            "m --on MemberJoined --failover",
            {"name": "m", "on": {"event": "MemberJoined"}, "do": {"failover": True}},
        ),
        (
            "m --on MemberJoined --failover --to 2",
            {"name": "m", "on": {"event": "MemberJoined"}, "do": {"failover": {"to": 2}}},
        ),
        (
            "m --on MemberJoined --freeze --disconnect bob --expire carol --release slow",
            {
                "name": "m",
                "on": {"event": "MemberJoined"},
                "do": {"freeze": True, "disconnect": "bob", "expire": "carol", "release": "slow"},
            },
        ),
    ],
)
def test_faults_in_all_forms(daemon: FakeDaemon, options: str, rule: dict[str, Any]) -> None:
    daemon.texts["POST /v1/faults"] = "made\n"
    result = daemon.run("fault", "add", *options.split())
    assert (result.stdout, result.stderr) == ("made\n", "")
    assert daemon.last().body == rule


def test_a_fault_may_take_the_place_of_another(daemon: FakeDaemon) -> None:
    daemon.texts["PUT /v1/faults/slow"] = "made\n"
    assert daemon.run("fault", "add", "slow", "--at", "request", "--hold", "--replace").exit_code == 0
    assert daemon.last().line == "PUT /v1/faults/slow"


def test_an_empty_value_names_nothing(daemon: FakeDaemon) -> None:
    """As from a variable of the shell that is not set: the daemon gets the empty list."""
    daemon.texts["POST /v1/groups/billing/wait"] = "it is\n"
    empty = [part for name in ("absent", "clients", "owned", "topics") for part in (f"--{name}", "")]
    pairs = ["--owner", "", "--committed", ""]
    assert daemon.run("wait", "billing", "--state", "Stable", *empty, *pairs).exit_code == 0
    lists: dict[str, list[str]] = {key: [] for key in ("absent", "clients", "owned", "topics")}
    assert daemon.last().body == {"state": "Stable", "within": "10s", **lists, "owner": {}, "committed": {}}
    daemon.texts["POST /v1/faults"] = "made\n"
    fault = ("fault", "add", "slow", "--at", "request", "--hold", "--match", "", "--partitions", "")
    assert daemon.run(*fault).exit_code == 0
    assert daemon.last().body == {"name": "slow", "do": {"at": "request", "hold": True}}


@pytest.mark.parametrize(
    "command",
    [
        "wait billing",
        "wait billing --after 3",
        "watch --after -2",
        "watch --after 5f3a9c1e.",
        "wait billing --members three",
        "wait billing --members ..",
        "wait billing --owner orders-3",
        "wait billing --committed orders-0=-1",
        "wait billing --owner orders-3=a,orders-3=b",
        "wait billing --clients alice,,bob",
        "wait billing --state Stable --within soon",
        "wait billing --state Stable --within 11m",
        "clock billing advance",
        "clock billing advance soon",
        "clock billing advance 1s 2s",
        "clock billing thaw",
        "clock billing freeze 5s",
        "clock billing freeze --silent bob",
        "clock billing advance 5s --except gone",
        "fault rm",
        "fault rm slow --all",
        "fault add x --times 1 --always",
        "fault add x --jitter 5ms",
        "fault add x --loading 5ms",
        "fault add x --match api",
        "fault add x --match first_join=maybe",
        "fault add x --coordinator broker",
        "fault add --replace --hold",
        "groups reset billing",
        "groups reset billing --to there",
        "groups reset billing --to 5 --to-datetime 2026-01-31",
        "groups reset billing --to 5 --topic orders:x",
        "groups list --state Happy",
        "explain billing --url ftp://here",
        "explain billing --url http://",
        "explain billing --url http://me@here",
        "explain billing --token ü",
        "explain",
    ],
)
def test_invalid_arguments_send_no_request(daemon: FakeDaemon, command: str) -> None:
    result = daemon.run(*command.split())
    assert result.exit_code == 2, result.output
    assert "Error: " in result.stderr
    assert daemon.asked == []
