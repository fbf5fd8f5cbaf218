"""The command as others run it: a process, its output, its exit code."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator import __version__
from tests.broker.harness import Client, join_alone
from tests.cli.in_process import run_groupd
from tests.security.server.certificates import self_signed_pem
from tests.shared_fixtures import shared

READY = re.compile(r"groupd ready kafka=(\S+):(\d+) http=(?:(\S+):(\d+)|off) data=(/.+)\n")
FREE = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
TIMEOUT_S = 60


def clean_environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")} | more


def groupd(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own. `tests.cli.in_process.run_groupd` is cheaper."""
    return subprocess.run(
        [sys.executable, "-m", "coordinator", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=clean_environment(**environment),
        check=False,
    )


class Daemon:
    """A daemon that has printed its ready line."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coordinator", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(**environment),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = READY.fullmatch(line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no ready line: {line!r}\n{self.process.communicate()}")
        self.host, self.port = found[1], int(found[2])
        self.http_port, self.data_dir = int(found[4] or 0), found[5]

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err


@shared(Daemon.is_alive, scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    data = tmp_path_factory.mktemp("data")
    daemon = Daemon(*FREE, "--data-dir", str(data), "--topic", "orders:2")
    yield daemon
    code, out, err = daemon.stop()
    assert (code, out) == (0, "")
    assert "Traceback" not in err


def test_the_ready_line_has_bound_addresses_and_an_absolute_directory(daemon: Daemon) -> None:
    assert daemon.port > 0
    assert daemon.http_port > 0
    assert Path(daemon.data_dir, "meta.properties").exists()


def test_ping_tells_whether_a_daemon_answers(daemon: Daemon) -> None:
    assert groupd("ping", f"127.0.0.1:{daemon.port}").returncode == 0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        result = run_groupd("ping", "--timeout", "2", address)
    assert result.returncode == 1
    assert address in result.stderr
    assert "connection refused" in result.stderr
    assert "Errno" not in result.stderr


def test_ping_gives_up_on_a_port_that_is_open_and_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert run_groupd("ping", "--timeout", "0.2", f"127.0.0.1:{port}").returncode == 1


def test_ping_of_no_address_is_a_usage_error() -> None:
    for address in ("nowhere", "two..dots:9092"):
        assert run_groupd("ping", address).returncode == 2


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, ""


def test_the_http_port_serves_health_readiness_and_metrics(daemon: Daemon) -> None:
    assert get(daemon.http_port, "/health")[0] == 200
    assert get(daemon.http_port, "/ready")[0] == 200
    assert get(daemon.http_port, "/nothing")[0] == 404
    status, text = get(daemon.http_port, "/metrics")
    assert status == 200
    assert 'groupd_partitions{state="active"} 50.0' in text
    assert 'groupd_groups{state="Stable"} 0.0' in text
    assert "groupd_waiters 0.0" in text
    if sys.platform == "linux":
        assert "process_open_fds" in text


def test_the_start_logs_version_listeners_and_counts(tmp_path: Path) -> None:
    names = "INSIDE://127.0.0.1:0,OUTSIDE://0.0.0.0:0"
    options = {
        "listeners": names,
        "advertised.listeners": "INSIDE://groupd:19092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    arguments += ["--http", "127.0.0.1:0", "--data-dir", os.path.relpath(tmp_path), "--topic", "orders:1"]

    async def join(port: int) -> None:
        async with Client(port=port) as client:
            await join_alone(client, "billing")

    for groups in (0, 1):
        daemon = Daemon(*arguments, "--profile", "test")
        if not groups:
            asyncio.run(join(daemon.port))
        lines = [line for line in daemon.stop()[2].splitlines() if "[KafkaServer]" in line]
        assert "(OUTSIDE)" in lines.pop(0)  # everybody may come in there, which is a warning
        assert len(lines) == 6  # two of them at the end
        assert f"groupd {__version__}, data directory {tmp_path}" in lines[0]
        inside, outside = lines[1].split("), ")
        assert f"127.0.0.1:{daemon.port} (INSIDE, advertised as groupd:19092" in inside
        assert re.search(r"0\.0\.0\.0:[1-9]\d* \(OUTSIDE, advertised as the address", outside)
        assert f"http://127.0.0.1:{daemon.http_port}/" in lines[2]
        assert lines[3].endswith(f"Ready. Topics: 1, groups: {groups}")


@pytest.mark.parametrize("off", [("--http", "off"), ("-o", "http.listener=off")])
def test_the_http_port_can_be_left_out(tmp_path: Path, off: tuple[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "groupd.properties"
    file.write_text(f"http.listener=127.0.0.1:{port}\n")
    options = ("--listen", "127.0.0.1:0", "--config", str(file), *off, "--data-dir", str(tmp_path / "data"))
    daemon = Daemon(*options)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    assert run_groupd("ping", f"127.0.0.1:{daemon.port}").returncode == 0
    code, _, err = daemon.stop()
    assert code == 0
    assert "HTTP is off" in err
    assert daemon.http_port == 0


def test_the_data_directory_belongs_to_one_process(daemon: Daemon) -> None:
    result = groupd("serve", *FREE, "--data-dir", daemon.data_dir)
    assert result.returncode == 2
    assert daemon.data_dir in result.stderr
    assert result.stderr.count("\n") == 1
    if sys.platform == "linux":
        assert f"process {daemon.process.pid} (" in result.stderr


def test_a_port_in_use_stops_the_start(daemon: Daemon, tmp_path: Path) -> None:
    for arguments in (
        ("--listen", f"127.0.0.1:{daemon.port}", "--http", "127.0.0.1:0"),
        ("--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{daemon.port}"),
    ):
        result = groupd("serve", *arguments, "--data-dir", str(tmp_path / "new"))
        assert result.returncode == 2
        assert result.stderr.startswith("groupd: ")
        assert str(daemon.port) in result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-o", "no.such.property=1"], "no.such.property"),
        (["-o", "group.max.size=none"], "group.max.size"),
        (["--topic", "orders"], "orders"),
        (["--topic", "orders:0"], "orders:0"),
        (["--topic", "bad name:1"], "bad name"),
        (["--config", "/no/such/file"], "/no/such/file: no such file or directory"),
        (["--profile", "none"], "none"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_options_that_make_no_sense_exit_2_and_say_why(
    arguments: list[str], named: str, tmp_path: Path
) -> None:
    check_refused(run_groupd("serve", *FREE, "--data-dir", str(tmp_path / "data"), *arguments), named)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--listen", "nonsense"], "nonsense"),
        (["--http", "192.0.2.1:9080"], "192.0.2.1"),
        (["--http", "no-such-host.invalid:9080"], "no-such-host.invalid cannot be resolved"),
        (["--http", "nonsense"], "nonsense"),
        (["--data-dir", "/dev/null/data"], "/dev/null/data"),
    ],
)
def test_a_start_that_cannot_be_exits_2_and_says_why(
    arguments: list[str], named: str, tmp_path: Path
) -> None:
    check_refused(groupd("serve", *FREE, "--data-dir", str(tmp_path / "data"), *arguments), named)


def check_refused(result: subprocess.CompletedProcess[str], named: str) -> None:
    assert result.returncode == 2, result
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert "Errno" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", [[], ["serve"], ["ping"], ["version"]])
def test_help_is_there_for_each_command(command: list[str]) -> None:
    result = run_groupd(*command, "--help")
    assert result.returncode == 0
    assert "Usage: groupd" in result.stdout


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_daemon_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    daemon = Daemon(*FREE, "--data-dir", str(tmp_path))
    code, out, err = daemon.stop(how)
    assert code == 0
    assert out == ""
    assert "Traceback" not in err
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_environment_of_the_official_image_starts_the_daemon(tmp_path: Path) -> None:
    daemon = Daemon(
        "--http",
        "127.0.0.1:0",
        KAFKA_NODE_ID="1",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://localhost:9092",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="3",
        KAFKA_LOG_DIRS=str(tmp_path / "logs"),
        KAFKA_HEAP_OPTS="-Xmx512m",
        CLUSTER_ID="4L6g3nShT-eMCtK--X86sw",
    )
    code, _, err = daemon.stop()
    assert code == 0
    assert err.count("KAFKA_HEAP_OPTS") == 1
    assert err.count("KAFKA_PROCESS_ROLES") == 1
    assert len(list((tmp_path / "logs").glob("__consumer_offsets-*"))) == 3
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw" in (tmp_path / "logs" / "meta.properties").read_text()


def test_the_ready_line_of_every_interface_has_a_host_to_connect_to(tmp_path: Path) -> None:
    options = ("--http", "127.0.0.1:0", "-o", "offsets.topic.num.partitions=1")
    daemon = Daemon("--listen", ":0", *options, "--data-dir", str(tmp_path))
    try:
        assert run_groupd("ping", f"{daemon.host}:{daemon.port}").returncode == 0
    finally:
        assert daemon.stop()[0] == 0


def test_a_declared_topic_can_grow_and_not_shrink(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path), "-o", "offsets.topic.num.partitions=1")
    for count in (2, 3):
        assert Daemon(*FREE, *data, "--topic", f"orders:{count}").stop()[0] == 0
    result = groupd("serve", *FREE, *data, "--topic", "orders:1")
    assert result.returncode == 2
    assert "orders" in result.stderr
    assert len(list(tmp_path.glob("orders-*"))) == 3
    assert Daemon(*FREE, *data).stop()[0] == 0


def test_a_killed_daemon_starts_again(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path), "-o", "offsets.topic.num.partitions=1")
    daemon = Daemon(*FREE, *data, "--topic", "orders:1")
    assert daemon.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert Daemon(*FREE, *data, "--topic", "orders:1").stop()[0] == 0


def test_no_warning_of_a_library_is_printed(tmp_path: Path) -> None:
    store = tmp_path / "server.pem"
    with pytest.warns(UserWarning, match="length"):
        store.write_bytes(self_signed_pem("Unknown"))
    tls = (
        f"--data-dir={tmp_path / 'data'}",
        "--listen=SSL://127.0.0.1:0",
        "-ossl.keystore.type=PEM",
        f"-ossl.keystore.location={store}",
    )
    code, _, err = Daemon(*tls).stop()
    assert code == 0
    lines = err.splitlines()
    assert [line for line in lines if not line.startswith("[")] == []
