"""The form of the daemon's log."""

import logging

import pytest

from coordinator.core.daemon_log import start_log

HOSTILE = "a\nERROR forged\x1b[31m\u202ered\x9b"


def test_a_line_and_a_traceback_cannot_steer_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_log()
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("GroupCoordinator").exception("Failed: %s", HOSTILE)
    lines = capsys.readouterr().err.splitlines()
    assert "Failed: a\\nERROR forged\\x1b[31m\\u202ered\\x9b" in lines[0]
    assert lines[1].startswith("Traceback")
    assert all(map(str.isprintable, lines))


def test_a_test_leaves_the_logging_of_its_process_as_it_was(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_runtest_protocol")
    pytester.makepyfile(
        test_first="from coordinator.core.daemon_log import start_log\n\ndef test_first(): start_log('DEBUG')",
        test_second="""
            import logging

            def test_second():
                assert logging.getLogger().level == logging.WARNING
                assert logging.raiseExceptions
        """,
    )
    pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:asyncio").assert_outcomes(passed=2)
