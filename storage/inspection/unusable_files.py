"""Files of a log that cannot be used: a directory, a broken link or a pipe in the place of a file, or a file that
cannot be read. Each is a fact about one file. The others are looked at all the same.
"""

import re
from typing import Final

from storage.files import Files
from storage.os_error import reason_of
from storage.segment import LOG_SUFFIX

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
            _try(files, path)
        except FileNotFoundError as error:
            # A file that another process has removed meanwhile is not listed again.
            if name in files.listdir(directory):
                found[path] = f"is a link to nothing ({reason_of(error, path)})"
        except OSError as error:
            found[path] = reason_of(error, path)
    return found


def _try(files: Files, path: str) -> None:
    """Opens a segment, which may be large; reads any other file. Raises OSError."""
    if path.endswith(LOG_SUFFIX):
        files.open_read(path).close()
    else:
        files.read(path)
