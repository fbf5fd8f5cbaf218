"""Framework of commands that call a broker over Kafka's protocol: common options, exit codes, and the option
--data-dir, which changes the directory of a stopped daemon without calling a broker.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from coordinator.broker.security_file import SecurityFile, open_security_file
from coordinator.cli.broker.broker_connection import BrokerConnection
from coordinator.cli.broker.client_security import ClientSecurity, command_config_parameter
from coordinator.cli.command_errors import BrokerError, InvalidArguments, ServerUnreachable
from coordinator.cli.output_streams import (
    Output,
    color_parameter,
    exit_interrupted,
    guard_output,
    is_closed,
    replace_closed_stderr,
    warn,
)
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, parse_address
from storage.files import OsFiles
from storage.storage_errors import StorageError, format_error_reason

YES: Final = 0
NO: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
EXIT_CODES: Final = f"""Exit codes: {YES} yes, {NO} no, with the reason on standard error, {USAGE} usage,
{UNREACHABLE} no broker can be reached."""

_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The broker that a command connects to, and the form of its output."""

    broker: BrokerConnection
    is_json: bool
    output: Output


def broker_command(**attributes: Any) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command from a function that takes a `BrokerContext` and its own parameters, and returns the
    exit code.

    The arguments are those of `click.command`.
    """

    def declare(run: Callable[..., int]) -> click.Command:
        @wraps(run)
        def command(
            bootstrap: Address,
            security: ClientSecurity,
            timeout: float,
            is_json: bool,
            output: Output,
            **named: Any,
        ) -> NoReturn:
            replace_closed_stderr()
            if is_closed(sys.stdout):
                warn("standard output: is closed")
                sys.exit(USAGE)
            broker = BrokerConnection(bootstrap.host or "127.0.0.1", bootstrap.port, timeout, security)
            context = BrokerContext(broker, is_json, output)
            try:
                sys.exit(_run_command(run, context, named))
            except KeyboardInterrupt:
                exit_interrupted()

        attributes["epilog"] = f"{attributes.get('epilog', '')}\n\n{EXIT_CODES}".strip()
        created: click.Command = click.command(**attributes)(command)
        created.params += [
            click.Option(
                ["--bootstrap", "--bootstrap-server"],
                envvar="GROUPD_BOOTSTRAP",
                metavar="HOST:PORT",
                default=_DEFAULT_ADDRESS,
                callback=_parse_address_option,
                help=f"A listener. [env: GROUPD_BOOTSTRAP; default: {_DEFAULT_ADDRESS}]",
            ),
            command_config_parameter(),
            click.Option(
                ["--timeout"],
                default=10.0,
                show_default=True,
                type=click.FloatRange(min=0.001),
                help="Seconds.",
            ),
            click.Option(["--json", "is_json"], is_flag=True, help="Print one JSON object."),
            color_parameter(),
        ]
        return created

    return declare


def _parse_address_option(_: click.Context, __: click.Parameter, value: str) -> Address:
    try:
        return parse_address(value, "HOST:PORT")
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


def _run_command(run: Callable[..., int], context: BrokerContext, named: dict[str, Any]) -> int:
    """Run a command, and turn each failure into a message and an exit code."""
    try:
        with guard_output(), closing(context.broker):
            return run(context, **named)
    except BrokerError as error:
        warn(str(error))
        return NO
    except ServerUnreachable as error:
        warn(str(error))
        return UNREACHABLE
    except InvalidArguments as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        warn(f"standard output: {format_error_reason(error)}")
        return USAGE


def directory_option() -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Create the option --data-dir, which is passed as `data_dir`."""
    return click.option(
        "--data-dir", metavar="DIR", help="The directory of a stopped daemon, in place of --bootstrap."
    )


@contextmanager
def edit_security_file(data_dir: str) -> Iterator[SecurityFile]:
    """Lock the ACLs and users of a stopped daemon, which cannot start meanwhile. Raises InvalidArguments,
    ServerUnreachable."""
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise InvalidArguments("--data-dir and --bootstrap contradict each other")
    try:
        with open_security_file(OsFiles(), os.path.abspath(data_dir)) as file:
            yield file
    except StorageError as error:
        raise ServerUnreachable(str(error)) from error
    except OSError as error:
        raise ServerUnreachable(f"{data_dir}: {format_error_reason(error)}") from error
