"""ACLs and credentials: read at start, stored in security.json, changed one at a time. In a cluster all brokers
share them, and other brokers change them as well.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from coordinator.core.async_files import AsyncFiles
from coordinator.core.daemon_log import OngoingFailures, format_repeats
from coordinator.security.core.authorizer import AclIndex, Authorizer
from coordinator.security.core.principal import parse_principal
from coordinator.security.core.sasl_mechanisms import ScramCredential
from coordinator.security.core.security_state import ScramUser, SecurityState
from coordinator.topics.kafka_metadata_security import read_cluster_security
from storage.data_directory import SECURITY, DataDirectory
from storage.metadata_files import META_PROPERTIES
from storage.storage_errors import DamagedFile, format_error_reason

_LOG: Final = logging.getLogger("SecurityManager")

MAX_ACLS: Final = 100_000


class SecurityStorage(Protocol):
    """The storage of one daemon's ACLs and credentials."""

    async def write(self, old: SecurityState, new: SecurityState) -> SecurityState:
        """Replace `old`, the last known state, by `new`. Return the resulting state.

        Raises:
            OSError: the disk failed.
        """


class SharedSecurityStorage(SecurityStorage, Protocol):
    """The storage that several brokers share."""

    state: SecurityState
    on_changed: Callable[[SecurityState], None]
    """Called with the new state after another broker changed it."""


class SecurityStore:
    """The ACLs and credentials of one daemon. All methods belong to the event loop's thread."""

    def __init__(self, state: SecurityState, authorizer: Authorizer | None, storage: SecurityStorage) -> None:
        """`authorizer` decides by the ACLs of the state; None without an authorizer."""
        self.state = state
        """The durable state."""
        self.authorizer = authorizer
        self._storage = storage
        self._change_lock = asyncio.Lock()
        self._is_stopped = False

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        failures: OngoingFailures,
        *,
        authorizes: bool,
        super_users: str = "",
        allow_if_no_acl: bool = False,
        shared: SharedSecurityStorage | None = None,
    ) -> "SecurityStore":
        """Read the stored state. Without one, import that of the broker that used the directory before.

        Args:
            directory: the data directory.
            failures: counts disk errors.
            authorizes: whether an authorizer is configured (authorizer.class.name).
            super_users: super.users.
            allow_if_no_acl: allow.everyone.if.no.acl.found.
            shared: the shared storage of a cluster, which replaces the directory.

        Raises:
            DamagedFile: the stored state is malformed.
            OSError: the disk failed.
        """
        state = read_state(directory, authorizes) if shared is None else shared.state
        authorizer = None
        if not authorizes and state.acls:
            _LOG.warning(
                "%d ACLs are not enforced, because authorizer.class.name is not set", len(state.acls)
            )
        if authorizes:
            names = filter(None, (part.strip() for part in super_users.split(";")))
            authorizer = Authorizer(
                AclIndex(state.acls), frozenset(map(parse_principal, names)), allow_if_no_acl
            )
        if shared is None:
            return cls(state, authorizer, _DirectoryStorage(directory, failures))
        store = cls(state, authorizer, shared)
        shared.on_changed = store.set_state
        return store

    def set_state(self, new: SecurityState) -> None:
        """Set the state and update the authorizer."""
        added, removed = new.acls - self.state.acls, self.state.acls - new.acls
        self.state = new
        if self.authorizer is not None and (added or removed):
            self.authorizer.index.apply_changes(added, removed)

    async def change_state(self, new: SecurityState) -> None:
        """Apply the differences between `state` and `new` durably before returning. Concurrent changes are applied
        in turn, and none reverts another.

        Raises:
            OSError: nothing has changed, except that a large change in a cluster may be partly applied.
        """
        base = self.state
        added, removed = new.acls - base.acls, base.acls - new.acls
        async with self._change_lock:
            if self._is_stopped:
                raise OSError(errno.ESHUTDOWN, "the daemon is stopping", SECURITY)
            old = self.state
            if old is not base:
                acls = old.acls - removed | added
                new = SecurityState(acls, _merge_credentials(old.scram, base.scram, new.scram))
            self.set_state(await self._storage.write(old, new))

    async def stop(self) -> None:
        """Wait for the current write and reject further ones."""
        async with self._change_lock:
            self._is_stopped = True


class _DirectoryStorage:
    """Stores ACLs and credentials in a data directory."""

    def __init__(self, directory: DataDirectory, failures: OngoingFailures) -> None:
        self._directory = directory
        self._failures = failures
        self._files = AsyncFiles(directory.files)

    async def write(self, old: SecurityState, new: SecurityState) -> SecurityState:
        try:
            await self._files.run_in_executor(self._directory.write_security, new.to_document())
        except OSError as error:
            count = self._failures.record_failure(SECURITY, error)
            if count:
                _LOG.error(
                    "Failed to change ACLs or credentials: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )
            raise
        self._failures.record_recovery(SECURITY)
        await self._files.run_in_executor(_note_security, self._directory)
        return new


def _note_security(directory: DataDirectory) -> None:
    """Record in the directory that it has ACLs and users. A failure does not fail the change, which is already
    durable; the next change and the next start retry.
    """
    try:
        directory.record_security()
    except OSError as error:
        _LOG.warning(
            "groupd will not detect the loss of %s, because %s cannot be written: %s",
            *(SECURITY, META_PROPERTIES, format_error_reason(error)),
        )


def _merge_credentials(
    old: Mapping[ScramUser, ScramCredential],
    base: Mapping[ScramUser, ScramCredential],
    new: Mapping[ScramUser, ScramCredential],
) -> dict[ScramUser, ScramCredential]:
    """Apply a requested change of credentials, from `base` to `new`, to the current credentials `old`, which other
    requests may have changed."""
    changed = {user: credential for user, credential in new.items() if base.get(user) != credential}
    return {user: each for user, each in old.items() if user in new or user not in base} | changed


def read_state(directory: DataDirectory, is_needed: bool) -> SecurityState:
    """Return the state of a directory, or that of the broker that used it before.

    Args:
        directory: the data directory.
        is_needed: whether damaged metadata of that broker is an error.

    Raises:
        DamagedFile: the stored state is malformed.
        OSError: the disk failed.
    """
    document = directory.read_security()
    if document is None:
        return _migrate_state(directory, is_needed)
    try:
        state = SecurityState.from_document(document)
    except ValueError as error:
        raise DamagedFile(f"{directory.path}/{SECURITY}", f"is not valid: {error}") from error
    _note_security(directory)
    return state


def _migrate_state(directory: DataDirectory, is_needed: bool) -> SecurityState:
    """Return the state of the broker that used the directory before.

    Raises:
        DamagedFile: its metadata is malformed and `is_needed`.
        OSError: the disk failed.
    """
    try:
        state = read_cluster_security(directory.files, directory.path)
    except DamagedFile as error:
        if is_needed:
            raise
        _LOG.error(
            "The ACLs and credentials of the directory's previous broker cannot be read and are ignored: %s",
            error,
        )
        return SecurityState()
    if state.acls or state.scram:
        directory.write_security(state.to_document())
        _note_security(directory)
        _LOG.warning(
            "Taken over from another broker: %d ACLs, %d credentials of SCRAM",
            len(state.acls),
            len(state.scram),
        )
    return state
