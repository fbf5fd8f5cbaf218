"""The volumes of the container that the process runs in, from Linux."""

import os
import re
from typing import Final

from coordinator.config.image_settings import ContainerVolumes

_MOUNTS: Final = "/proc/self/mountinfo"
_MOUNT_POINT: Final = 4
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def find_volumes() -> ContainerVolumes:
    """Return the mount points of the process; none where the system does not list them."""
    from storage.files import read_input

    try:
        text = read_input(_MOUNTS).decode(errors="surrogateescape")
    except OSError:
        text = ""
    return ContainerVolumes(parse_mount_points(text), is_writable)


def parse_mount_points(text: str) -> frozenset[str]:
    """Return the mount points in a text that has the form of /proc/self/mountinfo (proc_pid_mountinfo(5))."""
    fields = (line.split(" ") for line in text.splitlines())
    return frozenset(_unescape(each[_MOUNT_POINT]) for each in fields if len(each) > _MOUNT_POINT)


def is_writable(path: str) -> bool:
    """Whether the process may write to a directory, or create it where it is missing."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK | os.X_OK)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
