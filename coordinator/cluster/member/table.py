"""What a daemon sees of a cluster: which brokers live, who owns what, what is pinned. A watch keeps it."""

import json
from typing import Any, Final

from coordinator.cluster.broker import Broker
from coordinator.cluster.engine.engine import Changes, Entry
from coordinator.cluster.keys import Keys

KINDS: Final = ("brokers", "owner", "epoch", "pin")


def registration(incarnation: str, listeners: dict[str, tuple[str, int]], rack: str = "") -> bytes:
    """What a daemon says of itself under its key: host and port that clients are told, by listener."""
    return json.dumps({"incarnation": incarnation, "listeners": listeners, "rack": rack}).encode()


class Table:
    """A mirror of keys. It may be older than the engine: what must not be, is compared there."""

    def __init__(self, keys: Keys) -> None:
        self.brokers: dict[int, Broker] = {}
        """Those with a session, by id, in order."""
        self.incarnations: dict[int, int] = {}
        """At which revision each of them registered: the broker epoch."""
        self.owners: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The last leader epochs."""
        self.pins: dict[tuple[str, int], int] = {}
        self.holds: dict[tuple[str, int], tuple[int, int]] = {}
        """Of pins: for how many milliseconds at least the partition is to be loading then, and the revision."""
        self._prefixes = {kind: keys.all_of(kind)[0] for kind in KINDS}

    def clear(self) -> None:
        """Nothing is known."""
        self.brokers, self.incarnations, self.owners = {}, {}, {}
        self.epochs, self.pins, self.holds = {}, {}, {}

    def pins_of(self, topic: str) -> dict[int, int]:
        """Of one topic, by partition."""
        return {number: node_id for (name, number), node_id in self.pins.items() if name == topic}

    def changed(self, changes: Changes) -> None:
        """Takes what was watched."""
        for key in changes.deleted:
            self._forget(key)
        for entry in changes.written:
            self.put(entry)

    def put(self, entry: Entry) -> None:
        """A key is there."""
        kind, rest = self._split(entry.key)
        if kind == "brokers":
            fields: dict[str, Any] = json.loads(entry.value)
            listeners = fields["listeners"]
            node_id = int(rest)
            self.brokers[node_id] = Broker(
                node_id,
                {name: port for name, (_, port) in listeners.items()},
                {name: host for name, (host, _) in listeners.items()},
                fields["rack"] or None,
                entry.lease,
                entry.created_at,
            )
            self.brokers = dict(sorted(self.brokers.items()))
            self.incarnations[node_id] = entry.created_at
        elif kind == "owner":
            self.owners[_partition(rest)] = int(entry.value)
        elif kind == "epoch":
            self.epochs[_partition(rest)] = int(entry.value)
        elif kind:
            partition = _partition(rest)
            pinned_to, *hold_ms = entry.value.split()
            self.pins[partition] = int(pinned_to)
            self.holds.pop(partition, None)
            if hold_ms:
                self.holds[partition] = int(hold_ms[0]), entry.written_at

    def _forget(self, key: bytes) -> None:
        kind, rest = self._split(key)
        if kind == "brokers":
            self.brokers.pop(int(rest), None)
            self.incarnations.pop(int(rest), None)
        elif kind:
            tables = {"owner": self.owners, "epoch": self.epochs, "pin": self.pins}
            tables[kind].pop(_partition(rest), None)

    def _split(self, key: bytes) -> tuple[str, str]:
        for kind, prefix in self._prefixes.items():
            if key.startswith(prefix):
                return kind, key[len(prefix) :].decode()
        return "", ""


def _partition(rest: str) -> tuple[str, int]:
    topic, _, number = rest.rpartition("/")
    return topic, int(number)
