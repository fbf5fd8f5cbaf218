"""`groupd-pipeline build`, `report` and `run` reject invalid options before Spark starts."""

import sys
from pathlib import Path

import pytest

from pipeline.cli import main

BAD = [
    ("ingest", ["--log-dir", "missing"], "missing"),
    ("ingest", ["--log-dir", ".", "--max-bytes", "0"], "--max-bytes"),
    ("build", ["--bootstrap", "nowhere"], "nowhere"),
    ("build", ["--log-end-offsets", "missing.csv"], "missing.csv"),
    ("build", ["--log-end-offsets", "missing.csv", "--bootstrap", "host:1"], "exclude"),
    ("build", ["--offsets-retention-minutes", "0"], "offsets-retention-minutes"),
    ("report", ["--out", "missing/report.html"], "missing"),
    ("report", ["--since", "yesterday"], "yesterday"),
    ("report", ["--since", "2026-03-02", "--until", "2026-03-01T23:00:00"], "--since"),
    ("report", ["--top", "0"], "--top"),
    ("run", ["--log-dir", "missing", "--out", "missing/report.html"], "missing"),
    ("run", ["--log-dir", "missing"], "missing"),
]


@pytest.mark.parametrize(("command", "options", "named"), BAD)
def test_bad_input_is_named_in_a_line_with_exit_code_2(
    command: str,
    options: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["groupd-pipeline", command, "--warehouse", "warehouse", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "is_warehouse", "reason"),
    [
        ("build", False, "ingest a log first"),
        ("report", False, "ingest a log first"),
        ("report", True, "build the tables first"),
    ],
)
def test_a_command_without_its_tables_ends_before_spark_starts(
    command: str,
    is_warehouse: bool,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pyspark")
    from pipeline.warehouse import Warehouse

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    warehouse = Warehouse(str(tmp_path / "warehouse"))
    if is_warehouse:
        warehouse.create()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.session.start", refuse)
    monkeypatch.setattr(sys, "argv", ["groupd-pipeline", command, "--warehouse", warehouse.root])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
