"""A record for the eye: the words of `text_form.py`, coloured by the parts they play and laid out for a terminal.

Each partition has a heading, offsets, times and types stand in columns, each member of a group begins a row. What
says nothing is left out, member ids are shortened, and what is very long is cut, unless all of it is asked for.
"""

import os
from collections.abc import Iterable
from typing import Final

from coordinator.cli.log.colors import colored
from coordinator.cli.log.entry import Entry
from coordinator.cli.log.layout import Row, rows_of
from coordinator.cli.log.piece import Role, joined
from coordinator.cli.log.record_types import GROUP_METADATA
from coordinator.cli.log.short_ids import short_ids
from coordinator.cli.log.text_form import pieces
from coordinator.cli.output import Output
from coordinator.cli.rich_console import console_of
from coordinator.net.peer import printable

MAX_ROWS: Final = 3
"""Of a record without its members, and of a member."""
MAX_MEMBERS: Final = 8

_OFFSET_CELLS: Final = 6
_TYPE_CELLS: Final = len(GROUP_METADATA)
_SPACE: Final = "  "
_INDENT: Final = " " * (_OFFSET_CELLS + len(_SPACE))
_DEEPER: Final = _INDENT + _SPACE
_MAX_PATH: Final = 1000


class TerminalForm:
    """Rows for a terminal, of records in the order in which they are printed."""

    def __init__(self, output: Output, *, is_full: bool) -> None:
        """In: whether everything is told, and in full."""
        self._console = console_of(output)
        self._painted = colored if output.is_colored else joined
        self._is_full = is_full
        self._path = ""
        self._directory = ""

    def __call__(self, entry: Entry) -> str:
        """What to print of a record, without the end of its last row."""
        line = pieces(entry)
        if entry.type == GROUP_METADATA and not self._is_full:
            line = _with_short_ids(line)
        head, members = _parted(line, is_full=self._is_full)
        cells = self._console.width
        rows = self._heading(entry) + self._head(head, cells)
        for member in members if self._is_full else members[:MAX_MEMBERS]:
            rows += self._member(member, cells)
        if not self._is_full and len(members) > MAX_MEMBERS:
            rows.append(
                [(Role.HINT, f"{_INDENT}… {len(members) - MAX_MEMBERS} more members: --full shows them")]
            )
        return "\n".join(map(self._painted, rows))

    def _heading(self, entry: Entry) -> list[Row]:
        """Which log it is, where it is another one than that of the last record."""
        path = entry.batch.path
        if path == self._path:
            return []
        directory = os.path.dirname(path) if entry.name is not None else path
        is_first, is_new = not self._path, directory != self._directory
        self._path, self._directory = path, directory
        if not is_new:
            return []
        parent, name = os.path.split(directory)
        heading = [
            (Role.LABEL, printable(f"{parent}/", _MAX_PATH)),
            (Role.PARTITION, printable(name, _MAX_PATH)),
        ]
        return [heading] if is_first else [[], heading]

    def _head(self, fields: list[Row], cells: int) -> list[Row]:
        _, [(_, offset)], [(_, time)], [(_, kind)], *fields = fields
        offset, (date, _, clock) = f"{offset:>{_OFFSET_CELLS}}{_SPACE}", time.partition("T")
        date, clock, kind = f"{date} ", f"{clock}{_SPACE}", f"{kind:<{_TYPE_CELLS}}{_SPACE}"
        start = [(Role.OFFSET, offset), (Role.LABEL, date), (Role.TIME, clock), (Role.TYPE, kind)]
        used = len(offset) + len(date) + len(clock) + len(kind)
        first, *others = self._cut(rows_of(fields, cells - len(_INDENT), first_cells=cells - used))
        return [start + first, *_indented(_INDENT, others)]

    def _member(self, fields: list[Row], cells: int) -> list[Row]:
        first, *others = self._cut(rows_of(fields, cells - len(_DEEPER), first_cells=cells - len(_INDENT)))
        return [*_indented(_INDENT, [first]), *_indented(_DEEPER, others)]

    def _cut(self, rows: list[Row]) -> list[Row]:
        if self._is_full or len(rows) <= MAX_ROWS:
            return rows
        return [*rows[:MAX_ROWS], [(Role.HINT, "… --full shows the rest")]]


def _indented(indent: str, rows: Iterable[Row]) -> list[Row]:
    return [[(Role.GAP, indent), *row] for row in rows]


def _with_short_ids(line: Row) -> Row:
    names = short_ids(text for role, text in line if role is Role.MEMBER_ID)
    return [(role, names[text] if role is Role.MEMBER_ID else text) for role, text in line]


def _parted(line: Row, *, is_full: bool) -> tuple[list[Row], list[list[Row]]]:
    """The fields of a line without the members, and those of each member; what says nothing only in full."""
    head: list[Row] = [[]]
    members: list[list[Row]] = []
    fields = head
    for piece in line:
        role = piece[0]
        if role is Role.GAP:
            fields.append([])
        elif role is Role.MEMBERS or role is Role.NEXT_MEMBER:
            fields = [[]]
            members.append(fields)
        elif role is Role.END_OF_MEMBERS:
            fields = head
        elif is_full or role is not Role.DEFAULT:
            fields[-1].append(piece)
    return head, members
