"""All namespaces of a daemon: creation, lookup, reset, removal. The daemon's own broker is called `default`."""

import asyncio
import logging
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Final

from msgspec.structs import replace

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.services import Services
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address
from coordinator.control.control_plane import ControlPlane
from coordinator.control.namespaces.namespace_broker import NamespaceBroker, build_settings
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import StartFailed, printable, suggest
from coordinator.network.listening_socket import LISTEN_OPTION, bind_sockets
from coordinator.runtime.worker_threads import WorkerThreads
from storage.files import Files, OsFiles
from storage.memory_files import MemoryFiles
from storage.storage_errors import StorageError, format_error_reason

_LOG: Final = logging.getLogger("Control")

DEFAULT_NAMESPACE: Final = "default"
MAX_NAMESPACES: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_IDLE_CHECK_S: Final = 60.0
"""The maximum interval between checks for idle namespaces, seconds."""
_MEMORY_DIRECTORY: Final = "/data"
_DIRECTORY_SUFFIX: Final = ".namespaces"
"""The suffix of the directory of durable namespaces. It is beside the daemon's data directory, which only has
files of the broker."""


class NamespaceRegistry:
    """The namespaces of a daemon. All methods belong to the event loop's thread."""

    def __init__(self, services: Services, actions: ActionLog) -> None:
        """Create the registry. `services` are those of the daemon's own broker, `actions` its log."""
        self._daemon = services
        self._config = services.settings.config
        self._files = OsFiles()
        self._actions = actions
        self._by_name: dict[str, NamespaceBroker] = {}
        self._being_changed: set[str] = set()
        """Names of namespaces that are being created, reset or removed."""
        self._numbers = count(1)
        self._threads: WorkerThreads | None = None
        """The threads that all namespaces share, so that no namespace waits for the start of a thread."""
        self._idle_check: asyncio.TimerHandle | None = None
        self._removals: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # Queries

    def list_namespaces(self) -> list[NamespaceBroker]:
        """Return the namespaces in the order of their names, without the daemon's own broker."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def get_namespace(self, name: str) -> NamespaceBroker:
        """Return a namespace other than the broker of the daemon, and record its use.

        Raises Problem (no-such-namespace; loading while it is being created, reset or removed).
        """
        if name in self._being_changed:
            what = f"Namespace {name} is being created, reset or removed"
            raise Problem(ProblemKind.LOADING, what, f"{what}.")
        found = self._by_name.get(name)
        if found is None:
            title = f"Namespace {printable(name)} does not exist"
            raise Problem(ProblemKind.NO_SUCH_NAMESPACE, title, f"{title}; POST /v1/namespaces creates one.")
        found.touch()
        return found

    # Changes

    async def create_namespace(
        self,
        name: str | None,
        topics: Mapping[str, int],
        config: Mapping[str, str],
        *,
        is_durable: bool,
        by: str | None,
    ) -> NamespaceBroker:
        """Create a namespace and wait until it is ready.

        Args:
            name: The name, or None for an unused one.
            topics: The number of partitions by topic.
            config: The properties, as text.
            is_durable: Whether its files are on the disk. It then uses the files of an earlier namespace of its
                name.
            by: The name of the operator.

        Raises:
            Problem: name-taken, too-many, bad-request, not-possible, and the problems of topic creation.
        """
        name = self._free_name() if name is None else name
        self._check_new(name)
        with self._changing(name):
            namespace = self._build_namespace(name, topics, config, is_durable=is_durable)
            try:
                await namespace.open()
            except StartFailed as error:
                what = f"Namespace {name} cannot start"
                raise Problem(ProblemKind.NOT_POSSIBLE, what, f"{what}: {error}") from error
            self._by_name[name] = namespace
        if self._is_closed:
            await self.remove_namespace(name, by)
        self._schedule_idle_check()
        self._actions.record_action("namespace", f"made {name}", by=by)
        return namespace

    async def reset_namespace(self, name: str, by: str | None) -> NamespaceBroker:
        """Reset a namespace to its initial state. Raises Problem (no-such-namespace, not-possible)."""
        found = self._get_changeable(name)
        del self._by_name[name]
        with self._changing(name):
            try:
                await found.reset(partial(self._delete_files, name), by)
            except StartFailed as error:
                raise _reset_failed_problem(name, str(error)) from error
            except (StorageError, OSError) as error:
                raise _reset_failed_problem(name, format_error_reason(error)) from error
            self._by_name[name] = found
        self._actions.record_action("namespace", f"reset {name}", by=by)
        return found

    async def remove_namespace(self, name: str, by: str | None) -> None:
        """Stop the broker of a namespace and delete its files. Raises Problem (no-such-namespace)."""
        found = self._get_changeable(name)
        del self._by_name[name]
        with self._changing(name):
            await self._close_namespace(found, keeps_files=False)
            await self._delete_files(name)
        self._actions.record_action("namespace", f"removed {name}", by=by)

    def advertise(self, name: str, addresses: Mapping[str, Address], by: str | None) -> None:
        """Change the advertised addresses of a namespace. Raises Problem (no-such-namespace, bad-request)."""
        services = self._daemon if name == DEFAULT_NAMESPACE else self.get_namespace(name).server
        listeners = {endpoint.listener.name for endpoint in services.endpoints}
        for listener in addresses:
            if listener not in listeners:
                detail = f"{printable(listener)} is not a listener {suggest(listener, sorted(listeners))}."
                fields = {"pointer": f"/{printable(listener)}"}
                raise Problem(ProblemKind.BAD_REQUEST, "The listener does not exist", detail, fields)
        if name == DEFAULT_NAMESPACE:
            for listener, address in addresses.items():
                services.listeners.set_advertised_address(listener, address)
        else:
            self.get_namespace(name).advertise(addresses)
        description = ", ".join(f"{listener}={address}" for listener, address in addresses.items())
        self._actions.record_action("namespace", f"{name} advertises {description}", by=by)

    def find_control(self, name: str) -> ControlPlane | None:
        """Return the control plane of a namespace, or None for the daemon's own broker. Raises Problem as
        `get_namespace`."""
        return None if name == DEFAULT_NAMESPACE else self.get_namespace(name).control

    async def close(self) -> None:
        """Stop all namespaces and keep their files on the disk. Log errors of the disk."""
        self._is_closed = True
        if self._idle_check is not None:
            self._idle_check.cancel()
        going, self._by_name = self._by_name, {}
        for removal in self._removals:
            removal.cancel()
        await asyncio.gather(*map(self._close_namespace, going.values()))
        if self._threads is not None:
            self._threads.close()

    # Creation

    def _free_name(self) -> str:
        return next(
            name
            for name in map("n{}".format, self._numbers)
            if name not in self._by_name and name not in self._being_changed
        )

    def _check_new(self, name: str) -> None:
        if _NAME.fullmatch(name) is None:
            detail = (
                "A name must have 1 to 100 of A-Z, a-z, 0-9, `.`, `_`, `-`, and begin with a letter or digit."
            )
            raise Problem(ProblemKind.BAD_REQUEST, "name is invalid", detail, {"pointer": "/name"})
        if name == DEFAULT_NAMESPACE or name in self._by_name or name in self._being_changed:
            what = f"Namespace {name} already exists"
            raise Problem(ProblemKind.NAME_TAKEN, what, f"{what} already.")
        if self._is_closed:
            raise Problem(
                ProblemKind.LOADING,
                "The daemon is stopping",
                "The daemon is stopping and creates no namespaces.",
            )
        if len(self._by_name) + len(self._being_changed) >= MAX_NAMESPACES:
            what = f"There are {MAX_NAMESPACES} namespaces"
            detail = f"{what}, which is the limit: DELETE /v1/namespaces/NAME removes one."
            raise Problem(ProblemKind.TOO_MANY, what, detail)

    def _get_changeable(self, name: str) -> NamespaceBroker:
        if name == DEFAULT_NAMESPACE:
            what = "The daemon's own broker cannot be reset or removed"
            detail = (
                f"{what}: `{DEFAULT_NAMESPACE}` stays as it is. POST /v1/namespaces "
                f"creates a namespace that can be reset or removed."
            )
            raise Problem(ProblemKind.NOT_POSSIBLE, what, detail)
        return self.get_namespace(name)

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        self._being_changed.add(name)
        try:
            yield
        finally:
            self._being_changed.discard(name)

    def _build_namespace(
        self, name: str, topics: Mapping[str, int], config: Mapping[str, str], *, is_durable: bool
    ) -> NamespaceBroker:
        daemon = self._daemon.settings
        address = Address(daemon.listeners[0].address.host, 0)
        directory = self._directory(name) if is_durable else _MEMORY_DIRECTORY

        def files() -> Files:
            return self._files if is_durable else MemoryFiles(self._config.namespace_max_bytes, clock.wall_ms)

        try:
            settings = build_settings(daemon, config, address, files(), directory, in_memory=not is_durable)
        except ConfigError as error:
            pointer = "/config" + "".join(f"/{each}" for each in error.names[:1])
            detail = f"The config is invalid: {error}."
            raise Problem(
                ProblemKind.BAD_REQUEST, "The config is invalid", detail, {"pointer": pointer}
            ) from error
        sockets = self._bind_sockets(address)
        return NamespaceBroker(
            name,
            sockets,
            lambda: replace(settings, files=files()),
            topics,
            self._open_server,
            is_durable=is_durable,
        )

    def _open_server(self, settings: ServerSettings) -> Server:
        if self._threads is None:
            self._threads = WorkerThreads()
        return open_server(settings, threads=self._threads, run_queue=self._daemon.run_queue)

    def _bind_sockets(self, address: Address) -> list[socket.socket]:
        """Return sockets that are bound to a free port. Raises Problem (not-possible)."""
        ports = self._config.namespace_port_numbers or [0]
        backlog = self._config.socket_listen_backlog_size
        why = ""
        for port in ports:
            try:
                return bind_sockets(Address(address.host, port), backlog, LISTEN_OPTION)
            except StartFailed as error:
                why = str(error)
        what = "No port is free for another namespace"
        raise Problem(ProblemKind.NOT_POSSIBLE, what, f"{what} (namespace.ports): {why}.")

    # Removal

    async def _close_namespace(self, namespace: NamespaceBroker, *, keeps_files: bool = True) -> None:
        try:
            await namespace.close(keeps_files=keeps_files)
        except (StorageError, OSError) as error:
            _LOG.error("Namespace %s was not stopped cleanly: %s", namespace.name, format_error_reason(error))

    def _directory(self, name: str) -> str:
        return f"{self._daemon.settings.data_dir}{_DIRECTORY_SUFFIX}/{name}"

    async def _delete_files(self, name: str) -> None:
        """Remove the files of a namespace from the disk, if any. Raises OSError."""
        directory = self._directory(name)
        if self._files.is_directory(directory):
            import shutil  # for the few that are on the disk

            await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, directory)

    def _schedule_idle_check(self) -> None:
        """Schedule the next check for idle namespaces, as long as any namespace exists."""
        timeout_ms = self._config.namespace_idle_timeout_ms
        if self._idle_check is None and self._by_name and timeout_ms > 0 and not self._is_closed:
            after_s = min(_MAX_IDLE_CHECK_S, timeout_ms / 4000)
            self._idle_check = asyncio.get_running_loop().call_later(after_s, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_check = None
        for namespace in self.list_namespaces():
            if namespace.idle_ms() >= self._config.namespace_idle_timeout_ms:
                del self._by_name[namespace.name]
                removal = asyncio.get_running_loop().create_task(self._remove_idle(namespace))
                self._removals.add(removal)
                removal.add_done_callback(self._removals.discard)
        self._schedule_idle_check()

    async def _remove_idle(self, namespace: NamespaceBroker) -> None:
        with self._changing(namespace.name):
            await self._close_namespace(namespace)
        self._actions.record_action(
            "namespace", f"removed {namespace.name}, which was idle (namespace.idle.timeout.ms)"
        )


def _reset_failed_problem(name: str, why: str) -> Problem:
    what = f"Namespace {name} cannot be reset and was removed"
    return Problem(ProblemKind.NOT_POSSIBLE, what, f"{what}: {why}.")
