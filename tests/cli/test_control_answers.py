"""What commands that ask a running daemon make of its answers: words, tables, JSON, exit codes."""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli.command_errors import DaemonError, ServerUnreachable, format_daemon_error
from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.group_commands import find_shortest_ends
from coordinator.cli.control.suggested_commands import format_command
from coordinator.cli.main import main
from tests.cli.control_answers import description, finding, member, offsets, rebalance, summary
from tests.cli.fake_daemon import FakeDaemon
from tests.cli.terminal import COLORED, Terminal, at_terminal, environment, screen
from tests.cli.test_serve import TIMEOUT_S

HOSTILE = "evil\x1b[2J\r[red]red[/red]\u202e\x9b2J"

NOT_MET = {
    "type": "urn:groupd:not-met",
    "status": 409,
    "title": "billing does not meet the conditions after 2.0 s",
    "detail": "It is Stable with 3 members (alice, bob, carol), 4 wanted.",
    "hints": ["start another one"],
    "unmet": [],
}

CREATE_TOPIC = {
    "operation": "create_topic",
    "label": "Create topic orders",
    "arguments": {"topic": "orders"},
}


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon().running() as daemon:
        daemon.values |= {
            "GET /v1/groups": {
                "groups": [summary("audit", "Empty"), summary("billing", "PreparingRebalance")]
            },
            "GET /v1/groups/billing": description(),
            "GET /v1/groups/billing/offsets": offsets(),
            "GET /v1/groups/audit": description("audit", state="Empty", members=[]),
            "GET /v1/groups/audit/offsets": offsets("audit"),
            "GET /v1/board": {"bootstrap": "127.0.0.1:9092", "groups": []},
        }
        yield daemon


def run_at_terminal(
    daemon: FakeDaemon, *command: str, columns: int = 100, **variables: str
) -> tuple[int, str]:
    arguments = (*command, "--url", daemon.url)
    return at_terminal(columns=columns, variables=variables, command=arguments)


# No


def test_a_failed_wait_prints_the_reason_and_exits_with_one(daemon: FakeDaemon) -> None:
    daemon.problems["POST /v1/groups/billing/wait"] = NOT_MET
    result = daemon.run("wait", "billing", "--members", "4", "--within", "2s")
    assert (result.exit_code, result.stdout) == (1, "")
    first, *others = result.stderr.splitlines()
    assert first == f"{NOT_MET['title']}: {NOT_MET['detail']}"
    assert others == ["  hint: start another one"]
    result = daemon.run("wait", "billing", "--members", "4", "--json")
    assert json.loads(result.stdout) == NOT_MET
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, first)


def test_a_problem_prints_its_sentence_and_hints(daemon: FakeDaemon) -> None:
    daemon.problems["POST /v1/groups/billing/members/bob/expire"] = {
        "type": "urn:groupd:ambiguous-member",
        "status": 409,
        "title": "Two are called bob",
        "detail": "bob is the client id of 2 members of billing.",
        "candidates": ["bob-1", "bob-2"],
    }
    result = daemon.run("expire", "billing", "bob")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "bob is the client id of 2 members of billing."
    assert all(name in result.stderr for name in ("bob-1", "bob-2"))


@pytest.mark.parametrize(("status", "code"), [(400, 2), (401, 1), (403, 1), (404, 1), (422, 1), (503, 1)])
def test_exit_codes_of_problems(daemon: FakeDaemon, status: int, code: int) -> None:
    daemon.problems["GET /v1/faults"] = {
        "type": "urn:groupd:x",
        "status": status,
        "title": "T",
        "detail": "D.",
    }
    result = daemon.run("fault")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("D.\n")
    assert ("GROUPD_TOKEN" in result.stderr) == (status == 401)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["type", "title", "detail", "hints", "candidates"]), JSON))
def test_whatever_a_problem_is_made_of_it_is_lines(problem: dict[str, Any]) -> None:
    lines = list(format_daemon_error(DaemonError(409, problem)))
    assert lines
    assert [line for line in lines if not line.isprintable()] == []


# Nobody there


def test_without_a_daemon_one_line_has_the_remedy(daemon: FakeDaemon) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = daemon.run("groups", "--url", url)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in (url, "connection refused", "groupd serve", "--url"))
    assert "Errno" not in result.stderr
    result = daemon.run("groups", "--url", "no.such.host.invalid:1")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


@pytest.mark.parametrize("said", [b"", b"\0\0\0\x08 nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>"])
def test_a_foreign_server_is_recognised(daemon: FakeDaemon, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "coordinator", "groups", "--url", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err.count("\n")) == (3, "", 1), err
    assert f"127.0.0.1:{port}" in err


def test_an_answer_of_another_version_is_called_so(daemon: FakeDaemon) -> None:
    for answer in ({"groups": [{"group_id": "billing"}]}, ["billing"], 7):
        daemon.values["GET /v1/groups"] = answer
        result = daemon.run("groups")
        assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
        assert "version" in result.stderr
    daemon.values["GET /v1/groups"] = {"groups": [summary("billing") | {"newer": 1}], "newer": 2}
    assert daemon.run("groups").exit_code == 0


# Groups


def test_groups_in_columns(daemon: FakeDaemon) -> None:
    result = daemon.run("groups")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["GROUP", "STATE", "MEMBERS", "GENERATION", "PROTOCOL", "TYPE"],
        ["audit", "Empty", "2", "4", "consumer", "classic"],
        ["billing", "PreparingRebalance", "2", "4", "consumer", "classic"],
    ]
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())
    assert daemon.run("groups", "list").stdout == result.stdout
    assert json.loads(daemon.run("groups", "--json").stdout) == daemon.values["GET /v1/groups"]
    daemon.run("groups", "--state", "stable", "--prefix", "b")
    assert daemon.last().query == {"state": ["Stable"], "prefix": ["b"]}


def test_a_group_described(daemon: FakeDaemon) -> None:
    lines = daemon.run("groups", "describe", "billing").stdout.splitlines()
    fields = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert fields["state"] == "Stable since 2023-11-14T22:13:20.000Z"
    assert (fields["generation"], fields["leader"], fields["lag"]) == ("4", "alice-1", "9")
    words = [line.split() for line in lines]
    assert ["bob", "bob-1", "127.0.0.1", "yes", "400", "ms", "45", "s", "-", "orders:", "3", "5"] in words
    assert any(row[0] == "alice" and row[-2:] == ["orders:", "0-2"] for row in words if row)
    assert ["orders", "3", "41", "0", "50", "9", "bob"] in words
    assert ["orders", "5", "-", "0", "50", "-", "-"] in words
    both = json.loads(daemon.run("groups", "describe", "billing", "--json").stdout)
    assert both == {"group": description(), "offsets": offsets()}


def test_members_with_one_client_id_are_distinguished(daemon: FakeDaemon) -> None:
    """By the shortest end of the member id that is theirs alone, in every place that names them."""
    ids = [f"worker-{end}" for end in ("aaaa-0000-4f2a", "bbbb-1111-4f2a", "cccc-2222-9d01")]
    members = [member("worker", member_id=member_id) for member_id in ids] + [member("alice")]
    waiting = rebalance(awaited=[rebalance()["awaited"][0] | {"member_id": ids[2], "client_id": "worker"}])
    daemon.values["GET /v1/groups/billing"] = description(members=members, rebalance=waiting)
    one = offsets()["offsets"][0]
    owned = [one | {"partition": at, "member_id": each["member_id"]} for at, each in enumerate(members)]
    daemon.values["GET /v1/groups/billing/offsets"] = offsets() | {"offsets": owned}
    out = daemon.run("groups", "describe", "billing").stdout
    words = [line.split() for line in out.splitlines()]
    labels = ["worker-…0-4f2a", "worker-…1-4f2a", "worker-…9d01", "alice"]
    assert [row[-1] for row in words if row[:1] == ["orders"]] == labels
    assert [row[0] for row in words if len(row) > 2 and row[1] in (*ids, "alice-1")] == labels
    assert "JoinGroup of worker-…9d01" in out


@given(st.lists(st.text("01", max_size=8), min_size=1, max_size=12, unique=True))
def test_the_end_of_a_member_id_is_the_shortest_that_is_its_own(member_ids: list[str]) -> None:
    ends = find_shortest_ends(member_ids)
    assert ends.keys() == set(member_ids)
    for member_id, end in ends.items():
        assert member_id.endswith(end)
        others = [other for other in member_ids if other != member_id and other.endswith(end)]
        assert not others or end == member_id
        shorter = end[1:]
        assert len(shorter) < 4 or any(other.endswith(shorter) for other in {*member_ids} - {member_id})


def test_a_lag_names_partitions_of_unknown_end(daemon: FakeDaemon) -> None:
    known, never = offsets()["offsets"]
    unknown = known | {"partition": 4, "log_start_offset": None, "end_offset": None, "lag": None}
    path = "GET /v1/groups/billing/offsets"
    daemon.values[path] = offsets() | {"offsets": [known, unknown, never]}
    lines = daemon.run("groups", "describe", "billing").stdout.splitlines()
    [lag] = [line for line in lines if line.startswith("lag")]
    assert {"9", "1"} <= set(re.findall(r"\d+", lag))


def test_a_group_described_while_it_rebalances(daemon: FakeDaemon) -> None:
    gone = member(
        "bob", is_connected=False, connection_closed_ms_ago=305, awaits="JoinGroup", assignment=None
    )
    daemon.values["GET /v1/groups/billing"] = description(
        state="PreparingRebalance", members=[gone], rebalance=rebalance(), unowned={"orders": [3, 4, 5, 9]}
    )
    out = daemon.run("groups", "describe", "billing").stdout
    assert "open for 9.20 s: member joined, by carol" in out
    assert "JoinGroup of bob, last heard 12 s ago, not connected; 33 s at most" in out
    assert "orders: 3-5 9" in out
    assert "closed 305 ms ago" in out


def test_a_group_deleted(daemon: FakeDaemon) -> None:
    daemon.values["DELETE /v1/groups/billing"] = None
    result = daemon.run("groups", "delete", "billing")
    assert (result.stdout, result.exit_code) == ("billing is deleted\n", 0)
    assert daemon.run("groups", "delete", "audit").exit_code == 1


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("--to earliest", {"to": "earliest"}),
        ("--to 5 --execute", {"to": 5}),
        ("--to -5 --topic orders", {"to": "-5", "topics": ["orders"]}),
        (
            "--to +5 --topic orders:0,1 --topic other",
            {"to": "+5", "topics": ["orders-0", "orders-1", "other"]},
        ),
        ("--to-datetime 2026-01-31T12:00:00Z --dry-run", {"to_time_ms": 1769860800000, "dry_run": True}),
    ],
)
def test_offsets_set_anew(daemon: FakeDaemon, options: str, body: dict[str, Any]) -> None:
    is_dry = "dry_run" in body
    changes = [
        {"topic": "orders", "partition": 0, "before": None, "offset": 7},
        {"topic": "orders", "partition": 1, "before": 41, "offset": 7},
    ]
    answer = {"group_id": "billing", "dry_run": is_dry, "offsets": changes}
    daemon.values["PUT /v1/groups/billing/offsets"] = answer
    result = daemon.run("groups", "reset", "billing", *options.split())
    assert daemon.last().body == body
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        ["orders", "0", "-", "7"],
        ["orders", "1", "41", "7"],
    ]
    assert ("nothing was changed" in result.stderr) == is_dry
    assert json.loads(daemon.run("groups", "reset", "billing", *options.split(), "--json").stdout) == answer


def test_top_without_a_terminal_is_one_picture(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups/billing"] = description(state="PreparingRebalance", rebalance=rebalance())
    rows = [line.split(maxsplit=8) for line in daemon.run("top").stdout.splitlines()]
    assert [row[0] for row in rows] == ["GROUP", "billing", "audit"]
    assert rows[1][1:6] == ["PreparingRebalance", "4", "2", "0", "9"]
    assert "member joined; awaits bob" in " ".join(rows[1])
    picture = json.loads(daemon.run("top", "--json").stdout)
    assert [one["group"]["group_id"] for one in picture["groups"]] == ["billing", "audit"]
    del daemon.values["GET /v1/groups/audit"]  # it has gone between two questions
    assert "audit" not in daemon.run("top").stdout


def test_top_begins_with_the_group_in_trouble(daemon: FakeDaemon) -> None:
    gone = [member("alice"), member("bob", is_connected=False)]
    daemon.values["GET /v1/groups/audit"] = description("audit", members=gone)
    daemon.values["GET /v1/board"]["groups"] = [
        {"group_id": "audit", "violations": 3, "worst": finding("audit", "bob")},
        {"group_id": "billing", "violations": 0, "worst": None},
    ]
    titles, *rows = [line.split(maxsplit=8) for line in daemon.run("top").stdout.splitlines()]
    first = dict(zip(titles, rows[0], strict=False))
    assert (first["GROUP"], first["GONE"], first["VIOLATIONS"]) == ("audit", "1", "3")
    assert first["BECAUSE"] == "bob is disconnected"
    picture = json.loads(daemon.run("top", "--json").stdout)["groups"]
    assert [(one["group"]["group_id"], one["violations"]) for one in picture] == [
        ("audit", 3),
        ("billing", 0),
    ]


# Explanations


def test_remedies_are_commands_of_groupd(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups/billing/explain"] = {
        "detail": "billing is Stable.",
        "findings": [
            finding("billing", "bob", hint="Expire bob"),
            finding("billing", "a b", hint="Expire a b"),
            finding("billing", "x", hint="Do it", operation="something_new"),
            {
                "sentence": "orders does not exist",
                "hint": "Create it",
                "action": CREATE_TOPIC,
            },
        ],
    }
    lines = daemon.run("explain", "billing").stdout.splitlines()
    assert lines[lines.index("? Expire bob") + 1].split() == ["groupd", "expire", "billing", "bob"]
    assert "    groupd expire billing 'a b'" in lines
    assert lines[lines.index("? Do it") + 1] == "? Create it"
    assert lines[-1].strip() == (
        "groupd kafka-tools kafka-topics --bootstrap-server 127.0.0.1:9092 --create --topic orders"
    )
    daemon.values["GET /v1/namespaces/t-1/groups/billing/explain"] = {
        "detail": "billing is Stable.",
        "findings": [finding("billing", "bob", hint="Expire bob")],
    }
    out = daemon.run("explain", "billing", "--namespace", "t-1").stdout
    assert "groupd expire billing bob --namespace t-1" in out


def test_a_failed_wait_names_commands(daemon: FakeDaemon) -> None:
    action = finding("billing", "bob")["action"]
    daemon.problems["POST /v1/groups/billing/wait"] = NOT_MET | {"actions": [action, {"operation": 7}, 8, {}]}
    result = daemon.run("wait", "billing", "--members", "4")
    assert result.exit_code == 1
    assert "  try: groupd expire billing bob" in result.stderr.splitlines()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_command_without_the_address_of_the_broker_is_left_out(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, is_running: bool
) -> None:
    daemon.problems["POST /v1/groups/billing/wait"] = NOT_MET | {
        "actions": [CREATE_TOPIC, finding("billing", "bob")["action"]]
    }
    daemon.values["GET /v1/groups/billing/explain"] = {
        "detail": "billing is Stable.",
        "findings": [{"sentence": "orders does not exist", "hint": "Create it", "action": CREATE_TOPIC}],
    }
    if is_running:
        daemon.problems["GET /v1/board"] = {"status": 503, "title": "T", "detail": "starting"}
    else:

        def fail(*_: Any) -> Any:
            raise ServerUnreachable("the daemon has ended")

        monkeypatch.setattr(ApiClient, "get_json", fail)
    result = daemon.run("wait", "billing", "--members", "4")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{NOT_MET['title']}: {NOT_MET['detail']}\n")
    commands = [line for line in result.stderr.splitlines() if line.startswith("  try:")]
    assert commands == ["  try: groupd expire billing bob"]
    if is_running:
        explained = daemon.run("explain", "billing")
        assert (explained.exit_code, explained.stderr) == (0, "")
        assert explained.stdout.splitlines()[-1] == "? Create it"


def test_each_action_of_an_explanation_has_its_command(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups/billing/explain"] = {
        "detail": "billing is Stable.",
        "findings": [
            finding("billing", "alice"),
            finding("billing", "bob", hint="Expire one"),
            finding("billing", "carol", hint="Expire one"),
            finding("billing", "dave", hint="Expire one", action=None),
            finding("billing", "bob", hint="Expire one"),
        ],
    }
    lines = daemon.run("explain", "billing").stdout.splitlines()
    assert [line for line in lines if line.startswith(("?", " "))] == [
        "? Expire alice",
        "    groupd expire billing alice",
        "? Expire one",
        "    groupd expire billing bob",
        "    groupd expire billing carol",
    ]


@pytest.mark.parametrize(
    ("operation", "arguments", "request_line"),
    [
        ("expire_member", {"group": "billing", "member": "-x"}, "POST /groups/billing/members/-x/expire"),
        ("expire_member", {"group": "--json", "member": "bob"}, "POST /groups/--json/members/bob/expire"),
        ("step_clock", {"group": "-x"}, "POST /groups/-x/clock/step"),
        ("release_fault", {"fault": "--help"}, "POST /faults/--help/release"),
        ("remove_fault", {"fault": "--all"}, "DELETE /faults/--all"),
        ("remove_fault", {"fault": "slow sync"}, "DELETE /faults/slow%20sync"),
    ],
)
@pytest.mark.parametrize("namespace", [None, "t-1"])
def test_suggested_commands_run(
    daemon: FakeDaemon, operation: str, arguments: dict[str, str], request_line: str, namespace: str | None
) -> None:
    method, path = request_line.split()
    base = "/v1" if namespace is None else f"/v1/namespaces/{namespace}"
    daemon.texts[f"{method} {base}{path}"] = "done"
    command = format_command(operation, arguments, namespace, lambda: None)
    assert command is not None
    result = daemon.run(*shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert [asked.line for asked in daemon.asked] == [f"{method} {base}{path}"]


def test_a_group_in_place_of_a_subcommand_is_answered_with_the_command(daemon: FakeDaemon) -> None:
    result = daemon.run("groups", "billing")
    assert result.exit_code == 2
    assert "groupd groups describe billing" in result.stderr


# Terminals


def test_only_a_terminal_gets_colours(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups/billing/explain"] = {
        "detail": "billing is Stable for 4.2 s.",
        "findings": [],
    }
    for command in (("groups",), ("groups", "describe", "billing"), ("explain", "billing")):
        code, written = run_at_terminal(daemon, *command)
        assert code == 0
        assert COLORED.search(written)
        assert any("Stable" in row or "Empty" in row for row in screen(written))
        assert "\x1b" not in run_at_terminal(daemon, *command, NO_COLOR="1")[1]
        assert "\x1b" not in daemon.run(*command).stdout
        assert "\x1b" in daemon.run(*command, "--color", "always").stdout


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_fit_the_terminal(daemon: FakeDaemon, columns: int) -> None:
    name = "a-group-with-a-rather-long-name-" * 3
    daemon.values["GET /v1/groups"] = {"groups": [summary(name)]}
    code, written = run_at_terminal(daemon, "groups", columns=columns)
    rows = screen(written)
    assert code == 0
    assert max(map(len, rows)) <= columns
    assert name in "".join(row.split()[0] for row in rows[2:])


def test_nothing_steers_a_terminal(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/groups"] = {"groups": [summary("billing") | {"protocol_type": HOSTILE}]}
    daemon.values["GET /v1/groups/billing"] = description(
        HOSTILE,
        members=[member(HOSTILE, assignment={HOSTILE: [0]})],
        rebalance=rebalance(cause=HOSTILE, actor=HOSTILE),
        unowned={HOSTILE: [1]},
        leader=HOSTILE,
        protocol_name=HOSTILE,
    )
    hostile_finding = finding("billing", HOSTILE, sentence=HOSTILE, hint=HOSTILE)
    daemon.values["GET /v1/groups/billing/explain"] = {"detail": HOSTILE, "findings": [hostile_finding]}
    daemon.problems["GET /v1/faults"] = {
        "status": 409,
        "title": HOSTILE,
        "detail": HOSTILE,
        "hints": [HOSTILE],
    }
    commands = ("explain billing", "groups", "groups describe billing", "top", "fault")
    for command in commands:
        result = daemon.run(*command.split())
        assert all(line.isprintable() for line in result.output.splitlines()), command
        assert "[red]red[/red]" in result.output
        answer = daemon.run(*command.split(), "--json", "--color", "always").stdout
        assert all(line.isprintable() for line in answer.splitlines()), command
        assert json.dumps(HOSTILE)[1:-1] in json.dumps(json.loads(answer))
    for command in ("explain billing", "groups", "groups describe billing", "fault"):
        _, written = run_at_terminal(daemon, *command.split(), columns=300)
        assert "[red]red[/red]" in "\n".join(screen(written))


# Ends


def test_a_reader_that_has_had_enough_ends_it_quietly(daemon: FakeDaemon) -> None:
    daemon.texts["GET /v1/ledger"] = "a line\n" * 100_000
    command = [sys.executable, "-m", "coordinator", "ledger", "--url", daemon.url]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a line\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT_S) == 0


def test_ctrl_c_ends_a_wait_without_a_word(daemon: FakeDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        terminal = Terminal(
            command=("wait", "g", "--state", "Stable", "--url", f"127.0.0.1:{silent.getsockname()[1]}")
        )
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(65536)
            terminal.interrupt()
            assert terminal.finish() == (130, "")


def test_other_commands_do_not_import_the_api_client() -> None:
    source = (
        f"import sys; from {main.__module__} import groupd\n"
        "groupd(['ping', '--help'], standalone_mode=False)\n"
        "assert not {'urllib3', 'rich', 'aiohttp', 'coordinator.cli.control'} & set(sys.modules)\n"
        "groupd(['watch', '--help'], standalone_mode=False)\n"
        "assert not {'urllib3', 'rich', 'aiohttp'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", source],
        check=True,
        timeout=TIMEOUT_S,
        capture_output=True,
    )
