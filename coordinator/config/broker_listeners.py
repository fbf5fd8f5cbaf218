"""Where each of several brokers in one process listens: the first as configured, each further one a port higher."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from coordinator.config.errors import ConfigError
from coordinator.config.listeners import MAX_PORT, Address, Listener

MOST_BROKERS: Final = 16


def check_brokers(listeners: Sequence[Listener], brokers: int) -> None:
    """Whether there can be so many. Raises ConfigError naming what stands against it."""
    if not 1 <= brokers <= MOST_BROKERS:
        raise ConfigError(f"--brokers: {brokers} is not between 1 and {MOST_BROKERS}")
    for listener in listeners:
        for what, address in (("listeners", listener.address), ("advertised.listeners", listener.advertised)):
            if address is not None and address.port and address.port + brokers - 1 > MAX_PORT:
                raise ConfigError(
                    f"{what}: {listener.name} at port {address.port} leaves no room for the ports of {brokers} "
                    "brokers",
                    what,
                )
    for one, other in combinations(listeners, 2):
        for what, addresses in (
            ("listeners", (one.address, other.address)),
            ("advertised.listeners", (one.advertised, other.advertised)),
        ):
            if _meet(*addresses, brokers):
                raise ConfigError(
                    f"{what}: {brokers} brokers take {brokers} ports in a row for each listener, and those of "
                    f"{one.name} and {other.name} overlap",
                    what,
                )


def _meet(one: Address | None, other: Address | None, brokers: int) -> bool:
    if one is None or other is None or not (one.port and other.port):
        return False
    is_same_host = one.host == other.host or one.is_wildcard or other.is_wildcard
    return is_same_host and abs(one.port - other.port) < brokers


def listeners_of_broker(listeners: Sequence[Listener], number: int) -> list[Listener]:
    """Those of a broker, the first of which has number 0."""
    return [
        replace(
            listener,
            address=_above(listener.address, number),
            advertised=None if listener.advertised is None else _above(listener.advertised, number),
        )
        for listener in listeners
    ]


def _above(address: Address, number: int) -> Address:
    """Port 0 stays any free one."""
    return address._replace(port=address.port + number) if address.port else address
