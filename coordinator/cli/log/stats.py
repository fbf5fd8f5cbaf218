"""`groupd log stats`: what logs are made of."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from coordinator.cli.log.entry import Fields
from coordinator.cli.log.paths import FOUND, SOUND, holds_offsets, in_words, logs_at, pause, warn
from coordinator.cli.log.tally import BatchCount, Count, Tally
from coordinator.net.peer import printable
from storage.errors import CorruptBatch
from storage.files import Files, OsFiles
from storage.inspection.directory_reader import LogFiles
from storage.inspection.log_reader import LogReader
from storage.inspection.segment_scan import BadBytes

EPILOG = """Bytes of batches are those on disk; bytes by type and by group are those of keys and values, unpacked.
Superseded records have a later one of the same key: a compaction removes them. Exit codes: 0 everything was read,
1 something was passed over (`groupd log verify` says what), 2 PATH is no log."""

_COLUMNS: Final = ("records", "tombstones", "live_keys", "superseded_records", "bytes")
_TITLES: Final = ("records", "tombstones", "live keys", "superseded", "bytes")
_MAX_NAME: Final = 60


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object, with every group and log.")
@click.option(
    "--top",
    default=10,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many groups, by bytes.",
)
@click.option(
    "--offsets-decoder", is_flag=True, help="Count as __consumer_offsets, whatever the directory is called."
)
@in_words
def command(paths: tuple[str, ...], is_json: bool, top: int, offsets_decoder: bool) -> int:
    """Say what logs are made of: records, batches, bytes, live keys, by type and by group."""
    stats = _Stats(offsets_decoder)
    for log in logs_at(OsFiles(), paths):
        stats.read(OsFiles(), log)
    if is_json:
        print(json.dumps(stats.fields()))
    else:
        stats.print(top)
    return FOUND if stats.total.bad_bytes else SOUND


class _Stats:
    def __init__(self, is_offsets: bool) -> None:
        self.total = BatchCount()
        self._is_offsets = is_offsets
        self._tally = Tally()
        self._logs: list[tuple[LogFiles, BatchCount]] = []

    def read(self, files: Files, log: LogFiles) -> None:
        """Counts a log. Raises OSError."""
        count = BatchCount()
        self._logs.append((log, count))
        is_offsets = self._is_offsets or holds_offsets(log)
        add = self._tally.add_offsets if is_offsets else self._tally.add_plain
        for piece in LogReader(files, log, pause=pause).pieces():
            if isinstance(piece, BadBytes):
                if not piece.is_incomplete:
                    self._pass_over(count, piece.path, piece.position, piece.length, piece.reason)
                continue
            try:
                records = piece.records()
            except CorruptBatch as error:
                self._pass_over(count, piece.path, piece.position, len(piece.data), error.reason)
                continue
            count.add(piece.header)
            self.total.add(piece.header)
            if piece.header.is_control:
                self._tally.add_control(records)
            else:
                add(records)

    def _pass_over(self, count: BatchCount, path: str, position: int, length: int, reason: str) -> None:
        count.bad_bytes += length
        self.total.bad_bytes += length
        warn(f"{path}: byte {position}: {length} bytes passed over: {reason}")

    def fields(self) -> Fields:
        """Everything, as data."""
        tally = self._tally
        return {
            **self.total.fields(),
            "consumer_offsets": tally.offsets.fields(),
            "types": {name: count.fields() for name, count in _by_bytes(tally.types)},
            "groups": [{"group": group, **count.fields()} for group, count in _by_bytes(tally.groups)],
            "logs": [
                {
                    "topic": None if log.name is None else log.name.topic,
                    "partition": None if log.name is None else log.name.partition,
                    "directory": log.directory,
                    "segments": len(log.segments),
                    **count.fields(),
                }
                for log, count in self._logs
            ],
        }

    def print(self, top: int) -> None:
        """What is most of interest, for people."""
        total, tally = self.total, self._tally
        fields = total.fields()
        segments = sum(len(log.segments) for log, _ in self._logs)
        print(f"{len(self._logs)} logs, {segments} segments, {total.bytes} bytes")
        print(f"{total.batches} batches, {total.records} records")
        if total.first_ms is not None:
            print(f"from {fields['first_time']} to {fields['last_time']}")
        shares = ", ".join(f"{codec} {one['share']:.1%}" for codec, one in fields["codecs"].items())
        if shares:
            print(f"codecs by bytes: {shares}")
        if tally.offsets.records:
            offsets = tally.offsets.fields()
            print(
                f"__consumer_offsets: {offsets['live_keys']} live keys, {offsets['tombstones']} tombstones, "
                f"{offsets['superseded_share']:.1%} of the records superseded"
            )
        _table("type", _by_bytes(tally.types))
        groups = _by_bytes(tally.groups)
        _table(f"group (of {len(groups)})", groups[:top])
        sys.stdout.flush()


def _by_bytes(counts: Mapping[str, Count]) -> list[tuple[str, Count]]:
    return sorted(counts.items(), key=lambda item: (-item[1].bytes, item[0]))


def _table(title: str, rows: Sequence[tuple[str, Count]]) -> None:
    if not rows:
        return
    cells: list[tuple[str, ...]] = [(title, *_TITLES)]
    cells += [
        (printable(name, _MAX_NAME), *(str(count.fields()[column]) for column in _COLUMNS))
        for name, count in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print()
    for first, *rest in cells:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print(f"{first.ljust(widths[0])}  {numbers}")
