"""Formats records for a terminal: the text of `record_text` with colours, columns and wrapped rows.

Each partition has a heading; offsets, times and types are columns; each member of a group begins a row.
Default values are left out, member ids are shortened as far as they stay distinct, and very long records are
cut, unless the full output is requested.
"""

import os
import re
from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.color import ColorSystem
from rich.style import Style

from coordinator.cli.log.decoded_record import CONTROL, GROUP_METADATA, OFFSET_COMMIT, DecodedRecord
from coordinator.cli.log.record_text import GAP, LIST_GAP, Piece, PieceRole, create_pieces, join_pieces
from coordinator.cli.output_streams import Output
from coordinator.cli.rich_output import create_console
from coordinator.core.message_text import printable

Row = list[Piece]
MAX_ROWS: Final = 3
"""The maximum number of rows of a record without its members, and of a member."""
MAX_MEMBERS: Final = 8

_OFFSET_CELLS: Final = 6
_TYPE_CELLS: Final = len(GROUP_METADATA)
_SPACE: Final = "  "
_INDENT: Final = " " * (_OFFSET_CELLS + len(_SPACE))
_DEEPER_INDENT: Final = _INDENT + _SPACE
_MAX_PATH: Final = 1000


class TerminalFormatter:
    """Formats records as rows for a terminal. Records must come in the order of their output."""

    def __init__(self, output: Output, *, is_full: bool) -> None:
        """Create a formatter. `is_full` prints all fields without truncation."""
        self._console = create_console(output)
        self._paint_line = color_line if output.is_colored else join_pieces
        self._is_full = is_full
        self._path = ""
        self._directory = ""

    def __call__(self, entry: DecodedRecord) -> str:
        """Format a record, without the line end of its last row."""
        line = create_pieces(entry)
        if entry.type == GROUP_METADATA and not self._is_full:
            line = _shorten_ids(line)
        head, members = _split_members(line, is_full=self._is_full)
        cells = self._console.width
        rows = self._format_heading(entry) + self._format_head(head, cells)
        for member in members if self._is_full else members[:MAX_MEMBERS]:
            rows += self._format_member(member, cells)
        if not self._is_full and len(members) > MAX_MEMBERS:
            rows.append(
                [(PieceRole.HINT, f"{_INDENT}… {len(members) - MAX_MEMBERS} more members: --full shows them")]
            )
        return "\n".join(map(self._paint_line, rows))

    def _format_heading(self, entry: DecodedRecord) -> list[Row]:
        """Return the heading of a log, if the previous record was from another log."""
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
            (PieceRole.LABEL, printable(f"{parent}/", _MAX_PATH)),
            (PieceRole.PARTITION, printable(name, _MAX_PATH)),
        ]
        return [heading] if is_first else [[], heading]

    def _format_head(self, fields: list[Row], cells: int) -> list[Row]:
        _, [(_, offset)], [(_, time)], [(_, kind)], *fields = fields
        offset, (date, _, clock) = f"{offset:>{_OFFSET_CELLS}}{_SPACE}", time.partition("T")
        date, clock, kind = f"{date} ", f"{clock}{_SPACE}", f"{kind:<{_TYPE_CELLS}}{_SPACE}"
        start = [
            (PieceRole.OFFSET, offset),
            (PieceRole.LABEL, date),
            (PieceRole.TIME, clock),
            (PieceRole.TYPE, kind),
        ]
        used = len(offset) + len(date) + len(clock) + len(kind)
        first, *others = self._cut_rows(wrap_fields(fields, cells - len(_INDENT), first_cells=cells - used))
        return [start + first, *_indent_rows(_INDENT, others)]

    def _format_member(self, fields: list[Row], cells: int) -> list[Row]:
        first, *others = self._cut_rows(
            wrap_fields(fields, cells - len(_DEEPER_INDENT), first_cells=cells - len(_INDENT))
        )
        return [*_indent_rows(_INDENT, [first]), *_indent_rows(_DEEPER_INDENT, others)]

    def _cut_rows(self, rows: list[Row]) -> list[Row]:
        if self._is_full or len(rows) <= MAX_ROWS:
            return rows
        return [*rows[:MAX_ROWS], [(PieceRole.HINT, "… --full shows the rest")]]


def _indent_rows(indent: str, rows: Iterable[Row]) -> list[Row]:
    return [[(PieceRole.GAP, indent), *row] for row in rows]


def _shorten_ids(line: Row) -> Row:
    names = shorten_member_ids(text for role, text in line if role is PieceRole.MEMBER_ID)
    return [(role, names[text] if role is PieceRole.MEMBER_ID else text) for role, text in line]


def _split_members(line: Row, *, is_full: bool) -> tuple[list[Row], list[list[Row]]]:
    """Return the fields of a line without the members, and the fields of each member.

    Fields with default values are included only in full output.
    """
    head: list[Row] = [[]]
    members: list[list[Row]] = []
    fields = head
    for piece in line:
        role = piece[0]
        if role is PieceRole.GAP:
            fields.append([])
        elif role is PieceRole.MEMBERS or role is PieceRole.NEXT_MEMBER:
            fields = [[]]
            members.append(fields)
        elif role is PieceRole.END_OF_MEMBERS:
            fields = head
        elif is_full or role is not PieceRole.DEFAULT:
            fields[-1].append(piece)
    return head, members


_UUID: Final = re.compile(
    r"(.*)([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.DOTALL
)
_UUID_GROUPS: Final = 5


def shorten_member_ids(member_ids: Iterable[str]) -> dict[str, str]:
    """Return a short name for each of these members.

    The coordinator builds a member id from the client id (or the instance id of a static member) and a UUID. The
    short name has only the first of the UUID's five groups, or more if names would be equal. Other ids stay
    whole.
    """
    whole = set(member_ids)
    names: dict[str, str] = {}
    for length in range(1, _UUID_GROUPS):
        owners: dict[str, list[str]] = {}
        for member_id in whole - names.keys():
            owners.setdefault(_shorten_member_id(member_id, length), []).append(member_id)
        names |= {owned[0]: name for name, owned in owners.items() if len(owned) == 1}
    return {member_id: names.get(member_id, member_id) for member_id in whole}


def _shorten_member_id(member_id: str, length: int) -> str:
    match = _UUID.fullmatch(member_id)
    if match is None:
        return member_id
    client_id, *groups = match.groups()
    return f"{client_id}{'-'.join(groups[:length])}-…"


_MIN_CELLS: Final = 8


def wrap_fields(fields: Iterable[Row], cells: int, *, first_cells: int) -> list[Row]:
    """Wrap fields into rows of a number of cells. Return at least one row.

    A field that fits into a row stays in one piece. A longer one is split between the parts of its list, and
    a longer part at any character."""
    filler = _RowFiller(max(cells, _MIN_CELLS), first_cells)
    for field in fields:
        if field:
            filler.add_field(field, GAP)
    return filler.rows


def _split_list(field: Row) -> list[Row]:
    parts: list[Row] = [[]]
    for piece in field:
        if piece[0] is PieceRole.LIST_GAP:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


class _RowFiller:
    def __init__(self, cells: int, first_cells: int) -> None:
        self.rows: list[Row] = [[]]
        self._cells = cells
        self._left = first_cells

    def add_field(self, field: Row, gap: Piece) -> None:
        size = sum([cell_len(text) for _, text in field])
        if self.rows[-1] and size + 1 <= self._left:
            self._append_piece(gap)
        elif size > self._cells and len(parts := _split_list(field)) > 1:
            for number, part in enumerate(parts):
                self.add_field(part, LIST_GAP if number else gap)
            return
        elif self.rows[-1] or self._left < size <= self._cells:
            self._begin_row()
        if size <= self._left:
            self.rows[-1] += field
            self._left -= size
        else:
            for piece in field:
                self._append_split(*piece)

    def _append_piece(self, piece: Piece) -> None:
        self.rows[-1].append(piece)
        self._left -= cell_len(piece[1])

    def _begin_row(self) -> None:
        self.rows.append([])
        self._left = self._cells

    def _append_split(self, role: PieceRole, text: str) -> None:
        at = 0
        while at < len(text):
            part = ""
            if self._left > 0:
                part = text[at : at + self._left]
                part = next(iter(chop_cells(part, self._left)), part)  # marks without a width come to nothing
            if part:
                self._append_piece((role, part))
                at += len(part)
            else:
                self._begin_row()


def _create_template(style: str) -> str:
    """Return a template that colours a text, with the sixteen colours of every terminal."""
    return Style.parse(style).render("%s", color_system=ColorSystem.STANDARD)


_ROLE_TEMPLATES: Final = {
    PieceRole.PARTITION: _create_template("bold"),
    PieceRole.OFFSET: _create_template("yellow"),
    PieceRole.TIME: "%s",
    PieceRole.LABEL: _create_template("dim"),
    PieceRole.KEY: _create_template("bold"),
    PieceRole.VALUE: "%s",
    PieceRole.MEMBER_ID: _create_template("magenta"),
    PieceRole.DEFAULT: _create_template("dim"),
    PieceRole.TOMBSTONE: _create_template("red"),
    PieceRole.ERROR: _create_template("bold red"),
    PieceRole.MEMBERS: _create_template("dim"),
    PieceRole.NEXT_MEMBER: _create_template("dim"),
    PieceRole.END_OF_MEMBERS: _create_template("dim"),
    PieceRole.GAP: "%s",
    PieceRole.LIST_GAP: "%s",
    PieceRole.HINT: _create_template("dim italic"),
}
_TYPE_TEMPLATES: Final = {
    OFFSET_COMMIT: _create_template("green"),
    GROUP_METADATA: _create_template("cyan"),
    CONTROL: _create_template("yellow"),
}
_OTHER_TYPE_TEMPLATE: Final = _create_template("blue")


def color_line(line: Iterable[Piece]) -> str:
    """Return the texts of a line, each in its colour."""
    return "".join([(_ROLE_TEMPLATES.get(role) or _find_type_template(text)) % text for role, text in line])


def _find_type_template(text: str) -> str:
    return _TYPE_TEMPLATES.get(text.rstrip(), _OTHER_TYPE_TEMPLATE)


def format_colored_record(entry: DecodedRecord) -> str:
    """Format a record as the one line of `format_record_text`, in colours."""
    return color_line(create_pieces(entry))
