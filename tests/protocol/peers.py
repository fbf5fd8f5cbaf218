"""Independent codecs: kio, and kafka-python's for the versions that kio lacks.

A peer reads the bytes of a message and says which values it saw, as nested tuples in the order in which Kafka
declares the fields, and writes them again.
"""

import io
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from importlib import import_module
from re import sub
from typing import Any, TypeAlias
from uuid import UUID
from warnings import catch_warnings, simplefilter

from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from msgspec import Struct

from protocol.schema import ZERO_UUID, FieldLayout, layout, message_info

Values: TypeAlias = Any
Peer: TypeAlias = Callable[[bytes], tuple[Values, bytes]]

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ENTITY_TYPES: dict[str, Any] = {
    "request": EntityType.request,
    "response": EntityType.response,
    "data": EntityType.data,
}
# Where kafka-python keeps the versions that Kafka 4 has dropped.
_OLD_MODULES = {
    "Produce": "produce",
    "ListOffsets": "list_offsets",
    "OffsetCommit": "commit",
    "OffsetFetch": "commit",
    "CreateTopics": "admin",
    "DeleteTopics": "admin",
    "OffsetForLeaderEpoch": "offset_for_leader_epoch",
    "DescribeConfigs": "admin",
    "DescribeAcls": "admin",
    "CreateAcls": "admin",
    "DeleteAcls": "admin",
}


def values_of(message: Any, version: int) -> Values:
    """Our message as the peers present theirs."""
    present = {entry.name: entry for entry in layout(type(message), version)}
    return tuple(
        _value(getattr(message, field), present[field], version)
        for field in message.__struct_fields__
        if field in present
    )


def _value(value: Any, entry: FieldLayout, version: int) -> Values:
    if value == ZERO_UUID and entry.type.kind.name == "uuid":
        return None
    if isinstance(value, list):
        return tuple(values_of(item, version) if isinstance(item, Struct) else item for item in value)
    if isinstance(value, Struct):
        return values_of(value, version)
    if value is None and entry.tag is not None and entry.type.struct_class is not None:
        return values_of(entry.type.struct_class(), version)
    return value


def peer_for(cls: type[Any], version: int) -> Peer | None:
    """Return the peer that knows this version of a message, or None."""
    return _kio(cls, version) or _kafka_python(cls, version)


def _kio(cls: type[Any], version: int) -> Peer | None:
    name = (
        sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower().removesuffix("_request").removesuffix("_response")
    )
    try:
        entity = load_entity_schema(name, version, _ENTITY_TYPES[message_info(cls).role])
    except UnknownEntity:
        return None
    reader, writer = entity_reader(entity), entity_writer(entity)

    def exchange(data: bytes) -> tuple[Values, bytes]:
        message, size = reader(data, 0)
        assert size == len(data)
        out = io.BytesIO()
        writer(out, message)
        return _kio_value(message), out.getvalue()

    return exchange


def _kio_value(value: Any, field_name: str = "") -> Values:
    if is_dataclass(value):
        return tuple(_kio_value(getattr(value, field.name), field.name) for field in fields(value))
    if isinstance(value, tuple):
        return tuple(_kio_value(item) for item in value)
    if isinstance(value, timedelta):
        return round(value / _MILLISECOND)
    if isinstance(value, datetime):
        return round((value - _EPOCH) / _MILLISECOND)
    if isinstance(value, UUID):
        return None if value.int == 0 else value.bytes
    if isinstance(value, IntEnum):
        return int(value)
    if value is None and field_name == "log_append_time":
        return -1
    return value


def _kafka_python(cls: type[Any], version: int) -> Peer | None:
    old = _old_kafka_python(cls, version)
    if old is None:
        return None

    def exchange(data: bytes) -> tuple[Values, bytes]:
        stream = io.BytesIO(data)
        message = old.SCHEMA.decode(stream)
        assert not stream.read()
        return _as_tuples(message), old.SCHEMA.encode(message)

    return exchange


def _old_kafka_python(cls: type[Any], version: int) -> Any:
    module = _OLD_MODULES.get(cls.__name__.removesuffix(message_info(cls).role.capitalize()))
    if module is None:
        return None
    with catch_warnings():
        # kafka-python reads its own resources in a deprecated way while it is imported.
        simplefilter("ignore", DeprecationWarning)
        imported = import_module(f"kafka.protocol.old.{module}")
    return getattr(imported, f"{cls.__name__}_v{version}", None)


def _as_tuples(value: Any) -> Values:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list | tuple) else value
