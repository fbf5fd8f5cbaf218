"""`groupd user add`."""

import secrets
import sys
from typing import Final

import click

from coordinator.cli.broker.command import YES, Asking, broker_command
from coordinator.cli.broker.directory import directory_option
from coordinator.cli.control.failure import Misused
from coordinator.cli.user.users import MECHANISMS, mechanism_option, users_of
from coordinator.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, salted_password

EPILOG: Final = """The password is asked for, or is the first line of standard input: never an argument, which every
process of the machine can read. Examples:

\b
groupd user add alice
groupd user add alice --data-dir /var/lib/groupd < password.txt
groupd user add alice --mechanism SCRAM-SHA-512 --iterations 8192"""

_SALT_BYTES: Final = 20
_MOST_PASSWORD: Final = 1024


@broker_command(epilog=EPILOG)
@click.argument("name")
@mechanism_option("What the user can log in by.")
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="How much work it is to try a password.",
)
@directory_option()
def command(
    asking: Asking, name: str, mechanisms: tuple[str, ...], iterations: int, data_dir: str | None
) -> int:
    """Give a user a password for SCRAM, or another one."""
    if not name:
        raise Misused("the name of a user is not empty")
    with users_of(asking, data_dir) as users:
        password = _password(name)
        for mechanism in dict.fromkeys(mechanisms or MECHANISMS):
            salt = secrets.token_bytes(_SALT_BYTES)
            salted = salted_password(MECHANISMS[mechanism], password, salt, iterations)
            users.set(name, MECHANISMS[mechanism], salted, salt, iterations)
    return YES


def _password(name: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        password: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt="Once more", err=True
        )
        return password
    line = "" if sys.stdin is None else sys.stdin.readline(_MOST_PASSWORD + 2)
    password = line.removesuffix("\n").removesuffix("\r")
    if not password:
        raise Misused("standard input has no password on its first line")
    if len(password) > _MOST_PASSWORD:
        raise Misused(f"a password has {_MOST_PASSWORD} characters at most")
    return password
