"""The form of the daemon's log."""

import logging

import pytest

from coordinator.logger import start_log

HOSTILE = "a\nERROR forged\x1b[31m\u202ered\x9b"


def test_a_line_and_a_traceback_cannot_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level, flags = root.level, (logging.raiseExceptions, logging.logThreads)
    try:
        start_log()
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logging.getLogger("GroupCoordinator").exception("Failed: %s", HOSTILE)
    finally:
        root.setLevel(level)
        logging.raiseExceptions, logging.logThreads = flags
        logging.logProcesses = logging.logMultiprocessing = True
    lines = capsys.readouterr().err.splitlines()
    assert "Failed: a\\nERROR forged\\x1b[31m\\u202ered\\x9b" in lines[0]
    assert lines[1].startswith("Traceback")
    assert all(map(str.isprintable, lines))
