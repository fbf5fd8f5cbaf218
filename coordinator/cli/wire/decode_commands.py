"""`groupd wire decode`, `dump` and `record`: print messages, recorded frames and records of
`__consumer_offsets` field by field. A line has offset, length, name, type and value; JSON has an object for
each field.
"""

import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final
from uuid import UUID

import click

from coordinator.cli.wire.wire_command import parse_hex, read_input
from coordinator.core.message_text import format_count, printable, suggest
from protocol.apis import APIS, Api
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.message_annotation import (
    UNFINISHED,
    AnnotatedMessage,
    FieldNote,
    annotate,
    annotate_request,
    annotate_response,
)
from protocol.primitives import Malformed
from protocol.records.group_record_serde import TYPES_BY_NUMBER, ServedRecordType
from protocol.schema import message_info
from storage.files import OsFiles
from storage.inspection.log_reader import LogReader, find_logs
from storage.inspection.segment_scan import BadBytes
from storage.record import Record
from storage.storage_errors import CorruptBatch, StorageError, format_error_reason

_MAX_HEX: Final = 32
_MAX_TEXT: Final = 200
_INDENT: Final = "  "
_INNER_MESSAGES: Final[dict[str, type[Any]]] = {
    "metadata": ConsumerProtocolSubscription,
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
"""The messages in fields with these names, if the group uses the consumer protocol."""


def annotate_inner(annotated: AnnotatedMessage, data: bytes) -> AnnotatedMessage:
    """Insert the fields of consumer protocol bytes below the field that holds these bytes."""
    notes: list[FieldNote] = []
    for note in annotated.notes:
        notes.append(note)
        inner = _INNER_MESSAGES.get(note.name)
        if inner is not None and isinstance(note.value, bytes) and len(note.value) > 2:
            notes += _create_inner_notes(inner, note, data)
    return AnnotatedMessage(notes, annotated.problem)


def _create_inner_notes(cls: type[Any], note: FieldNote, data: bytes) -> list[FieldNote]:
    # The field of a tagged or flexible message may end with a section of tags; its bytes are found by their value.
    start = data.find(note.value, note.offset)
    version = int.from_bytes(note.value[:2], "big", signed=True)
    if start < 0 or version not in message_info(cls).versions:
        return []
    found = annotate(cls, version, data[: start + len(note.value)], start + 2)
    if found.problem is not None:
        return []
    head = FieldNote(start, 0, "version", "int16", start + 2, version)
    inner = [head, *found.notes]
    for each in inner:
        each.depth += note.depth + 1
    return inner


def format_lines(annotated: AnnotatedMessage) -> Iterator[str]:
    """Format each field as one aligned line, and the problem last."""
    notes = annotated.notes
    name_width = max((len(_indent_name(note)) for note in notes), default=0)
    kind_width = max((len(note.kind) for note in notes), default=0)
    for note in notes:
        length = "" if note.end == UNFINISHED else str(note.end - note.offset)
        where = f"{note.offset:>6} {length:>5}"
        yield (
            f"{where}  {_indent_name(note):<{name_width}}  {note.kind:<{kind_width}}  {format_value(note)}"
        ).rstrip()
    if annotated.problem is not None:
        yield f"invalid: {printable(annotated.problem, 500)}"


def format_json(annotated: AnnotatedMessage, **more: object) -> Iterator[str]:
    """Format each field as a JSON object with the attributes `more`, and the problem last."""
    path: list[str] = []
    for note in annotated.notes:
        del path[note.depth :]
        path.append(note.name)
        fields: dict[str, object] = {
            **more,
            "offset": note.offset,
            "field": _join_path(path),
            "type": note.kind,
        }
        if note.end == UNFINISHED:
            fields["unfinished"] = True
        else:
            fields["length"] = note.end - note.offset
            fields["elements" if note.count is not None else "value"] = (
                note.count if note.count is not None else _json_value(note)
            )
        yield json.dumps(fields)
    if annotated.problem is not None:
        yield json.dumps({**more, "problem": annotated.problem})


def format_value(note: FieldNote) -> str:
    """Format the value of a field for people."""
    value = note.value
    if note.end == UNFINISHED:
        return "…"
    if note.count is not None:
        return format_count(note.count, "element")
    if value is None:
        return "null" if note.kind.endswith("?") else ""
    if note.kind.startswith("uuid"):
        return str(UUID(bytes=value))
    if isinstance(value, bytes):
        shown = value[:_MAX_HEX].hex(" ", 4)
        return f"{shown}{' …' if len(value) > _MAX_HEX else ''} ({len(value)} bytes)"
    if isinstance(value, str):
        return f'"{printable(value, _MAX_TEXT)}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_value(note: FieldNote) -> object:
    value = note.value
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if note.kind.startswith("uuid") else value.hex()
    return value


def _indent_name(note: FieldNote) -> str:
    return _INDENT * note.depth + note.name


def _join_path(path: list[str]) -> str:
    return ".".join(path).replace(".[", "[")


DECODE_EPILOG = """MESSAGE is Kafka's name of it: JoinGroupRequest, JoinGroupResponse, ...,
ConsumerProtocolSubscription, ConsumerProtocolAssignment. The bytes are those of the body; with --frame those of a
whole frame with its header, and without the size in front of it. Bytes of the consumer protocol within (metadata,
assignment) are opened as well.

Example: groupd wire decode HeartbeatRequest 0 --hex '0001 67 00000001 0001 6d'"""


@cache
def _list_messages() -> dict[str, Api | type[Any]]:
    named: dict[str, Api | type[Any]] = {
        cls.__name__: cls for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
    }
    for api in APIS.values():
        named[f"{api.name}Request"] = named[f"{api.name}Response"] = api
    return named


def _find_class(name: str) -> type[Any]:
    """Return the class of a message by its name. Raises BadParameter."""
    found = _list_messages().get(name)
    if found is None:
        hint = suggest(name, _list_messages())
        raise click.BadParameter(f"{printable(name)} is not a message {hint}", param_hint="MESSAGE")
    if isinstance(found, Api):
        cls: type[Any] = found.request if name.endswith("Request") else found.response
        return cls
    return found


def _annotate_message(name: str, version: int, data: bytes, *, is_frame: bool) -> AnnotatedMessage:
    cls = _find_class(name)
    if version not in message_info(cls).versions:
        versions = message_info(cls).versions
        raise click.BadParameter(
            f"{name} has versions {versions.first} to {versions.last}", param_hint="VERSION"
        )
    if not is_frame:
        return annotate(cls, version, data)
    api = _list_messages()[name]
    if not isinstance(api, Api):
        raise click.UsageError(f"{name} is not a request or response and has no frame")
    if name.endswith("Response"):
        return annotate_response(api.key, version, data)
    found, found_version, annotated = annotate_request(data)
    if (found.key, found_version) != (api.key, version):
        raise click.UsageError(f"the header says {found.name}Request, version {found_version}")
    return annotated


@click.command(epilog=DECODE_EPILOG)
@click.argument("message", metavar="MESSAGE")
@click.argument("version", type=int, metavar="VERSION")
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--hex", "hex_text", metavar="DIGITS", help="The bytes, in hexadecimal digits.")
@click.option("--frame", "is_frame", is_flag=True, help="The bytes are a frame with a header.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object per field.")
def decode_message(
    message: str, version: int, path: str | None, hex_text: str | None, is_frame: bool, is_json: bool
) -> None:
    """Print a message, field by field, from the bytes of FILE ("-": standard input) or of --hex."""
    data = read_input(path, hex_text)
    try:
        annotated = annotate_inner(_annotate_message(message, version, data, is_frame=is_frame), data)
    except Malformed as error:
        click.echo(f"invalid: {error}", err=True)
        sys.exit(1)
    for line in format_json(annotated) if is_json else format_lines(annotated):
        click.echo(line)
    sys.exit(1 if annotated.problem else 0)


DUMP_EPILOG = """\
FILE has one exchange a line, as JSON: "api" and "version", and "request", "response" or both, whole
frames in hexadecimal digits with their header and without the size in front; "client" is printed where it is there.
Lines without "api" are skipped. So the captures of tests/frames are kept."""

_APIS_BY_NAME: Final = {api.name: api for api in APIS.values()}


def _parse_exchanges(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise click.ClickException(f"line {number} is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise click.ClickException(f"line {number} is not a JSON object")
        if "api" in entry:
            yield number, entry


def _annotate_frames(number: int, entry: dict[str, Any]) -> Iterator[tuple[str, AnnotatedMessage]]:
    """Yield the messages of a line: "request" or "response", and the fields."""
    api, version = _APIS_BY_NAME.get(entry["api"]), entry.get("version")
    if api is None or not isinstance(version, int) or version not in api.versions:
        raise click.ClickException(f"line {number}: {entry['api']} has no version {version} here")
    for kind in ("request", "response"):
        if kind not in entry:
            continue
        frame = parse_hex(str(entry[kind]))
        try:
            if kind == "response":
                annotated = annotate_response(api.key, version, frame)
            else:
                annotated = annotate_request(frame)[2]
        except Malformed as error:
            annotated = AnnotatedMessage([], str(error))
        yield kind, annotate_inner(annotated, frame)


@click.command(epilog=DUMP_EPILOG)
@click.argument("path", metavar="FILE")
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Only this API; may be repeated.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object per field.")
def dump_frames(path: str, apis: tuple[str, ...], is_json: bool) -> None:
    """Print recorded frames of FILE ("-": standard input), field by field."""
    unknown = sorted(set(apis) - set(_APIS_BY_NAME))
    if unknown:
        hint = suggest(unknown[0], _APIS_BY_NAME)
        raise click.BadParameter(f"{printable(unknown[0])} is not an API {hint}", param_hint="--api")
    is_sound = True
    for number, entry in _parse_exchanges(read_input(path, None)):
        if apis and entry["api"] not in apis:
            continue
        for kind, annotated in _annotate_frames(number, entry):
            is_sound &= annotated.problem is None
            name = f"{entry['api']}{kind.capitalize()}"
            if is_json:
                lines = format_json(annotated, line=number, message=name, version=entry["version"])
            else:
                client = f" of {entry['client']}" if "client" in entry else ""
                click.echo(f"line {number}: {name} v{entry['version']}{client}")
                lines = format_lines(annotated)
            for line in lines:
                click.echo(line)
            if not is_json:
                click.echo()
    sys.exit(0 if is_sound else 1)


RECORD_EPILOG = """\
FILE is a segment (a .log file), the directory of a partition or a data directory, as for `groupd log`.
Offsets in key and value count from the beginning of each. Records of types that groupd does not serve are printed
as the type alone."""


def annotate_key(key: bytes) -> tuple[AnnotatedMessage, int]:
    """Return the fields of a key, its type first, and that type. The type is -1 if the key has none."""
    if len(key) < 2:
        return AnnotatedMessage([], f"a key of {len(key)} bytes"), -1
    kind = int.from_bytes(key[:2], "big", signed=True)
    head = FieldNote(0, 0, "type", "int16", 2, kind)
    record_type = TYPES_BY_NUMBER.get(kind)
    if not isinstance(record_type, ServedRecordType):
        return AnnotatedMessage([head]), kind
    found = annotate(record_type.key, kind, key, 2)
    return AnnotatedMessage([head, *found.notes], found.problem), kind


def annotate_value(kind: int, value: bytes) -> AnnotatedMessage:
    """Return the fields of the value that belongs to a key of type `kind`, its version first."""
    if len(value) < 2:
        return AnnotatedMessage([], f"a value of {len(value)} bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    head = FieldNote(0, 0, "version", "int16", 2, version)
    record_type = TYPES_BY_NUMBER.get(kind)
    if not isinstance(record_type, ServedRecordType):
        return AnnotatedMessage([head])
    if version not in record_type.value_versions:
        return AnnotatedMessage([head], f"{record_type.value.__name__} has no version {version}")
    found = annotate(record_type.value, version, value, 2)
    return annotate_inner(AnnotatedMessage([head, *found.notes], found.problem), value)


class _RecordPrinter:
    """Prints records, and remembers whether all were valid."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self.is_sound = True

    def print_record(self, where: str, key: bytes | None, value: bytes | None) -> None:
        """Print the place, the key and the value of a record."""
        if not self._is_json:
            click.echo(where)
        kind = -1
        if key is None:
            self._print_part(where, "key", AnnotatedMessage([], "a record without a key"))
        else:
            annotated, kind = annotate_key(key)
            self._print_part(where, "key", annotated)
        if value is not None:
            self._print_part(where, "value", annotate_value(kind, value))
        if not self._is_json:
            click.echo()

    def _print_part(self, where: str, part: str, annotated: AnnotatedMessage) -> None:
        self.is_sound &= annotated.problem is None
        if self._is_json:
            for line in format_json(annotated, record=where, part=part):
                click.echo(line)
            return
        click.echo(f"  {part}")
        for line in format_lines(annotated):
            click.echo(f"  {line}")

    def print_problem(self, problem: str) -> None:
        """Report bytes that are not a record."""
        self.is_sound = False
        click.echo(problem, err=True)


def _read_records(path: str, printer: _RecordPrinter) -> Iterator[tuple[str, Record]]:
    files = OsFiles()
    for log in find_logs(files, path):
        for piece in LogReader(files, log).read_pieces():
            if isinstance(piece, BadBytes):
                printer.print_problem(f"{piece.path}: byte {piece.position}: {piece.reason}")
                continue
            try:
                records = piece.records()
            except CorruptBatch as error:
                printer.print_problem(f"{piece.path}: byte {piece.position}: {error.reason}")
                continue
            if piece.header.is_control:
                continue
            for record in records:
                gone = ", a tombstone" if record.value is None else ""
                yield f"{piece.path}: batch at byte {piece.position}: offset {record.offset}{gone}", record


@click.command(epilog=RECORD_EPILOG)
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--hex", "key_hex", metavar="DIGITS", help="A key, in hexadecimal digits.")
@click.option("--value", "value_hex", metavar="DIGITS", help="The value for the key of --hex.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object per field.")
def print_records(path: str | None, key_hex: str | None, value_hex: str | None, is_json: bool) -> None:
    """Print records of __consumer_offsets, field by field: those of FILE, or one from --hex (and --value)."""
    printer = _RecordPrinter(is_json=is_json)
    if (path is None) == (key_hex is None):
        raise click.UsageError("either FILE or --hex is required")
    if key_hex is not None:
        printer.print_record(
            "record", parse_hex(key_hex), None if value_hex is None else parse_hex(value_hex)
        )
        sys.exit(0 if printer.is_sound else 1)
    assert path is not None
    try:
        for where, record in _read_records(path, printer):
            printer.print_record(where, record.key, record.value)
    except (StorageError, OSError) as error:
        raise click.UsageError(format_error_reason(error)) from error
    sys.exit(0 if printer.is_sound else 1)
