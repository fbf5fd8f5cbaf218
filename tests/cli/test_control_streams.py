"""Commands that follow events across lost connections and restarts."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli.control.event_follower import ServerEvent, ServerEventParser
from tests.cli.control_answers import description, offsets, rebalance, summary
from tests.cli.fake_daemon import END, FakeDaemon
from tests.cli.terminal import Terminal, environment
from tests.cli.test_serve import TIMEOUT_S

BOARD = {"bootstrap": "127.0.0.1:9092", "groups": []}


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon().running() as daemon:
        yield daemon


class Command:
    """A running `groupd …` command with its lines of output."""

    def __init__(self, daemon: FakeDaemon, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coordinator", *arguments, "--url", daemon.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def error(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def interrupt(self) -> tuple[int, str, str]:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err


@contextmanager
def running(daemon: FakeDaemon, *arguments: str) -> Iterator[Command]:
    command = Command(daemon, *arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


# What a stream is made of

EVENTS = [
    ServerEvent(None, "message", "first"),
    ServerEvent("7", "MemberJoined", '{"a": "ü€😀"}'),
    ServerEvent("7", "message", "one\ntwo\n"),
    ServerEvent("", "message", " after a space"),
]
BYTES = (
    "\ufeffdata: first\n\n: a comment\n\nretry: 5\nevent: lost\n\n"
    'id: 7\r\nevent: MemberJoined\r\ndata: {"a": "ü€😀"}\r\n\r\n'
    "data: one\rdata:two\rdata\r\r"
    "id: no\0\nid\ndata:  after a space\nunknown: field\n\n"
    "data: without an end\n"
).encode()


@given(st.sets(st.integers(0, len(BYTES))))
def test_events_do_not_depend_on_their_chunks(cuts: set[int]) -> None:
    parser = ServerEventParser()
    edges = [0, *sorted(cuts), len(BYTES)]
    pieces = [BYTES[start:end] for start, end in pairwise(edges)]
    assert [event for piece in pieces for event in parser.parse_chunk(piece)] == EVENTS


@given(st.binary())
def test_a_stream_of_anything_is_read(data: bytes) -> None:
    list(ServerEventParser().parse_chunk(data))


def test_a_line_without_an_end_is_not_kept() -> None:
    parser = ServerEventParser()
    with pytest.raises(ValueError, match="longer"):
        list(chain.from_iterable(parser.parse_chunk(b"x" * 2**20) for _ in range(100)))


# groupd watch


def test_events_are_lines_as_they_happen(daemon: FakeDaemon) -> None:
    with running(daemon, "watch") as watch:
        daemon.send(440, "MemberExpired", line="Member bob-1 has failed \x1b[2J")
        words = watch.line().split("  ")
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.000", words[0])
        assert words[1:] == ["#440", "billing", "MemberExpired", "Member bob-1 has failed \\x1b[2J"]
        daemon.send(441, "GroupStabilized", generation_id=5)
        assert "#441" in watch.line()
        assert watch.interrupt() == (0, "", "")
    assert daemon.last().query == {}


def test_events_of_one_group_and_of_some_kinds(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "billing", "--kind", "MemberJoined,MemberLeft", "--after", "-1") as watch:
        daemon.send(1, "MemberJoined", line="hello")
        assert watch.line().split("  ")[1:] == ["#1", "MemberJoined", "hello"]
    assert daemon.last().query == {
        "group": ["billing"],
        "kind": ["MemberJoined", "MemberLeft"],
        "after": ["-1"],
    }


def test_events_after_one_of_another_process(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "--after", "77aa.431") as watch:
        daemon.pieces.put(
            b'id: 5f3a.-1\nevent: gap\ndata: {"after": 431, "gone_up_to": -1, "restarted": true}\n\n'
        )
        daemon.send(1, "MemberJoined")
        assert "restarted" in watch.error()
        assert "#1" in watch.line()
    assert daemon.last().query == {"after": ["77aa.431"]}


def test_events_as_json(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "--json") as watch:
        daemon.send(3, "MemberJoined", line="hello", member={"client_id": "bob"})
        value = json.loads(watch.line())
    assert (value["kind"], value["seq"], value["member"]) == ("MemberJoined", 3, {"client_id": "bob"})


def test_a_lost_connection_is_made_again_where_it_was(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "--json") as watch:
        daemon.send(7, "MemberJoined")
        assert json.loads(watch.line())["seq"] == 7
        daemon.pieces.put(END)
        daemon.send(8, "MemberLeft")
        assert json.loads(watch.line())["seq"] == 8
        assert watch.interrupt() == (0, "", "")
    assert [asked.headers.get("Last-Event-ID") for asked in daemon.asked] == [None, "5f3a.7"]


def test_a_connection_that_is_lost_before_any_event_is_made_again_where_it_began(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "--json") as watch:
        daemon.pieces.put(b"id: 5f3a.6\nretry: 1000\n\nid: 5f3a.7\nevent: MemberJoined\n")
        daemon.pieces.put(END)
        daemon.send(8, "MemberLeft")
        assert json.loads(watch.line())["seq"] == 8
    assert [asked.headers.get("Last-Event-ID") for asked in daemon.asked] == [None, "5f3a.6"]
    assert [asked.query for asked in daemon.asked] == [{}, {}]


def test_a_daemon_that_is_started_anew_is_followed_on() -> None:
    first, second = FakeDaemon(), FakeDaemon()
    with first.running():
        watch = Command(first, "watch")
        first.send(431, "MemberJoined")
        assert "#431" in watch.line()
    try:
        assert "connection refused" in watch.error()
        second.pieces.put(
            b'id: 77aa.-1\nevent: gap\ndata: {"after": 431, "gone_up_to": -1, "restarted": true}\n\n'
        )
        second.send(0, "GroupLoaded")
        with second.running(first.port):
            assert "answers again" in watch.error()
            assert "restarted" in watch.error()
            assert "#0" in watch.line()
            assert watch.interrupt() == (0, "", "")
    finally:
        watch.process.kill()
        watch.process.communicate()


def test_a_gap_is_printed(daemon: FakeDaemon) -> None:
    with running(daemon, "watch", "--after", "3") as watch:
        daemon.pieces.put(
            b'id: 5f3a.90\nevent: gap\ndata: {"after": 3, "gone_up_to": 90, "restarted": false}\n\n'
        )
        daemon.send(91, "MemberJoined")
        assert "dropped the events" in watch.error()
        assert "#91" in watch.line()


def test_a_stream_that_is_refused_ends_it(daemon: FakeDaemon) -> None:
    daemon.problems["GET /v1/stream"] = {"status": 429, "title": "Too many", "detail": "32 read already."}
    result = daemon.run("watch")
    assert (result.exit_code, result.stderr) == (1, "32 read already.\n")
    result = daemon.run("watch", "--url", "127.0.0.1:1")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


# groupd ledger --follow


def entry(seq: int, result: str = "stable") -> dict[str, Any]:
    return {
        "seq": seq,
        "group_id": "billing",
        "generation_id": seq,
        "result": result,
        "cause": "member joined",
    }


@pytest.mark.parametrize("is_json", [False, True])
def test_a_ledger_that_is_followed_prints_each_entry_once_it_is_closed(
    daemon: FakeDaemon, is_json: bool
) -> None:
    ledger = "GET /v1/groups/billing/ledger"
    daemon.values[ledger] = {"entries": [entry(3), entry(9, "open")], "next": 3}
    daemon.texts[ledger] = "#3  told\n"
    with running(daemon, "ledger", "billing", "--follow", *["--json"] * is_json) as follow:
        assert follow.line() == (json.dumps(entry(3), separators=(",", ":")) if is_json else "#3  told")
        daemon.values[ledger] = {"entries": [entry(12)], "next": 12}
        daemon.texts[ledger] = "#12  told\n"
        daemon.send(12, "RebalanceCompleted")
        assert follow.line() == (json.dumps(entry(12), separators=(",", ":")) if is_json else "#12  told")
        assert follow.interrupt() == (0, "", "")
    asked = [asked.query for asked in daemon.asked if asked.path.endswith("/ledger")]
    first, *others = [query for query in asked if query != {"after": ["2"], "limit": ["1"]}]
    assert first == {"last": ["5"]}
    assert others[0] == {"after": ["3"], "limit": ["1000"]}
    if not is_json:
        assert {"after": ["11"], "limit": ["1"]} in others


def test_the_ledger_of_a_future_group_can_be_followed(daemon: FakeDaemon) -> None:
    with running(daemon, "ledger", "billing", "--follow") as follow:
        ledger = "GET /v1/groups/billing/ledger"
        daemon.values[ledger] = {"entries": [entry(1)], "next": 1}
        daemon.texts[ledger] = "#1  told\n"
        daemon.send(1, "RebalanceCompleted")
        assert follow.line() == "#1  told"


# groupd top


def test_top_shows_changes_and_ends_by_ctrl_c(daemon: FakeDaemon) -> None:
    daemon.values |= {
        "GET /v1/groups": {"groups": [summary("billing")]},
        "GET /v1/board": BOARD,
        "GET /v1/groups/billing": description(),
        "GET /v1/groups/billing/offsets": offsets(),
    }
    top = Terminal(command=("top", "--url", daemon.url))
    top.wait_for("1 group")
    top.wait_for("billing")
    daemon.values |= {
        "GET /v1/groups": {"groups": [summary("billing", "PreparingRebalance")]},
        "GET /v1/board": BOARD,
        "GET /v1/groups/billing": description(state="PreparingRebalance", rebalance=rebalance()),
    }
    daemon.send(5, "RebalanceStarted", line="Preparing to rebalance group billing")
    top.wait_for("Preparing to rebalance group billing")
    top.wait_for("awaits bob")
    top.interrupt()
    code, written = top.finish()
    assert code == 0
    assert {"\x1b[?1049l", "\x1b[?25h"} <= {*re.findall(r"\x1b\[\?[0-9]+[lh]", written)[-2:]}, (
        "it is as it was"
    )
    assert "Traceback" not in written


def test_top_waits_for_a_daemon_that_is_away(daemon: FakeDaemon) -> None:
    daemon.values |= {"GET /v1/groups": {"groups": []}, "GET /v1/board": BOARD}
    top = Terminal(command=("top", "--url", daemon.url))
    top.wait_for("0 groups")
    daemon.problems["GET /v1/groups"] = {"status": 503, "title": "loading", "detail": "It is being loaded."}
    top.wait_for("It is being loaded")
    daemon.problems.clear()
    daemon.values["GET /v1/groups"] = {"groups": [summary("billing")]}
    daemon.values["GET /v1/groups/billing"] = description()
    daemon.values["GET /v1/groups/billing/offsets"] = offsets()
    top.wait_for("billing")
    top.interrupt()
    assert top.finish()[0] == 0


@pytest.mark.parametrize("arguments", [("watch",), ("ledger", "--follow")])
def test_a_reader_that_has_had_enough_ends_it_though_nothing_happens(
    daemon: FakeDaemon, arguments: tuple[str, ...]
) -> None:
    daemon.values["GET /v1/ledger"] = {"entries": [], "next": -1}
    with running(daemon, *arguments) as command:
        assert command.process.stdout is not None
        command.process.stdout.close()
        command.process.stdout = None
        assert command.process.wait(TIMEOUT_S) == 0
        assert command.error() == ""
