"""Lines that a start writes about its configuration, each with its level."""

from typing import NamedTuple


class StartNotice(NamedTuple):
    """One line. A warning needs somebody to act on it; any other notice is for information."""

    text: str
    is_warning: bool = True
