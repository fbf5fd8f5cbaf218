"""`groupd wire record`: records of `__consumer_offsets`."""

import sys
from collections.abc import Iterator

import click

from coordinator.cli.wire.bytes_given import from_hex
from coordinator.cli.wire.fields import as_json, as_lines, with_inner
from protocol.annotated import Annotated, Note, annotate
from protocol.records.record_type import ServedType
from protocol.records.record_types import BY_NUMBER
from storage.errors import CorruptBatch, StorageError
from storage.files import OsFiles
from storage.inspection.directory_reader import find_logs
from storage.inspection.log_reader import LogReader
from storage.inspection.segment_scan import BadBytes
from storage.os_error import reason_of
from storage.record import Record

EPILOG = """FILE is a segment (a .log file), the directory of a partition or a data directory, as for `groupd log`.
Offsets in key and value count from the beginning of each. Records of types that groupd does not serve are printed
as the type alone."""


def annotate_key(key: bytes) -> tuple[Annotated, int]:
    """The fields of a key, its type first; and that type, -1 where there is none."""
    if len(key) < 2:
        return Annotated([], f"a key of {len(key)} bytes"), -1
    kind = int.from_bytes(key[:2], "big", signed=True)
    head = Note(0, 0, "type", "int16", 2, kind)
    record_type = BY_NUMBER.get(kind)
    if not isinstance(record_type, ServedType):
        return Annotated([head]), kind
    found = annotate(record_type.key, kind, key, 2)
    return Annotated([head, *found.notes], found.problem), kind


def annotate_value(kind: int, value: bytes) -> Annotated:
    """The fields of the value that belongs to a key of a type, its version first."""
    if len(value) < 2:
        return Annotated([], f"a value of {len(value)} bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    head = Note(0, 0, "version", "int16", 2, version)
    record_type = BY_NUMBER.get(kind)
    if not isinstance(record_type, ServedType):
        return Annotated([head])
    if version not in record_type.value_versions:
        return Annotated([head], f"{record_type.value.__name__} has no version {version}")
    found = annotate(record_type.value, version, value, 2)
    return with_inner(Annotated([head, *found.notes], found.problem), value)


class _Printer:
    """Prints records; remembers whether all were sound."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self.is_sound = True

    def print(self, where: str, key: bytes | None, value: bytes | None) -> None:
        """One record: its place, key and value."""
        if not self._is_json:
            click.echo(where)
        kind = -1
        if key is None:
            self._part(where, "key", Annotated([], "a record without a key"))
        else:
            annotated, kind = annotate_key(key)
            self._part(where, "key", annotated)
        if value is not None:
            self._part(where, "value", annotate_value(kind, value))
        if not self._is_json:
            click.echo()

    def _part(self, where: str, part: str, annotated: Annotated) -> None:
        self.is_sound &= annotated.problem is None
        if self._is_json:
            for line in as_json(annotated, record=where, part=part):
                click.echo(line)
            return
        click.echo(f"  {part}")
        for line in as_lines(annotated):
            click.echo(f"  {line}")

    def bad(self, problem: str) -> None:
        """Something that is no record."""
        self.is_sound = False
        click.echo(problem, err=True)


def _records(path: str, printer: _Printer) -> Iterator[tuple[str, Record]]:
    files = OsFiles()
    for log in find_logs(files, path):
        for piece in LogReader(files, log).pieces():
            if isinstance(piece, BadBytes):
                printer.bad(f"{piece.path}: byte {piece.position}: {piece.reason}")
                continue
            try:
                records = piece.records()
            except CorruptBatch as error:
                printer.bad(f"{piece.path}: byte {piece.position}: {error.reason}")
                continue
            if piece.header.is_control:
                continue
            for record in records:
                gone = ", a tombstone" if record.value is None else ""
                yield f"{piece.path}: batch at byte {piece.position}: offset {record.offset}{gone}", record


@click.command(epilog=EPILOG)
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--hex", "key_hex", metavar="DIGITS", help="A key, in hexadecimal digits.")
@click.option("--value", "value_hex", metavar="DIGITS", help="The value that belongs to the key of --hex.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a field.")
def command(path: str | None, key_hex: str | None, value_hex: str | None, is_json: bool) -> None:
    """Print records of __consumer_offsets, field by field: those of FILE, or one from --hex (and --value)."""
    printer = _Printer(is_json=is_json)
    if (path is None) == (key_hex is None):
        raise click.UsageError("give either FILE or --hex")
    if key_hex is not None:
        printer.print("record", from_hex(key_hex), None if value_hex is None else from_hex(value_hex))
        sys.exit(0 if printer.is_sound else 1)
    assert path is not None
    try:
        for where, record in _records(path, printer):
            printer.print(where, record.key, record.value)
    except (StorageError, OSError) as error:
        raise click.UsageError(reason_of(error)) from error
    sys.exit(0 if printer.is_sound else 1)
