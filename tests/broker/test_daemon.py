"""How the daemon ends."""

import errno
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator

import pytest

from coordinator.config.config_errors import StartNotice
from coordinator.daemon import EXIT_FAILURE, EXIT_SUCCESS, run_daemon
from storage.data_directory import CLEAN_MARKER
from tests.broker.harness import settings
from tests.storage.faulty_files import FaultyFiles


class StopWhenReady(logging.Handler):
    """Stops the daemon as soon as it logs that it is ready, and keeps its log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.said.append(text)
        if text.startswith("Ready"):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def log() -> Iterator[StopWhenReady]:
    logger, handler = logging.getLogger("KafkaServer"), StopWhenReady()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


class FullAtTheEnd(FaultyFiles):
    """On a disk that has no room for the mark of a clean stop."""

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        if path.endswith(CLEAN_MARKER):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().write_atomically(path, data, is_private=is_private)


READY_IN_KAFKAS_LOG = (
    r".*\[KafkaServer id=\d+\] started.*",
    r".*Transitioning from RECOVERY to RUNNING.*",
    r".*Kafka Server started.*",
    r".*started \(kafka.server.Kafka.*Server\).*",
)
"""What Testcontainers and tests of other projects wait for."""


@pytest.mark.parametrize("in_image", [False, True])
def test_in_the_image_a_start_ends_with_the_lines_of_kafka(
    in_image: bool, log: StopWhenReady, capfd: pytest.CaptureFixture[str]
) -> None:
    how = settings("/data", {"http.listener": "off", "node.id": "7"}, files=FaultyFiles())
    how.in_image = in_image
    assert run_daemon(how, []) == EXIT_SUCCESS
    ready, *lines = capfd.readouterr().out.splitlines()
    assert ready.startswith("groupd ready ")
    for pattern in READY_IN_KAFKAS_LOG:
        assert any(re.fullmatch(pattern, line) for line in lines) is in_image, pattern


def test_a_start_begins_with_its_notices(log: StopWhenReady, caplog: pytest.LogCaptureFixture) -> None:
    how = settings("/data", {"http.listener": "off"}, files=FaultyFiles())
    notices = [StartNotice("for information", is_warning=False), StartNotice("to act on")]
    assert run_daemon(how, notices) == EXIT_SUCCESS
    levels = {record.getMessage(): record.levelname for record in caplog.records}
    assert levels["for information"] == "INFO"
    assert levels["to act on"] == "WARNING"


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_start_without_uvloop_succeeds_and_warns(
    is_missing: bool,
    log: StopWhenReady,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_missing:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_daemon(settings("/data", {"http.listener": "off"}, files=FaultyFiles()), []) == EXIT_SUCCESS
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("uvloop" in text for text in warnings) is is_missing


@pytest.mark.parametrize(("files", "code"), [(FaultyFiles(), EXIT_SUCCESS), (FullAtTheEnd(), EXIT_FAILURE)])
def test_a_stop_that_the_disk_refuses_is_a_failure_in_one_line(
    files: FaultyFiles, code: int, log: StopWhenReady
) -> None:
    assert run_daemon(settings("/data", {"http.listener": "off"}, files=files), []) == code
    unclean = [text for text in log.said if "not clean" in text]
    reason = f"The shutdown was not clean: /data/{CLEAN_MARKER}: no space left on device"
    assert unclean == ([] if code == EXIT_SUCCESS else [reason])
