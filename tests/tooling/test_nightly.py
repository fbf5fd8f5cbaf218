"""`make nightly` runs every round, and its report shows the end of each that failed."""

import os
import re
import sys
from pathlib import Path

from tests.nightly import ROOT, Round, report, rounds, run_all


def python(name: str, source: str, limit_minutes: float = 1) -> Round:
    return Round(name, (sys.executable, "-c", source), limit_minutes)


def test_a_failed_round_does_not_stop_the_others_and_is_shown(tmp_path: Path) -> None:
    failing = python("failing", "print('cause'); raise SystemExit(3)")
    results = run_all([failing, python("good", "print('all right')")], tmp_path, lambda _: None)
    assert [result.exit_code for result in results] == [3, 0]
    assert (tmp_path / "good.log").read_text() == "all right\n"
    text = report(results, seed=7)
    assert re.search(r"^failing .* FAILED: exit status 3$", text, re.MULTILINE)
    assert "  cause" in text
    assert "all right" not in text


def test_a_round_beyond_its_limit_ends_with_all_that_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    child = f"import time; pipe = open({str(pipe)!r}, 'w'); pipe.write('x'); pipe.flush(); time.sleep(600)"
    source = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    (result,) = run_all([python("endless", source, limit_minutes=5 / 60)], tmp_path, lambda _: None)
    assert result.exit_code is None
    assert result.failed
    os.set_blocking(reader, True)
    assert b"".join(iter(lambda: os.read(reader, 100), b"")) in (b"", b"x")
    os.close(reader)


def test_every_round_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {round_.command[2] for round_ in rounds(seed=1)} <= targets
