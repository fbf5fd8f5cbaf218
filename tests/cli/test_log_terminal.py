"""The output of `groupd log` on a pseudo-terminal, and the part of it that a program gets in a pipe."""

import json
import re
import unicodedata
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from coordinator.cli.log.log_report import describe_finding
from coordinator.cli.log.record_text import LIST_GAP, PieceRole, join_pieces
from coordinator.cli.log.terminal_records import wrap_fields
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding
from storage.inspection.log_reader import LogListing
from storage.record import Record
from tests.cli.log_directory import OFFSETS, ORDERS, fact, flip, segments, write_data_directory
from tests.cli.log_records import commit
from tests.cli.terminal import COLORED, Terminal, at_terminal, piped, screen
from tests.cli.test_serve import FREE, Daemon, groupd

FIRST, SECOND = uuid.UUID(int=(1 << 127) + 1), uuid.UUID(int=1 << 126)
NEAR_FIRST = uuid.UUID(int=FIRST.int + (1 << 68))
"""Begins with the same eight digits."""


def group_of(member_ids: list[str], group: str = "readers", partitions: int = 2) -> Record:
    members = [
        MemberMetadata(
            member_id=member_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=45000,
            subscription=encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 1),
            assignment=encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[TopicPartitions(topic="orders", partitions=list(range(partitions)))]
                ),
                1,
            ),
        )
        for member_id in member_ids
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader=member_ids[0], members=members
    )
    return fact(GroupMetadataKey(group=group), value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A group of two members, commits of two groups, a tombstone, and records of a topic."""
    path = tmp_path / "data"
    batches = [
        [group_of([f"client-{FIRST}", f"client-{SECOND}"])],
        [commit("readers", "orders"), commit("readers", "payments"), commit("writers", "orders")],
        [fact(OffsetCommitKey(group="writers", topic="orders", partition=0), None)],
    ]
    write_data_directory(path, {OFFSETS: batches, ORDERS: [[Record(-1, 5, b"key", b"value")]]})
    return path


def only_at_a_terminal(data: Path, *command: str) -> tuple[list[str], list[str]]:
    """The rows that a person sees, which are coloured, and the lines that a program gets, which are not."""
    code, written = at_terminal(*command, data)
    result = piped(*command, data)
    assert code == result.returncode
    assert COLORED.search(written)
    assert "\x1b" not in result.stdout
    return screen(written), result.stdout.splitlines()


def test_member_ids_are_short_at_a_terminal_and_whole_in_a_pipe(data: Path) -> None:
    rows, lines = only_at_a_terminal(data, "dump", "--type", "group_metadata")
    assert len(lines) == 1
    for member in (FIRST, SECOND):
        assert f"client-{member}" in lines[0]
        assert not any(str(member) in row for row in rows)
        assert any(row.strip().startswith(f"client-{str(member)[:8]}-…") for row in rows)
    assert sum("leader=client-80000000-…" in row for row in rows) == 1
    _, full = at_terminal("dump", "--full", "--type", "group_metadata", data)
    assert all(any(str(member) in row for row in screen(full)) for member in (FIRST, SECOND))


def test_short_ids_are_as_long_as_it_takes_to_tell_them_apart(tmp_path: Path) -> None:
    members = [f"client-{FIRST}", f"client-{NEAR_FIRST}", f"client-{SECOND}", "no-uuid"]
    write_data_directory(tmp_path, {OFFSETS: [[group_of(members)]]})
    _, written = at_terminal("dump", tmp_path, columns=140)
    rows = [row.split()[0] for row in screen(written) if "client_id=" in row]
    assert rows == [
        "client-80000000-0000-0000-…",
        "client-80000000-0000-0010-…",
        "client-40000000-…",
        "no-uuid",
    ]


def test_each_partition_has_a_heading_and_each_record_its_columns(data: Path) -> None:
    rows, lines = only_at_a_terminal(data, "dump")
    assert [row for row in rows if row.startswith("/")] == [f"{data}/{OFFSETS}", f"{data}/{ORDERS}"]
    assert all(line.startswith((f"{OFFSETS} ", f"{ORDERS} ")) for line in lines)
    starts = [row for row in rows if re.match(r" +\d+  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z  ", row)]
    assert [row.split()[0] for row in starts] == ["0", "1", "2", "3", "4", "0"]
    columns = {
        row.index(kind)
        for row in starts
        for kind in ("group_metadata", "offset_commit", "record ")
        if kind in row
    }
    assert len(columns) == 1
    assert "2023-11-14T22:13:20.000Z" in lines[1]
    assert "2023-11-14 22:13:20.000Z" in starts[1]


def test_only_a_terminal_omits_default_fields(data: Path) -> None:
    rows, lines = only_at_a_terminal(data, "dump", "--type", "offset_commit")
    for field in ("leader_epoch=-1", 'metadata=""'):
        assert sum(field in line for line in lines) == 3
        assert not any(field in row for row in rows)
    _, full = at_terminal("dump", "--full", "--type", "offset_commit", data)
    assert full.count("leader_epoch=-1") == 3


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_long_lines_fit_the_terminal_and_name_omissions(tmp_path: Path, columns: int) -> None:
    members = [f"client-{uuid.UUID(int=number << 96)}" for number in range(30)]
    write_data_directory(tmp_path, {OFFSETS: [[group_of(members, "g" * 100, 90)]]})
    _, written = at_terminal("dump", tmp_path, columns=columns)
    rows = screen(written)[1:]
    assert max(map(len, rows)) <= columns
    assert sum("client_id=" in row for row in rows) == 8
    assert "22 more" in rows[-1]
    assert "--full" in rows[-1]
    assert "g" * 100 in "".join(row.strip() for row in rows)
    _, written = at_terminal("dump", "--full", tmp_path, columns=columns)
    rows = screen(written)[1:]
    assert max(map(len, rows)) <= columns
    assert sum("client_id=" in row for row in rows) == 30
    assert sum("orders-89]" in row for row in rows) == 30


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zs", "Zl", "Zp"]), max_size=60)
FIELDS = st.lists(st.lists(TEXTS, min_size=1, max_size=4), max_size=5)


@given(fields=FIELDS, cells=st.integers(8, 40), first_cells=st.integers(-5, 40))
def test_rows_hold_every_text_and_no_row_is_too_long(
    fields: list[list[str]], cells: int, first_cells: int
) -> None:
    line = []
    for texts in fields:
        pieces = [(PieceRole.VALUE, text) for text in texts if text]
        line.append([piece for one in pieces for piece in (one, LIST_GAP)][:-1])
    rows = wrap_fields(line, cells, first_cells=first_cells)
    shown = "".join(map(join_pieces, rows)).replace(" ", "")
    assert shown == "".join(text for texts in fields for text in texts)
    assert cell_len(join_pieces(rows[0])) <= max(first_cells, 0)
    assert all(cell_len(join_pieces(row)) <= cells for row in rows[1:])
    fields_shown = [" ".join(filter(None, texts)) for texts in fields]
    assert all(
        any(text in join_pieces(row) for row in rows) for text in fields_shown if cell_len(text) <= cells
    )


def test_stats_are_tables_at_a_terminal(data: Path) -> None:
    rows, lines = only_at_a_terminal(data, "stats")
    stats = json.loads(piped("stats", "--json", data).stdout)
    columns = ("records", "tombstones", "live_keys", "superseded_records", "bytes")
    for name, counts in (*stats["types"].items(), *((group["group"], group) for group in stats["groups"])):
        figures = [name, *(str(counts[column]) for column in columns)]
        assert [row.split() for row in rows].count(figures) == 1
        assert [line.split() for line in lines].count(figures) == 1
    ends = {len(row) for row in rows if row.startswith(("readers", "writers"))}
    assert len(ends) == 1
    narrow = "".join(screen(at_terminal("stats", data, columns=30)[1]))
    assert all(text in narrow for text in ("readers", "writers", "superseded"))
    assert "2 logs, 2 segments" in lines[0]


def test_findings_and_figures_are_laid_out_at_a_terminal(data: Path) -> None:
    rows, lines = only_at_a_terminal(data, "verify")
    assert any(row.split()[:2] == ["all", "logs"] and row.endswith(" 0") for row in rows)
    assert lines[-1].endswith("no findings")
    (segment,) = segments(data)
    flip(segment, 30)
    rows, lines = only_at_a_terminal(data, "verify")
    assert f"{segment}: byte 0" in rows
    assert lines[0].startswith(f"{segment}: byte 0: damaged_batch ")
    labels = [row.split()[0] for row in rows if row.startswith("  ")]
    assert labels[:3] == ["damaged_batch", "stops_load", "repair"]
    summary = json.loads(piped("verify", "--json", data).stdout.splitlines()[-1])
    figures = [f"{summary[name]:,}" for name in ("segments", "batches", "records", "bytes", "findings")]
    assert ["all", "logs", "(2)", *figures] in [row.split() for row in rows]


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("effect", FindingEffect)
def test_every_finding_has_all_forms(kind: FindingKind, effect: FindingEffect) -> None:
    log = LogListing("/data/orders-0", None, (), is_whole=True)
    entry = describe_finding(log, LogFinding(kind, effect, "/data/orders-0/a", 7, 3, 41, "broken"))
    assert entry.fields is not None
    assert (entry.fields["kind"], entry.fields["effect"]) == (kind.value, effect.value)
    for form in (entry.line, " ".join(text for row in entry.rows for text in row)):
        assert form is not None
        assert {"41", "broken"} <= set(re.findall(r"\w+", form))


def test_a_repair_is_reported_in_a_table_at_a_terminal(data: Path, tmp_path: Path) -> None:
    (segment,) = segments(data)
    flip(segment, 30)
    code, written = at_terminal("repair", data, "--out", tmp_path / "one")
    assert code == 0
    rows = screen(written)
    assert f"{segment}: byte 0" in rows
    result = piped("repair", data, "--out", tmp_path / "two", "--json")
    loss, *logs = map(json.loads, result.stdout.splitlines())
    figures = [f"{sum(log[name] for log in logs):,}" for name in ("batches", "records", "bytes")]
    assert ["all", "logs", "(2)", *figures, str(loss["length_bytes"])] in [row.split() for row in rows]


@pytest.mark.parametrize("command", [["dump"], ["stats"], ["verify"]])
def test_colours_can_be_disabled_and_forced(data: Path, command: list[str]) -> None:
    flip(segments(data)[0], 30)
    for arguments, variables in (
        (["--color", "never"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
    ):
        _, written = at_terminal(*command, *arguments, data, variables=variables)
        assert "\x1b" not in written
    assert "\x1b" not in piped(*command, data, variables={"FORCE_COLOR": "1"}).stdout
    assert COLORED.search(piped(*command, "--color", "always", data).stdout)
    assert COLORED.search(at_terminal(*command, "--color", "always", data, variables={"NO_COLOR": "1"})[1])


def test_a_dumb_terminal_and_json_get_plain_output(data: Path) -> None:
    for arguments, variables in (([], {"TERM": "dumb"}), (["--json"], {})):
        for command in ("dump", "stats", "verify"):
            _, written = at_terminal(command, *arguments, data, variables=variables)
            assert written.replace("\r\n", "\n") == piped(command, *arguments, data).stdout


def test_forced_colours_change_nothing_else_of_a_dump(data: Path) -> None:
    forced = piped("dump", "--color", "always", data).stdout
    assert COLORED.sub("", forced) == piped("dump", data).stdout


HOSTILE = [
    "\x1b[2J\x1b]0;title\x07",
    "[red]markup[/red] [link=x]",
    ":smile: \\[x]",
    "漢字と仮名",
    "e\u0301\u0323\u0301" * 5,
    "\u202eright to left",
    "line\r\nbreak\ttab",
    "\u200b\u2060",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_does_nothing_to_a_terminal(tmp_path: Path, text: str) -> None:
    key = OffsetCommitKey(group=text, topic="orders", partition=0)
    records = [
        group_of([f"{text}-{FIRST}", text], text),
        fact(key, OffsetCommitValue(offset=1, metadata=text, commit_timestamp=1)),
    ]
    write_data_directory(
        tmp_path, {OFFSETS: [records], ORDERS: [[Record(-1, 5, text.encode(), text.encode())]]}
    )
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
    for command in ("dump", "stats"):
        code, written = at_terminal(command, tmp_path, columns=140)
        assert code == 0
        rows = screen(written)
        assert any(shown in row for row in rows), rows
        assert all(cell_len(row) <= 140 for row in rows)
        assert not any(unicodedata.category(mark).startswith("C") for row in rows for mark in row)
    figures = [row for row in rows if row.startswith(("group_metadata", "offset_commit", "record "))]
    assert len({cell_len(row) for row in figures}) == 1


def test_characters_outside_the_encoding_are_escaped(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("漢", "orders")]]})
    result = groupd("log", "dump", str(tmp_path), PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert "group=\\u6f22 " in result.stdout
    assert Terminal("stats", tmp_path, variables={"PYTHONIOENCODING": "ascii"}).finish()[0] == 0


def test_a_terminal_gets_a_line_for_an_empty_result(data: Path) -> None:
    code, written = at_terminal("dump", "--group", "nobody", data)
    assert code == 0
    assert len(screen(written)) == 1
    result = piped("dump", "--group", "nobody", data)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_rich_is_loaded_for_terminals_only(data: Path, tmp_path: Path) -> None:
    profile = {"PYTHONPROFILEIMPORTTIME": "1"}

    def loads_rich(stderr: str) -> bool:
        assert "coordinator" in stderr
        return re.search(r"\| +rich", stderr) is not None

    assert loads_rich(Terminal("dump", data, variables=profile).finish()[1])
    for command in ("dump", "stats", "verify"):
        assert not loads_rich(groupd("log", command, str(data), **profile).stderr)
    assert not loads_rich(groupd("ping", "127.0.0.1:1", **profile).stderr)
    daemon = Daemon(*FREE, "--data-dir", str(tmp_path / "served"), **profile)
    assert not loads_rich(daemon.stop()[2])
