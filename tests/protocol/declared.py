"""Every declared message at every version, and strategies that fill them from their own layout."""

import os
from typing import Any, Final, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st

from protocol.apis import APIS
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.records.record_types import SERVED_TYPES
from protocol.records.transaction_state import TransactionLogKey, TransactionLogValue
from protocol.schema import FieldLayout, FieldType, layout, message_info

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
    """`count` examples, the same in every run, or as many new ones as EXPLORE says."""
    return settings(max_examples=EXPLORE or count, derandomize=not EXPLORE, database=None)


_RANGES: Final = {"b": 2**7, "h": 2**15, "i": 2**31, "q": 2**63}
# Ranges that the independent codecs have types of their own for: known errors, durations, points in time.
_NARROW: Final = {
    "error_code": st.integers(-1, 129),
    "topic_config_error_code": st.integers(-1, 129),
    "partition_error_code": st.integers(-1, 129),
    "retention_time_ms": st.integers(-1, 2**40),
    "log_append_time_ms": st.integers(-1, 2**41),
    "transaction_start_time_ms": st.integers(0, 2**41),
    "session_lifetime_ms": st.integers(0, 2**40),
}
# Lengths on both sides of 127, where the length of a compact string takes a second byte.
_TEXT: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.integers(120, 135).map("x".__mul__)
)
_BYTES: Final = st.one_of(st.binary(max_size=12), st.integers(120, 135).map(b"\0".__mul__))


def values(field: FieldType, version: int, name: str = "") -> st.SearchStrategy[Any]:
    """Values of a field's type in one version."""
    kind = field.kind
    strategy: st.SearchStrategy[Any]
    if name in _NARROW:
        return _NARROW[name]
    if kind.letter == "?":
        return st.booleans()
    if kind.letter == "d":
        return st.floats(allow_nan=False)
    if kind.letter:
        return st.integers(-_RANGES[kind.letter], _RANGES[kind.letter] - 1)
    if kind.name == "uuid":
        return st.binary(min_size=16, max_size=16)
    if field.struct_class is not None:
        strategy = structs(field.struct_class, version)
    elif field.element is not None:
        strategy = st.lists(values(field.element, version), max_size=3)
    else:
        strategy = _TEXT if kind.name == "string" else _BYTES
    return st.none() | strategy if field.nullable else strategy


def _field_values(entry: FieldLayout, version: int) -> st.SearchStrategy[Any]:
    strategy = values(entry.type, version, entry.name)
    cls = entry.type.struct_class
    if entry.tag is None or cls is None or entry.sends_null:
        return strategy
    # A struct in a tag that equals its default is sent by some codecs and left out by others.
    return st.just(entry.default) | strategy.filter(lambda value: value != cls())


def structs(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Messages or structs with every field of one version drawn, the others at their default."""
    return st.builds(cls, **{entry.name: _field_values(entry, version) for entry in layout(cls, version)})


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
