"""What a daemon sees of a cluster: which brokers live, who owns what, what is pinned. A watch keeps it."""

import json
from contextlib import suppress
from typing import Final

from coordinator.cluster.broker import Broker
from coordinator.cluster.engine.engine import Changes, Entry
from coordinator.cluster.key_values import (
    FORMAT,
    UnreadableKey,
    parse_number,
    parse_object,
    parse_partition,
)
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.key_reader import KeyReader

UNKNOWN_NODE: Final = -1
"""The owner of a partition with an unreadable owner key. It counts as owned, so that no other node claims it."""
KINDS: Final = ("brokers", "owner", "epoch", "pin")


def registration(incarnation: str, listeners: dict[str, tuple[str, int]], rack: str = "") -> bytes:
    """What a daemon says of itself under its key: host and port that clients are told, by listener."""
    fields = {"format": FORMAT, "incarnation": incarnation, "listeners": listeners, "rack": rack}
    return json.dumps(fields).encode()


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
        self.unclaimable: set[tuple[str, int]] = set()
        """Partitions with an unreadable leader epoch: a claim could not increase it."""
        self.pins: dict[tuple[str, int], int] = {}
        self.holds: dict[tuple[str, int], tuple[int, int]] = {}
        """Of pins: for how many milliseconds at least the partition is to be loading then, and the revision."""
        self._reader = KeyReader()
        self._prefixes = {kind: keys.all_of(kind)[0] for kind in KINDS}

    def clear(self) -> None:
        """Nothing is known."""
        self.brokers, self.incarnations, self.owners = {}, {}, {}
        self.epochs, self.pins, self.holds = {}, {}, {}
        self.unclaimable = set()

    def pins_of(self, topic: str) -> dict[int, int]:
        """Of one topic, by partition."""
        return {number: node_id for (name, number), node_id in self.pins.items() if name == topic}

    def changed(self, changes: Changes) -> None:
        """Takes what was watched."""
        for key in changes.deleted:
            self._reader.forget(key)
            self._forget(key)
        for entry in changes.written:
            self.put(entry)

    def put(self, entry: Entry) -> None:
        """A key is there."""
        kind, rest = self._split(entry.key)
        if kind == "brokers":
            broker = self._reader.read(entry, lambda entry: _parse_broker(rest, entry))
            if broker is None:
                self._forget(entry.key)
                return
            self.brokers[broker.node_id] = broker
            self.brokers = dict(sorted(self.brokers.items()))
            self.incarnations[broker.node_id] = broker.epoch
        elif kind:
            partition = self._reader.read(entry, lambda _: parse_partition(rest))
            if partition is not None:
                self._put_of_partition(kind, partition, entry)

    def _put_of_partition(self, kind: str, partition: tuple[str, int], entry: Entry) -> None:
        if kind == "pin":
            self._forget(entry.key)
            pin = self._reader.read(entry, _parse_pin)
            if pin is not None:
                self.pins[partition], hold_ms = pin
                if hold_ms is not None:
                    self.holds[partition] = hold_ms, entry.written_at
            return
        number = self._reader.read(entry, lambda entry: parse_number(entry.value))
        if kind == "owner":
            self.owners[partition] = UNKNOWN_NODE if number is None else number
        elif number is None:
            self.unclaimable.add(partition)
        else:
            self.unclaimable.discard(partition)
            self.epochs[partition] = number

    def _forget(self, key: bytes) -> None:
        kind, rest = self._split(key)
        with suppress(UnreadableKey):  # then it was skipped when it was written
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

    def _split(self, key: bytes) -> tuple[str, bytes]:
        for kind, prefix in self._prefixes.items():
            if key.startswith(prefix):
                return kind, key[len(prefix) :]
        return "", b""


def _parse_broker(node: bytes, entry: Entry) -> Broker:
    """Raises UnreadableKey, TypeError, ValueError, KeyError."""
    fields = parse_object(entry.value)
    listeners = fields["listeners"].items()
    rack = fields["rack"]
    if not isinstance(rack, str) or not all(isinstance(host, str) for _, (host, _) in listeners):
        raise UnreadableKey("names a rack or a host that is not text")
    return Broker(
        parse_number(node),
        {name: int(port) for name, (_, port) in listeners},
        {name: host for name, (host, _) in listeners},
        rack or None,
        entry.lease,
        entry.created_at,
    )


def _parse_pin(entry: Entry) -> tuple[int, int | None]:
    """Raises UnreadableKey."""
    node_id, *hold_ms = entry.value.split() or [b""]
    return parse_number(node_id), parse_number(hold_ms[0]) if hold_ms else None
