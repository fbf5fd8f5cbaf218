"""How asking a daemon ends without what was asked for."""

from collections.abc import Mapping
from typing import Any


class Unreachable(Exception):
    """Nobody answers at that URL, or nobody that understands the question: one sentence, with what to do."""


class Misused(Exception):
    """A word on the command line makes no sense: one sentence."""


class Refused(Exception):
    """The daemon said no. `problem` is what it said (RFC 9457): `title`, `detail`, and more."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        said = [problem.get(field) for field in ("detail", "title")]
        super().__init__(next((text for text in said if isinstance(text, str)), f"HTTP status {status}"))
        self.status = status
        self.problem = problem
