"""`groupd user`: list, add and remove SCRAM users, at a broker or in the directory of a stopped daemon."""

import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import click

from coordinator.broker.security_file import SecurityFile
from coordinator.cli.broker.broker_command import (
    NO,
    YES,
    BrokerContext,
    broker_command,
    directory_option,
    edit_security_file,
)
from coordinator.cli.broker.broker_users import BrokerUsers, Iterations
from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand
from coordinator.cli.command_errors import BrokerError, InvalidArguments
from coordinator.cli.control.daemon_command import print_json
from coordinator.cli.output_streams import warn
from coordinator.cli.table_output import print_table
from coordinator.cli.text_table import Column, format_cell
from coordinator.core.message_text import printable
from coordinator.security.core.sasl_mechanisms import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    create_credential,
    salted_password,
)
from protocol.error_codes import ErrorCode

SUBCOMMANDS: Final = {
    "add": Subcommand("cli.broker.user_commands:add_user", "Set the SCRAM password of a user."),
    "list": Subcommand("cli.broker.user_commands:list_users", "List users with SCRAM credentials."),
    "remove": Subcommand("cli.broker.user_commands:remove_user", "Remove SCRAM credentials of a user."),
}


@click.group(cls=DefaultSubcommand, default="list", subcommands=SUBCOMMANDS)
def user() -> None:
    """Add, list and remove SCRAM users. `groupd user` without a subcommand lists them.

    The command connects to a daemon or to any Kafka broker. With --data-dir it changes the directory of a stopped
    daemon.
    """


MECHANISMS: Final = {each.mechanism_name: each for each in ScramMechanism}


class UserStore(Protocol):
    """A store of SCRAM users. All methods raise ServerUnreachable, and BrokerError if the broker refuses."""

    def list_iterations(self) -> Iterations:
        """Return the iterations of all credentials."""

    def set_credential(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        """Give a user a credential, in place of the one with the same mechanism."""

    def remove_credential(self, name: str, mechanism: ScramMechanism) -> None:
        """Delete a credential that exists."""


class DirectoryUsers:
    """The users in the data directory of a stopped daemon. `set_credential` and `remove_credential` raise
    OSError."""

    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def list_iterations(self) -> Iterations:
        return {user: each.iterations for user, each in self._file.state.scram.items()}

    def set_credential(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        if iterations > MAX_ITERATIONS:
            raise BrokerError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too many iterations: at most {MAX_ITERATIONS}"
            )
        credential = create_credential(mechanism, salted_password, salt, iterations)
        self._write_credentials({**self._file.state.scram, (name, mechanism): credential})

    def remove_credential(self, name: str, mechanism: ScramMechanism) -> None:
        scram = dict(self._file.state.scram)
        if scram.pop((name, mechanism), None) is None:
            raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, f"{name} has no such credential")
        self._write_credentials(scram)

    def _write_credentials(self, scram: Mapping[tuple[str, ScramMechanism], Any]) -> None:
        self._file.write_state(replace(self._file.state, scram=scram))


def mechanism_option(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Create the option for mechanisms. By default it has both mechanisms."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice([*MECHANISMS], case_sensitive=False),
        help=f"{what} Default: both.",
    )


@contextmanager
def open_user_store(context: BrokerContext, data_dir: str | None) -> Iterator[UserStore]:
    """Yield the users of the broker, or of the directory of a stopped daemon. Raises InvalidArguments,
    ServerUnreachable."""
    if data_dir is None:
        yield BrokerUsers(context.broker)
        return
    with edit_security_file(data_dir) as file:
        yield DirectoryUsers(file)


LIST_EPILOG: Final = """Examples:

\b
groupd user list
groupd user list --data-dir /var/lib/groupd --json | jq -r .users[].name"""

_COLUMNS: Final = (
    Column("user", wraps=True, style=lambda _: "bold"),
    Column("mechanism"),
    Column("iterations", is_number=True, is_optional=True),
)


@broker_command(epilog=LIST_EPILOG)
@directory_option()
def list_users(context: BrokerContext, data_dir: str | None) -> int:
    """List the users that can log in by SCRAM."""
    with open_user_store(context, data_dir) as users:
        found = sorted(users.list_iterations().items())
    if context.is_json:
        entries = [
            {"name": name, "mechanism": mechanism.mechanism_name, "iterations": iterations}
            for (name, mechanism), iterations in found
        ]
        print_json({"users": entries}, context.output)
    elif not found and context.output.is_for_people:
        print("no users")
    else:
        rows = [
            [format_cell(name), mechanism.mechanism_name, format_cell(iterations)]
            for (name, mechanism), iterations in found
        ]
        print_table(_COLUMNS, rows, context.output)
    return YES


ADD_EPILOG: Final = """\
The command asks for the password, or reads the first line of standard input. It takes no password as an
argument, because every process of the machine can read arguments. Examples:

\b
groupd user add alice
groupd user add alice --data-dir /var/lib/groupd < password.txt
groupd user add alice --mechanism SCRAM-SHA-512 --iterations 8192"""

_SALT_BYTES: Final = 20
_MAX_PASSWORD: Final = 1024


@broker_command(epilog=ADD_EPILOG)
@click.argument("name")
@mechanism_option("Mechanism of the credential.")
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="Iterations of the hash: more of them slow down guessing.",
)
@directory_option()
def add_user(
    context: BrokerContext, name: str, mechanisms: tuple[str, ...], iterations: int, data_dir: str | None
) -> int:
    """Set the SCRAM password of a new or existing user."""
    if not name:
        raise InvalidArguments("USER must not be empty")
    with open_user_store(context, data_dir) as users:
        password = _read_password(name)
        for mechanism in dict.fromkeys(mechanisms or MECHANISMS):
            salt = secrets.token_bytes(_SALT_BYTES)
            salted = salted_password(MECHANISMS[mechanism], password, salt, iterations)
            users.set_credential(name, MECHANISMS[mechanism], salted, salt, iterations)
    return YES


def _read_password(name: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        password: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt="Once more", err=True
        )
        return password
    line = "" if sys.stdin is None else sys.stdin.readline(_MAX_PASSWORD + 2)
    password = line.removesuffix("\n").removesuffix("\r")
    if not password:
        raise InvalidArguments("standard input has no password on its first line")
    if len(password) > _MAX_PASSWORD:
        raise InvalidArguments(f"a password must have at most {_MAX_PASSWORD} characters")
    return password


REMOVE_EPILOG: Final = """Open connections of the user stay authenticated until they are closed. Example:

\b
groupd user remove alice"""


@broker_command(epilog=REMOVE_EPILOG)
@click.argument("name")
@mechanism_option("Mechanism of the removed credential.")
@directory_option()
def remove_user(context: BrokerContext, name: str, mechanisms: tuple[str, ...], data_dir: str | None) -> int:
    """Remove the SCRAM password of a user."""
    wanted = [MECHANISMS[each] for each in mechanisms or MECHANISMS]
    with open_user_store(context, data_dir) as users:
        existing = users.list_iterations()
        found = [mechanism for mechanism in wanted if (name, mechanism) in existing]
        for mechanism in found:
            users.remove_credential(name, mechanism)
    if not found:
        warn(f"user {printable(name)} does not exist" + (" with that mechanism" if mechanisms else ""))
        return NO
    return YES
