"""The properties of namespaces, brokers beside the one that the daemon is, as part of `Config`: groupd's own."""

from dataclasses import dataclass
from typing import Final

from coordinator.config.config_key import ConfigType, Within, at_least
from coordinator.config.consumer_group_properties import ConsumerGroupProperties
from coordinator.config.property import declared
from coordinator.config.shapes import PORTS, ports_of

_MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceProperties(ConsumerGroupProperties):
    """It has those of consumer groups as well: a class with slots has one base."""

    namespace_ports: str = declared(
        ConfigType.STRING,
        "",
        "FIRST-LAST: the ports on which namespaces listen, one each; a container has to publish them. Default: any "
        "that is free. groupd's own.",
        PORTS,
    )
    namespace_idle_timeout_ms: int = declared(
        ConfigType.LONG,
        600_000,
        "A namespace to which nobody is connected, and which nobody has asked for over HTTP for so long, is "
        "removed; a negative value keeps it. groupd's own.",
        Within(1, takes_negative=True),
    )
    namespace_max_bytes: int = declared(
        ConfigType.LONG,
        _MOST_BYTES,
        "How much a namespace may have in its files, which are in memory; then they are as on a full disk. "
        "groupd's own.",
        at_least(1024 * 1024),
    )

    @property
    def namespace_port_numbers(self) -> range:
        """Empty: any that is free."""
        return ports_of(self.namespace_ports) or range(0)
