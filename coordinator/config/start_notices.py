"""Lines that a start writes about its configuration, each with its level."""

from typing import NamedTuple


class StartNotice(NamedTuple):
    """One line, a warning or for information. A warning names a problem and its remedy."""

    text: str
    is_warning: bool = True
