"""Commands that ask a broker over its own protocol: the options that all of them have, and how they end."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NoReturn

import click

from coordinator.cli.broker.client_properties import ClientSecurity
from coordinator.cli.broker.command_config import command_config_parameter
from coordinator.cli.broker.connection import BrokerConnection
from coordinator.cli.broker.refused import BrokerRefused
from coordinator.cli.control.failure import Misused, Unreachable
from coordinator.cli.output import Output, color_parameter
from coordinator.cli.standard_streams import (
    do_without_standard_error,
    end_interrupted,
    is_closed,
    taking_output,
    warn,
)
from coordinator.config.errors import ConfigError
from coordinator.config.listeners import Address, parse_address
from storage.os_error import reason_of

YES: Final = 0
NO: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
EXIT_CODES: Final = f"""Exit codes: {YES} yes, {NO} no, with the reason on standard error, {USAGE} usage,
{UNREACHABLE} no broker can be reached."""

_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom a command asks, and how it prints what it is answered."""

    broker: BrokerConnection
    is_json: bool
    output: Output


def broker_command(**attributes: Any) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a command of a function that takes an `Asking` and its own parameters, and gives the exit code.

    In: what `click.command` takes."""

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
            do_without_standard_error()
            if is_closed(sys.stdout):
                warn("standard output: is closed")
                sys.exit(USAGE)
            broker = BrokerConnection(bootstrap.host or "127.0.0.1", bootstrap.port, timeout, security)
            asking = Asking(broker, is_json, output)
            try:
                sys.exit(_run(run, asking, named))
            except KeyboardInterrupt:
                end_interrupted()

        attributes["epilog"] = f"{attributes.get('epilog', '')}\n\n{EXIT_CODES}".strip()
        made: click.Command = click.command(**attributes)(command)
        made.params += [
            click.Option(
                ["--bootstrap", "--bootstrap-server"],
                envvar="GROUPD_BOOTSTRAP",
                metavar="HOST:PORT",
                default=_DEFAULT_ADDRESS,
                callback=_address,
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
        return made

    return declare


def _address(_: click.Context, __: click.Parameter, value: str) -> Address:
    try:
        return parse_address(value, "HOST:PORT")
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


def _run(run: Callable[..., int], asking: Asking, named: dict[str, Any]) -> int:
    """Everything that may go wrong becomes a sentence and an exit code."""
    try:
        with taking_output(), closing(asking.broker):
            return run(asking, **named)
    except BrokerRefused as refused:
        warn(str(refused))
        return NO
    except Unreachable as error:
        warn(str(error))
        return UNREACHABLE
    except Misused as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        warn(f"standard output: {reason_of(error)}")
        return USAGE
