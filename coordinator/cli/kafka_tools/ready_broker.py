"""The broker that `cub kafka-ready` waited for in this container, for later calls with `--zookeeper`.

Init containers of older compose files wait for a broker by its address and then create topics by ZooKeeper's:
`cub kafka-ready -b kafka:9092 1 20 && kafka-topics --create --zookeeper zookeeper:2181 ...`. The first call saves
the address in a file of the container, and the later ones connect to it.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from coordinator.core.shared_types import SecurityProtocol

if TYPE_CHECKING:
    from storage.files import Files


@dataclass(frozen=True, slots=True)
class ReadyBroker:
    """A broker that was ready. `zookeeper` is the ZooKeeper address that it replaces, "" before the first
    call."""

    bootstrap: str
    protocol: str
    zookeeper: str = ""

    @classmethod
    def from_properties(cls, bootstrap: str, properties: Mapping[str, str]) -> "ReadyBroker":
        """Return the broker at an address. `properties` are those of the client that reached it."""
        return cls(bootstrap, _find_protocol(properties))

    @classmethod
    def load(cls) -> "ReadyBroker | None":
        """Return the broker that this user saved last in this container, or None."""
        path = _find_path()
        try:
            # Every user of the container may write to the directory for temporary files.
            if os.lstat(path).st_uid != os.getuid():
                return None
            return cls(**json.loads(_files().read(path)))
        except OSError:
            return None

    def save(self) -> None:
        """Keep the broker for later calls."""
        path = _find_path()
        # Without a writable directory for temporary files, later calls need another way to the broker.
        with suppress(OSError):
            _files().mkdir(os.path.dirname(path), is_private=True)
            _files().write_atomically(path, json.dumps(asdict(self)).encode(), is_private=True)

    def claim(self, zookeeper: str, properties: Mapping[str, str]) -> bool:
        """Use the broker in place of a ZooKeeper address. Return False if the broker is used for another address,
        which belongs to another cluster, or if the client has another security protocol.
        """
        if self.zookeeper not in ("", zookeeper) or self.protocol != _find_protocol(properties):
            return False
        replace(self, zookeeper=zookeeper).save()
        return True


def _find_protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", SecurityProtocol.PLAINTEXT).strip().upper()


def _find_path() -> str:
    return os.path.join(tempfile.gettempdir(), f"groupd-{os.getuid()}", "ready-broker.json")


def _files() -> "Files":
    from storage.files import OsFiles  # slow to load

    return OsFiles()
