"""Where users are kept: with a broker that is asked, or in the directory of a stopped daemon."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import click

from coordinator.cli.broker.command import Asking
from coordinator.cli.broker.directory import security_of
from coordinator.cli.user.broker_users import BrokerUsers, Iterations
from coordinator.security.credential import ScramMechanism
from coordinator.security.scram import credential_of
from coordinator.server.security_file import SecurityFile

MECHANISMS: Final = {each.mechanism_name: each for each in ScramMechanism}


class Users(Protocol):
    """All methods raise Unreachable, and BrokerRefused where the answer is no."""

    def iterations(self) -> Iterations:
        """Of all credentials."""

    def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        """Gives a user a credential, in place of the one it has."""

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Takes a credential away that is there."""


class _OfDirectory:
    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def iterations(self) -> Iterations:
        return {user: each.iterations for user, each in self._file.state.scram.items()}

    def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        credential = credential_of(mechanism, salted_password, salt, iterations)
        self._change({**self._file.state.scram, (name, mechanism): credential})

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        scram = dict(self._file.state.scram)
        del scram[name, mechanism]
        self._change(scram)

    def _change(self, scram: Mapping[tuple[str, ScramMechanism], Any]) -> None:
        self._file.change(replace(self._file.state, scram=scram))


def mechanism_option(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The option that names mechanisms; both, where it is not given."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice([*MECHANISMS], case_sensitive=False),
        help=f"{what} Default: both.",
    )


@contextmanager
def users_of(asking: Asking, data_dir: str | None) -> Iterator[Users]:
    """Raises Misused, Unreachable."""
    if data_dir is None:
        yield BrokerUsers(asking.broker)
        return
    with security_of(data_dir) as file:
        yield _OfDirectory(file)
