"""All namespaces of a daemon: made, found, reset, removed. The daemon's own broker is the one called `default`."""

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.config.errors import ConfigError
from coordinator.config.listeners import Address
from coordinator.control.acts import Acts
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.namespaces.namespace import Namespace
from coordinator.control.namespaces.settings import settings_of
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.threads import Threads
from coordinator.net.peer import printable
from coordinator.server.bind import LISTEN, bind
from coordinator.server.server import Server
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed
from coordinator.suggestions import suggest
from storage.errors import StorageError
from storage.files import Files, OsFiles
from storage.memory_files import MemoryFiles
from storage.os_error import reason_of

if TYPE_CHECKING:
    from coordinator.control.control import Control

_LOG: Final = logging.getLogger("Control")

MakeControl = Callable[[Server, GroupRemovals], "Control"]

DEFAULT: Final = "default"
MOST: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOOKED_AFTER_S: Final = 60.0
"""How often is looked for those that nobody needs, at most."""
_MEMORY_DIRECTORY: Final = "/data"
_DIRECTORY_SUFFIX: Final = ".namespaces"
"""Beside the daemon's data directory: what lies in that is the broker's own."""


class Namespaces:
    """All methods belong to the event loop's thread."""

    def __init__(self, server: Server, acts: Acts, make_control: MakeControl) -> None:
        """In: the daemon's own; who makes the control room about another."""
        self._daemon = server
        self._config = server.settings.config
        self._files = OsFiles()
        self._acts = acts
        self._make_control = make_control
        self._by_name: dict[str, Namespace] = {}
        self._being_changed: set[str] = set()
        """Names of those that are being made, reset or removed."""
        self._numbers = count(1)
        self._threads: Threads | None = None
        """Of all of them, so that none waits until a thread has begun."""
        self._check: asyncio.TimerHandle | None = None
        self._removals: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # Finding

    def all(self) -> list[Namespace]:
        """In the order of their names, without the daemon's own."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def get(self, name: str) -> Namespace:
        """One that is not the daemon's own, for somebody who asks for it. Raises Problem (no-such-namespace;
        loading while it is being made, reset or removed)."""
        if name in self._being_changed:
            what = f"Namespace {name} is being made, reset or removed"
            raise Problem(ProblemKind.LOADING, what, f"{what}.")
        found = self._by_name.get(name)
        if found is None:
            detail = f"There is no namespace {printable(name)}; POST /v1/namespaces makes one."
            raise Problem(ProblemKind.NO_SUCH_NAMESPACE, f"There is no namespace {printable(name)}", detail)
        found.touch()
        return found

    # Changing

    async def make(
        self,
        name: str | None,
        topics: Mapping[str, int],
        config: Mapping[str, str],
        *,
        is_durable: bool,
        by: str | None,
    ) -> Namespace:
        """Makes one, which is ready. In: None for a name that nobody has; partitions by topic; properties, as text;
        whether its files are on the disk, where it finds what one of its name has left. Raises Problem (name-taken,
        too-many, bad-request, not-possible, and what making topics raises)."""
        name = self._free_name() if name is None else name
        self._check_new(name)
        with self._changing(name):
            made = self._namespace(name, topics, config, is_durable=is_durable)
            try:
                await made.open()
            except StartFailed as error:
                what = f"Namespace {name} cannot start"
                raise Problem(ProblemKind.NOT_POSSIBLE, what, f"{what}: {error}") from error
            self._by_name[name] = made
        if self._is_closed:
            await self.remove(name, by)
        self._watch()
        self._acts.note("namespace", f"made {name}", by=by)
        return made

    async def reset(self, name: str, by: str | None) -> Namespace:
        """Has it be as it was when it was made. Raises Problem (no-such-namespace, not-possible)."""
        found = self._changeable(name)
        del self._by_name[name]
        with self._changing(name):
            try:
                await found.reset(partial(self._forget, name), by)
            except StartFailed as error:
                raise _gone(name, str(error)) from error
            except (StorageError, OSError) as error:
                raise _gone(name, reason_of(error)) from error
            self._by_name[name] = found
        self._acts.note("namespace", f"reset {name}", by=by)
        return found

    async def remove(self, name: str, by: str | None) -> None:
        """Closes its connections; nothing is left of it. Raises Problem (no-such-namespace)."""
        found = self._changeable(name)
        del self._by_name[name]
        with self._changing(name):
            await self._close(found, keeps_files=False)
            await self._forget(name)
        self._acts.note("namespace", f"removed {name}", by=by)

    def advertise(self, name: str, addresses: Mapping[str, Address], by: str | None) -> None:
        """Has clients be told to come elsewhere. Raises Problem (no-such-namespace, bad-request)."""
        server = self._daemon if name == DEFAULT else self.get(name).server
        there = {endpoint.listener.name for endpoint in server.endpoints}
        for listener in addresses:
            if listener not in there:
                detail = f"{printable(listener)} is not a listener {suggest(listener, sorted(there))}."
                fields = {"pointer": f"/{printable(listener)}"}
                raise Problem(ProblemKind.BAD_REQUEST, "There is no such listener", detail, fields)
        if name == DEFAULT:
            for listener, address in addresses.items():
                server.listeners.advertise(listener, address)
        else:
            self.get(name).advertise(addresses)
        told = ", ".join(f"{listener}={address}" for listener, address in addresses.items())
        self._acts.note("namespace", f"{name} advertises {told}", by=by)

    def control_of(self, name: str) -> "Control | None":
        """The control room about one, None for the daemon's own. Raises Problem as `get`."""
        return None if name == DEFAULT else self.get(name).control

    async def close(self) -> None:
        """Stops all of them, and keeps what is on the disk. What the disk refuses is told in the log."""
        self._is_closed = True
        if self._check is not None:
            self._check.cancel()
        going, self._by_name = self._by_name, {}
        for removal in self._removals:
            removal.cancel()
        await asyncio.gather(*map(self._close, going.values()))
        if self._threads is not None:
            self._threads.close()

    # Making

    def _free_name(self) -> str:
        return next(
            name
            for name in map("n{}".format, self._numbers)
            if name not in self._by_name and name not in self._being_changed
        )

    def _check_new(self, name: str) -> None:
        if _NAME.fullmatch(name) is None:
            detail = (
                "The name of a namespace has 1 to 100 of A-Z, a-z, 0-9, `.`, `_`, `-`; the first is no mark."
            )
            raise Problem(ProblemKind.BAD_REQUEST, "The name cannot be", detail, {"pointer": "/name"})
        if name == DEFAULT or name in self._by_name or name in self._being_changed:
            what = f"There is a namespace {name}"
            raise Problem(ProblemKind.NAME_TAKEN, what, f"{what} already.")
        if self._is_closed:
            raise Problem(
                ProblemKind.LOADING, "The daemon stops", "The daemon stops: it makes no namespaces."
            )
        if len(self._by_name) + len(self._being_changed) >= MOST:
            what = f"There are {MOST} namespaces"
            detail = f"{what}, and no more are made: DELETE /v1/namespaces/NAME removes one."
            raise Problem(ProblemKind.TOO_MANY, what, detail)

    def _changeable(self, name: str) -> Namespace:
        if name == DEFAULT:
            what = "The daemon's own broker stays as it is"
            detail = (
                f"{what}: `{DEFAULT}` is neither reset nor removed. POST /v1/namespaces makes one that is."
            )
            raise Problem(ProblemKind.NOT_POSSIBLE, what, detail)
        return self.get(name)

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        self._being_changed.add(name)
        try:
            yield
        finally:
            self._being_changed.discard(name)

    def _namespace(
        self, name: str, topics: Mapping[str, int], config: Mapping[str, str], *, is_durable: bool
    ) -> Namespace:
        daemon = self._daemon.settings
        address = Address(daemon.listeners[0].address.host, 0)
        directory = self._directory(name) if is_durable else _MEMORY_DIRECTORY

        def files() -> Files:
            return self._files if is_durable else MemoryFiles(self._config.namespace_max_bytes, clock.wall_ms)

        try:
            settings = settings_of(daemon, config, address, files(), directory, in_memory=not is_durable)
        except ConfigError as error:
            pointer = "/config" + "".join(f"/{each}" for each in error.names[:1])
            detail = f"The config is wrong: {error}."
            raise Problem(
                ProblemKind.BAD_REQUEST, "The config is wrong", detail, {"pointer": pointer}
            ) from error
        sockets = self._bound(address)
        return Namespace(
            name,
            sockets,
            lambda: replace(settings, files=files()),
            topics,
            self._server,
            self._make_control,
            is_durable=is_durable,
        )

    def _server(self, settings: ServerSettings) -> Server:
        if self._threads is None:
            self._threads = Threads()
        return Server(settings, self._threads)

    def _bound(self, address: Address) -> list[socket.socket]:
        """Sockets on a port that is free. Raises Problem (not-possible)."""
        ports = self._config.namespace_port_numbers or [0]
        backlog = self._config.socket_listen_backlog_size
        why = ""
        for port in ports:
            try:
                return bind(Address(address.host, port), backlog, LISTEN)
            except StartFailed as error:
                why = str(error)
        what = "There is no port for another namespace"
        raise Problem(ProblemKind.NOT_POSSIBLE, what, f"{what} (namespace.ports): {why}.")

    # Their end

    async def _close(self, namespace: Namespace, *, keeps_files: bool = True) -> None:
        try:
            await namespace.close(keeps_files=keeps_files)
        except (StorageError, OSError) as error:
            _LOG.error("Namespace %s was not stopped cleanly: %s", namespace.name, reason_of(error))

    def _directory(self, name: str) -> str:
        return f"{self._daemon.settings.data_dir}{_DIRECTORY_SUFFIX}/{name}"

    async def _forget(self, name: str) -> None:
        """Removes what is on the disk of one, where there is something. Raises OSError."""
        directory = self._directory(name)
        if self._files.is_directory(directory):
            import shutil  # for the few that are on the disk

            await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, directory)

    def _watch(self) -> None:
        """Looks from time to time for those that nobody needs any more, as long as there are any."""
        timeout_ms = self._config.namespace_idle_timeout_ms
        if self._check is None and self._by_name and timeout_ms > 0 and not self._is_closed:
            after_s = min(_LOOKED_AFTER_S, timeout_ms / 4000)
            self._check = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        self._check = None
        for namespace in self.all():
            if namespace.idle_ms() >= self._config.namespace_idle_timeout_ms:
                del self._by_name[namespace.name]
                removal = asyncio.get_running_loop().create_task(self._leave(namespace))
                self._removals.add(removal)
                removal.add_done_callback(self._removals.discard)
        self._watch()

    async def _leave(self, namespace: Namespace) -> None:
        with self._changing(namespace.name):
            await self._close(namespace)
        self._acts.note(
            "namespace", f"removed {namespace.name}, which nobody needed (namespace.idle.timeout.ms)"
        )


def _gone(name: str, why: str) -> Problem:
    what = f"Namespace {name} cannot be reset, and is gone"
    return Problem(ProblemKind.NOT_POSSIBLE, what, f"{what}: {why}.")
