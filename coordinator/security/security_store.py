"""What is known of ACLs and credentials: read at the start, kept in security.json, one change after the other. In a
cluster they are kept where all brokers have them, and others change them, too."""

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
    """The place where the security of a daemon is kept."""

    async def write(self, old: SecurityState, new: SecurityState) -> SecurityState:
        """Has `new` last in the place of `old`, the last one; what there is then. Raises OSError."""


class SharedSecurityStorage(SecurityStorage, Protocol):
    """The place where the security of several brokers is kept."""

    state: SecurityState
    on_changed: Callable[[SecurityState], None]
    """Takes what there is, when somebody has changed it."""


class SecurityStore:
    """The security of one daemon. All methods belong to the event loop's thread."""

    def __init__(self, state: SecurityState, authorizer: Authorizer | None, storage: SecurityStorage) -> None:
        """In: who decides by the ACLs of the state, None where nobody asks."""
        self.state = state
        """What is durable."""
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
        """Reads what is kept; where nothing is yet, what the broker that had the directory knew.

        In: who counts what the disk refuses; whether there is an authorizer (authorizer.class.name), with
        super.users and allow.everyone.if.no.acl.found; what all brokers of a cluster have, in the place of the
        directory. Raises DamagedFile, OSError.
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
        """It is so now."""
        added, removed = new.acls - self.state.acls, self.state.acls - new.acls
        self.state = new
        if self.authorizer is not None and (added or removed):
            self.authorizer.index.apply_changes(added, removed)

    async def change_state(self, new: SecurityState) -> None:
        """What is other in `new` than in `state` now is so when this returns, and durable. Changes under way at the
        same time take their turns, and none undoes another. Raises OSError: nothing is changed, unless it is a
        large change in a cluster, of which a part may be."""
        base = self.state
        added, removed = new.acls - base.acls, base.acls - new.acls
        async with self._change_lock:
            if self._is_stopped:
                raise OSError(errno.ESHUTDOWN, "the daemon stops", SECURITY)
            old = self.state
            if old is not base:
                acls = old.acls - removed | added
                new = SecurityState(acls, _merge_credentials(old.scram, base.scram, new.scram))
            self.set_state(await self._storage.write(old, new))

    async def stop(self) -> None:
        """Waits for what is being written; nothing is, after that."""
        async with self._change_lock:
            self._is_stopped = True


class _DirectoryStorage:
    """Keeps the security in a data directory."""

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
                    "ACLs and credentials cannot be changed: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )
            raise
        self._failures.record_recovery(SECURITY)
        await self._files.run_in_executor(_note_security, self._directory)
        return new


def _note_security(directory: DataDirectory) -> None:
    """Note that the directory has ACLs and users. A failure does not refuse the change, which is durable: the
    next change and the next start try again."""
    try:
        directory.record_security()
    except OSError as error:
        _LOG.warning(
            "A later start without %s will go unnoticed, because %s cannot be written: %s",
            *(SECURITY, META_PROPERTIES, format_error_reason(error)),
        )


def _merge_credentials(
    old: Mapping[ScramUser, ScramCredential],
    base: Mapping[ScramUser, ScramCredential],
    new: Mapping[ScramUser, ScramCredential],
) -> dict[ScramUser, ScramCredential]:
    """What became of credentials meanwhile, and what is to become of them besides."""
    changed = {user: credential for user, credential in new.items() if base.get(user) != credential}
    return {user: each for user, each in old.items() if user in new or user not in base} | changed


def read_state(directory: DataDirectory, is_needed: bool) -> SecurityState:
    """What a directory has, or the broker knew that had it before. In: whether damage of what that knew may not be
    passed over. Raises DamagedFile, OSError."""
    document = directory.read_security()
    if document is None:
        return _migrate_state(directory, is_needed)
    try:
        state = SecurityState.from_document(document)
    except ValueError as error:
        raise DamagedFile(f"{directory.path}/{SECURITY}", f"makes no sense: {error}") from error
    _note_security(directory)
    return state


def _migrate_state(directory: DataDirectory, is_needed: bool) -> SecurityState:
    """What the broker knew that had a directory. Raises DamagedFile where it `is_needed`, OSError."""
    try:
        state = read_cluster_security(directory.files, directory.path)
    except DamagedFile as error:
        if is_needed:
            raise
        _LOG.error(
            "Of the broker that had this directory no ACLs and no credentials are taken over: %s", error
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
