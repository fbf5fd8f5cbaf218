"""Options and program names of all tools, and the calls of nc, cub and kafka-metadata-quorum."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from coordinator.broker import server
from coordinator.cli.kafka_tools.dispatch import TOOLS
from coordinator.cli.kafka_tools.tool_options import OptionValueRule, Support
from coordinator.security.core import sasl_mechanisms
from tests.free_ports import free_ports
from tests.interop.build import CHECKOUT
from tests.interop.daemon import Daemon
from tests.kafka_tools.calls import TIMEOUT_S, run_tool, run_well, start_tool

OPTIONS = [
    (tool, option)
    for tool, (module, _) in TOOLS.items()
    for table in [import_module(f"coordinator.cli.kafka_tools.{module}").OPTIONS]
    for option in (table.options if table else ())
]
UNSUPPORTED = [(tool, option) for tool, option in OPTIONS if option.support is Support.NONE]
HEAVY = ("asyncio", "uvloop", "rich", "cramjam", server.__name__, sasl_mechanisms.__name__)
"""What takes long to import, and a plain call does without."""


@pytest.mark.parametrize("program", ["kafka-topics", "kafka-topics.sh", "/opt/kafka/bin/kafka-topics.sh"])
def test_a_tool_is_found_by_the_name_of_the_program(program: str) -> None:
    assert run_well(program, "--version") == "4.4.0\n"


def test_a_link_to_the_package_is_the_tool_of_its_name(tmp_path: Path) -> None:
    link = tmp_path / "kafka-topics.sh"
    link.write_text("from coordinator.cli.kafka_tools.__main__ import run_program\nrun_program()\n")
    done = subprocess.run(
        [sys.executable, str(link), "--version"],
        env={**os.environ, "PYTHONPATH": CHECKOUT},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "4.4.0\n")


def test_a_tool_that_does_not_exist_is_an_error() -> None:
    result = run_tool("kafka-dump-log", [])
    assert result.status == 1
    assert "kafka-dump-log" in result.err
    assert "kafka-topics" in result.err


@pytest.mark.parametrize(
    ("tool", "name"),
    [pytest.param(tool, option.name, id=f"{tool}-{option.name}") for tool, option in UNSUPPORTED],
)
def test_an_option_that_is_not_supported_is_named(tool: str, name: str) -> None:
    result = run_tool(tool, [f"--{name}", "x"])
    assert (result.status, result.out) == (1, "")
    assert f"--{name} is not supported" in result.err


def test_options_of_zookeeper_are_answered_with_their_successor() -> None:
    result = run_tool("kafka-topics", ["--zookeeper", "zookeeper:2181", "--list"])
    assert result.status == 1
    assert "--bootstrap-server" in result.err.splitlines()[1]


def test_an_option_may_be_given_once() -> None:
    result = run_tool("kafka-topics", ["--list", "--bootstrap-server", "a:1", "--bootstrap-server", "b:1"])
    assert result.status == 1
    assert "option bootstrap-server" in result.out


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (None, "no such file"),
        ("security.protocol=SECRET\n", "SECRET"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", "sasl.jaas.config"),
        ("default.api.timeout.ms=soon\n", "default.api.timeout.ms"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_named(file: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    if file is not None:
        path.write_text(file)
    arguments = ["--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)]
    result = run_tool("kafka-topics", arguments)
    assert result.status == 1
    assert sentence in result.err


def test_help_lists_the_supported_options() -> None:
    help_ = run_tool("kafka-topics", ["--help"]).err
    for tool, option in OPTIONS:
        if tool == "kafka-topics":
            is_listed = option.support is not Support.NONE and not option.in_image_only
            assert (f"--{option.name}" in help_) == is_listed
    assert any(option.takes is OptionValueRule.OPTIONAL_VALUE for _, option in OPTIONS)


def test_a_plain_call_imports_little(bootstrap: str) -> None:
    code = (
        "import sys; from coordinator.cli.kafka_tools.dispatch import main\n"
        f"assert main('kafka-topics', ['--list', '--bootstrap-server', {bootstrap!r}]) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_nc_tests_a_port(bootstrap: str) -> None:
    host, _, port = bootstrap.partition(":")
    (closed,) = free_ports(1)
    assert run_tool("nc", ["-z", host, port]) == ("", "", 0)
    assert run_tool("nc", ["-z", "-w", "5", "localhost", port]).status == 0
    assert run_tool("nc", ["-z", host, str(closed)]) == ("", "", 1)
    assert "refused" in run_tool("nc", ["-vz", host, str(closed)]).err
    assert "succeeded" in run_tool("nc", ["-z", "-v", host, port]).err
    assert run_tool("nc", ["-zw1", "no-such-host.invalid", port]).status == 1


@pytest.mark.parametrize(
    "words", [["localhost", "80"], ["-l", "80"], ["-z", "localhost"], ["-z", "localhost", "x"]]
)
def test_nc_says_what_it_does_not_support(words: list[str]) -> None:
    result = run_tool("nc", words)
    assert result.status == 1
    assert "usage: nc -z" in result.err


def test_cub_waits_until_brokers_are_ready(bootstrap: str) -> None:
    assert run_tool("cub", ["kafka-ready", "-b", bootstrap, "1", "60"]) == ("", "", 0)
    too_many = run_tool("cub", ["kafka-ready", "-b", bootstrap, "2", "0"])
    assert too_many.status == 1
    assert "found only 1" in too_many.err
    zookeeper = run_tool("cub", ["zk-ready", "zookeeper:2181", "60"])
    assert zookeeper.status == 0
    assert zookeeper.out.count("\n") == 1
    assert "ZooKeeper" in zookeeper.out
    for words in (
        [],
        ["sr-ready"],
        ["ensure-topic"],
        ["kafka-ready", "1", "60"],
        ["kafka-ready", "-b", bootstrap, "1"],
    ):
        assert run_tool("cub", words).status == 1


SERVICES = {
    "sr-ready": ("/config", '{"compatibilityLevel":"BACKWARD"}'),
    "kr-ready": ("/topics", '["orders"]'),
    "connect-ready": ("/", '{"version":"4.4.0"}'),
    "ksql-server-ready": ("/info", '{"KsqlServerInfo":{}}'),
    "control-center-ready": ("/", "<title>Control Center</title>"),
}


class Service(BaseHTTPRequestHandler):
    """A service of Confluent's images. `answers` has the body by the path and the credentials of a request."""

    answers: ClassVar[dict[tuple[str, str], str]] = {}

    def do_GET(self) -> None:
        body = self.answers.get((self.path, self.headers.get("Authorization", "")))
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write((body or "not found").encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The host and the port of a service without answers."""
    monkeypatch.setattr(Service, "answers", {})
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        Thread(target=server.serve_forever).start()
        yield "127.0.0.1", str(server.server_port)
        server.shutdown()


@pytest.mark.parametrize("command", SERVICES)
def test_cub_tests_whether_a_service_is_ready(command: str, service: tuple[str, str]) -> None:
    path, body = SERVICES[command]
    early = run_tool("cub", [command, *service, "0"])
    assert early.status == 1
    assert "404" in early.err
    Service.answers[path, ""] = body
    assert run_tool("cub", [command, *service, "0"]) == ("", "", 0)


def test_cub_waits_for_a_service(service: tuple[str, str]) -> None:
    """Its port is open before it is ready."""
    waiting = start_tool("cub", "connect-ready", *service, "60")
    Service.answers["/", ""] = '{"version":"4.4.0"}'
    _, err = waiting.communicate(timeout=TIMEOUT_S)
    assert (waiting.returncode, err) == (0, "")


def test_cub_logs_in_to_a_service(service: tuple[str, str]) -> None:
    Service.answers["/config", f"Basic {b64encode(b'alice:secret').decode()}"] = "compatibilityLevel"
    assert run_tool("cub", ["sr-ready", *service, "0"]).status == 1
    login = ("--username", "alice", "--password=secret")
    assert run_tool("cub", ["sr-ready", *service, "0", *login]).status == 0


def test_a_service_that_does_not_answer_is_an_error() -> None:
    (port,) = free_ports(1)
    result = run_tool("cub", ["sr-ready", "127.0.0.1", str(port), "0", "--secure", "--ignore_cert"])
    assert result.status == 1
    assert f"https://127.0.0.1:{port}/config" in result.err


@pytest.mark.parametrize(
    "class_name", ["kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"]
)
def test_a_tool_is_found_by_its_java_class(class_name: str, bootstrap: str) -> None:
    run_well("kafka-topics", "--bootstrap-server", bootstrap, "--create", "--topic", "orders")
    offsets = run_well("kafka-run-class", class_name, "--broker-list", bootstrap, "--topic", "orders")
    assert offsets == "orders:0:0\n"


@pytest.mark.parametrize("arguments", [[], ["kafka.Kafka", "server.properties"], ["GetOffsetShell"]])
def test_a_class_that_is_no_tool_is_an_error(arguments: list[str]) -> None:
    result = run_tool("kafka-run-class", arguments)
    assert result.status == 1
    assert "GetOffsetShell" in result.err


def test_tools_wait_for_a_broker_that_starts(tmp_path: Path) -> None:
    """As the init containers of compose files do: the tools are called before the broker listens."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    waiting = [
        start_tool("kafka-topics", "--bootstrap-server", address, "--list"),
        start_tool("cub", "kafka-ready", "-b", address, "1", "60"),
    ]
    daemon = Daemon(str(tmp_path), listen=address)
    try:
        for tool in waiting:
            _, err = tool.communicate(timeout=TIMEOUT_S)
            assert (tool.returncode, err) == (0, "")
    finally:
        daemon.stop()


def test_a_broker_that_never_answers_is_an_error(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=200\n")
    arguments = ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(config), "--list"]
    result = run_tool("kafka-topics", arguments)
    assert result.status == 1
    assert result.out.startswith("Error while executing topic command : ")


def test_the_status_of_the_quorum_names_the_broker(bootstrap: str) -> None:
    out = run_well("kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", "--status")
    lines = dict(line.split(":", 1) for line in out.splitlines())
    assert lines["LeaderId"].strip() == "1"
    (voter,) = json.loads(lines["CurrentVoters"])
    assert voter == {"id": 1, "endpoints": [f"PLAINTEXT://{bootstrap}"]}
    replication = run_tool(
        "kafka-metadata-quorum", ["--bootstrap-server", bootstrap, "describe", "--replication"]
    )
    assert replication.status == 1
    assert "--status" in replication.err
