"""What is written of a recording passes, with a real consumer and the plugin that it is for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.control.replay.pytest_export import format_pytest
from tests.control.replay.story import RecordedStory

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.interop
def test_it_passes_with_a_real_consumer(tmp_path: Path) -> None:
    """B falls silent, C leaves, and A, the real one, has everything in the end."""
    recorded = RecordedStory().tell(
        "config delay=0s min-session=500ms",
        "join A session=1s", "join A", "advance 100ms", "sync A A=orders:0,orders:1,orders:2",
        "join B session=1s", "join B", "join A", "advance 100ms",
        "sync A A=orders:0,orders:1 B=orders:2", "sync B",
        *(["advance 900ms", "heartbeat A"] * 2), "join A", "sync A A=orders:0,orders:1,orders:2",
        "join C session=1s", "join C", "join A", "sync A A=orders:0,orders:1 C=orders:2", "sync C",
        "leave C", "join A", "sync A A=orders:0,orders:1,orders:2",
    )  # fmt: skip
    path = tmp_path / "test_emitted.py"
    path.write_text(format_pytest(recorded, None))
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:randomly", "-q"),
        *("-c", os.devnull, "--rootdir", str(tmp_path), str(path)),
        *("-o", f"groupd_command={sys.executable} -m coordinator"),
    ]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
