"""Records of groups as the log takes them: encoded, and fast for what there is most of.

A consumer commits the same partitions again and again, so the bytes of an offset's key are kept. The value of a
plain commit (a text of a few ASCII characters at most) is packed in one step; what is rarer goes through the codec.
"""

from struct import Struct
from typing import Final

from coordinator.group.outcome import Record as Fact
from protocol.kinds import ZERO_UUID
from protocol.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from storage.record import UNASSIGNED_OFFSET, Record

MAX_KEPT_KEYS: Final = 100_000
_TOPIC_ID_VERSION: Final = 4
_MAX_SHORT_TEXT: Final = 126  # its length and one more fit in one byte of a varint
_VALUE_START: Final = Struct(">hqiB")  # version, offset, leader epoch, length of the text and one more
_VALUE_END: Final = Struct(">qBBB16s")  # commit timestamp; one tag, number 0, of 16 bytes: the topic id


class RecordBytes:
    """Encodes the records of one partition."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, int], bytes] = {}

    def encode(self, fact: Fact, wall_ms: int) -> Record:
        """A record of the log with a fact's key and value, of this wall clock time."""
        key = fact.key
        raw = self._key(key) if type(key) is OffsetCommitKey else encode_key(key)
        value = fact.value
        if value is None:
            return Record(UNASSIGNED_OFFSET, wall_ms, raw, None)
        if type(value) is OffsetCommitValue and fact.value_version == _TOPIC_ID_VERSION:
            return Record(UNASSIGNED_OFFSET, wall_ms, raw, encode_offset(value))
        return Record(UNASSIGNED_OFFSET, wall_ms, raw, encode_value(value, fact.value_version))

    def _key(self, key: OffsetCommitKey) -> bytes:
        name = (key.group, key.topic, key.partition)
        raw = self._keys.get(name)
        if raw is None:
            if len(self._keys) >= MAX_KEPT_KEYS:
                self._keys.clear()
            raw = self._keys[name] = encode_key(key)
        return raw


def encode_offset(value: OffsetCommitValue) -> bytes:
    """The bytes of a committed offset with a topic id, as `encode_value` makes them for version 4."""
    text = value.metadata
    if len(text) > _MAX_SHORT_TEXT or not text.isascii() or value.topic_id == ZERO_UUID:
        return encode_value(value, _TOPIC_ID_VERSION)
    start = _VALUE_START.pack(_TOPIC_ID_VERSION, value.offset, value.leader_epoch, len(text) + 1)
    end = _VALUE_END.pack(value.commit_timestamp, 1, 0, 16, value.topic_id)
    return start + text.encode() + end if text else start + end
