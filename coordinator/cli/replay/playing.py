"""What `groupd replay` does: reads the file, plays it in one of its ways, and prints what comes of it."""

import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from coordinator.cli.standard_streams import warn
from coordinator.config.properties import parse_config
from coordinator.control.ledger.text import entries_text
from coordinator.control.oracles.violation import OracleName
from coordinator.control.oracles.watch import OracleConfig
from coordinator.control.replay.changes import BadChange, Dropped, changed_properties
from coordinator.control.replay.compared import (
    compare,
    comparison_text,
    described,
    difference_text,
    figures,
    generations_in,
    state_text,
)
from coordinator.control.replay.emit_pytest import pytest_text
from coordinator.control.replay.emit_scenario import scenario_text
from coordinator.control.replay.find import find
from coordinator.control.replay.player import Played
from coordinator.control.replay.recorded import BadRecording, Recorded, read
from coordinator.control.replay.scrub import scrubbed
from coordinator.control.replay.told import Told
from coordinator.control.replay.what_if import WhatIf
from coordinator.net.peer import printable
from coordinator.suggestions import suggest
from storage.files import OsFiles, read_input
from storage.os_error import reason_of

SAME: Final = 0
OTHER: Final = 1
USAGE: Final = 2
_STANDARD: Final = "-"


class Asked(NamedTuple):
    """The options."""

    until: int | None
    shows_ledger: bool
    oracle: str | None
    options: tuple[str, ...]
    drops: tuple[str, ...]
    emit: str | None
    me: str | None
    scrubbed_path: str | None
    any_version: bool


def run(path: str, **options: Any) -> int:
    """Plays the recording in a file. Out: the exit code. Raises OSError where standard output takes nothing."""
    asked, name = Asked(**options), "standard input" if path == _STANDARD else path
    try:
        lines = _lines_of(path)
        recorded = read(lines, any_version=asked.any_version)
        return _run(recorded, lines, asked)
    except BadRecording as error:
        warn(f"{name}: {error}")
    except BadChange as error:
        warn(str(error))
    except _CannotRead as error:
        warn(f"{name}: {reason_of(error.cause, path)}")
    return USAGE


class _CannotRead(Exception):
    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _lines_of(path: str) -> list[bytes]:
    try:
        if path == _STANDARD:
            return sys.stdin.buffer.readlines()
        return read_input(path).splitlines(keepends=True)
    except OSError as error:
        raise _CannotRead(error) from error


def _run(recorded: Recorded, lines: list[bytes], asked: Asked) -> int:
    if asked.scrubbed_path is not None:
        return _scrub(lines, asked.scrubbed_path)
    if asked.oracle is not None:
        return _find(recorded, asked.oracle)
    if asked.emit is not None:
        sys.stdout.write(
            scenario_text(recorded) if asked.emit == "scenario" else pytest_text(recorded, asked.me)
        )
        return SAME
    if asked.options or asked.drops:
        return _what_if(recorded, asked)
    return _compare(recorded, asked)


def _compare(recorded: Recorded, asked: Asked) -> int:
    told: list[Told] = []

    def hear(player: Any, played: Played) -> None:
        if not told:
            told.append(Told(player))
        told[0].hear(played)

    comparison = compare(recorded, until=asked.until, hear=hear)
    if asked.shows_ledger:
        _print(entries_text(told[0].entries() if told else []))
    _print(comparison_text(comparison))
    if asked.until is not None:
        _print(state_text(comparison))
    return SAME if comparison.different is None else OTHER


def _what_if(recorded: Recorded, asked: Asked) -> int:
    dropped = Dropped(asked.drops)
    what_if = WhatIf(recorded, changed_properties(recorded, asked.options), dropped)
    told = Told(what_if.player)
    first: Played | None = None
    inputs = generations = different = added = 0
    for step in what_if.steps(asked.until):
        told.hear(step)
        generations += generations_in(step.outcome, recorded.group_id)
        if isinstance(step, Played):
            inputs += step.line.count
            different += not step.is_same
            first = first if first is not None or step.is_same else step
        else:
            added += 1
    if asked.until is None:
        dropped.check()
    if asked.shows_ledger:
        _print(entries_text(told.entries()))
    if first is None and not added:
        _print(f"identical all the same: {figures(inputs, generations)}")
        return SAME
    if first is not None:
        _print(difference_text(first))
    more = f", {added} timers and pieces of work that the recording does not have" if added else ""
    _print(f"{figures(inputs, generations)}: {different} come out otherwise{more}")
    return OTHER


def _find(recorded: Recorded, name: str) -> int:
    try:
        oracle = OracleName(name)
    except ValueError:
        raise BadChange(f"{printable(name)} is not an oracle {suggest(name, list(OracleName))}") from None
    found = find(recorded, oracle, parse_config({}).view(OracleConfig, oracle_commits=True))
    for one in found:
        _print(
            f"after input {one.number} of {recorded.inputs} ({described(one.played)}): {one.finding.severity}: "
            f"{one.finding.detail}"
        )
    if not found:
        _print(f"{name} finds nothing in {recorded.inputs} inputs")
    return OTHER if found else SAME


def _scrub(lines: Iterable[bytes], path: str) -> int:
    try:
        if path == _STANDARD:
            sys.stdout.buffer.writelines(scrubbed(lines))
        else:
            OsFiles().write(path, b"".join(scrubbed(lines)))
    except OSError as error:
        if path == _STANDARD:
            raise
        warn(f"{path}: {reason_of(error, path)}")
        return USAGE
    return SAME


def _print(text: str) -> None:
    for line in text.splitlines():
        print(printable(line, len(line)))
