"""The work of `groupd replay`: read a recording, play it in the chosen mode, and print the results."""

import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from coordinator.cli.output_streams import warn
from coordinator.config.properties import parse_config
from coordinator.control.diagnosis.oracle import OracleConfig
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.ledger.ledger_text import format_entries
from coordinator.control.replay.pytest_export import format_pytest
from coordinator.control.replay.recording_file import (
    BadRecording,
    RecordingFile,
    read_recording,
    scrub_recording,
)
from coordinator.control.replay.recording_player import PlayedInput
from coordinator.control.replay.replay_comparison import (
    compare_recording,
    count_generations,
    format_comparison,
    format_counts,
    format_difference,
    format_input,
    format_state,
)
from coordinator.control.replay.replay_diagnosis import ReplayLedger, find_violations
from coordinator.control.replay.scenario_export import format_scenario
from coordinator.control.replay.what_if import InputFilter, InvalidChange, WhatIf, parse_changed_properties
from coordinator.core.message_text import printable, suggest
from storage.files import OsFiles, read_input_file
from storage.storage_errors import format_error_reason

SAME: Final = 0
OTHER: Final = 1
USAGE: Final = 2
_STANDARD_STREAM: Final = "-"


class ReplayOptions(NamedTuple):
    """The options of `groupd replay`."""

    until: int | None
    shows_ledger: bool
    oracle: str | None
    options: tuple[str, ...]
    drops: tuple[str, ...]
    emit: str | None
    me: str | None
    scrubbed_path: str | None
    any_version: bool


def replay_file(path: str, **options: Any) -> int:
    """Play the recording in a file and return the exit code. Raises OSError if standard output fails."""
    replay_options, name = ReplayOptions(**options), "standard input" if path == _STANDARD_STREAM else path
    try:
        lines = _read_lines(path)
        recorded = read_recording(lines, any_version=replay_options.any_version)
        return _replay(recorded, lines, replay_options)
    except BadRecording as error:
        warn(f"{name}: {error}")
    except InvalidChange as error:
        warn(str(error))
    except _FileUnreadable as error:
        warn(f"{name}: {format_error_reason(error.cause, path)}")
    return USAGE


class _FileUnreadable(Exception):
    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _read_lines(path: str) -> list[bytes]:
    try:
        if path == _STANDARD_STREAM:
            return sys.stdin.buffer.readlines()
        return read_input_file(path).splitlines(keepends=True)
    except OSError as error:
        raise _FileUnreadable(error) from error


def _replay(recorded: RecordingFile, lines: list[bytes], options: ReplayOptions) -> int:
    if options.scrubbed_path is not None:
        return _scrub(lines, options.scrubbed_path)
    if options.oracle is not None:
        return _find(recorded, options.oracle)
    if options.emit is not None:
        sys.stdout.write(
            format_scenario(recorded) if options.emit == "scenario" else format_pytest(recorded, options.me)
        )
        return SAME
    if options.options or options.drops:
        return _what_if(recorded, options)
    return _compare(recorded, options)


def _compare(recorded: RecordingFile, options: ReplayOptions) -> int:
    ledger: list[ReplayLedger] = []

    def on_played(player: Any, played: PlayedInput) -> None:
        if not ledger:
            ledger.append(ReplayLedger(player))
        ledger[0].on_step(played)

    comparison = compare_recording(recorded, until=options.until, on_played=on_played)
    if options.shows_ledger:
        _print_lines(format_entries(ledger[0].list_entries() if ledger else []))
    _print_lines(format_comparison(comparison))
    if options.until is not None:
        _print_lines(format_state(comparison))
    return SAME if comparison.different is None else OTHER


def _what_if(recorded: RecordingFile, options: ReplayOptions) -> int:
    dropped = InputFilter(options.drops)
    what_if = WhatIf(recorded, parse_changed_properties(recorded, options.options), dropped)
    ledger = ReplayLedger(what_if.player)
    first: PlayedInput | None = None
    inputs = generations = different = added = 0
    for step in what_if.play_steps(options.until):
        ledger.on_step(step)
        generations += count_generations(step.outcome, recorded.group_id)
        if isinstance(step, PlayedInput):
            inputs += step.line.count
            different += not step.is_same
            first = first if first is not None or step.is_same else step
        else:
            added += 1
    if options.until is None:
        dropped.check_all_used()
    if options.shows_ledger:
        _print_lines(format_entries(ledger.list_entries()))
    if first is None and not added:
        _print_lines(f"still identical: {format_counts(inputs, generations)}")
        return SAME
    if first is not None:
        _print_lines(format_difference(first))
    more = f", {added} timers and background jobs that the recording does not have" if added else ""
    _print_lines(f"{format_counts(inputs, generations)}: {different} have another outcome{more}")
    return OTHER


def _find(recorded: RecordingFile, name: str) -> int:
    try:
        oracle = OracleName(name)
    except ValueError:
        raise InvalidChange(f"{printable(name)} is not an oracle {suggest(name, list(OracleName))}") from None
    found = find_violations(recorded, oracle, parse_config({}).view(OracleConfig, oracle_commits=True))
    for one in found:
        _print_lines(
            f"after input {one.number} of {recorded.inputs} ({format_input(one.played)}): {one.finding.severity}: "
            f"{one.finding.detail}"
        )
    if not found:
        _print_lines(f"{name} reports nothing in {recorded.inputs} inputs")
    return OTHER if found else SAME


def _scrub(lines: Iterable[bytes], path: str) -> int:
    try:
        if path == _STANDARD_STREAM:
            sys.stdout.buffer.writelines(scrub_recording(lines))
        else:
            OsFiles().write(path, b"".join(scrub_recording(lines)))
    except OSError as error:
        if path == _STANDARD_STREAM:
            raise
        warn(f"{path}: {format_error_reason(error, path)}")
        return USAGE
    return SAME


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        print(printable(line, len(line)))
