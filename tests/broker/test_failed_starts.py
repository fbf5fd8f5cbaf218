"""A failed start prints one line on standard error with the cause and the fix, and exits with 2."""

import errno
import os
import signal
import socket
import threading
from collections.abc import Mapping

import pytest

from coordinator.config.listeners import Address
from coordinator.core.message_text import StartFailed
from coordinator.daemon import EXIT_START_FAILED, run_daemon
from coordinator.network.listening_socket import HTTP_OPTION, LISTEN_OPTION, bind_sockets
from storage.data_directory import LOCK_FILE
from storage.files import VolumeSpace
from tests.broker.harness import TIMEOUT_S, serving, settings
from tests.storage.faulty_files import FaultyFiles

DATA = "/var/lib/data"
KIB = 1024
FREE_PORTS = {"http.listener": "127.0.0.1:0"}
User = pytest.CaptureFixture[str]


class SmallFiles(FaultyFiles):
    """On a volume of a known size."""

    def __init__(self, total_bytes: int, usable_bytes: int) -> None:
        super().__init__()
        self.volume = VolumeSpace(total_bytes, usable_bytes)

    def space(self, path: str) -> VolumeSpace:
        return self.volume


def said(files: FaultyFiles, seen: User, properties: Mapping[str, str] | None = None) -> str:
    """The one line that a start on these files ends with. One that works is stopped, and fails the test."""
    stop = threading.Timer(TIMEOUT_S, os.kill, (os.getpid(), signal.SIGTERM))
    stop.start()
    try:
        code = run_daemon(settings(DATA, {**FREE_PORTS, **(properties or {})}, files=files), [])
    finally:
        stop.cancel()
    out, err = seen.readouterr()
    assert code == EXIT_START_FAILED
    assert out == ""
    assert err.startswith("groupd: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Errno" not in err
    return err


def with_data(files: FaultyFiles) -> FaultyFiles:
    files.mkdir(DATA)
    return files


def test_a_directory_that_may_not_be_made(capsys: User) -> None:
    files = FaultyFiles()
    files.fail("mkdir", error=errno.EACCES)
    line = said(files, capsys)
    assert "permission denied" in line
    assert f"user id {os.geteuid()}" in line
    assert f"install -d -o {os.geteuid()} {DATA}" in line
    assert "--data-dir" in line


@pytest.mark.parametrize("operation", ["lock", "write_atomically", "listdir"])
def test_a_directory_of_somebody_else(capsys: User, operation: str) -> None:
    files = with_data(FaultyFiles())
    files.fail(operation, error=errno.EACCES)
    line = said(files, capsys)
    assert f"user id {os.geteuid()}" in line
    assert f"chown -R {os.geteuid()} {DATA}" in line
    assert "--user" in line


@pytest.mark.parametrize("operation", ["mkdir", "lock", "write_atomically"])
def test_a_file_system_that_is_mounted_read_only(capsys: User, operation: str) -> None:
    files = FaultyFiles()
    files.fail(operation, error=errno.EROFS)
    line = said(files, capsys)
    assert DATA in line
    assert "read-only file system" in line
    assert "--data-dir" in line


@pytest.mark.parametrize(
    ("operation", "nth"), [("mkdir", 1), ("write_atomically", 1), ("write_atomically", 2)]
)
def test_a_disk_that_is_full(capsys: User, operation: str, nth: int) -> None:
    files = SmallFiles(64 * KIB, 4 * KIB)
    files.fail(operation, nth, errno.ENOSPC)
    line = said(files, capsys, {"offsets.topic.num.partitions": "1"})
    assert DATA in line
    assert "no space left on device" in line
    assert "4 KiB of 64 KiB are free" in line


def test_a_disk_that_has_bytes_and_no_inodes_left(capsys: User) -> None:
    files = SmallFiles(64 * KIB**3, 3 * KIB**3)
    files.fail("write_atomically", error=errno.ENOSPC)
    line = said(files, capsys)
    assert "3 GiB of 64 GiB are free" in line
    assert "inodes" in line


def test_a_disk_without_room_for_the_partitions_of_the_groups(capsys: User) -> None:
    line = said(SmallFiles(1024 * KIB, 200 * KIB), capsys, {"offsets.topic.num.partitions": "50"})
    assert DATA in line
    assert "50 empty partitions take 600 KiB" in line
    assert "200 KiB of 1 MiB are free" in line


async def test_a_full_disk_that_has_the_partitions_already_is_served() -> None:
    files = SmallFiles(1024 * KIB, 1024 * KIB)
    async with serving(DATA, files=files, topics=()):
        pass
    files.volume = VolumeSpace(1024 * KIB, 0)
    async with serving(DATA, files=files, topics=()) as server:
        assert not server.runtime.list_failed_partitions()


async def test_a_file_system_that_does_not_tell_its_size_is_taken_at_its_word() -> None:
    async with serving(DATA, files=SmallFiles(0, 0)) as server:
        assert not server.runtime.list_failed_partitions()


def test_a_directory_that_is_in_use(capsys: User) -> None:
    files = with_data(FaultyFiles())
    files.lock(f"{DATA}/{LOCK_FILE}")
    line = said(files, capsys)
    assert f"{DATA}: is in use" in line
    assert "--data-dir" in line


# Addresses


def refused(address: Address, option: str = LISTEN_OPTION) -> str:
    with pytest.raises(StartFailed) as caught:
        bind_sockets(address, 1, option)
    text = str(caught.value)
    assert str(address) in text
    assert "Errno" not in text
    assert "\n" not in text
    return text


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        assert "--listen 127.0.0.1:0" in refused(address)
        assert f"port {address.port} is in use" in refused(address)
        assert "--http off" in refused(address, HTTP_OPTION)


def test_an_address_of_another_machine() -> None:
    text = refused(Address("192.0.2.1", 9092))
    assert "192.0.2.1" in text
    assert "--listen 0.0.0.0:9092" in text
    assert "--advertise 192.0.2.1:9092" in text
    assert "--advertise" not in refused(Address("192.0.2.1", 9080), HTTP_OPTION)


def test_a_name_that_nobody_knows() -> None:
    text = refused(Address("no-such-host.invalid", 9092))
    assert "no-such-host.invalid" in text.split("(")[0]
    assert "--advertise no-such-host.invalid:9092" in text


@pytest.mark.parametrize("host", ["two..dots", "x" * 70])
def test_a_name_that_cannot_be_one(host: str) -> None:
    assert f"{host} is not a valid host name" in refused(Address(host, 9092))


def test_a_privileged_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_permitted(*_: object, **__: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", not_permitted)
    text = refused(Address("127.0.0.1", 80), HTTP_OPTION)
    assert "below 1024" in text
    assert f"user id {os.geteuid()}" in text
    assert refused(Address("127.0.0.1", 9092)).endswith(": permission denied")


def test_of_a_name_the_addresses_that_are_here_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As localhost, in a container without IPv6."""
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("192.0.2.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    (bound,) = bind_sockets(Address("localhost", 0), 1, LISTEN_OPTION)
    with bound:
        assert bound.getsockname()[0] == "127.0.0.1"
