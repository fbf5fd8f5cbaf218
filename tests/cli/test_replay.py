"""`groupd replay` and `groupd record`, as people call them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import groupd
from tests.cli.fake_daemon import FakeDaemon
from tests.control.replay.story import as_lines, two_members


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "g.groupd-rec"
    path.write_bytes(b"".join(as_lines(two_members())))
    return path


def run(path: Path | str, *options: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(groupd, ["replay", str(path), *options], input=stdin)


def test_a_replay_repeats_the_outcomes(path: Path) -> None:
    result = run(path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("identical: ")
    assert "2 generations" in result.stdout


def test_from_standard_input(path: Path) -> None:
    assert run("-", stdin=path.read_bytes()).stdout == run(path).stdout


def test_up_to_an_input(path: Path) -> None:
    result = run(path, "--until", "7")
    assert result.exit_code == 0
    assert "Stable" in result.stdout


def test_the_ledger(path: Path) -> None:
    result = run(path, "--ledger")
    assert result.exit_code == 0
    assert "member joined: A" in result.stdout
    assert "session expired: B" in result.stdout


@pytest.mark.parametrize("option", [("-o", "group.max.size=1"), ("--drop", "fire B")])
def test_a_changed_recording_has_other_outcomes(path: Path, option: tuple[str, str]) -> None:
    result = run(path, *option, "--ledger")
    assert result.exit_code == 1
    assert "session expired" not in result.stdout
    assert "has another outcome" in result.stdout
    assert run(path, "--drop", "heartbeat report").exit_code == 2


def test_a_change_without_effect_is_reported(path: Path) -> None:
    result = run(path, "-o", "group.max.size=100")
    assert (result.exit_code, result.stdout.split(":")[0]) == (0, "still identical")


def test_a_core_that_is_another_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.group.classic.classic_member.FIRST_REPORT_MS", 9_999)
    result = run(path)
    assert result.exit_code == 1
    assert "JoinGroup of A" in result.stdout
    assert "timers" in result.stdout


def test_nothing_is_found(path: Path) -> None:
    assert run(path, "--find", "double_owner").exit_code == 0
    result = run(path, "--find", "double_trouble")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "double_owner" in result.stderr


@pytest.mark.parametrize(("kind", "word"), [("scenario", "> join A"), ("pytest", "def test_g(broker):")])
def test_exports_are_written(path: Path, kind: str, word: str) -> None:
    result = run(path, "--emit", kind)
    assert result.exit_code == 0
    assert word in result.stdout


def test_a_scrubbed_one_plays_as_before(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.groupd-rec"
    assert run(path, "--scrub", str(other)).exit_code == 0
    assert run(other).stdout == run(path).stdout
    assert b"127.0.0.1" in path.read_bytes()
    assert b"127.0.0.1" not in other.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--find", "double_owner", "--ledger"),
        ("--emit", "pytest", "--scrub", "-"),
        ("--emit", "scenario", "-o", "group.max.size=1"),
        ("--me", "A"),
        ("--me", "A", "--emit", "scenario"),
        ("--until", "0"),
        ("-o", "group.max.size"),
        ("-o", "no.such=1"),
        ("--drop", "fire carol"),
        ("--emit", "pytest", "--me", "carol"),
        ("--scrub", "/no/such/directory/file"),
    ],
    ids=" ".join,
)
def test_invalid_arguments_are_refused(path: Path, options: tuple[str, ...]) -> None:
    result = run(path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


@pytest.mark.parametrize("what", [b"", b"\x00\xff garbage", b'{"format": 9, "group_id": "g"}\n'])
def test_other_files_are_refused(what: bytes, tmp_path: Path) -> None:
    path = tmp_path / "what"
    path.write_bytes(what)
    result = run(path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(path) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_truncated_recording_is_reported(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "short"
    other.write_bytes(path.read_bytes()[:-100])
    result = run(other)
    assert result.exit_code == 2
    assert "truncated" in result.stderr


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    result = run(tmp_path / "none")
    assert result.exit_code == 2
    assert "none" in result.stderr


# groupd record


@pytest.mark.parametrize(
    ("command", "line", "body"),
    [
        ("record", "GET /v1/recordings", None),
        ("record --new", "PUT /v1/recordings", {}),
        ("record --new --mebibytes 1", "PUT /v1/recordings", {"bytes": 1024 * 1024}),
        ("record billing", "PUT /v1/recordings/billing", {}),
        ("record billing start", "PUT /v1/recordings/billing", {}),
        ("record billing start --mebibytes 64", "PUT /v1/recordings/billing", {"bytes": 64 * 1024 * 1024}),
    ],
)
def test_record_sends_its_request(command: str, line: str, body: object) -> None:
    with FakeDaemon().running() as daemon:
        daemon.texts[line] = "said\n"
        result = daemon.run(*command.split())
        assert (result.stdout, result.stderr, result.exit_code) == ("said\n", "", 0)
        assert [asked.line for asked in daemon.asked] == [line]
        assert daemon.last().body == body


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("record billing stop", "DELETE /v1/recordings/billing"),
        ("record --none", "DELETE /v1/recordings"),
    ],
)
def test_record_forgets(command: str, line: str) -> None:
    with FakeDaemon().running() as daemon:
        daemon.values[line] = None
        assert daemon.run(*command.split()).exit_code == 0
        assert daemon.last().line == line


def test_record_saves(tmp_path: Path) -> None:
    text = '{"a": "\u2028\u00e4"}\n{"end": ""}\n'
    with FakeDaemon().running() as daemon:
        daemon.texts["GET /v1/recordings/billing"] = text
        to = tmp_path / "b.groupd-rec"
        assert daemon.run("record", "billing", "save", "-o", str(to)).exit_code == 0
        assert to.read_text(encoding="utf-8") == text
        assert daemon.run("record", "billing", "save", "-o", str(tmp_path / "no" / "b")).exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        "record billing save --mebibytes 3",
        "record billing start -o x",
        "record billing fly",
        "record billing --new",
        "record billing start --none",
        "record --new --none",
        "record --none --mebibytes 3",
        "record --mebibytes 3",
    ],
)
def test_record_refuses_invalid_arguments(command: str) -> None:
    with FakeDaemon().running() as daemon:
        assert daemon.run(*command.split()).exit_code == 2
        assert daemon.asked == []
