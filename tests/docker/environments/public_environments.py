"""Load `environments.toml`: public set-ups in which groupd should replace Kafka by a change of the image name."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

FILE: Final = Path(__file__).with_name("environments.toml")
FAMILIES: Final = frozenset(
    {"apache", "cp-kafka", "cp-server", "bitnami", "wurstmeister", "debezium", "strimzi", "other"}
)
_KINDS: Final = frozenset({"compose", "github-actions", "testcontainers"})
_VOLUMES: Final = frozenset({"named", "bind", "socket"})
_FILES: Final = frozenset({"keystore", "truststore", "password", "jaas", "script", "records", "keytab"})
_STORES: Final = frozenset({"JKS", "PKCS12", "unknown"})
_RUNS: Final = frozenset({"init-container", "one-off", "exec", "zookeeper"})
_ROLES: Final = frozenset(
    {"host", "application", "console", "schema-registry", "kafka-connect", "ksqldb", "rest-proxy", "proxy"}
)
_SECURITY: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_DATA_DIRECTORIES: Final = ("/var/lib/kafka", "/bitnami", "/kafka", "/tmp/kraft-combined-logs")
_REVISION: Final = re.compile(r"[0-9a-f]{40}")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
_PORTS: Final = re.compile(r"(127\.0\.0\.1:)?\d+:\d+")
_ADDRESS: Final = re.compile(r"[\w.-]+:\d+")
_TODAY: Final = re.compile(r"works|starts, but .+|fails: .+")

Table = Mapping[str, Any]
_Read = TypeVar("_Read")


class InvalidEnvironments(ValueError):
    """The file breaks a rule. The message begins with the place in the file."""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A volume of the Kafka service. `source` is a volume name, or a path relative to the compose file."""

    source: str
    target: str
    kind: str
    read_only: bool

    @property
    def holds_data(self) -> bool:
        """Whether a Kafka image keeps its data at this path."""
        return self.target.startswith(_DATA_DIRECTORIES)


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A health check in the form of compose: `test` begins with CMD or CMD-SHELL, durations have a unit.

    What the file leaves out has the default of Docker.
    """

    test: tuple[str, ...]
    interval: str
    timeout: str
    retries: int
    start_period: str


@dataclass(frozen=True, slots=True)
class BrokerService:
    """A service that runs the Kafka image.

    Other containers reach it by `service`, `hostname` and `aliases`. `ports` have the form HOST:CONTAINER. Where a
    `dockerfile` builds from the Kafka image, `build` has its instructions besides FROM and ENV. Services with the
    same `cluster` form one Kafka cluster. `command` and `entrypoint` are None where the file sets none.
    `entrypoint_lines` are the commands of a long entry point. With a recipe the service may run several brokers.
    """

    service: str
    environment: Mapping[str, str]
    hostname: str | None
    aliases: tuple[str, ...]
    networks: tuple[str, ...]
    ports: tuple[str, ...]
    user: str | None
    command: tuple[str, ...] | None
    entrypoint: tuple[str, ...] | None
    entrypoint_lines: tuple[str, ...]
    dockerfile: str | None
    build: tuple[str, ...]
    volumes: tuple[VolumeMount, ...]
    healthcheck: HealthCheck | None
    cluster: str
    brokers: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which other containers reach it."""
        hostname = (self.hostname,) if self.hostname else ()
        return tuple(dict.fromkeys((self.service, *hostname, *self.aliases)))

    def setting(self, name: str) -> str:
        """Return a variable without its prefix, KAFKA_ or Bitnami's KAFKA_CFG_; empty if it is not set."""
        return self.environment.get(f"KAFKA_{name}") or self.environment.get(f"KAFKA_CFG_{name}") or ""

    @property
    def client_protocols(self) -> Mapping[str, str]:
        """The security protocols of the listeners that clients can use, by listener name."""
        protocols = dict(
            entry.split(":") for entry in _entries(self.setting("LISTENER_SECURITY_PROTOCOL_MAP"))
        )
        listeners = self.setting("LISTENERS") or self.setting("ADVERTISED_LISTENERS") or "PLAINTEXT://:9092"
        names = [entry.partition("://")[0] for entry in _entries(listeners)]
        controllers = {*_entries(self.setting("CONTROLLER_LISTENER_NAMES")), "CONTROLLER"}
        return {name: protocols.get(name, name) for name in names if name not in controllers}


@dataclass(frozen=True, slots=True)
class CommandRun:
    """Commands that run in a container of the Kafka image.

    `kind`: an init container, a one-off container, commands by exec in a running broker, or ZooKeeper from the same
    image. `lines` are commands; `entrypoint` and `command` precede them.
    """

    kind: str
    service: str
    lines: tuple[str, ...]
    user: str | None
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...] | None
    environment: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class MountedFile:
    """What a file in the container holds, for a test that writes such a file.

    A store has a `format` and a `password`, its certificate a `subject`. A keystore `with_ca` is the truststore,
    too. A JAAS file has `sections`, `mechanisms` and `users` (passwords of PLAIN by name). `runs` are commands of a
    script.
    """

    path: str
    kind: str
    format: str | None
    password: str | None
    subject: str | None
    with_ca: bool
    mechanisms: tuple[str, ...]
    sections: tuple[str, ...]
    users: Mapping[str, str] | None
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """A client of the cluster and the addresses that it bootstraps to. `service` is `host` outside of containers.

    Tests with Testcontainers have no fixed address: `bootstrap` is empty. A client without a `password` has the one
    of a JAAS file.
    """

    service: str
    role: str
    bootstrap: tuple[str, ...]
    image: str | None
    security: str
    mechanism: str | None
    username: str | None
    password: str | None
    waits_for_health: bool
    environment: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class KafkaModule:
    """A module of Testcontainers, and the pattern of a log line that the test waits for besides."""

    language: str
    container: str
    waits_for_log: str | None


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why set-ups fail. `symptom` matches the failures in a measurement."""

    name: str
    text: str
    symptom: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Changes of docs/docker.md with which a set-up works that does not work by the image name alone.

    With a `command`, the first service of each cluster runs it, replaces the other services, and has their names as
    aliases. It publishes `ports`, or the ports of all services if the recipe names none, and gets the variables
    of `environment`. Containers of commands get the variables of `run_environment`. `replacements` maps texts in
    commands to their new texts.
    """

    command: tuple[str, ...] | None
    ports: tuple[str, ...]
    environment: Mapping[str, str]
    run_environment: Mapping[str, str]
    replacements: Mapping[str, str]

    def merge_brokers(self, brokers: tuple[BrokerService, ...]) -> tuple[BrokerService, ...]:
        """Return the services with the changes."""
        if self.command is None:
            return brokers
        clusters = {
            broker.cluster: [each for each in brokers if each.cluster == broker.cluster] for broker in brokers
        }
        return tuple(self._merge(*services) for services in clusters.values())

    def _merge(self, first: BrokerService, *others: BrokerService) -> BrokerService:
        services = (first, *others)
        return replace(
            first,
            command=self.command,
            aliases=(*first.aliases, *(name for other in others for name in other.names)),
            ports=self.ports or tuple(port for service in services for port in service.ports),
            environment={**first.environment, **self.environment},
            brokers=len(services),
        )

    def change_run(self, run: CommandRun) -> CommandRun:
        """Return commands with the changes."""
        lines = run.lines
        for old, new in self.replacements.items():
            lines = tuple(line.replace(old, new) for line in lines)
        return replace(run, lines=lines, environment={**(run.environment or {}), **self.run_environment})


@dataclass(frozen=True, slots=True)
class PublicEnvironment:
    """A public set-up, the result with groupd's image (`today`), and the causes of a failure.

    It fails by the image name alone and works with the `recipe`, if it has one.
    """

    name: str
    repository: str
    path: str
    revision: str
    also_read: tuple[str, ...]
    image: str
    family: str
    kind: str
    metadata: str
    today: str
    causes: tuple[FailureCause, ...]
    testcontainers: KafkaModule | None
    brokers: tuple[BrokerService, ...]
    runs: tuple[CommandRun, ...]
    files: tuple[MountedFile, ...]
    clients: tuple[KafkaClient, ...]
    recipe: Recipe | None

    def apply_recipe(self) -> "PublicEnvironment":
        """Return the set-up with the changes of its recipe."""
        assert self.recipe is not None
        return replace(
            self,
            brokers=self.recipe.merge_brokers(self.brokers),
            runs=tuple(map(self.recipe.change_run, self.runs)),
        )

    @property
    def works(self) -> bool:
        """Whether groupd replaces Kafka by a change of the image name alone."""
        return self.today == "works"

    @property
    def protocols(self) -> frozenset[str]:
        """The security protocols that clients can use."""
        return frozenset(protocol for broker in self.brokers for protocol in broker.client_protocols.values())

    @property
    def has_several_brokers(self) -> bool:
        """Whether several services form one cluster."""
        clusters = [broker.cluster for broker in self.brokers]
        return len(clusters) > len(set(clusters))


def load_environments(file: Path = FILE) -> Mapping[str, PublicEnvironment]:
    """Return the set-ups by name, in the order of the file.

    Raises:
        InvalidEnvironments: a field is missing, unknown or invalid.
    """
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    causes = {name: _read_cause(name, table) for name, table in document["cause"].items()}
    environments: dict[str, PublicEnvironment] = {}
    for table in document["environment"]:
        environment = _read_environment(table, causes)
        if environment.name in environments:
            raise InvalidEnvironments(f"{environment.name}: the name is used twice")
        environments[environment.name] = environment
    return environments


class _Fields:
    """The fields of a table, each read once."""

    def __init__(self, place: str, table: Table) -> None:
        self.place: Final = place
        self._left = dict(table)

    def text(self, name: str) -> str:
        value = self._left.pop(name, None)
        if not isinstance(value, str) or not value:
            raise self.invalid(f"{name} must be a text that is not empty")
        return value

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if name in self._left else None

    def choice(self, name: str, choices: frozenset[str], default: str | None = None) -> str:
        value = self.optional_text(name) or default or self.text(name)
        if value not in choices:
            raise self.invalid(f"{name} must be one of {', '.join(sorted(choices))}, not {value}")
        return value

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        value = self.text(name)
        if pattern.fullmatch(value) is None:
            raise self.invalid(f"{name} must match {pattern.pattern}, not be {value}")
        return value

    def flag(self, name: str) -> bool:
        value = self._left.pop(name, False)
        if not isinstance(value, bool):
            raise self.invalid(f"{name} must be true or false")
        return value

    def texts(self, name: str, pattern: re.Pattern[str] | None = None) -> tuple[str, ...]:
        values = self._left.pop(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.invalid(f"{name} must be a list of texts")
        for value in values:
            if pattern is not None and pattern.fullmatch(value) is None:
                raise self.invalid(f"{name} must match {pattern.pattern}, not be {value}")
        return tuple(values)

    def optional_texts(self, name: str) -> tuple[str, ...] | None:
        return self.texts(name) if name in self._left else None

    def texts_by_name(self, name: str) -> Mapping[str, str]:
        values = self._left.pop(name, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise self.invalid(f"{name} must be a table of texts")
        return values

    def variables(self, name: str) -> Mapping[str, str]:
        values = self.texts_by_name(name)
        for variable in values:
            if _VARIABLE.fullmatch(variable) is None:
                raise self.invalid(f"{name} has a name that no variable can have: {variable}")
        return values

    def optional_variables(self, name: str) -> Mapping[str, str] | None:
        return self.variables(name) if name in self._left else None

    def number(self, name: str, default: int) -> int:
        value = self._left.pop(name, default)
        if type(value) is not int:
            raise self.invalid(f"{name} must be a number")
        return value

    def tables(self, name: str, read: Callable[["_Fields"], _Read]) -> tuple[_Read, ...]:
        """Read a list of tables. No table may have a field that `read` leaves."""
        return tuple(
            self._read(f"{name} {n}", table, read) for n, table in enumerate(self._left.pop(name, []), 1)
        )

    def optional_table(self, name: str, read: Callable[["_Fields"], _Read]) -> _Read | None:
        return self._read(name, self._left.pop(name), read) if name in self._left else None

    def _read(self, name: str, table: Table, read: Callable[["_Fields"], _Read]) -> _Read:
        fields = _Fields(f"{self.place}, {name}", table)
        found = read(fields)
        fields.close()
        return found

    def close(self) -> None:
        """Raise InvalidEnvironments if a field was not read."""
        if self._left:
            raise self.invalid(f"unknown fields: {', '.join(self._left)}")

    def invalid(self, problem: str) -> InvalidEnvironments:
        return InvalidEnvironments(f"{self.place}: {problem}")


def _read_cause(name: str, table: Table) -> FailureCause:
    fields = _Fields(f"cause {name}", table)
    cause = FailureCause(name, fields.text("text"), re.compile(fields.text("symptom"), re.DOTALL))
    fields.close()
    return cause


def _read_environment(table: Table, causes: Mapping[str, FailureCause]) -> PublicEnvironment:
    fields = _Fields(str(table.get("name", "a set-up without a name")), table)
    environment = PublicEnvironment(
        name=fields.text("name"),
        repository=fields.matching("repository", _REPOSITORY),
        path=fields.text("path"),
        revision=fields.matching("revision", _REVISION),
        also_read=fields.texts("also_read"),
        image=fields.text("image"),
        family=fields.choice("family", FAMILIES),
        kind=fields.choice("kind", _KINDS),
        metadata=fields.choice("metadata", frozenset({"kraft", "zookeeper"})),
        today=fields.matching("today", _TODAY),
        causes=tuple(_find_causes(fields, causes)),
        testcontainers=fields.optional_table("testcontainers", _read_module),
        brokers=fields.tables("broker", _read_broker),
        runs=fields.tables("run", _read_run),
        files=fields.tables("files", _read_file),
        clients=fields.tables("client", _read_client),
        recipe=fields.optional_table("recipe", _read_recipe),
    )
    fields.close()
    if not environment.brokers or not environment.clients:
        raise fields.invalid("it must have a broker and a client")
    if environment.works == bool(environment.causes):
        raise fields.invalid("it must have causes if it does not work, and only then")
    if environment.works and environment.recipe is not None:
        raise fields.invalid("it must not have a recipe if it works without one")
    if environment.recipe is not None:
        _check_replacements(fields, environment.recipe, environment.runs)
    if (environment.testcontainers is not None) != (environment.kind == "testcontainers"):
        raise fields.invalid("testcontainers belongs to the kind testcontainers, and only there")
    return environment


def _find_causes(fields: _Fields, causes: Mapping[str, FailureCause]) -> Iterator[FailureCause]:
    for name in fields.texts("causes"):
        if name not in causes:
            raise fields.invalid(f"unknown cause {name}")
        yield causes[name]


def _read_module(fields: _Fields) -> KafkaModule:
    return KafkaModule(
        fields.text("language"), fields.text("container"), waits_for_log=fields.optional_text("waits_for_log")
    )


def _read_broker(fields: _Fields) -> BrokerService:
    return BrokerService(
        service=fields.text("service"),
        environment=fields.variables("environment"),
        hostname=fields.optional_text("hostname"),
        aliases=fields.texts("aliases"),
        networks=fields.texts("networks"),
        ports=fields.texts("ports", _PORTS),
        user=fields.optional_text("user"),
        command=fields.optional_texts("command"),
        entrypoint=fields.optional_texts("entrypoint"),
        entrypoint_lines=fields.texts("entrypoint_lines"),
        dockerfile=fields.optional_text("dockerfile"),
        build=fields.texts("build"),
        volumes=fields.tables("volumes", _read_volume),
        healthcheck=fields.optional_table("healthcheck", _read_health_check),
        cluster=fields.optional_text("cluster") or "",
    )


def _read_volume(fields: _Fields) -> VolumeMount:
    return VolumeMount(
        fields.text("source"),
        fields.text("target"),
        fields.choice("kind", _VOLUMES),
        fields.flag("read_only"),
    )


def _read_health_check(fields: _Fields) -> HealthCheck:
    found = HealthCheck(
        test=fields.texts("test"),
        interval=fields.optional_text("interval") or "30s",
        timeout=fields.optional_text("timeout") or "30s",
        retries=fields.number("retries", 3),
        start_period=fields.optional_text("start_period") or "0s",
    )
    if found.test[:1] not in (("CMD",), ("CMD-SHELL",)):
        raise fields.invalid("test must begin with CMD or CMD-SHELL")
    return found


def _read_run(fields: _Fields) -> CommandRun:
    return CommandRun(
        kind=fields.choice("kind", _RUNS),
        service=fields.text("service"),
        lines=fields.texts("lines"),
        user=fields.optional_text("user"),
        entrypoint=fields.optional_texts("entrypoint"),
        command=fields.optional_texts("command"),
        environment=fields.optional_variables("environment"),
    )


def _read_recipe(fields: _Fields) -> Recipe:
    return Recipe(
        command=fields.optional_texts("command"),
        ports=fields.texts("ports", _PORTS),
        environment=fields.variables("environment"),
        run_environment=fields.variables("run_environment"),
        replacements=fields.texts_by_name("replacements"),
    )


def _check_replacements(fields: _Fields, recipe: Recipe, runs: Iterable[CommandRun]) -> None:
    lines = [line for run in runs for line in run.lines]
    for old in recipe.replacements:
        if not any(old in line for line in lines):
            raise fields.invalid(f"replacements has a text that no command has: {old}")


def _read_file(fields: _Fields) -> MountedFile:
    found = MountedFile(
        path=fields.text("path"),
        kind=fields.choice("kind", _FILES),
        format=fields.optional_text("format"),
        password=fields.optional_text("password"),
        subject=fields.optional_text("subject"),
        with_ca=fields.flag("with_ca"),
        mechanisms=fields.texts("mechanisms"),
        sections=fields.texts("sections"),
        users=fields.optional_variables("users"),
        runs=fields.texts("runs"),
    )
    if (found.format in _STORES) != found.kind.endswith("store"):
        raise fields.invalid(f"a store, and nothing else, has a format: {', '.join(sorted(_STORES))}")
    return found


def _read_client(fields: _Fields) -> KafkaClient:
    return KafkaClient(
        service=fields.text("service"),
        role=fields.choice("role", _ROLES),
        bootstrap=fields.texts("bootstrap", _ADDRESS),
        image=fields.optional_text("image"),
        security=fields.choice("security", _SECURITY, "PLAINTEXT"),
        mechanism=fields.optional_text("mechanism"),
        username=fields.optional_text("username"),
        password=fields.optional_text("password"),
        waits_for_health=fields.flag("waits_for_health"),
        environment=fields.optional_variables("environment"),
    )


def _entries(text: str) -> list[str]:
    """Split a list of Kafka at its commas. Blanks around an entry do not count."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]
