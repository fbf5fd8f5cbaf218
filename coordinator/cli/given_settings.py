"""The properties of a broker, as a command is given them: a profile, a file, the environment, options and flags."""

import os
from collections.abc import Mapping

from coordinator.cli.container_volumes import find_volumes
from coordinator.config.errors import ConfigError
from coordinator.config.settings import Settings
from coordinator.config.sources import read_settings


def given_settings(
    config_file: str | None,
    options: tuple[str, ...],
    profile: str | None = None,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """In: the path of a properties file; `-o` options; the name of a profile; flags by the property that they set.
    Raises ConfigError."""
    return read_settings(
        profile=profile,
        file_path=config_file,
        file_text=None if config_file is None else _read_config(config_file),
        environment=os.environ,
        options=options,
        flags=flags,
        read=_read,
        find_volumes=find_volumes,
    )


def _read_config(path: str) -> str:
    try:
        return _read(path)
    except ConfigError as error:
        raise ConfigError(f"--config {error}") from error


def _read(path: str) -> str:
    """The text of a file. Raises ConfigError beginning with its path."""
    from storage.files import read_input
    from storage.os_error import reason_of

    try:
        return read_input(path).decode()
    except OSError as error:
        raise ConfigError(f"{path}: {reason_of(error, path)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text at byte {error.start}") from error
