"""A public set-up with groupd's image in place of Kafka's: containers of that image, and clients from every place.

Each container has a network of its own. Forwarded ports stand for the bridge between containers and for published
ports, /etc/hosts stands for the engine's name server.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.docker.containers.container import HANG_S, CommandResult, Container
from tests.docker.containers.image import REPOSITORY, Image, Mount, derive_image
from tests.docker.containers.network import LOCALHOST, NetworkNamespace, PortForwarder
from tests.docker.environments.environment_files import EnvironmentFiles
from tests.docker.environments.public_environments import (
    BrokerService,
    CommandRun,
    HealthCheck,
    KafkaClient,
    PublicEnvironment,
    VolumeMount,
)

_PORT: Final = re.compile(r":(\d+)(?=,|\s|$)")
_DEFAULT_PORT: Final = 9092
_HOST: Final = "host"
_JAVA_MODULE: Final = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
"""The variables that the Kafka modules for Java set."""
_START_SCRIPTS: Final = {
    "org.testcontainers.kafka.KafkaContainer": (9092, 9093, "/etc/kafka/docker/run"),
    "org.testcontainers.containers.KafkaContainer": (
        9093,
        9092,
        "\n".join(
            (
                "echo 'clientPort=2181' > zookeeper.properties",
                "zookeeper-server-start zookeeper.properties &",
                "echo '' > /etc/confluent/docker/ensure",
                "/etc/confluent/docker/run",
            )
        ),
    ),
}
"""By the class of a module for Java: the ports for the host and for containers, and what its start script calls."""
_SHELLS: Final = frozenset({"sh", "/bin/sh", "bash", "/bin/bash"})
_CONSOLE_CONSUMER: Final = "kafka-console-consumer"


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """A place for clients: a network, the file that is /etc/hosts there, and the name of the host."""

    network: NetworkNamespace
    hosts: Path
    hostname: str

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs a program there. The program keeps the process id of the command."""
        script = "\n".join(
            (
                f"mount --bind {shlex.quote(str(self.hosts))} /etc/hosts",
                f"echo {shlex.quote(self.hostname)} >/proc/sys/kernel/hostname",
                'exec "$@"',
            )
        )
        enter = ("nsenter", f"--net={self.network.path}", "unshare", "--mount", "--uts")
        return [*enter, "sh", "-ec", script, "sh", *words]


@dataclass
class _Service:
    """A broker service that runs: its address in the networks of the others."""

    broker: BrokerService
    address: str
    network: NetworkNamespace
    ports: tuple[int, ...]
    container: Container | None = None
    data_volumes: list[Path] = field(default_factory=list)


class EnvironmentRun:
    """Runs a set-up once. `measure` returns a line for each step that fails.

    `start_brokers`, `execute` and `open_place` serve a test that runs programs of its own beside the brokers.
    """

    def __init__(
        self, environment: PublicEnvironment, image: Image, forwarder: PortForwarder, directory: Path
    ) -> None:
        self._environment = environment
        self._image = image
        self._forwarder = forwarder
        self._directory = directory
        self._containers: list[Container] = []
        self._networks: list[NetworkNamespace] = []
        self._services = [
            _Service(broker, f"127.0.1.{n}", self._new_network(), self._inner_ports(broker))
            for n, broker in enumerate(environment.brokers, 1)
        ]
        proxies = [client for client in environment.clients if client.role == "proxy"]
        self._proxies = {client.service: f"127.0.2.{n}" for n, client in enumerate(proxies, 1)}
        names = [name for service in self._services for name in service.broker.names]
        addresses = [host for client in environment.clients for host in _addresses(client)]
        hosts = dict.fromkeys(["localhost", LOCALHOST, *names, *addresses])
        self._files = EnvironmentFiles.write(environment, hosts, directory / "files")
        self._failures: list[str] = []

    def measure(self) -> list[str]:
        """Run the steps in their order; return the failures."""
        self.start_brokers()
        if all(service.container is not None for service in self._services):
            for service in self._services:
                self._check_health(service)
            for run in self._environment.runs:
                self._run(run)
            self._check_clients()
            for service in self._services:
                self._check_data(service)
        for service in self._services:
            if service.container is not None and "Warning:" in service.container.output:
                self._fail(f"log of {service.broker.service}", service.container.output)
        return self._failures

    def start_brokers(self) -> list[str]:
        """Start the broker services in their order; return the failures."""
        for service in self._services:
            self._start(service)
        return self._failures

    def execute(self, line: str) -> str:
        """Run a line of a shell in the container of the first broker; return its output."""
        container = self._services[0].container
        assert container is not None, "start_brokers comes first"
        result = container.execute(("sh", "-c", line))
        assert result.exit_code == 0, _describe((line,), result)
        return result.output

    def open_place(self, hostname: str) -> ClientPlace:
        """Return a new network of a container with this name."""
        network = self._new_network()
        self._connect(network)
        return self._place(network, f"{LOCALHOST} {hostname}\n{self._hosts()}", hostname)

    def _place(self, network: NetworkNamespace, hosts: str, hostname: str = "localhost") -> ClientPlace:
        path = self._directory / f"hosts-{self._networks.index(network)}"
        path.write_text(hosts)
        return ClientPlace(network, path, hostname)

    def close(self) -> None:
        """End all containers and networks."""
        for container in self._containers:
            container.remove()
        for network in self._networks:
            network.close()

    def _fail(self, step: str, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip()]
        shown = lines if len(lines) < 8 else [*lines[:4], "...", *lines[-4:]]
        self._failures.append("\n    ".join((step, *shown)))

    # Networks

    def _new_network(self) -> NetworkNamespace:
        network = NetworkNamespace()
        self._networks.append(network)
        return network

    def _inner_ports(self, broker: BrokerService) -> tuple[int, ...]:
        texts = [broker.setting(name) for name in ("LISTENERS", "ADVERTISED_LISTENERS")]
        published = [int(port.rpartition(":")[2]) for port in broker.ports]
        text_ports = [int(port) for text in texts for port in _PORT.findall(text)]
        bootstrap = [
            int(address.rpartition(":")[2])
            for client in self._environment.clients
            for address in client.bootstrap
            if address.rpartition(":")[0] in broker.names
        ]
        ports = (_DEFAULT_PORT, *published, *text_ports, *bootstrap)
        return tuple(dict.fromkeys(port + n for port in ports for n in range(broker.brokers)))

    def _connect(self, network: NetworkNamespace) -> None:
        """Let a network of containers reach every broker, and the proxies in front of them.

        Brokers do not reach each other: the forwarded ports would occupy those of their own listeners.
        """
        for service in self._services:
            for port in service.ports:
                target = (service.address, port)
                self._forwarder.forward(network, target, service.network, target)
        for client in self._environment.clients:
            for address in client.bootstrap if client.role == "proxy" else ():
                host, port = _split(address)
                service = next(each for each in self._services if host in each.broker.names)
                listen = (self._proxies[client.service], port)
                self._forwarder.forward(network, listen, service.network, (service.address, port))

    def _publish(self, network: NetworkNamespace) -> None:
        """Forward the published ports from the network of the host."""
        for service in self._services:
            for published in (*service.broker.ports, *self._module_ports()):
                outer, inner = published.split(":")[-2:]
                for address in {LOCALHOST, *self._host_addresses()}:
                    listen = (address, int(outer))
                    self._forwarder.forward(network, listen, service.network, (service.address, int(inner)))

    def _module_ports(self) -> tuple[str, ...]:
        """Return the port that a module of Testcontainers publishes. The test has the same one outside."""
        if self._environment.testcontainers is None:
            return ()
        port, _, _ = _START_SCRIPTS[self._environment.testcontainers.container]
        return (f"{port}:{port}",)

    def _host_addresses(self) -> list[str]:
        """Return addresses by which clients on the host reach it, besides localhost."""
        clients = [client for client in self._environment.clients if client.service == _HOST]
        hosts = dict.fromkeys(host for client in clients for host in _addresses(client))
        return [host for host in hosts if host[0].isdigit() and not host.startswith("127.")]

    def _hosts(self) -> str:
        entries = [(service.address, " ".join(service.broker.names)) for service in self._services]
        entries += [(address, name) for name, address in self._proxies.items()]
        return "".join(f"{address} {names}\n" for address, names in [(LOCALHOST, "localhost"), *entries])

    # Containers

    def _start(self, service: _Service) -> None:
        broker = service.broker
        image = self._image
        if broker.build:
            (self._directory / "context").mkdir()
            for line in broker.build:
                if line.startswith("ADD "):
                    (self._directory / "context" / shlex.split(line)[-2]).touch()
            image = derive_image(
                image, broker.build, self._directory / "derived", self._directory / "context"
            )
        entrypoint, command = _joined(broker.entrypoint, broker.entrypoint_lines), broker.command
        environment = dict(broker.environment)
        if self._environment.testcontainers is not None:
            outer, inner, script = _START_SCRIPTS[self._environment.testcontainers.container]
            listeners = f"PLAINTEXT://0.0.0.0:{outer},BROKER://0.0.0.0:{inner}"
            environment = {**_JAVA_MODULE, "KAFKA_LISTENERS": listeners, **environment}
            advertised = f"PLAINTEXT://localhost:{outer},BROKER://{broker.service}:{inner}"
            text = f"export KAFKA_ADVERTISED_LISTENERS={advertised}\n{script}"
            entrypoint, command = ("sh",), ("-c", f"bash <<'END'\n{text}\nEND")
        container = self._container(
            image,
            service.network,
            hostname=broker.hostname or broker.service,
            environment=environment,
            entrypoint=entrypoint,
            command=command,
            user=broker.user,
            mounts=(*self._mount_volumes(service), *self._files.mounts),
        )
        container.start()
        if not container.wait_for_output("^groupd ready "):
            self._fail(f"start of {broker.service}", container.output)
            return
        service.container = container
        module = self._environment.testcontainers
        if module is not None and not container.wait_for_output("Transitioning from RECOVERY to RUNNING"):
            self._fail(f"start of {broker.service}", container.output)
        pattern = module.waits_for_log if module is not None else None
        if pattern is not None and re.search(pattern, container.output) is None:
            self._fail(f"log line of {broker.service}", container.output)

    def _container(self, image: Image, network: NetworkNamespace, **settings: Any) -> Container:
        directory = self._directory / f"container-{len(self._containers)}"
        container = Container(image, directory, network, hosts=self._hosts(), **settings)
        self._containers.append(container)
        return container

    def _mount_volumes(self, service: _Service) -> Iterator[Mount]:
        for n, volume in enumerate(service.broker.volumes):
            if volume.kind != "named" and not (volume.kind == "bind" and volume.holds_data):
                continue
            path = self._directory / f"volume-{service.broker.service}-{n}"
            self._create_volume(volume, path)
            if volume.holds_data:
                service.data_volumes.append(path)
            yield Mount(str(path), volume.target.rstrip("/"), is_read_only=volume.read_only)

    def _create_volume(self, volume: VolumeMount, path: Path) -> None:
        inside = self._image.root / self._image.resolve(volume.target).lstrip("/")
        if volume.kind == "named" and inside.is_dir():
            # An engine fills a fresh volume with what the image has there, its owner included.
            subprocess.run(["cp", "-a", str(inside), str(path)], check=True)
        else:
            path.mkdir()
            path.chmod(0o777 if volume.kind == "bind" else 0o755)

    # Steps

    def _check_health(self, service: _Service) -> None:
        assert service.container is not None
        test = self._health_test(service.broker.healthcheck)
        result = service.container.execute(test)
        if result.exit_code != 0:
            self._fail(f"health check of {service.broker.service}", _describe(test[-1:], result))

    def _health_test(self, check: HealthCheck | None) -> Sequence[str]:
        test = check.test if check else self._image.healthcheck
        return ("/bin/sh", "-c", test[1]) if test[0] == "CMD-SHELL" else test[1:]

    def _run(self, run: CommandRun) -> None:
        words = (*(run.entrypoint or ()), *(run.command or ()))
        in_shell = bool(words) and words[0] in _SHELLS
        commands = (
            [(*words, " && ".join(run.lines))]
            if in_shell
            else [(*words, *shlex.split(line)) for line in run.lines]
        )
        for command in commands:
            result = self._run_command(run, command)
            if result.exit_code != 0:
                self._fail(f"{run.kind} {run.service}", _describe(command, result))
                return

    def _run_command(self, run: CommandRun, command: tuple[str, ...]) -> CommandResult:
        if run.kind == "exec":
            service = next(each for each in self._services if each.broker.service == run.service)
            assert service.container is not None
            if _CONSOLE_CONSUMER in command[0] and "--max-messages" not in command:
                command = (*command, "--max-messages", "1")
                self._produce(service.container, command)
            return service.container.execute(command, user=run.user, environment=run.environment)
        network = self._new_network()
        self._connect(network)
        entrypoint = run.entrypoint
        container = self._container(
            self._image,
            network,
            hostname=run.service,
            environment=run.environment,
            entrypoint=entrypoint,
            command=command[len(entrypoint or ()) :],
            user=run.user,
            mounts=self._files.mounts,
        )
        container.start()
        return CommandResult(container.wait(), container.output)

    def _produce(self, container: Container, command: tuple[str, ...]) -> None:
        """Write a record for a console consumer that ends by a signal in the documentation."""
        options = dict(pairwise(command))
        words = ("kafka-console-producer", "--bootstrap-server", options["--bootstrap-server"])
        line = f"echo record | {shlex.join((*words, '--topic', options['--topic']))}"
        result = container.execute(("sh", "-c", line))
        if result.exit_code != 0:
            self._fail("record for the console consumer", _describe(words, result))

    def _check_clients(self) -> None:
        places: dict[str, list[KafkaClient]] = {_HOST: [], "network": []}
        for client in self._environment.clients:
            places[_HOST if client.service == _HOST else "network"].append(client)
        networks = {place: self._new_network() for place, clients in places.items() if clients}
        for place, network in networks.items():
            self._connect(network)  # an engine on Linux routes the addresses of containers from the host, too
            if place == _HOST:
                for address in self._host_addresses():
                    network.add_address(address)
                self._publish(network)
        with ThreadPoolExecutor() as pool:
            for done in [
                pool.submit(self._check_place, place, places[place], network)
                for place, network in networks.items()
            ]:
                done.result()

    def _check_place(self, place: str, clients: Sequence[KafkaClient], network: NetworkNamespace) -> None:
        checks = {}
        for client in clients:
            bootstrap = client.bootstrap or tuple(
                f"localhost:{port.split(':')[0]}" for port in self._module_ports()
            )
            check = {
                "brokers": self._cluster_size(client),
                "topics": self._initial_topics(),
                "config": self._client_config(client, ",".join(bootstrap)),
            }
            checks[json.dumps(check)] = (f"client {client.service} at {bootstrap[0]}", check)
        hosts = f"{LOCALHOST} localhost\n" if place == _HOST else self._hosts()
        program = (sys.executable, "-m", "tests.docker.environments.stock_client")
        done = subprocess.run(
            self._place(network, hosts).command(program),
            input=json.dumps([check for _, check in checks.values()]),
            stdout=subprocess.PIPE,
            text=True,
            timeout=HANG_S,
            check=True,
            cwd=REPOSITORY,
        )
        for (step, _), failure in zip(checks.values(), json.loads(done.stdout), strict=True):
            if failure:
                self._fail(step, failure)

    def _cluster_size(self, client: KafkaClient) -> int:
        """Return how many brokers the cluster of the address has."""
        host, port = _split(client.bootstrap[0]) if client.bootstrap else ("", 0)
        for service in self._services:
            published = {entry.split(":")[-2] for entry in service.broker.ports}
            if host in service.broker.names or (client.service == _HOST and str(port) in published):
                brokers = [each.broker for each in self._services]
                return sum(each.brokers for each in brokers if each.cluster == service.broker.cluster)
        return 1

    def _initial_topics(self) -> Mapping[str, int]:
        """Return the topics that the image creates at its start, with their partitions."""
        environment = self._environment.brokers[0].environment
        variable = {"wurstmeister": "KAFKA_CREATE_TOPICS", "debezium": "CREATE_TOPICS"}.get(
            self._environment.family, ""
        )
        entries = [
            entry.strip(' "').split(":") for entry in environment.get(variable, "").split(",") if entry
        ]
        return {entry[0]: int(entry[1]) for entry in entries}

    def _client_config(self, client: KafkaClient, bootstrap: str) -> Mapping[str, str]:
        config = {"bootstrap.servers": bootstrap, "security.protocol": client.security}
        if client.security.endswith("SSL"):
            config |= {
                "ssl.ca.location": self._files.authority,
                "ssl.certificate.location": self._files.client,
                "ssl.key.location": self._files.client,
            }
        if client.mechanism:
            users = {
                user: word for file in self._environment.files for user, word in (file.users or {}).items()
            }
            name = client.username or ""
            config |= {
                "sasl.mechanism": client.mechanism,
                "sasl.username": name,
                "sasl.password": client.password or users.get(name, "no password is known"),
            }
        return config

    def _check_data(self, service: _Service) -> None:
        found = [path for path in service.data_volumes if next(path.rglob("meta.properties"), None)]
        if service.data_volumes and not found:
            self._fail(f"data of {service.broker.service}", "no volume has the data")


def _joined(words: tuple[str, ...] | None, lines: tuple[str, ...]) -> tuple[str, ...] | None:
    return words if not lines or words is None else (*words, " && ".join(lines))


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _addresses(client: KafkaClient) -> list[str]:
    return [_split(address)[0] for address in client.bootstrap]


def _describe(command: Sequence[str], result: CommandResult) -> str:
    return f"{' '.join(command)}\nends with {result.exit_code}\n{result.output.strip()}"
