"""`groupd log dump`: every record of a log, decoded."""

import sys
from collections.abc import Callable, Iterator
from threading import Event
from typing import Final

import click

from coordinator.cli.log.entry import Entry, entries
from coordinator.cli.log.journals import warn_of_journals
from coordinator.cli.log.json_form import as_json
from coordinator.cli.log.paths import FOUND, SOUND, holds_offsets, in_words, logs_at, pause
from coordinator.cli.log.producer_files import is_of_producers, lines
from coordinator.cli.log.progress import Progress, progress_of
from coordinator.cli.log.record_types import ALL
from coordinator.cli.log.selection import Selection
from coordinator.cli.log.text_form import as_text
from coordinator.cli.output import Output, color_option
from coordinator.cli.standard_streams import warn
from coordinator.cli.times import BadTime, parse_time
from storage.errors import CorruptBatch
from storage.files import OsFiles
from storage.inspection.directory_reader import LogFiles
from storage.inspection.log_reader import LogReader
from storage.inspection.segment_scan import BadBytes, Piece

EPILOG = """A record is wanted when all filters hold; of several values of one filter, any. --topic takes the
records of that topic's own log, and those of __consumer_offsets that name it: commits, and groups whose members
subscribe to it or own partitions of it.

A terminal gets the records in colours, with member ids shortened and what is very long cut; anything else gets one
line a record, with all of it. Times are in UTC.

Of a PATH that is an index of aborted transactions (.txnindex) or a snapshot of producers (.snapshot), each entry is
printed; filters do not apply.

Bytes that are no sound batch are passed over with a line on standard error; an unfinished batch at the end of a log
is its end. Exit codes: 0 everything was read, 1 something was passed over, 2 PATH is no log, 130 interrupted."""

_FOLLOW_S: Final = 0.5


def _time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except BadTime as error:
        raise click.BadParameter(str(error)) from error


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a line.")
@click.option("--group", "groups", multiple=True, metavar="ID", help="Only records of this group.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only records of or about this topic.")
@click.option(
    "--type", "types", multiple=True, type=click.Choice(ALL), metavar="TYPE", help=f"One of {', '.join(ALL)}."
)
@click.option(
    "--since", "since_ms", callback=_time, metavar="TIME", help="Not before: ISO 8601 (UTC), or epoch ms."
)
@click.option("--until", "until_ms", callback=_time, metavar="TIME", help="Before.")
@click.option(
    "--partition", "partitions", multiple=True, type=int, metavar="N", help="Only this log partition."
)
@click.option("--from-offset", default=0, type=click.IntRange(min=0), metavar="OFFSET", help="In each log.")
@click.option("--follow", "is_following", is_flag=True, help="Go on with what is appended.")
@click.option(
    "--offsets-decoder", is_flag=True, help="Decode as __consumer_offsets, whatever the directory is called."
)
@click.option(
    "--full", "is_full", is_flag=True, help="On a terminal too: whole member ids, nothing cut or left out."
)
@color_option
@in_words
def command(
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
    """Print the records of a log: where, when, what kind, key and value in Kafka's words."""
    selection = Selection(
        frozenset(groups),
        frozenset(topics),
        frozenset(types),
        frozenset(partitions),
        since_ms,
        until_ms,
        from_offset,
    )
    for path in filter(is_of_producers, paths):
        for line in lines(path, is_json=is_json):
            click.echo(line)
    paths = tuple(path for path in paths if not is_of_producers(path))
    if not paths:
        return SOUND
    form = as_json if is_json else _form(output, is_full=is_full)
    return _Dump(selection, form, is_offsets=offsets_decoder).run(paths, output, is_following=is_following)


def _form(output: Output, *, is_full: bool) -> Callable[[Entry], str]:
    """How a record is put for people. What only terminals need is loaded for those."""
    if not output.is_for_people:
        return as_text
    from coordinator.cli.log.colors import as_colored_text
    from coordinator.cli.log.terminal_form import TerminalForm

    return TerminalForm(output, is_full=is_full) if output.is_terminal else as_colored_text


class _Dump:
    """One run."""

    def __init__(self, selection: Selection, form: Callable[[Entry], str], *, is_offsets: bool) -> None:
        self._selection = selection
        self._form = form
        self._is_offsets = is_offsets
        self._code = SOUND
        self._has_printed = False

    def run(self, paths: tuple[str, ...], output: Output, *, is_following: bool) -> int:
        """Prints everything; the exit code. Raises NotALog, OSError."""
        logs = [log for log in logs_at(OsFiles(), paths) if self._selection.takes_log(log.name)]
        warn_of_journals(OsFiles(), logs)
        from_offset = self._selection.from_offset
        # Where most records are printed on the terminal, those tell how far it is.
        is_silent = self._selection.is_selective or not output.is_terminal
        with progress_of(output, logs, is_wanted=is_silent) as progress:
            readers = [LogReader(progress.files, log, from_offset=from_offset, pause=pause) for log in logs]
            for reader in readers:
                self._print(reader.log, reader.pieces(), progress)
        if output.is_terminal and not (self._has_printed or is_following):
            click.echo("no records found", err=True)
        while is_following:
            sys.stdout.flush()
            Event().wait(_FOLLOW_S)
            for reader in readers:
                self._print(reader.log, _unless_torn(reader.appended()), progress)
        return self._code

    def _print(self, log: LogFiles, pieces: Iterator[Piece], progress: Progress) -> None:
        is_offsets = self._is_offsets or holds_offsets(log)
        selection, form, write = self._selection, self._form, sys.stdout.write
        for piece in pieces:
            if isinstance(piece, BadBytes):
                progress.hide()
                self._say_bad(piece)
                continue
            if not selection.takes_batch(piece.header):
                continue
            try:
                wanted = [
                    form(entry) for entry in entries(piece, log.name, is_offsets) if selection.takes(entry)
                ]
                if wanted:
                    self._has_printed = True
                    progress.hide()
                    write("\n".join(wanted) + "\n")
            except CorruptBatch as error:
                self._code = FOUND
                progress.hide()
                warn(f"{piece.path}: byte {piece.position}: its records cannot be unpacked: {error.reason}")

    def _say_bad(self, bad: BadBytes) -> None:
        if bad.is_incomplete:
            warn(f"{bad.path}: byte {bad.position}: ends with {bad.length} bytes of an unfinished batch")
            return
        self._code = FOUND
        warn(f"{bad.path}: byte {bad.position}: {bad.length} bytes passed over: {bad.reason}")


def _unless_torn(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """All but an unfinished batch at the end, which is met again at every look."""
    return (piece for piece in pieces if not (isinstance(piece, BadBytes) and piece.is_incomplete))
