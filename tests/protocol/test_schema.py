"""The declarations are Kafka's, field by field; the notation of versions; the layouts of messages."""

from pathlib import Path
from typing import Any

import pytest

from protocol.apis import VersionRange
from protocol.schema import (
    Array,
    FieldType,
    Int16,
    Int32,
    NullableString,
    String,
    data,
    layout,
    message_info,
    since,
    struct,
    tagged,
)
from tests.protocol.declared import ALL, name

KAFKA_SCHEMAS = Path(__file__).with_name("kafka_schemas.txt")


def kafka_schemas() -> dict[str, str]:
    """The schema of each message and version, by the id of a test case."""
    schemas = {}
    for line in KAFKA_SCHEMAS.read_text().splitlines():
        if not line.startswith("#"):
            message, versions, schema = line.split(" ", 2)
            span = VersionRange.parse(versions)
            for version in range(span.first, span.last + 1):
                schemas[f"{message}-v{version}"] = schema
    return schemas


def described(cls: type[Any], version: int) -> str:
    flexible = "flexible " if version in message_info(cls).flexible else ""
    return f"{flexible}({described_fields(cls, version)})"


def described_fields(cls: type[Any], version: int) -> str:
    return ", ".join(
        ("" if entry.tag is None else f"#{entry.tag} ")
        + f"{entry.name} {described_type(entry.type, version)}"
        for entry in layout(cls, version)
    )


def described_type(field: FieldType, version: int) -> str:
    null = "?" if field.nullable else ""
    if field.struct_class is not None:
        return f"{null}{{{described_fields(field.struct_class, version)}}}"
    if field.element is not None:
        element = field.element
        if element.struct_class is not None:
            return f"{null}[{described_fields(element.struct_class, version)}]"
        return f"{null}[{described_type(element, version)}]"
    return null + field.kind.name


SCHEMAS = kafka_schemas()


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_a_declaration_is_kafkas(declared: tuple[type[Any], int]) -> None:
    if name(declared) == "OffsetCommitKey-v0":
        assert described(*declared) == SCHEMAS["OffsetCommitKey-v1"]  # as brokers before 0.9 wrote it
    else:
        assert described(*declared) == SCHEMAS[name(declared)]


def test_every_version_that_kafka_has_is_declared() -> None:
    assert SCHEMAS.keys() <= set(map(name, ALL))


@pytest.mark.parametrize(
    ("text", "first", "last"), [("3", 3, 3), ("0-9", 0, 9), ("6+", 6, 32767), ("10-12", 10, 12)]
)
def test_version_notation(text: str, first: int, last: int) -> None:
    versions = VersionRange.parse(text)
    assert versions == VersionRange(first, last)
    assert first in versions
    assert last in versions
    assert first - 1 not in versions
    assert last + 1 not in versions


def test_none_is_no_version() -> None:
    assert not any(version in VersionRange.parse("none") for version in range(-1, 100))


@struct
class Part:
    """A struct of the message below."""

    number: Int32
    label: NullableString = since("1+", nullable="2+", default="none")


@data(versions="0-3", flexible="3+")
class Sample:
    """A message that has one of each."""

    second_tag: Int16 = tagged(1, "3+", default=7)
    title: String
    parts: Array[Part] = since("1+", default=[])
    first_tag: Part | None = tagged(0, "3+", default=None)


def test_a_layout_has_the_fields_of_its_version_with_tags_at_the_end() -> None:
    names = [[entry.name for entry in layout(Sample, version)] for version in range(4)]
    assert names == [
        ["title"],
        ["title", "parts"],
        ["title", "parts"],
        ["title", "parts", "first_tag", "second_tag"],
    ]


def test_nullability_follows_the_version() -> None:
    nullable = [[entry.type.nullable for entry in layout(Part, version)] for version in range(3)]
    assert nullable == [[False], [False, False], [False, True]]


def test_defaults_are_those_of_the_declaration_and_not_shared() -> None:
    first, second = Sample(title="a"), Sample(title="b")
    assert (first.second_tag, first.parts, first.first_tag) == (7, [], None)
    first.parts.append(Part(number=1))
    assert second.parts == []


def test_a_field_that_some_versions_lack_needs_a_default() -> None:
    with pytest.raises(AssertionError):
        since("1+")


def test_a_message_has_no_attributes_but_its_fields() -> None:
    sample: Any = Sample(title="a")
    with pytest.raises(AttributeError):
        sample.titel = "b"
    positional: Any = Sample
    with pytest.raises(TypeError):
        positional("a")


def test_what_is_no_message_has_no_wire_facts() -> None:
    with pytest.raises(KeyError):
        message_info(Part)
