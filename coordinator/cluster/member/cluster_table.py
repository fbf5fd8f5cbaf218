"""A daemon's view of its cluster: live brokers, owners, and pins. A watch updates it."""

import json
from contextlib import suppress
from typing import Final

from coordinator.cluster.cluster_keys import (
    FORMAT,
    ClusterKeys,
    UnreadableKey,
    parse_number,
    parse_object,
    parse_partition,
)
from coordinator.cluster.key_value_store import KeyChanges, KeyEntry
from coordinator.cluster.member.key_mirror import KeyReader
from coordinator.cluster.partition_ownership import BrokerInfo

UNKNOWN_NODE: Final = -1
"""The owner of a partition with an unreadable owner key. It counts as owned, so that no other node claims it."""
KEY_KINDS: Final = ("brokers", "owner", "epoch", "pin")


def encode_registration(incarnation: str, listeners: dict[str, tuple[str, int]], rack: str = "") -> bytes:
    """Return the value of a daemon's key, with its advertised hosts and ports by listener."""
    fields = {"format": FORMAT, "incarnation": incarnation, "listeners": listeners, "rack": rack}
    return json.dumps(fields).encode()


class ClusterTable:
    """A mirror of keys. It may be older than the store: transactions compare the keys that must be current."""

    def __init__(self, keys: ClusterKeys) -> None:
        self.brokers: dict[int, BrokerInfo] = {}
        """Brokers with a session by id, in ascending order."""
        self.incarnations: dict[int, int] = {}
        """Broker epochs: the revisions at which the brokers registered."""
        self.owners: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The last leader epochs."""
        self.unclaimable: set[tuple[str, int]] = set()
        """Partitions with an unreadable leader epoch: a claim could not increase it."""
        self.pins: dict[tuple[str, int], int] = {}
        self.holds: dict[tuple[str, int], tuple[int, int]] = {}
        """By pinned partition: the minimum loading time in milliseconds, and the revision of the pin."""
        self._reader = KeyReader()
        self._prefixes = {kind: keys.kind_range(kind)[0] for kind in KEY_KINDS}

    def clear(self) -> None:
        """Forget all keys, as in a new table."""
        self.brokers, self.incarnations, self.owners = {}, {}, {}
        self.epochs, self.pins, self.holds = {}, {}, {}
        self.unclaimable = set()

    def find_pins(self, topic: str) -> dict[int, int]:
        """Return the pins of one topic by partition."""
        return {number: node_id for (name, number), node_id in self.pins.items() if name == topic}

    def apply_changes(self, changes: KeyChanges) -> None:
        """Apply watched changes to the table."""
        for key in changes.deleted:
            self._reader.forget(key)
            self._forget(key)
        for entry in changes.written:
            self.put_entry(entry)

    def put_entry(self, entry: KeyEntry) -> None:
        """Put a key that exists."""
        kind, rest = self._split_key(entry.key)
        if kind == "brokers":
            broker = self._reader.parse_entry(entry, lambda entry: _parse_broker(rest, entry))
            if broker is None:
                self._forget(entry.key)
                return
            self.brokers[broker.node_id] = broker
            self.brokers = dict(sorted(self.brokers.items()))
            self.incarnations[broker.node_id] = broker.epoch
        elif kind:
            partition = self._reader.parse_entry(entry, lambda _: parse_partition(rest))
            if partition is not None:
                self._put_partition_entry(kind, partition, entry)

    def _put_partition_entry(self, kind: str, partition: tuple[str, int], entry: KeyEntry) -> None:
        if kind == "pin":
            self._forget(entry.key)
            pin = self._reader.parse_entry(entry, _parse_pin)
            if pin is not None:
                self.pins[partition], hold_ms = pin
                if hold_ms is not None:
                    self.holds[partition] = hold_ms, entry.written_at
            return
        number = self._reader.parse_entry(entry, lambda entry: parse_number(entry.value))
        if kind == "owner":
            self.owners[partition] = UNKNOWN_NODE if number is None else number
        elif number is None:
            self.unclaimable.add(partition)
        else:
            self.unclaimable.discard(partition)
            self.epochs[partition] = number

    def _forget(self, key: bytes) -> None:
        kind, rest = self._split_key(key)
        with suppress(UnreadableKey):  # an unparsable key was skipped when it was written
            if kind == "brokers":
                node_id = parse_number(rest)
                self.brokers.pop(node_id, None)
                self.incarnations.pop(node_id, None)
            elif kind:
                partition = parse_partition(rest)
                {"owner": self.owners, "epoch": self.epochs, "pin": self.pins}[kind].pop(partition, None)
                if kind == "epoch":
                    self.unclaimable.discard(partition)
                elif kind == "pin":
                    self.holds.pop(partition, None)

    def _split_key(self, key: bytes) -> tuple[str, bytes]:
        for kind, prefix in self._prefixes.items():
            if key.startswith(prefix):
                return kind, key[len(prefix) :]
        return "", b""


def _parse_broker(node: bytes, entry: KeyEntry) -> BrokerInfo:
    """Return the broker of a registration. Raises UnreadableKey, TypeError, ValueError, KeyError."""
    fields = parse_object(entry.value)
    listeners = fields["listeners"].items()
    rack = fields["rack"]
    if not isinstance(rack, str) or not all(isinstance(host, str) for _, (host, _) in listeners):
        raise UnreadableKey("names a rack or a host that is not text")
    return BrokerInfo(
        parse_number(node),
        {name: int(port) for name, (_, port) in listeners},
        {name: host for name, (host, _) in listeners},
        rack or None,
        entry.lease,
        entry.created_at,
    )


def _parse_pin(entry: KeyEntry) -> tuple[int, int | None]:
    """Return the node id of a pin, and the loading time in milliseconds if present. Raises UnreadableKey."""
    node_id, *hold_ms = entry.value.split() or [b""]
    return parse_number(node_id), parse_number(hold_ms[0]) if hold_ms else None
