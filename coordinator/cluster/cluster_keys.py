"""Names of all keys of one cluster in the key-value store, and parsers for their values. Another version of
groupd, another program or an operator may have written a value, so each parser raises `UnreadableKey` with
the reason.
"""

import json
from typing import Any, Final

from coordinator.cluster.key_value_store import find_prefix_end

FORMAT: Final = 1
"""Format of values that are JSON objects, and the default of values without `format`."""

OFFSET_DIGITS: Final = 20
"""As in the names of segment files, so that keys sort by offset."""
GENERATION_DIGITS: Final = 20
PIECE_DIGITS: Final = 6


class ClusterKeys:
    """The keys of the cluster `cluster_id`, below `prefix`."""

    __slots__ = ("_root",)

    def __init__(self, cluster_id: str, prefix: str = "/groupd") -> None:
        assert cluster_id, "no cluster id"
        assert "/" not in cluster_id, cluster_id
        self._root = f"{prefix.rstrip('/')}/{cluster_id}/"

    def broker(self, node_id: int) -> bytes:
        """Return the key of a broker's session. Its creation revision is the broker epoch."""
        return f"{self._root}brokers/{node_id}".encode()

    def owner(self, topic: str, partition: int) -> bytes:
        """Return the key of a partition's owner. Its write revision is the token."""
        return f"{self._root}owner/{topic}/{partition}".encode()

    def epoch(self, topic: str, partition: int) -> bytes:
        """Return the key of a partition's last leader epoch."""
        return f"{self._root}epoch/{topic}/{partition}".encode()

    def pin(self, topic: str, partition: int) -> bytes:
        """Return the key of the node that a partition is pinned to."""
        return f"{self._root}pin/{topic}/{partition}".encode()

    def manifest(self, topic: str, partition: int) -> bytes:
        """Return the key of a partition's manifest, which lists its sealed segments."""
        return f"{self._root}manifest/{topic}/{partition}".encode()

    def log(self, topic: str, partition: int, base_offset: int) -> bytes:
        """Return the key of the record batches from `base_offset` on."""
        assert base_offset >= 0, base_offset
        return f"{self._root}log/{topic}/{partition}/{base_offset:0{OFFSET_DIGITS}}".encode()

    def log_range(self, topic: str, partition: int) -> tuple[bytes, bytes]:
        """Return the range of a partition's `log` keys."""
        prefix = f"{self._root}log/{topic}/{partition}/".encode()
        return prefix, find_prefix_end(prefix)

    def piece(self, topic: str, partition: int, base_offset: int, generation: int, number: int) -> bytes:
        """Return the key of a piece of a sealed segment."""
        begin, _ = self.segment_range(topic, partition, base_offset, generation)
        return begin + f"{number:0{PIECE_DIGITS}}".encode()

    def segment_range(
        self, topic: str, partition: int, base_offset: int, generation: int
    ) -> tuple[bytes, bytes]:
        """Return the range of all pieces of a sealed segment."""
        begin, _ = self.segments_range(topic, partition)
        begin += f"{base_offset:0{OFFSET_DIGITS}}/{generation:0{GENERATION_DIGITS}}/".encode()
        return begin, find_prefix_end(begin)

    def segments_range(self, topic: str, partition: int) -> tuple[bytes, bytes]:
        """Return the range of all pieces of a partition."""
        prefix = f"{self._root}seg/{topic}/{partition}/".encode()
        return prefix, find_prefix_end(prefix)

    def topic_ranges(self, name: str) -> list[tuple[bytes, bytes]]:
        """Return the ranges of all keys of a topic's partitions, without its key in the catalogue."""
        ranges = []
        for kind in ("owner", "epoch", "pin", "manifest", "log", "seg"):
            prefix = f"{self._root}{kind}/{name}/".encode()
            ranges.append((prefix, find_prefix_end(prefix)))
        return ranges

    @property
    def meta(self) -> bytes:
        """Key of the cluster's identity."""
        return f"{self._root}meta".encode()

    @property
    def importing(self) -> bytes:
        """Key that exists during an import. Its value names the imported directories."""
        return f"{self._root}importing".encode()

    @property
    def cluster_range(self) -> tuple[bytes, bytes]:
        """Range of all keys of the cluster."""
        root = self._root.encode()
        return root, find_prefix_end(root)

    def topic(self, name: str) -> bytes:
        """Return the key of a topic in the catalogue."""
        return f"{self._root}topics/{name}".encode()

    def topic_id(self, topic_id: str) -> bytes:
        """Return the key of a topic id, with the name of the topic."""
        return f"{self._root}topic_ids/{topic_id}".encode()

    @property
    def catalogue_removed(self) -> bytes:
        """Key that every removal from the catalogue writes."""
        return f"{self._root}removed/catalogue".encode()

    def group_config(self, group_id: str) -> bytes:
        """Return the key of a group's configs."""
        return f"{self._root}group_configs/{group_id}".encode()

    def internal(self, topic: str) -> bytes:
        """Return the key that exists once an internal topic is created."""
        return f"{self._root}internal/{topic}".encode()

    def shape(self, topic: str) -> bytes:
        """Return the key of an internal topic's partition count and id, written before its creation."""
        return f"{self._root}shape/{topic}".encode()

    def topic_bytes(self, node_id: int) -> bytes:
        """Return the key with the size of the replicated partitions that a node leads."""
        return f"{self._root}bytes/{node_id}".encode()

    def security(self, name: str) -> bytes:
        """Return the key of an ACL or a SCRAM user."""
        return f"{self._root}security/{name}".encode()

    @property
    def security_changed(self) -> bytes:
        """Key that every change of ACLs or users writes."""
        return self.security("changed")

    @property
    def producer_ids(self) -> bytes:
        """Key with the start of the next block of producer ids."""
        return f"{self._root}producer_ids/next".encode()

    def kind_range(self, kind: str) -> tuple[bytes, bytes]:
        """Return the range of all keys of a kind: `brokers`, `owner`, `epoch`, `pin`, `topics`, `group_configs`,
        `internal`, `bytes`, `security`.
        """
        prefix = f"{self._root}{kind}/".encode()
        return prefix, find_prefix_end(prefix)


class UnreadableKey(ValueError):
    """A key or its value is not in this version's form. The text continues a sentence that begins with the key."""


def parse_number(value: bytes) -> int:
    """Return the number of a value. Raises UnreadableKey."""
    try:
        return int(value)
    except ValueError as error:
        raise UnreadableKey(f"is not a number: {_shorten(value)}") from error


def parse_object(value: bytes) -> dict[str, Any]:
    """Return the fields of a value that is a JSON object. Raises UnreadableKey, also for a newer format."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableKey(f"is not JSON: {_shorten(value)}") from error
    if not isinstance(fields, dict):
        raise UnreadableKey(f"is not a JSON object: {_shorten(value)}")
    found = fields.get("format", FORMAT)
    if found != FORMAT:
        raise UnreadableKey(
            f"has format {found!r} of a newer version of groupd; this version reads format {FORMAT}"
        )
    return fields


def parse_partition(text: bytes) -> tuple[str, int]:
    """Return topic and number of `TOPIC/NUMBER`, the end of a key. Raises UnreadableKey."""
    topic, _, number = text.rpartition(b"/")
    try:
        return topic.decode("ascii"), int(number)
    except ValueError as error:
        raise UnreadableKey("does not name a partition") from error


def format_key(key: bytes) -> str:
    """Return a key as printable text for a line of the log."""
    text = key.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _shorten(value: bytes) -> str:
    return repr(value if len(value) <= 60 else value[:60] + b"...")
