"""The image: its entry point, the start scripts of Kafka's images and the files that compose files expect."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from coordinator.cli.kafka_tools.dispatch import TOOLS
from tests.docker.containers.container import CommandResult, Container
from tests.docker.containers.image import DOCKERFILE, REPOSITORY, Image, Mount, derive_image
from tests.docker.containers.network import NetworkNamespace

STARTED = [
    "[BrokerLifecycleManager id=7] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
    "[KafkaServer id=7] started",
    "[KafkaRaftServer nodeId=7] Kafka Server started",
]
DATA_DIRECTORIES = (
    "/var/lib/groupd",
    "/var/lib/kafka/data",
    "/bitnami/kafka",
    "/kafka",
    "/tmp/kraft-combined-logs",
)
StartContainer = Callable[..., Container]


@pytest.fixture
def start(image: Image, tmp_path: Path) -> Iterator[StartContainer]:
    """Start a container with the arguments of Container."""
    network = NetworkNamespace()
    containers: list[Container] = []

    def start_container(base: Image = image, **settings: object) -> Container:
        directory = tmp_path / f"container-{len(containers)}"
        container = Container(base, directory, network, **settings)  # type: ignore[arg-type]
        containers.append(container)
        container.start()
        return container

    yield start_container
    for container in containers:
        container.remove()
    network.close()


@pytest.fixture(scope="module")
def idle(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container that runs other commands."""
    network = NetworkNamespace()
    container = Container(
        image, tmp_path_factory.mktemp("idle") / "container", network, command=["sleep", "infinity"]
    )
    container.start()
    yield container
    container.remove()
    network.close()


@pytest.fixture
def run(start: StartContainer) -> Callable[..., CommandResult]:
    """Run a container to its end."""

    def run_container(command: Sequence[str], **settings: object) -> CommandResult:
        container = start(command=command, **settings)
        return CommandResult(container.wait(), container.output)

    return run_container


def test_the_build_context_has_what_the_image_copies() -> None:
    sent = (REPOSITORY / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    sources = [source.rstrip("/") for line in copied for source in line.split()]
    included = {entry.removeprefix("!") for entry in sent if entry.startswith("!")}
    assert [
        source
        for source in sources
        if not any(source == each or source.startswith(f"{each}/") for each in included)
    ] == []


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ([], "serve"),
        (["serve", "--topic", "orders:6"], "serve --topic orders:6"),
        (["--topic", "orders:6"], "serve --topic orders:6"),
        (["--version"], "--version"),
        (["wait", "--help"], "wait --help"),
        (["serv"], "serv"),
        (["/etc/confluent/docker/run"], "serve"),
        (["/etc/confluent/docker/launch"], "serve"),
        (["/etc/kafka/docker/run"], "serve"),
        (["bash", "-c", "/etc/confluent/docker/run"], "serve"),
        (["start-kafka.sh"], "serve"),
        (["/opt/bitnami/scripts/kafka/entrypoint.sh", "/opt/bitnami/scripts/kafka/run.sh"], "serve"),
        (["/entrypoint.sh", "/run.sh"], "serve"),
        (["kafka-server-start", "/file"], "serve --config /file"),
        (
            ["sh", "-c", "bin/kafka-server-start.sh config/server.properties --override a=b --override c=d"],
            "serve --config config/server.properties -o a=b -o c=d",
        ),
    ],
    ids=lambda value: " ".join(value) or "no command" if isinstance(value, list) else "",
)
def test_a_command_of_groupd_or_of_a_start_runs_groupd(
    command: list[str], arguments: str, run: Callable[..., CommandResult], tmp_path: Path
) -> None:
    stub = tmp_path / "groupd"
    stub.write_text('#!/bin/sh\necho "$@"\n')
    stub.chmod(0o755)
    result = run(command, mounts=[Mount(str(stub), "/opt/groupd/bin/groupd")])
    assert result == CommandResult(0, f"{arguments}\n")


def test_a_start_prints_the_lines_of_kafka_and_stops_at_a_signal(start: StartContainer) -> None:
    container = start(environment={"KAFKA_NODE_ID": "7"})
    assert container.wait_for_output("Kafka Server started")
    first, *others = container.standard_output.decode().splitlines()
    assert first.startswith("groupd ready ")
    assert [line.partition(" (")[0] for line in others] == STARTED
    assert container.execute(["groupd-health"]).exit_code == 0
    # groupd itself is the first process of the container, not a shell in front of it.
    assert container.stop() == 0


def test_the_overrides_of_a_start_win_over_the_environment(start: StartContainer) -> None:
    words = "config/kraft/server.properties --override listeners=PLAINTEXT://:9999"
    listeners = {"KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    container = start(command=["bin/kafka-server-start.sh", *words.split()], environment=listeners)
    assert container.wait_for_output("groupd ready kafka=0.0.0.0:9999")


def test_a_properties_file_that_is_missing_stops_the_start(run: Callable[..., CommandResult]) -> None:
    result = run(["kafka-server-start.sh", "/missing.properties"])
    assert result.exit_code == 2
    assert "/missing.properties" in result.output


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        (["sh", "-c", "echo $0 $1", "one", "two"], 0, "one two\n"),
        (["bash", "-c", "exit 3"], 3, ""),
        (["missing-command"], 2, "missing-command"),
        (["kafka-storage", "format", "-t", "id", "-c", "/etc/kafka/kafka.properties"], 0, ""),
        (["bin/zookeeper-server-start.sh", "config/zookeeper.properties"], 0, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_commands_run_as_given(
    command: list[str], exit_code: int, output: str, run: Callable[..., CommandResult]
) -> None:
    result = run(command)
    assert result.exit_code == exit_code
    assert output in result.output


def test_create_topics_creates_the_topics_of_its_variable(
    run: Callable[..., CommandResult], tmp_path: Path
) -> None:
    stub = tmp_path / "kafka-tools"
    stub.write_text('#!/bin/sh\necho "$@"\n')
    stub.chmod(0o755)
    result = run(
        ["create-topics.sh"],
        environment={"KAFKA_CREATE_TOPICS": "orders:6:1, payments:3:2:compact,\n", "KAFKA_PORT": "9999"},
        mounts=[Mount(str(stub), "/opt/groupd/bin/kafka-tools")],
    )
    start = "--create --if-not-exists --bootstrap-server localhost:9999 --topic"
    assert result.output.splitlines() == [
        f"{start} orders --partitions 6 --replication-factor 1",
        f"{start} payments --partitions 3 --replication-factor 2 --config cleanup.policy=compact",
    ]


def test_kafka_storage_prints_a_uuid_of_kafkas_form(idle: Container) -> None:
    assert re.fullmatch(r"\w[\w-]{21}\n", idle.execute(["kafka-storage.sh", "random-uuid"]).output)


def test_commands_of_kafka_have_their_names_and_places(idle: Container) -> None:
    commands = (REPOSITORY / "docker/image/kafka-commands.txt").read_text().split()
    assert commands == sorted(TOOLS)
    places = ["/usr/bin", "/opt/kafka/bin", "/opt/bitnami/kafka/bin", "/kafka/bin"]
    paths = [f"{place}/{name}{end}" for place in places for name in commands for end in ("", ".sh")]
    found = idle.execute(["sh", "-c", 'for path; do [ -x "$path" ] || echo "$path"; done', "sh", *paths])
    assert found.output == ""


@pytest.mark.parametrize("user", ["10001", "appuser", "kafka", "1000:1000", "1001", "root"])
def test_data_directories_are_writable_for_users_of_kafkas_images(user: str, idle: Container) -> None:
    writing = 'for directory; do mktemp -p "$directory" >/dev/null || exit 1; done'
    command = ["sh", "-c", writing, "sh", *DATA_DIRECTORIES, "/opt/bitnami/kafka/config"]
    result = idle.execute(command, user=user)
    assert result == CommandResult(0, "")


def test_data_directories_belong_to_the_user_of_the_image(idle: Container) -> None:
    owners = idle.execute(["stat", "-c", "%u:%g", *DATA_DIRECTORIES])
    assert set(owners.output.split()) == {"10001:10001"}


def test_an_image_that_is_built_from_it_may_use_the_user_appuser(
    image: Image, tmp_path: Path, start: StartContainer
) -> None:
    (tmp_path / "agent.jar").touch()
    lines = ("USER root", "ADD --chmod=644 agent.jar /tmp/agent.jar", "USER appuser")
    derived = derive_image(image, lines, tmp_path / "derived", tmp_path)
    container = start(derived, command=None)
    assert container.wait_for_output("groupd ready")
    assert container.execute(["id", "-u"]).output == "10001\n"
    assert container.execute(["stat", "-c", "%a", "/tmp/agent.jar"]).output == "644\n"


def test_a_script_of_confluents_image_can_be_changed_before_the_start(start: StartContainer) -> None:
    change = "sed -i /KAFKA_ZOOKEEPER_CONNECT/d configure && echo true >>ensure"
    script = f"cd /etc/confluent/docker && {change} && exec ./run"
    container = start(command=["bash", "-c", script])
    assert container.wait_for_output("groupd ready")


def test_the_variables_are_properties_for_clients(run: Callable[..., CommandResult]) -> None:
    variables = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_A__B_C___D": "a=b c",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    script = "/etc/confluent/docker/configure && cat /etc/kafka/kafka.properties"
    result = run(["bash", "-c", script], environment=variables)
    assert result.output.splitlines() == ["a_b.c-d=a=b c", "security.protocol=SASL_SSL"]


def test_an_invalid_variable_ends_the_container_without_the_line_of_a_start(
    run: Callable[..., CommandResult],
) -> None:
    result = run([], environment={"KAFKA_GROUP_MAX_SIZE": "none"})
    assert result.exit_code == 2
    assert "started" not in result.output


def test_the_control_api_is_open_unless_an_authorizer_is_set(start: StartContainer) -> None:
    body = '{"PLAINTEXT": "127.0.0.1:9092"}'
    headers = (
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    request = "\\r\\n".join(("PUT /v1/namespaces/default/advertised HTTP/1.1", *headers, "", body))
    script = f"exec 3<>/dev/tcp/127.0.0.1/9080 && printf '{request}' >&3 && head -1 <&3"
    authorizer = {"KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    for environment, status in (({}, "200"), (authorizer, "403")):
        container = start(environment=environment)
        assert container.wait_for_output("groupd ready")
        assert container.execute(["bash", "-c", script]).output.split()[1] == status
        container.remove()


def test_a_mounted_volume_is_where_a_container_finds_it(start: StartContainer, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o777)
    volume.chmod(0o777)
    mounts = [Mount(str(volume), "/opt/bitnami/kafka/config/extra", is_read_only=False)]
    container = start(command=["sh", "-c", "echo found > /opt/kafka/config/extra/file"], mounts=mounts)
    assert container.wait() == 0
    assert (volume / "file").read_text() == "found\n"
