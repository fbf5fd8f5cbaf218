"""The option --data-dir: the directory of a stopped daemon is changed, and no broker asked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from click.core import ParameterSource

from coordinator.cli.control.failure import Misused, Unreachable
from coordinator.server.security_file import SecurityFile, security_file
from storage.errors import StorageError
from storage.files import OsFiles
from storage.os_error import reason_of


def directory_option() -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Passed on as `data_dir`."""
    return click.option(
        "--data-dir", metavar="DIR", help="The directory of a stopped daemon, in place of --bootstrap."
    )


@contextmanager
def security_of(data_dir: str) -> Iterator[SecurityFile]:
    """What a stopped daemon knows of ACLs and users; it cannot start meanwhile. Raises Misused, Unreachable."""
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise Misused("--data-dir and --bootstrap contradict each other")
    try:
        with security_file(OsFiles(), os.path.abspath(data_dir)) as file:
            yield file
    except StorageError as error:
        raise Unreachable(str(error)) from error
    except OSError as error:
        raise Unreachable(f"{data_dir}: {reason_of(error)}") from error
