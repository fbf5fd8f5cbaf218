"""Filling the rows of a terminal with the pieces of a line."""

from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len, chop_cells

from coordinator.cli.log.piece import GAP, LIST_GAP, Piece, Role

Row = list[Piece]

_LEAST_CELLS: Final = 8


def rows_of(fields: Iterable[Row], cells: int, *, first_cells: int) -> list[Row]:
    """The fields in rows of so many cells; at least one row.

    A field stays in one piece if a row has the room for it. One that is longer is parted between the parts of its
    list, and what is still longer, anywhere.
    """
    filling = _Filling(max(cells, _LEAST_CELLS), first_cells)
    for field in fields:
        if field:
            filling.add(field, GAP)
    return filling.rows


def _parts_of(field: Row) -> list[Row]:
    parts: list[Row] = [[]]
    for piece in field:
        if piece[0] is Role.LIST_GAP:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


class _Filling:
    def __init__(self, cells: int, first_cells: int) -> None:
        self.rows: list[Row] = [[]]
        self._cells = cells
        self._left = first_cells

    def add(self, field: Row, gap: Piece) -> None:
        size = sum([cell_len(text) for _, text in field])
        if self.rows[-1] and size + 1 <= self._left:
            self._put(gap)
        elif size > self._cells and len(parts := _parts_of(field)) > 1:
            for number, part in enumerate(parts):
                self.add(part, LIST_GAP if number else gap)
            return
        elif self.rows[-1] or self._left < size <= self._cells:
            self._begin_row()
        if size <= self._left:
            self.rows[-1] += field
            self._left -= size
        else:
            for piece in field:
                self._add_parted(*piece)

    def _put(self, piece: Piece) -> None:
        self.rows[-1].append(piece)
        self._left -= cell_len(piece[1])

    def _begin_row(self) -> None:
        self.rows.append([])
        self._left = self._cells

    def _add_parted(self, role: Role, text: str) -> None:
        at = 0
        while at < len(text):
            part = ""
            if self._left > 0:
                part = text[at : at + self._left]
                part = next(iter(chop_cells(part, self._left)), part)  # marks without a width come to nothing
            if part:
                self._put((role, part))
                at += len(part)
            else:
                self._begin_row()
