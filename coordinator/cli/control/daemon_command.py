"""Framework of commands that call a running daemon: common options, parsers of arguments, printed responses
and exit codes.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import msgspec

from coordinator.cli.command_errors import (
    DaemonError,
    InvalidArguments,
    ServerUnreachable,
    format_daemon_error,
)
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S, DEFAULT_URL, NO_QUERY, Query, parse_url
from coordinator.cli.output_streams import (
    EXIT_INTERRUPTED,
    Output,
    color_parameter,
    exit_interrupted,
    guard_output,
    is_closed,
    replace_closed_stderr,
    warn,
)
from coordinator.core.message_text import printable
from storage.storage_errors import format_error_reason

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
class DaemonContext:
    """The daemon that a command calls, and the form of its output. `is_json` prints the unchanged response."""

    client: "ApiClient"
    is_json: bool
    output: Output

    def find_bootstrap(self) -> str | None:
        """Request the address where clients connect. None if the daemon does not give it.

        The address is only a part of suggested commands. These accompany another answer or error of the daemon,
        which the caller prints, and which alone determines the exit code. So a failed request is not reported.
        """
        from coordinator.cli.control.api_answers import parse_board

        try:
            return parse_board(self.client.get_json("board")).bootstrap or None
        except (DaemonError, ServerUnreachable):
            return None


def daemon_command(
    *, is_ended_by_interrupt: bool = False, **attributes: Any
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command from a function that takes a `DaemonContext` and its own parameters, and returns the
    exit code.

    The arguments are those of `click.command`. `is_ended_by_interrupt`: Ctrl-C is the normal end, with exit code 0.
    """

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
            replace_closed_stderr()
            if is_closed(sys.stdout):
                warn("standard output: is closed")
                sys.exit(USAGE)
            try:
                sys.exit(
                    _run_command(run, _create_context(url, namespace, token, trusted, is_json, output), named)
                )
            except KeyboardInterrupt:
                exit_interrupted(YES if is_ended_by_interrupt else EXIT_INTERRUPTED)

        attributes["epilog"] = f"{attributes.get('epilog', '')}\n\n{EXIT_CODES}".strip()
        created: click.Command = click.command(**attributes)(command)
        created.params += _common_options()
        return created

    return declare


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--url"],
            envvar="GROUPD_URL",
            default=DEFAULT_URL,
            callback=_parse_url_option,
            help=f"URL of the daemon's HTTP port. [env: GROUPD_URL; default: {DEFAULT_URL}]",
        ),
        click.Option(
            ["--namespace"],
            envvar="GROUPD_NAMESPACE",
            metavar="NAME",
            callback=check_not_empty,
            help="A namespace instead of the daemon's own broker. [env: GROUPD_NAMESPACE]",
        ),
        click.Option(
            ["--token"],
            envvar="GROUPD_TOKEN",
            callback=_check_token,
            help="The control.token of the daemon. [env: GROUPD_TOKEN]",
        ),
        click.Option(
            ["--ca-file", "trusted"],
            envvar="GROUPD_CA_FILE",
            metavar="FILE",
            callback=_load_ca_file,
            help="For https: the CA of the daemon's certificate, in PEM. [env: GROUPD_CA_FILE]",
        ),
        click.Option(["--json", "is_json"], is_flag=True, help="Print the response of the API."),
        color_parameter(),
    ]


def _parse_url_option(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return parse_url(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _check_token(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not (value.isascii() and value.isprintable()):
        raise click.BadParameter("it has characters that are not allowed in an HTTP header")
    return value or None


def _load_ca_file(_: click.Context, __: click.Parameter, path: str | None) -> "ssl.SSLContext | None":
    if path is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise click.BadParameter(f"{path}: has no certificate in PEM") from None
    except OSError as error:
        raise click.BadParameter(f"{path}: {format_error_reason(error, path)}") from error
    return context


def _create_context(
    url: str,
    namespace: str | None,
    token: str | None,
    ssl_context: "ssl.SSLContext | None",
    is_json: bool,
    output: Output,
) -> DaemonContext:
    from coordinator.cli.control.api_client import ApiClient

    client = ApiClient(
        url, token=token, actor=_describe_actor(), ssl_context=ssl_context, namespace=namespace
    )
    return DaemonContext(client, is_json, output)


def _describe_actor() -> str:
    """Return the name of the actor, for the log of the daemon and the ledger."""
    user = os.environ.get("USER")
    actor = os.environ.get("GROUPD_ACTOR") or (f"{user} at the command line" if user else "the command line")
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in actor)


def _run_command(run: Callable[..., int], context: DaemonContext, named: dict[str, Any]) -> int:
    """Run a command, and turn each failure into a message and an exit code."""
    try:
        with guard_output(), closing(context.client):
            try:
                return run(context, **named)
            except DaemonError as error:
                _print_error(error, context)
                return USAGE if error.status == _BAD_REQUEST else NO
    except ServerUnreachable as error:
        warn(str(error))
        return UNREACHABLE
    except InvalidArguments as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        warn(f"standard output: {format_error_reason(error)}")
        return USAGE


def _print_error(error: DaemonError, context: DaemonContext) -> None:
    if context.is_json:
        print_json(error.problem, context.output)
    for line in format_daemon_error(error):
        click.echo(line, err=True)
    if error.problem.get("actions"):
        from coordinator.cli.control.suggested_commands import list_problem_commands

        for command in list_problem_commands(error.problem, context.client.namespace, context.find_bootstrap):
            click.echo(f"  try: {printable(command, len(command))}", err=True)


_INDENT: Final = 2
_CONTROL_CHARACTERS: Final = re.compile(r"[^\n -~]")
"""Characters that may be control characters for a terminal."""


def print_json(answer: Any, output: Output) -> None:
    """Print a value as JSON: on one line for programs, on several lines for people."""
    data = msgspec.json.encode(answer)
    text = (msgspec.json.format(data, indent=_INDENT) if output.is_for_people else data).decode()
    print(_CONTROL_CHARACTERS.sub(_escape_json, text))


def print_json_line(answer: Any) -> None:
    """Print a value as one line of JSON, also on a terminal, and flush it."""
    text = msgspec.json.encode(answer).decode()
    print(_CONTROL_CHARACTERS.sub(_escape_json, text), flush=True)


def _escape_json(found: re.Match[str]) -> str:
    """Return the JSON escape of a control character. Control characters occur in JSON only within strings."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def print_text(text: str, output: Output) -> None:
    """Print a text of the daemon with its control characters escaped, so that it cannot control the terminal."""
    lines = [printable(line, len(line)) for line in text.splitlines()]
    if output.is_colored:
        from coordinator.cli.rich_output import highlight_line

        lines = list(map(highlight_line, lines))
    for line in lines:
        print(line)


def print_answer(
    context: DaemonContext,
    method: str,
    *path: str,
    query: Query = NO_QUERY,
    body: object = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Send a request to the daemon and print its answer: the text, or with --json the JSON. Raises
    ServerUnreachable, DaemonError."""
    if context.is_json:
        answer = context.client.request_json(method, *path, query=query, body=body, timeout_s=timeout_s)
        if answer is not None:
            print_json(answer, context.output)
    else:
        text = context.client.request_text(method, *path, query=query, body=body, timeout_s=timeout_s)
        print_text(text, context.output)


def print_note(text: str) -> None:
    """Print a note on standard error while the command continues."""
    click.echo(click.style(f"groupd: {printable(text, len(text))}", dim=True), err=True)


MAX_WAIT_S: Final = 600
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) *(ms|s|m|h|d)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RANGE: Final = re.compile(r"([0-9]+)?\.\.([0-9]+)?")
_OFFSET_DIGITS: Final = 19
_EVENT_NUMBER: Final = re.compile(r"([0-9a-f]{1,32}\.)?(-1|[0-9]{1,18})")
_NOT_ESCAPED_COMMA: Final = re.compile(r"(?<!\\),")


class Duration(click.ParamType[str]):
    """A duration of the command line: 45s, 1500ms, 5m, 2h, 8d. A number without a unit is milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if text.isascii() and text.isdigit():
            text += "ms"
        if _DURATION.fullmatch(text) is None:
            self.fail(f"{printable(text)!r} is not a duration: write 45s, 1500ms, 5m, 2h or 8d", param, ctx)
        return text


DURATION: Final = Duration()


def parse_seconds(duration: str | None) -> float:
    """Return the seconds of a parsed `Duration`."""
    found = _DURATION.fullmatch(duration or "0s")
    assert found is not None
    return float(found[1]) * _UNITS_S[found[2]]


def check_not_empty(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check that GROUP is not empty. Raises BadParameter."""
    if value == "":
        raise click.BadParameter("GROUP must not be empty")
    return value


def group_argument(*, is_required: bool = True) -> Callable[[Any], Any]:
    """Create the argument GROUP, which is passed as `group`."""
    return click.argument("group", required=is_required, callback=check_not_empty)


def name_argument() -> Callable[[Any], Any]:
    """Create the argument NAME, which is passed as `name`."""
    return click.argument("name", callback=check_not_empty)


def parse_event_number(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    """Parse the number of an event (431), optionally with the mark of its process (5f3a9c1e.431)."""
    found = None if value is None else _EVENT_NUMBER.fullmatch(value)
    if value is None or (found is not None and found[1]):
        return value
    if found is None:
        raise click.BadParameter(f"{printable(value)!r} is not an event: write 431, or 5f3a9c1e.431")
    return int(value)


def parse_names(_: click.Context, __: click.Parameter, values: Sequence[str]) -> list[str] | None:
    """Parse the names of an option that may be repeated, with commas between the names of one value.

    Return None without the option, and [] for an empty value, such as an unset variable of the shell.
    """
    names = [name for value in values for name in split_commas(value)]
    if "" in names:
        raise click.BadParameter("a name is missing before or after a comma")
    return names if values else None


def split_commas(text: str) -> list[str]:
    r"""Split a text at commas. `\,` is a comma within a part. An empty text has no parts."""
    parts = _NOT_ESCAPED_COMMA.split(text) if text.strip() else []
    return [part.replace("\\,", ",").strip() for part in parts]


def parse_pairs(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str] | None:
    """Parse repeated NAME=VALUE values of an option, also separated by commas; None without the option."""
    found: dict[str, str] = {}
    for pair in (pair for value in values for pair in split_commas(value)):
        name, _equals, text = pair.partition("=")
        if not name or not text:
            raise click.BadParameter(f"{printable(pair)} is not NAME=VALUE")
        if found.setdefault(name, text) != text:
            raise click.BadParameter(f"{printable(name)} is given twice")
    return found if values else None


def parse_offsets(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, int] | None:
    """Parse repeated NAME=OFFSET values of an option, also separated by commas; None without the option."""
    found = parse_pairs(context, parameter, values)
    if found is None:
        return None
    for text in found.values():
        if not (text.isascii() and text.isdigit() and len(text) < _OFFSET_DIGITS):
            raise click.BadParameter(f"{printable(text)} is not an offset: write a number from 0")
    return {name: int(text) for name, text in found.items()}


def parse_count(_: click.Context, __: click.Parameter, value: str | None) -> int | dict[str, int] | None:
    """Parse a number or a range: 3, 2..4, 3.., ..4."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return int(value)
    found = _RANGE.fullmatch(value)
    if found is None or value == "..":
        raise click.BadParameter(f"{printable(value)} is not a number or a range such as 2..4, 3.. or ..4")
    return {name: int(text) for name, text in (("min", found[1]), ("max", found[2])) if text is not None}
