"""What the operating system says when it refuses, in words for a person: `permission denied`, not `[Errno 13]`."""

import re
from collections.abc import Callable
from typing import Final

_NUMBER: Final = re.compile(r"\[errno -?[0-9]+\] ?", re.IGNORECASE)


def reason_of(error: BaseException, named: str = "") -> str:
    """Why something failed, for the rest of a line that says what did.

    In: any error; the path that the line names already. Out: of an OSError the words of the operating system, after
    the path that they are about unless that is `named`; of any other error its text.
    """
    if not isinstance(error, OSError):
        return str(error)
    # Without words of the system's it is a timeout, or a library's summary of several attempts.
    words = _NUMBER.sub("", error.strerror or str(error)) or "timed out"
    if words[1:2].islower():
        words = words[0].lower() + words[1:]
    paths = [str(path) for path in (error.filename, error.filename2) if path is not None]
    if not paths or paths == [named]:
        return words
    return f"{' to '.join(paths)}: {words}"


def outcome(call: Callable[[], object]) -> OSError | None:
    """The OSError that a call ended with; None where it succeeded."""
    try:
        call()
    except OSError as error:
        return error
    return None
