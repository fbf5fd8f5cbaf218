"""`groupd log dump`: its filters, and the records and producer files that it prints."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

import click

from coordinator.cli.log.decoded_record import ALL_TYPES, DecodedRecord, decode_batch
from coordinator.cli.log.log_paths import (
    FOUND,
    SOUND,
    find_logs_at,
    holds_offsets,
    report_errors,
    wait_for_writer,
    warn_of_journals,
)
from coordinator.cli.log.read_progress import ReadProgress, show_progress
from coordinator.cli.log.record_text import format_record_json, format_record_text
from coordinator.cli.output_streams import Output, color_option, warn
from coordinator.cli.time_text import InvalidTime, parse_time
from storage.batch import BatchHeader
from storage.files import OsFiles
from storage.inspection.log_reader import LogListing, LogReader
from storage.inspection.segment_scan import BadBytes, Piece
from storage.producers.producer_snapshots import SNAPSHOT_SUFFIX, decode_snapshot
from storage.storage_errors import CorruptBatch
from storage.topic_partition import TopicPartition
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, decode_transaction_index


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filters, all of which must match. A filter with several values matches any of them; an empty one matches
    everything."""

    groups: frozenset[str] = field(default_factory=frozenset)
    topics: frozenset[str] = field(default_factory=frozenset)
    types: frozenset[str] = field(default_factory=frozenset)
    partitions: frozenset[int] = field(default_factory=frozenset)
    since_ms: int | None = None
    """The earliest timestamp in milliseconds, inclusive."""
    until_ms: int | None = None
    """The latest timestamp in milliseconds, exclusive."""
    from_offset: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether long parts of a log may have no matching record."""
        times = (self.since_ms, self.until_ms)
        return bool(self.groups or self.topics or self.types) or times != (None, None)

    def matches_log(self, name: TopicPartition | None) -> bool:
        """Return whether a log can have matching records."""
        return not self.partitions or (name is not None and name.partition in self.partitions)

    def matches_batch(self, header: BatchHeader) -> bool:
        """Return whether a batch can have matching records, by its header."""
        if header.last_offset < self.from_offset:
            return False
        return self.since_ms is None or header.max_timestamp_ms >= self.since_ms

    def matches_record(self, entry: DecodedRecord) -> bool:
        """Return whether a record of a matching batch matches."""
        record = entry.record
        return (
            record.offset >= self.from_offset
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or record.timestamp_ms < self.until_ms)
            and (not self.types or entry.type in self.types)
            and (not self.groups or entry.group in self.groups)
            and (not self.topics or self._matches_topic(entry))
        )

    def _matches_topic(self, entry: DecodedRecord) -> bool:
        if entry.name is not None and entry.name.topic in self.topics:
            return True
        return not self.topics.isdisjoint(entry.find_topics())


EPILOG = """The command prints a record that matches all filters. Of several values of one filter, one must match.
--topic matches the records of that topic, and those of __consumer_offsets that name it: commits, and groups whose
members subscribe to it or own partitions of it.

A terminal gets colours, short member ids and truncated long values. Any other output gets one complete line
for each record. Times are in UTC.

If PATH is an index of aborted transactions (.txnindex) or a snapshot of producers (.snapshot), the command
prints each entry and ignores the filters.

The command skips bytes that are not a valid batch, with a line on standard error. An unfinished batch at the
end of a log counts as the end. Exit codes: 0 everything was read, 1 bytes were skipped, 2 PATH is not a log,
130 interrupted."""

_FOLLOW_PAUSE_S: Final = 0.5


def _parse_time_option(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except InvalidTime as error:
        raise click.BadParameter(str(error)) from error


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object per line.")
@click.option("--group", "groups", multiple=True, metavar="ID", help="Only records of this group.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only records of or about this topic.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(ALL_TYPES),
    metavar="TYPE",
    help=f"One of {', '.join(ALL_TYPES)}.",
)
@click.option(
    "--since",
    "since_ms",
    callback=_parse_time_option,
    metavar="TIME",
    help="Not before: ISO 8601 (UTC), or epoch ms.",
)
@click.option("--until", "until_ms", callback=_parse_time_option, metavar="TIME", help="Before.")
@click.option(
    "--partition", "partitions", multiple=True, type=int, metavar="N", help="Only this log partition."
)
@click.option("--from-offset", default=0, type=click.IntRange(min=0), metavar="OFFSET", help="In each log.")
@click.option("--follow", "is_following", is_flag=True, help="Continue with appended records.")
@click.option(
    "--offsets-decoder",
    is_flag=True,
    help="Decode as __consumer_offsets, independent of the directory's name.",
)
@click.option("--full", "is_full", is_flag=True, help="Print whole member ids and values on a terminal, too.")
@color_option
@report_errors
def dump_log(
    paths: tuple[str, ...],
    is_json: bool,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    types: tuple[str, ...],
    since_ms: int | None,
    until_ms: int | None,
    partitions: tuple[int, ...],
    from_offset: int,
    is_following: bool,
    offsets_decoder: bool,
    is_full: bool,
    output: Output,
) -> int:
    """Print the records of a log: place, time, type, key and value, with Kafka's names."""
    selection = RecordFilter(
        frozenset(groups),
        frozenset(topics),
        frozenset(types),
        frozenset(partitions),
        since_ms,
        until_ms,
        from_offset,
    )
    for path in filter(is_producer_file, paths):
        for line in format_producer_file(path, is_json=is_json):
            click.echo(line)
    paths = tuple(path for path in paths if not is_producer_file(path))
    if not paths:
        return SOUND
    format_record = format_record_json if is_json else _choose_format(output, is_full=is_full)
    return _LogDump(selection, format_record, is_offsets=offsets_decoder).run(
        paths, output, is_following=is_following
    )


def _choose_format(output: Output, *, is_full: bool) -> Callable[[DecodedRecord], str]:
    """Return the formatter of records for an output. Code for terminals is loaded for terminals only."""
    if not output.is_for_people:
        return format_record_text
    from coordinator.cli.log.terminal_records import TerminalFormatter, format_colored_record

    return TerminalFormatter(output, is_full=is_full) if output.is_terminal else format_colored_record


class _LogDump:
    """One run of the command."""

    def __init__(
        self, selection: RecordFilter, format_record: Callable[[DecodedRecord], str], *, is_offsets: bool
    ) -> None:
        self._selection = selection
        self._format_record = format_record
        self._is_offsets = is_offsets
        self._exit_code = SOUND
        self._has_printed = False

    def run(self, paths: tuple[str, ...], output: Output, *, is_following: bool) -> int:
        """Print all matching records and return the exit code. Raises NotALog, OSError."""
        logs = [log for log in find_logs_at(OsFiles(), paths) if self._selection.matches_log(log.name)]
        warn_of_journals(OsFiles(), logs)
        from_offset = self._selection.from_offset
        # On a terminal with most records printed, the records themselves show the progress.
        is_silent = self._selection.is_selective or not output.is_terminal
        with show_progress(output, logs, is_wanted=is_silent) as progress:
            readers = [
                LogReader(progress.files, log, from_offset=from_offset, pause=wait_for_writer) for log in logs
            ]
            for reader in readers:
                self._print(reader.log, reader.read_pieces(), progress)
        if output.is_terminal and not (self._has_printed or is_following):
            click.echo("no records found", err=True)
        while is_following:
            sys.stdout.flush()
            Event().wait(_FOLLOW_PAUSE_S)
            for reader in readers:
                self._print(reader.log, _skip_torn_tail(reader.read_appended()), progress)
        return self._exit_code

    def _print(self, log: LogListing, pieces: Iterator[Piece], progress: ReadProgress) -> None:
        is_offsets = self._is_offsets or holds_offsets(log)
        selection, format_record, write = self._selection, self._format_record, sys.stdout.write
        for piece in pieces:
            if isinstance(piece, BadBytes):
                progress.hide()
                self._warn_of_bad_bytes(piece)
                continue
            if not selection.matches_batch(piece.header):
                continue
            try:
                wanted = [
                    format_record(entry)
                    for entry in decode_batch(piece, log.name, is_offsets)
                    if selection.matches_record(entry)
                ]
                if wanted:
                    self._has_printed = True
                    progress.hide()
                    write("\n".join(wanted) + "\n")
            except CorruptBatch as error:
                self._exit_code = FOUND
                progress.hide()
                warn(f"{piece.path}: byte {piece.position}: its records cannot be unpacked: {error.reason}")

    def _warn_of_bad_bytes(self, bad: BadBytes) -> None:
        if bad.is_incomplete:
            warn(f"{bad.path}: byte {bad.position}: ends with {bad.length} bytes of an unfinished batch")
            return
        self._exit_code = FOUND
        warn(f"{bad.path}: byte {bad.position}: {bad.length} bytes skipped: {bad.reason}")


def _skip_torn_tail(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Leave out an unfinished batch at the end, which each read of the log finds again."""
    return (piece for piece in pieces if not (isinstance(piece, BadBytes) and piece.is_incomplete))


_NO_SEQUENCE: Final = -1


def is_producer_file(path: str) -> bool:
    """Return whether a path is a snapshot of producers or an index of aborted transactions, by its suffix."""
    return path.endswith((SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX)) and os.path.isfile(path)


def format_producer_file(path: str, *, is_json: bool) -> Iterator[str]:
    """Yield the lines for a producer file. Raises DamagedFile, OSError."""
    absolute = os.path.abspath(path)
    data = OsFiles().read(absolute)
    is_index = path.endswith(TRANSACTION_INDEX_SUFFIX)
    kind = "aborted_transaction" if is_index else "producer"
    for fields in _list_aborted(data, absolute) if is_index else _list_producers(data, absolute):
        if is_json:
            yield json.dumps({"type": kind} | fields)
        else:
            yield " ".join([kind, *(f"{name}={_format_number(value)}" for name, value in fields.items())])


def _format_number(value: int | None) -> str:
    return "none" if value is None else str(value)


def _list_aborted(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for aborted in decode_transaction_index(data, path):
        yield aborted._asdict()


def _list_producers(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for producer_id, entry in decode_snapshot(data, path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "first_sequence": _NO_SEQUENCE if last is None else last.first_sequence,
            "last_sequence": _NO_SEQUENCE if last is None else last.last_sequence,
            "first_offset": None if last is None else last.first_offset,
            "last_offset": None if last is None else last.last_offset,
            "timestamp_ms": entry.last_timestamp_ms,
            "transaction_first_offset": entry.transaction_offset,
        }
