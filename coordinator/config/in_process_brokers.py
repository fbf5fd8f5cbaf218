"""Listeners and racks of several brokers in one process.

The first broker listens as configured. Each further one adds the same step to every port. `broker.rack` is
one rack for all brokers, or a list with one for each.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import MAX_PORT, Address, Listener

MAX_BROKERS: Final = 16


def find_port_step(listeners: Sequence[Listener], brokers: int) -> int:
    """Return the smallest distance between the ports of one broker and the next at which no ports collide.

    Raises ConfigError if there are not enough ports for all brokers.
    """
    if not 1 <= brokers <= MAX_BROKERS:
        raise ConfigError(f"--brokers: {brokers} is not between 1 and {MAX_BROKERS}")
    distances = set(_list_port_distances(listeners))
    step = 1
    while any(distance % step == 0 and distance // step < brokers for distance in distances):
        step += 1
    for listener in listeners:
        for what, address in (("listeners", listener.address), ("advertised.listeners", listener.advertised)):
            if address is not None and address.port and address.port + (brokers - 1) * step > MAX_PORT:
                raise ConfigError(
                    f"{what}: {listener.name} at port {address.port} is too high for the ports of {brokers} "
                    "brokers",
                    what,
                )
    return step


def _list_port_distances(listeners: Sequence[Listener]) -> Iterator[int]:
    """Yield the distances between different ports of two listeners at the same host.

    Two listeners may advertise the same port, as in Kafka. Raises ConfigError if they listen at the same port.
    """
    for one, other in combinations(listeners, 2):
        for first, second in ((one.address, other.address), (one.advertised, other.advertised)):
            if first is None or second is None or not (first.port and second.port):
                continue
            if not (first.host == second.host or first.is_wildcard or second.is_wildcard):
                continue
            if first.port != second.port:
                yield abs(first.port - second.port)
            elif first is one.address:
                raise ConfigError(
                    f"listeners: {one.name} and {other.name} have the same port {first.port}. Each needs its own",
                    "listeners",
                )


def create_broker_listeners(listeners: Sequence[Listener], number: int, step: int) -> list[Listener]:
    """Return the listeners of broker `number`, 0 for the first. `step` comes from `find_port_step`."""
    return [
        replace(
            listener,
            address=_shift_address(listener.address, number * step),
            advertised=None
            if listener.advertised is None
            else _shift_address(listener.advertised, number * step),
        )
        for listener in listeners
    ]


def _shift_address(address: Address, distance: int) -> Address:
    """Return the address with its port increased by `distance`. Port 0 (any free port) stays."""
    return address._replace(port=address.port + distance) if address.port else address


RACK_PROPERTY: Final = "broker.rack"


def parse_racks(text: str, brokers: int) -> list[str | None]:
    """Return the rack of each broker in order, None for a broker without a rack. With a single broker, a comma is
    part of its rack. Raises ConfigError for a list of another length.
    """
    if not text:
        return [None] * brokers
    parts = [part.strip() for part in text.split(",")]
    if brokers == 1 or len(parts) == 1:
        return [text] * brokers
    if len(parts) != brokers:
        raise ConfigError(
            f"{RACK_PROPERTY}: {len(parts)} racks for {brokers} brokers: list one rack, or one for each broker",
            RACK_PROPERTY,
        )
    return [part or None for part in parts]
