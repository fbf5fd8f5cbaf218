"""The environments of Kafka's images start groupd in its own image. Its log names each variable without effect."""

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator.broker.server_settings import ServerSettings
from coordinator.config.config_errors import StartNotice
from coordinator.config.image_variables import IN_IMAGE
from coordinator.config.listeners import Address, Listener, create_access_notices, parse_listeners
from coordinator.config.setting_sources import read_settings
from protocol.messages.metadata import MetadataRequest
from tests.broker.harness import start
from tests.cli.test_serve import TIMEOUT_S, clean_environment
from tests.config.environments import ENVIRONMENTS, Environment
from tests.free_ports import free_ports
from tests.kafka_log.connection import Connection

DOCKERFILE = Path(__file__).parents[2] / "docker" / "Dockerfile"
IMAGE = {
    **dict(re.findall(r"\b(GROUPD_\w+)=(\S+)", DOCKERFILE.read_text())),
    IN_IMAGE: "true",
}
PORT = re.compile(r":(\d{4,5})\b")
LINE = re.compile(r"\[.*?\] (INFO|WARNING) \[\w+\] (.*)")
IS_NOTICE = re.compile(r"Ignored from |.* has all permissions ").match


def listeners(environment: Mapping[str, str], **more: object) -> list[Listener]:
    """Return the listeners of an environment. `more` are other sources."""
    settings = read_settings(environment=environment, **more)  # type: ignore[arg-type]
    return parse_listeners(settings.parse())[0]


def test_the_image_has_defaults_of_its_own() -> None:
    assert listeners(IMAGE) == [Listener("PLAINTEXT", Address("0.0.0.0", 9092), None)]
    defaults = {
        f"GROUPD_DEFAULT_{name}" for name in ("LISTENERS", "HTTP_LISTENER", "CONTROL_ENABLE", "LOG_DIRS")
    }
    assert IMAGE.keys() == defaults | {IN_IMAGE}


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_listeners_are_where_the_image_would_open_them(environment: Environment) -> None:
    found = listeners({**IMAGE, **environment.variables})
    opened = {listener.address.port: str(listener.advertised or "") for listener in found}
    assert opened == environment.listening


@dataclass(frozen=True)
class Container:
    """An environment with its ports replaced by free ones, and its data in a directory of the test."""

    environment: Environment
    directory: Path
    free: Mapping[int, int]

    @classmethod
    def create(cls, environment: Environment, directory: Path) -> "Container":
        ports = free_ports(len(environment.listening))
        return cls(environment, directory, dict(zip(environment.listening, ports, strict=True)))

    def _moved(self, text: str) -> str:
        return PORT.sub(lambda found: f":{self.free.get(int(found[1]), found[1])}", text)

    @property
    def variables(self) -> dict[str, str]:
        return {
            **{name: self._moved(text) for name, text in self.environment.variables.items()},
            **IMAGE,
            "GROUPD_DEFAULT_HTTP_LISTENER": "127.0.0.1:0",
            "GROUPD_DEFAULT_LOG_DIRS": str(self.directory),
        }

    def check_addresses(self) -> None:
        """Each listener advertises the address that the image's broker advertises."""
        for port, advertised in self.environment.listening.items():
            with Connection(f"127.0.0.1:{self.free[port]}") as connection:
                (broker,) = connection.call(MetadataRequest(topics=[]), 12).brokers
            assert f"{broker.host}:{broker.port}" == self._moved(advertised or f"127.0.0.1:{port}")

    def check_notices(self, notices: Sequence[StartNotice]) -> None:
        ignored, is_open = [notice.text for notice in notices if not notice.is_warning]
        assert ignored.endswith(f": {', '.join(self.environment.ignored)}")
        assert "authorizer.class.name" in is_open
        warned = tuple(notice.text.split()[0] for notice in notices if notice.is_warning)
        assert warned == self.environment.warned


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
async def test_a_broker_starts_and_says_what_has_no_effect(
    environment: Environment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    container = Container.create(environment, tmp_path)
    given = read_settings(environment=container.variables)
    config = given.parse()
    opened, closed = parse_listeners(config)
    notices = create_access_notices(config, opened, in_image=given.in_image)
    container.check_notices([*given.start_notices(closed), *notices])
    settings = ServerSettings(
        config, opened, config.log_dirs[0], properties=given.texts, cluster_id=given.cluster_id
    )
    server = await start(settings)
    try:
        await asyncio.to_thread(container.check_addresses)
    finally:
        await server.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_container_starts_and_says_what_has_no_effect(tmp_path: Path) -> None:
    container = Container.create(ENVIRONMENTS["Testcontainers for Java"], tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "coordinator", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**container.variables),
    ) as daemon:
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline().startswith("groupd ready ")
            container.check_addresses()
        finally:
            daemon.terminate()
            _, err = daemon.communicate(timeout=TIMEOUT_S)
    assert daemon.returncode == 0
    assert "ERROR" not in err
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    said = [StartNotice(line[2], line[1] == "WARNING") for line in lines if line is not None]
    container.check_notices([notice for notice in said if notice.is_warning or IS_NOTICE(notice.text)])


# Which listeners are opened


ADVERTISED = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,HOST://localhost:19092"}
MAP = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT"}


@pytest.mark.parametrize("image", [{}, IMAGE], ids=["a shell", "the image"])
@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_"])
def test_advertised_listeners_alone_are_opened_on_every_address(
    image: Mapping[str, str], prefix: str
) -> None:
    variables = {name.replace("KAFKA_", prefix): text for name, text in {**ADVERTISED, **MAP}.items()}
    assert listeners({**image, **variables}) == [
        Listener("PLAINTEXT", Address("0.0.0.0", 29092), Address("kafka", 29092)),
        Listener("HOST", Address("0.0.0.0", 19092), Address("localhost", 19092)),
    ]


def test_whoever_says_where_to_listen_is_listened_to() -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092"}
    expected = [Listener("PLAINTEXT", Address("127.0.0.1", 1), Address("kafka", 29092))]
    assert listeners({**IMAGE, **advertised, "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:1"}) == expected
    assert listeners({**IMAGE, **advertised}, file_text="listeners=PLAINTEXT://127.0.0.1:1") == expected
    assert listeners({**IMAGE, **advertised}, options=("listeners=PLAINTEXT://127.0.0.1:1",)) == expected
    assert listeners({**IMAGE, **advertised}, flags={"listeners": "127.0.0.1:1"}) == expected


@pytest.mark.parametrize(
    "more",
    [
        {"flags": {"advertised.listeners": "kafka:29092"}},
        {"options": ("advertised.listeners=PLAINTEXT://kafka:29092",)},
        {"file_text": "advertised.listeners=PLAINTEXT://kafka:29092"},
    ],
)
def test_without_an_image_what_is_advertised_opens_nothing(more: Mapping[str, object]) -> None:
    advertised = Address("kafka", 29092)
    assert listeners({}, **more) == [Listener("PLAINTEXT", Address("127.0.0.1", 9092), advertised)]
    assert listeners(IMAGE, **more) == [Listener("PLAINTEXT", Address("0.0.0.0", 9092), advertised)]


def test_a_file_wins_over_the_image() -> None:
    settings = read_settings(environment=IMAGE, file_text="log.dirs=/elsewhere")
    assert settings.parse().log_dirs == ("/elsewhere",)


# What is ignored


def test_each_unknown_variable_is_a_warning_of_its_own() -> None:
    settings = read_settings(
        environment={
            "KAFKA_GROUP_MAX_SISE": "5",
            "KAFKA_CFG_GROUP_MAX_SISE": "5",
            "KAFKA_SOMETHING_ELSE": "x",
            "KAFKA_PROCESS_ROLES": "broker",
        }
    )
    ignored, *unknown = settings.start_notices()
    assert "KAFKA_PROCESS_ROLES" in ignored.text
    assert not ignored.is_warning
    assert all(notice.is_warning for notice in unknown)
    bitnami, kafka, other = [notice.text for notice in unknown]
    assert "did you mean KAFKA_CFG_GROUP_MAX_SIZE?" in bitnami
    assert "did you mean KAFKA_GROUP_MAX_SIZE?" in kafka
    assert "KAFKA_SOMETHING_ELSE" in other
    assert "docs/configuration.md" in other


def test_each_source_has_a_line_of_its_own() -> None:
    settings = read_settings(
        file_path="server.properties",
        file_text="zookeeper.connect=x\nprocess.roles=broker\nlistener.name.ssl.max.connections=5\n",
        environment={"KAFKA_HEAP_OPTS": "-Xmx1g", "PATH": "/bin"},
        options=("background.threads=1", "confluent.balancer.enable=true"),
    )
    file, environment, options = [notice.text for notice in settings.start_notices()]
    assert "server.properties" in file
    assert file.endswith(": listener.name.ssl.max.connections, process.roles, zookeeper.connect")
    assert environment.endswith(": KAFKA_HEAP_OPTS")
    assert options.endswith(": background.threads, confluent.balancer.enable")
    assert settings.texts == {}


def test_no_variable_can_break_the_line() -> None:
    (notice,) = read_settings(environment={"KAFKA_A\nB\x1b[31m": "x"}).start_notices()
    assert notice.text.isprintable()


def test_without_anything_to_ignore_there_is_no_line() -> None:
    settings = read_settings(
        environment={"KAFKA_NODE_ID": "1", "CLUSTER_ID": "x"}, options=("group.max.size=5",)
    )
    assert settings.start_notices() == []


def test_of_two_forms_of_one_name_kafkas_wins() -> None:
    both = {"KAFKA_CFG_NODE_ID": "1", "KAFKA_NODE_ID": "2", "GROUPD_DEFAULT_NODE_ID": "3"}
    assert read_settings(environment=both).parse().node_id == 2
    del both["KAFKA_NODE_ID"]
    assert read_settings(environment=both).parse().node_id == 1
    assert read_settings(environment=both, file_text="node.id=4").parse().node_id == 1
    del both["KAFKA_CFG_NODE_ID"]
    assert read_settings(environment=both, file_text="node.id=4").parse().node_id == 4
