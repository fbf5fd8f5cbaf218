"""Open the store of ACLs and credentials: at start if an authorizer is configured or the data directory has some,
else at the first request that needs it. Its modules are imported only then.
"""

from typing import TYPE_CHECKING

from coordinator.config.properties import Config
from coordinator.core.daemon_log import OngoingFailures
from storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from coordinator.security.core.authorizer import Authorizer
    from coordinator.security.security_store import SecurityStore, SharedSecurityStorage


class LazySecurity:
    """The ACLs and credentials of a server, opened on first use."""

    def __init__(
        self,
        directory: DataDirectory,
        config: Config,
        failures: OngoingFailures,
        shared: "SharedSecurityStorage | None" = None,
    ) -> None:
        """Open the store if needed at start.

        Args:
            directory: an open data directory.
            config: the configuration.
            failures: counts disk errors.
            shared: the shared storage of a cluster, which replaces the directory.

        Raises:
            DamagedFile: the stored state is malformed.
            OSError: the disk failed.
        """
        self._directory = directory
        self._config = config
        self._failures = failures
        self._shared = shared
        self._store: SecurityStore | None = None
        if shared is not None or config.authorizer_class_name or directory.has_security():
            self._store = self._open_store()

    @property
    def store(self) -> "SecurityStore":
        """Return the store; open it on first use."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    @property
    def authorizer(self) -> "Authorizer | None":
        """The authorizer; None: every operation is allowed."""
        return None if self._store is None else self._store.authorizer

    async def stop(self) -> None:
        """Wait for the current write."""
        if self._store is not None:
            await self._store.stop()

    def _open_store(self) -> "SecurityStore":
        from coordinator.security.security_store import SecurityStore

        return SecurityStore.open(
            self._directory,
            self._failures,
            authorizes=bool(self._config.authorizer_class_name),
            super_users=self._config.super_users,
            allow_if_no_acl=self._config.allow_everyone_if_no_acl_found,
            shared=self._shared,
        )
