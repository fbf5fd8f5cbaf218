"""A replay of the recordings of each earlier version has the recorded outcome."""

import subprocess
from pathlib import Path

import pytest

from tests.clients.command import COMMAND
from tests.golden.recording import GROUPS, RESULTS, file_name, play
from tests.golden.versions import VERSIONS, golden_path, read_json


@pytest.mark.parametrize("group_id", GROUPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_replay_has_the_recorded_outcome(version: str, group_id: str) -> None:
    expected = read_json(version, RESULTS)[group_id]
    assert expected["different"] is None
    path = golden_path(version, file_name(group_id))
    assert play(Path(path).read_bytes()) == expected
    done = subprocess.run(
        [*COMMAND, "replay", path, "--any-version"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
