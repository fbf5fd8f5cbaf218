"""Reads the settings of a broker for a command: profile, file, environment, options, flags, container
volumes.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from coordinator.config.config_errors import ConfigError
from coordinator.config.image_variables import ContainerVolumes
from coordinator.config.setting_sources import read_settings
from coordinator.config.settings import Settings


def load_settings(
    config_file: str | None,
    options: tuple[str, ...],
    profile: str | None = None,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Load the settings of a daemon.

    `config_file` is the path of a properties file, `options` are those of `-o`, `profile` is a name, and
    `flags` are named options by property. Raises ConfigError.
    """
    return read_settings(
        profile=profile,
        file_path=config_file,
        file_text=None if config_file is None else _read_config_file(config_file),
        environment=os.environ,
        options=options,
        flags=flags,
        read=_read_text,
        find_volumes=find_volumes,
    )


def _read_config_file(path: str) -> str:
    try:
        return _read_text(path)
    except ConfigError as error:
        raise ConfigError(f"--config {error}") from error


def _read_text(path: str) -> str:
    """Return the text of a file. Raises ConfigError with a message that begins with the path."""
    from storage.files import read_input_file
    from storage.storage_errors import format_error_reason

    try:
        return read_input_file(path).decode()
    except OSError as error:
        raise ConfigError(f"{path}: {format_error_reason(error, path)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text at byte {error.start}") from error


_MOUNTS: Final = "/proc/self/mountinfo"
_MOUNT_POINT: Final = 4
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def find_volumes() -> ContainerVolumes:
    """Return the mount points of the process; none if the system does not list them."""
    from storage.files import read_input_file

    try:
        text = read_input_file(_MOUNTS).decode(errors="surrogateescape")
    except OSError:
        text = ""
    return ContainerVolumes(parse_mount_points(text), is_writable)


def parse_mount_points(text: str) -> frozenset[str]:
    """Parse the mount points of a text in the form of /proc/self/mountinfo (proc_pid_mountinfo(5))."""
    fields = (line.split(" ") for line in text.splitlines())
    return frozenset(_unescape(each[_MOUNT_POINT]) for each in fields if len(each) > _MOUNT_POINT)


def is_writable(path: str) -> bool:
    """Return whether the process may write to a directory, or create a missing one."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK | os.X_OK)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
