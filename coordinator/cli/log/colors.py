"""The colours of the pieces of a line, by the parts they play."""

from collections.abc import Iterable
from typing import Final

from rich.color import ColorSystem
from rich.style import Style

from coordinator.cli.log.entry import Entry
from coordinator.cli.log.piece import Piece, Role
from coordinator.cli.log.record_types import CONTROL, GROUP_METADATA, OFFSET_COMMIT
from coordinator.cli.log.text_form import pieces


def _codes(style: str) -> str:
    """What colours a text that is put in its place; of the sixteen colours that everybody's terminal has."""
    return Style.parse(style).render("%s", color_system=ColorSystem.STANDARD)


_CODES: Final = {
    Role.PARTITION: _codes("bold"),
    Role.OFFSET: _codes("yellow"),
    Role.TIME: "%s",
    Role.LABEL: _codes("dim"),
    Role.KEY: _codes("bold"),
    Role.VALUE: "%s",
    Role.MEMBER_ID: _codes("magenta"),
    Role.DEFAULT: _codes("dim"),
    Role.TOMBSTONE: _codes("red"),
    Role.ERROR: _codes("bold red"),
    Role.MEMBERS: _codes("dim"),
    Role.NEXT_MEMBER: _codes("dim"),
    Role.END_OF_MEMBERS: _codes("dim"),
    Role.GAP: "%s",
    Role.LIST_GAP: "%s",
    Role.HINT: _codes("dim italic"),
}
_TYPE_CODES: Final = {
    OFFSET_COMMIT: _codes("green"),
    GROUP_METADATA: _codes("cyan"),
    CONTROL: _codes("yellow"),
}
_OTHER_TYPE_CODES: Final = _codes("blue")


def colored(line: Iterable[Piece]) -> str:
    """The texts of a line, each in its colour."""
    return "".join([(_CODES.get(role) or _type_codes(text)) % text for role, text in line])


def _type_codes(text: str) -> str:
    return _TYPE_CODES.get(text.rstrip(), _OTHER_TYPE_CODES)


def as_colored_text(entry: Entry) -> str:
    """The one line that programs read, in colours."""
    return colored(pieces(entry))
