"""Every declared message at every version, and values that fill them from their own layout."""

import math
import os
import random
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeAlias

from hypothesis import settings

from protocol.apis import APIS
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.records.group_record_serde import SERVED_TYPES
from protocol.records.transaction_state import TransactionLogKey, TransactionLogValue
from protocol.schema import FieldType, layout, message_info

Declared: TypeAlias = tuple[type[Any], int]

DATA: Final[tuple[type[Any], ...]] = (
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    *(cls for kind in SERVED_TYPES for cls in (kind.key, kind.value)),
    TransactionLogKey,
    TransactionLogValue,
)
MESSAGES: Final[tuple[type[Any], ...]] = tuple(
    cls for api in APIS.values() for cls in (api.request, api.response)
)


# EXPLORE=1000 in the environment looks at that many other examples than the usual ones.
EXPLORE: Final = int(os.environ.get("EXPLORE", "0"))


def _versions(cls: type[Any]) -> range:
    versions = message_info(cls).versions
    return range(versions.first, versions.last + 1)


ALL: Final[list[Declared]] = [(cls, version) for cls in (*MESSAGES, *DATA) for version in _versions(cls)]


def name(declared: Any) -> str:
    """The id of a test case."""
    cls, version = declared
    return f"{cls.__name__}-v{version}"


def examples(count: int) -> settings:
    """`count` examples, the same in every run, or EXPLORE new ones."""
    return settings(max_examples=EXPLORE or count, derandomize=not EXPLORE, database=None)


_RANGES: Final = {"b": 2**7, "h": 2**15, "i": 2**31, "q": 2**63}
# Ranges that the independent codecs have types of their own for: known errors, durations, points in time.
_NARROW: Final[dict[str, tuple[int, int]]] = {
    "error_code": (-1, 129),
    "topic_config_error_code": (-1, 129),
    "partition_error_code": (-1, 129),
    "retention_time_ms": (-1, 2**40),
    "log_append_time_ms": (-1, 2**41),
    "transaction_start_time_ms": (0, 2**41),
    "session_lifetime_ms": (0, 2**40),
}


def random_messages(cls: type[Any], version: int, count: int) -> Iterator[Any]:
    """`count` messages with every field of one version filled, the same in every run, or EXPLORE new ones. The
    fields of other versions have their defaults."""
    for number in range(EXPLORE or count):
        seed = random.random() if EXPLORE else number
        yield _random_struct(cls, version, Random(f"{cls.__name__} {version} {seed}"))


def _random_struct(cls: type[Any], version: int, chance: Random) -> Any:
    fields = {}
    for entry in layout(cls, version):
        value = _random_value(entry.type, version, chance, entry.name)
        inner = entry.type.struct_class
        if entry.tag is not None and inner is not None and not entry.sends_null:
            # A struct in a tag that equals its default is sent by some codecs and left out by others.
            value = entry.default if value == inner() or chance.random() < 0.5 else value
        fields[entry.name] = value
    return cls(**fields)


def _random_value(field: FieldType, version: int, chance: Random, name: str = "") -> Any:
    kind = field.kind
    if name in _NARROW:
        return chance.randint(*_NARROW[name])
    if field.nullable and chance.random() < 0.3:
        return None
    if kind.letter == "?":
        return chance.random() < 0.5
    if kind.letter == "d":
        return chance.choice([0.0, -0.0, math.inf, chance.uniform(-1e9, 1e9)])
    if kind.letter:
        largest = _RANGES[kind.letter] - 1
        return chance.choice([0, 1, -1, largest, -largest - 1, chance.randint(-largest - 1, largest)])
    if kind.name == "uuid":
        return chance.randbytes(16)
    if field.struct_class is not None:
        return _random_struct(field.struct_class, version, chance)
    if field.element is not None:
        return [_random_value(field.element, version, chance) for _ in range(chance.randint(0, 3))]
    # Lengths on both sides of 127, where the length of a compact string takes a second byte.
    length = chance.choice([0, chance.randint(1, 12), chance.randint(120, 135)])
    if kind.name == "string":
        return "".join(chance.choices("aZ\0é日\U0001f600", k=length)) if length < 120 else "x" * length
    return chance.randbytes(length)


def full(cls: type[Any], version: int) -> Any:
    """One message in which nothing is empty, null or at its default."""
    return cls(**{entry.name: _full_value(entry.type, version) for entry in layout(cls, version)})


def _full_value(field: FieldType, version: int) -> Any:
    if field.kind.letter == "?":
        return True
    if field.kind.letter:
        return 5
    if field.struct_class is not None:
        return full(field.struct_class, version)
    if field.element is not None:
        return [_full_value(field.element, version)] * 2
    return {"uuid": bytes(range(16)), "string": "né"}.get(field.kind.name, b"\x01\x02")
