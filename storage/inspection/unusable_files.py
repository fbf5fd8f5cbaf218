"""Files of a log that cannot be used: a directory, a broken link or a pipe in the place of a file, or a file that
cannot be read. Each is a fact about one file. The others are looked at all the same.
"""

import re
from typing import Final

from storage.files import Files
from storage.os_error import reason_of
from storage.segment import LOG_SUFFIX

_ATTEMPTS: Final = 3
_OF_A_LOG: Final = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.(swap|cleaned|deleted))?"
    r"|leader-epoch-checkpoint|partition\.metadata|.*\.state"
)


def unusable_files(files: Files, directory: str) -> dict[str, str]:
    """The unusable files of a log: the reason, by path.

    In: the directory of a partition. A directory that cannot be listed is the only entry.
    """
    try:
        names = files.listdir(directory)
    except OSError as error:
        return {directory: reason_of(error, directory)}
    found = {}
    for name in filter(_OF_A_LOG.fullmatch, names):
        path = f"{directory}/{name}"
        try:
            if _is_broken_link(files, directory, name):
                found[path] = "is a link to nothing"
        except OSError as error:
            found[path] = reason_of(error, path)
    return found


def _is_broken_link(files: Files, directory: str, name: str) -> bool:
    """Whether a name is listed, but has no file. Raises OSError if the file cannot be used.

    A daemon may remove a file after it was listed, and write it anew before it is listed again: only a name that
    has no file each time is a broken link.
    """
    for _ in range(_ATTEMPTS):
        try:
            _try(files, f"{directory}/{name}")
        except FileNotFoundError:
            if name not in files.listdir(directory):
                return False
        else:
            return False
    return True


def _try(files: Files, path: str) -> None:
    """Opens a segment, which may be large; reads any other file. Raises OSError."""
    if path.endswith(LOG_SUFFIX):
        files.open_read(path).close()
    else:
        files.read(path)
