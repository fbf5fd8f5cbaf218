"""Where ACLs are kept: with a broker that is asked, or in the directory of a stopped daemon."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from coordinator.cli.acl.broker_acls import BrokerAcls
from coordinator.cli.broker.command import Asking
from coordinator.cli.broker.directory import security_of
from coordinator.security.acl import AclBinding, AclFilter
from coordinator.server.security_file import SecurityFile


class Acls(Protocol):
    """All methods raise Unreachable, and BrokerRefused where the answer is no."""

    def described(self, wanted: AclFilter) -> set[AclBinding]:
        """Those that a filter picks."""

    def create(self, acls: list[AclBinding]) -> None:
        """Adds ACLs; one that is there already stays."""

    def delete(self, filters: list[AclFilter]) -> set[AclBinding]:
        """Removes what any of the filters picks; which ones those were."""


class _OfDirectory:
    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def described(self, wanted: AclFilter) -> set[AclBinding]:
        return {acl for acl in self._file.state.acls if wanted.fits(acl)}

    def create(self, acls: list[AclBinding]) -> None:
        self._change(self._file.state.acls.union(acls))

    def delete(self, filters: list[AclFilter]) -> set[AclBinding]:
        gone = set[AclBinding]().union(*(self.described(wanted) for wanted in filters))
        self._change(self._file.state.acls - gone)
        return gone

    def _change(self, acls: frozenset[AclBinding]) -> None:
        if acls != self._file.state.acls:
            self._file.change(replace(self._file.state, acls=acls))


@contextmanager
def acls_of(asking: Asking, data_dir: str | None) -> Iterator[Acls]:
    """Raises Misused, Unreachable."""
    if data_dir is None:
        yield BrokerAcls(asking.broker)
        return
    with security_of(data_dir) as file:
        yield _OfDirectory(file)
