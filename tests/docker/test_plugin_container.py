"""pytest-groupd starts its daemon in a container of the real image."""

import socket
from pathlib import Path

import pytest
from pytest_groupd.daemon import DaemonChoice, create_daemon

from tests.docker.container_command import write_command
from tests.docker.containers.image import Image


def test_tests_reach_the_daemon_of_the_image(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_command(tmp_path / "docker", image)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with create_daemon([DaemonChoice(container="groupd:dev")], None, ["group.max.size=3"]) as daemon:
        daemon.ensure()
        with daemon.namespace(topics={"orders": 2}) as broker:
            host, _, port = broker.bootstrap.rpartition(":")
            socket.create_connection((host, int(port))).close()
            assert broker.topic("payments", 1).partitions == 1
        assert daemon.describe_end() is None
