"""Options that name ZooKeeper, as Kafka's tools had them before version 4: `--zookeeper zookeeper:2181`.

Compose files call tools with such an option. groupd's image accepts it and finds the broker by the variables of the
container: `KAFKA_BOOTSTRAP_SERVERS`, the listeners of the groupd that the environment configures, and the addresses
that these advertise. In an init container without such variables it is the broker that `cub kafka-ready` waited
for. An address of ZooKeeper alone does not lead to a broker.
"""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.cli.kafka_tools.ready_broker import ReadyBroker
from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, Listener, parse_listeners
from coordinator.core.shared_types import SecurityProtocol

BOOTSTRAP_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
_CONNECT_TIMEOUT_S: Final = 5.0


class NoBrokerInContainer(ToolFailure):
    """No broker answers in place of ZooKeeper.

    `option` is the option with its value. `data_directory` is that of the groupd that will start in this container,
    None if the environment does not configure one.
    """

    def __init__(self, option: str, reason: str, successor: str, data_directory: str | None = None) -> None:
        """Create the error. `option` includes its value, `reason` is the rest of a sentence, and `successor` is the
        option to use instead.
        """
        super().__init__(
            f"{option}: groupd has no ZooKeeper, and {reason}. Use {successor} HOST:PORT in its place, or set "
            f"{BOOTSTRAP_VARIABLE}=HOST:PORT"
        )
        self.option = option
        self.data_directory = data_directory


@dataclass(frozen=True, slots=True)
class ContainerBroker:
    """The groupd that the environment of this container configures."""

    listeners: tuple[Listener, ...]
    data_directory: str

    @classmethod
    def from_environment(cls) -> "ContainerBroker":
        """Read the environment as `groupd serve` does. Raises ConfigError."""
        from coordinator.cli.settings_loader import load_settings
        from coordinator.config.properties import parse_config

        config = parse_config(load_settings(None, ()).texts)
        listeners, _ = parse_listeners(config)
        return cls(tuple(listeners), os.path.abspath(config.log_dirs[0]))

    def find_addresses(self, protocol: str) -> list[Address]:
        """Return where listeners with a protocol are reached: their own addresses, then the advertised ones."""
        found = [listener for listener in self.listeners if listener.protocol == protocol]
        own = [_connectable(listener.address) for listener in found]
        return [*own, *(listener.advertised for listener in found if listener.advertised is not None)]

    def will_start_here(self) -> bool:
        """Return whether this container is the broker's, and the broker does not run yet.

        Another container may share the broker's variables. The hosts that these advertise are not its own then.
        """
        advertised = [listener.advertised for listener in self.listeners if listener.advertised is not None]
        return (
            bool(advertised)
            and all(_is_own(address.host) for address in advertised)
            and not any(_answers(_connectable(listener.address)) for listener in self.listeners)
        )


def find_bootstrap(option: str, properties: Mapping[str, str], successor: str = "--bootstrap-server") -> str:
    """Return the address of the broker to use instead of ZooKeeper, and print a warning that the option has no
    effect.

    Args:
        option: the option with its value.
        properties: the client's properties.
        successor: the option that an error recommends instead.

    Raises:
        NoBrokerInContainer: no broker is known or responds.
    """
    named = os.environ.get(BOOTSTRAP_VARIABLE, "").strip()
    if named:
        address, source = named, "as this container's environment says"
    else:
        address, source = _find_without_variable(option, properties, successor)
    warn_of_zookeeper(option, f"Connecting to {address}, {source}.")
    return address


def _find_without_variable(option: str, properties: Mapping[str, str], successor: str) -> tuple[str, str]:
    """Return the address and its source, as a part of a sentence. Raises NoBrokerInContainer."""
    try:
        return _find_in_container(option, properties, successor), "as this container's environment says"
    except NoBrokerInContainer:
        ready_broker = ReadyBroker.load()
        if ready_broker is None or not ready_broker.claim(option.split()[-1], properties):
            raise
        return ready_broker.bootstrap, "for which cub kafka-ready waited in this container"


def warn_of_zookeeper(option: str, consequence: str) -> None:
    """Print that an option has no effect, and the consequence: a sentence."""
    print(f"WARNING: {option} has no effect, because groupd has no ZooKeeper. {consequence}", file=sys.stderr)


def _find_in_container(option: str, properties: Mapping[str, str], successor: str) -> str:
    try:
        broker = ContainerBroker.from_environment()
    except ConfigError as error:
        reason = f"this container's environment configures no broker ({error})"
        raise NoBrokerInContainer(option, reason, successor) from error
    protocol = properties.get("security.protocol", SecurityProtocol.PLAINTEXT).strip().upper()
    addresses = broker.find_addresses(protocol)
    address = next(filter(_answers, addresses), None)
    if address is not None:
        return str(address)
    protocols = ", ".join(dict.fromkeys(listener.protocol for listener in broker.listeners))
    reason = (
        f"no broker answers at {', '.join(map(str, dict.fromkeys(addresses)))}, which this container's environment "
        "names"
        if addresses
        else f"no listener of this container's environment has the protocol {protocol} (but {protocols})"
    )
    directory = broker.data_directory if broker.will_start_here() else None
    raise NoBrokerInContainer(option, reason, successor, directory)


def _connectable(address: Address) -> Address:
    return address._replace(host="127.0.0.1") if address.is_wildcard else address


def _answers(address: Address) -> bool:
    try:
        with socket.create_connection(address, _CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def _is_own(host: str) -> bool:
    """Return whether a host name or address belongs to this machine or container."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: object) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as any_socket:
            any_socket.bind(address)  # type: ignore[arg-type]
            return True
    except OSError:
        return False
