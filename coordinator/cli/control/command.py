"""Commands that ask a running daemon: the options that all of them have, and how they end."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from coordinator.cli.control.arguments import not_empty
from coordinator.cli.control.daemon_url import DEFAULT_URL, parse_url
from coordinator.cli.control.failure import Misused, Refused, Unreachable
from coordinator.cli.output import Output, color_parameter
from coordinator.cli.standard_streams import (
    INTERRUPTED,
    do_without_standard_error,
    end_interrupted,
    is_closed,
    taking_output,
    warn,
)
from storage.os_error import reason_of

if TYPE_CHECKING:
    import ssl

    from coordinator.cli.control.api_client import ApiClient

YES: Final = 0
NO: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
EXIT_CODES: Final = f"""Exit codes: {YES} yes, {NO} no, with the reason on standard error, {USAGE} usage,
{UNREACHABLE} no daemon can be reached."""

_BAD_REQUEST: Final = 400


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom a command asks, and how it prints what it is answered. `is_json`: as it is."""

    client: "ApiClient"
    is_json: bool
    output: Output


def daemon_command(
    *, is_ended_by_interrupt: bool = False, **attributes: Any
) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a command of a function that takes an `Asking` and its own parameters, and gives the exit code.

    In: what `click.command` takes; whether Ctrl-C is how it is meant to end, with exit code 0."""

    def declare(run: Callable[..., int]) -> click.Command:
        @wraps(run)
        def command(
            url: str,
            namespace: str | None,
            token: str | None,
            trusted: "ssl.SSLContext | None",
            is_json: bool,
            output: Output,
            **named: Any,
        ) -> NoReturn:
            do_without_standard_error()
            if is_closed(sys.stdout):
                warn("standard output: is closed")
                sys.exit(USAGE)
            try:
                sys.exit(_run(run, _asking(url, namespace, token, trusted, is_json, output), named))
            except KeyboardInterrupt:
                end_interrupted(YES if is_ended_by_interrupt else INTERRUPTED)

        attributes["epilog"] = f"{attributes.get('epilog', '')}\n\n{EXIT_CODES}".strip()
        made: click.Command = click.command(**attributes)(command)
        made.params += _common_options()
        return made

    return declare


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--url"],
            envvar="GROUPD_URL",
            default=DEFAULT_URL,
            callback=_url,
            help=f"Where the daemon answers HTTP. [env: GROUPD_URL; default: {DEFAULT_URL}]",
        ),
        click.Option(
            ["--namespace"],
            envvar="GROUPD_NAMESPACE",
            metavar="NAME",
            callback=not_empty,
            help="Which broker of the daemon, where it is not its own. [env: GROUPD_NAMESPACE]",
        ),
        click.Option(
            ["--token"],
            envvar="GROUPD_TOKEN",
            callback=_token,
            help="What the daemon has as control.token. [env: GROUPD_TOKEN]",
        ),
        click.Option(
            ["--ca-file", "trusted"],
            envvar="GROUPD_CA_FILE",
            metavar="FILE",
            callback=_trusted,
            help="For https: whom the daemon's certificate is signed by, in PEM. [env: GROUPD_CA_FILE]",
        ),
        click.Option(["--json", "is_json"], is_flag=True, help="Print what the API answers."),
        color_parameter(),
    ]


def _url(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return parse_url(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _token(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not (value.isascii() and value.isprintable()):
        raise click.BadParameter("it has characters that a header cannot carry")
    return value or None


def _trusted(_: click.Context, __: click.Parameter, path: str | None) -> "ssl.SSLContext | None":
    if path is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise click.BadParameter(f"{path}: has no certificate in PEM") from None
    except OSError as error:
        raise click.BadParameter(f"{path}: {reason_of(error, path)}") from error
    return context


def _asking(
    url: str,
    namespace: str | None,
    token: str | None,
    trusted: "ssl.SSLContext | None",
    is_json: bool,
    output: Output,
) -> Asking:
    from coordinator.cli.control.api_client import ApiClient

    client = ApiClient(url, token=token, actor=_actor(), trusted=trusted, namespace=namespace)
    return Asking(client, is_json, output)


def _actor() -> str:
    """Who asks, for the log of the daemon and the ledger."""
    user = os.environ.get("USER")
    said = os.environ.get("GROUPD_ACTOR") or (f"{user} at the command line" if user else "the command line")
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in said)


def _run(run: Callable[..., int], asking: Asking, named: dict[str, Any]) -> int:
    """Everything that may go wrong becomes a sentence and an exit code."""
    try:
        with taking_output(), closing(asking.client):
            try:
                return run(asking, **named)
            except Refused as refused:
                _say(refused, asking)
                return USAGE if refused.status == _BAD_REQUEST else NO
    except Unreachable as error:
        warn(str(error))
        return UNREACHABLE
    except Misused as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        warn(f"standard output: {reason_of(error)}")
        return USAGE


def _say(refused: Refused, asking: Asking) -> None:
    from coordinator.cli.control.printed import print_json
    from coordinator.cli.control.sentences import sentences

    if asking.is_json:
        print_json(refused.problem, asking.output)
    for line in sentences(refused):
        click.echo(line, err=True)
