"""The option --command-config, of every command that speaks Kafka's protocol to a broker."""

import sys
from dataclasses import replace

import click

from coordinator.cli.broker.client_properties import ClientSecurity, parse_client
from storage.files import read_input
from storage.os_error import reason_of


def command_config_parameter() -> click.Option:
    """Passed on as `security`."""
    return click.Option(
        ["--command-config", "security"],
        envvar="GROUPD_COMMAND_CONFIG",
        metavar="FILE",
        callback=_read,
        help="A client's properties (security.protocol, sasl.jaas.config, ssl.truststore.location, ...), as "
        "Kafka's own commands take them. [env: GROUPD_COMMAND_CONFIG]",
    )


def _read(_: click.Context, __: click.Parameter, path: str | None) -> ClientSecurity:
    return ClientSecurity() if path is None else read_client(path)


def read_client(path: str) -> ClientSecurity:
    """What the file at a path says, with the password of whoever types the command where it has none. Raises
    BadParameter."""
    try:
        security = parse_client(read_input(path).decode())
    except OSError as error:
        raise click.BadParameter(f"{path}: {reason_of(error, path)}") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path}: is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from error
    login = security.login
    if login is None or login.password is not None:
        return security
    return replace(security, login=replace(login, password=_ask_for_password(path, login.user)))


def _ask_for_password(path: str, user: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.BadParameter(f"{path}: sasl.jaas.config has no password, and there is no terminal to ask")
    password: str = click.prompt(f"Password of {user}, who logs in", hide_input=True, err=True)
    return password
