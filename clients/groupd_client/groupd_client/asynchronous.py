"""`AsyncGroupd`: the client for asyncio, over aiohttp. It has the methods and values of `Groupd`. Every call to
the daemon is awaited; properties of `Groupd` with such a call are methods here."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import aiohttp

from groupd_client import operations
from groupd_client.asynchronous_group import AsyncClock, AsyncFault, AsyncGroup
from groupd_client.fault import fault_rule
from groupd_client.operation import ApiEndpoint, Operation, parse_endpoint
from groupd_client.problem import note_cleanup_error
from groupd_client.value import Value

Send = Callable[[ApiEndpoint, Operation], Awaitable[Any]]


class AsyncTransport:
    """Sends the requests of an `ApiEndpoint`. Between `open` and `close` it keeps connections; otherwise each
    operation uses its own, so that none stays open in an event loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def run(self, through: ApiEndpoint, operation: Operation) -> Any:
        """Send a request and return the response. Raises Problem and Unreachable."""
        __tracebackhide__ = True
        if self._session is not None:
            return await self._send_request(self._session, through, operation)
        async with aiohttp.ClientSession() as session:
            return await self._send_request(session, through, operation)

    @staticmethod
    async def _send_request(
        session: aiohttp.ClientSession, endpoint: ApiEndpoint, operation: Operation
    ) -> Any:
        __tracebackhide__ = True
        request = endpoint.create_request(operation)
        try:
            async with session.request(
                request.method,
                request.url,
                data=request.body,
                headers=request.headers,
                timeout=aiohttp.ClientTimeout(request.timeout_s),
                allow_redirects=False,
            ) as response:
                kind, data = response.headers.get("Content-Type", ""), await response.read()
        except TimeoutError:
            raise endpoint.create_unreachable(f"it did not answer within {request.timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise endpoint.create_unreachable(str(error)) from None
        return endpoint.read_answer(operation, response.status, kind, data)

    def open(self) -> None:
        """Keep connections in the running event loop."""
        self._session = self._session or aiohttp.ClientSession()

    async def close(self) -> None:
        """Close the kept connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class AsyncBroker:
    def __init__(self, endpoint: ApiEndpoint, send: Send) -> None:
        self._endpoint = endpoint
        self._send = send

    async def _run(self, operation: Operation) -> Any:
        __tracebackhide__ = True
        return await self._send(self._endpoint, operation)

    async def description(self) -> Value:
        """Return the current description."""
        found: Value = await self._run(operations.describe_namespace(self._endpoint.namespace or "default"))
        return found

    async def advertise(self, **addresses: str) -> None:
        """Set the advertised addresses for later requests."""
        await self._run(operations.advertise(self._endpoint.namespace or "default", addresses))

    async def topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> Value:
        """Create a topic. Raises NameTaken."""
        created: Value = await self._run(operations.make_topic(name, partitions, config))
        return created

    async def topics(self) -> list[Any]:
        """Return all topics except internal ones."""
        found: list[Any] = (await self._run(operations.topics())).topics
        return found

    async def delete_topic(self, name: str) -> None:
        """Delete a topic by its name."""
        await self._run(operations.delete_topic(name))

    def group(self, group_id: str) -> AsyncGroup:
        """Return a group, which need not exist yet."""
        return AsyncGroup(group_id, self._run)

    async def groups(self, *, state: str | None = None, prefix: str | None = None) -> list[Any]:
        """Return the groups, optionally by state and prefix of the id."""
        found: list[Any] = (await self._run(operations.groups(state, prefix))).groups
        return found

    @property
    def clock(self) -> AsyncClock:
        """The clock of all groups without one of their own."""
        return AsyncClock(None, self._run)

    @asynccontextmanager
    async def fault(
        self,
        name: str | None = None,
        *,
        use: str | None = None,
        match: Mapping[str, Any] | None = None,
        on: Mapping[str, Any] | None = None,
        do: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[AsyncFault]:
        """Create a fault for the block, with the arguments of `Broker.fault`."""
        created = await self._run(operations.make_fault(fault_rule(name, use, match, on, do, more)))
        async with AsyncFault(created.name, self._run) as fault:
            yield fault

    async def remove_faults(self) -> None:
        """Remove all faults and release their held requests."""
        await self._run(Operation("DELETE", ("faults",)))

    async def violations(
        self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000
    ) -> list[Any]:
        """Return the violations that the oracles found, oldest first: wrong for every application."""
        answer = await self._run(operations.violations(group, oracle, "violation", limit))
        found: list[Any] = answer.violations
        return found

    async def notices(
        self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000
    ) -> list[Any]:
        """Return the notices of the oracles, oldest first: unusual, but some applications do it on purpose."""
        answer = await self._run(operations.violations(group, oracle, "notice", limit))
        found: list[Any] = answer.violations
        return found

    async def text(self, *path: str, **query: Any) -> str:
        """Return a resource as text for people."""
        answer: str = await self._run(operations.read_text(*path, **query))
        return answer

    async def call(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, lasts_s: float = 0, **query: Any
    ) -> Any:
        """Call any operation of the API."""
        return await self._run(Operation(method, path, query, body, lasts_s))


class AsyncGroupd(AsyncBroker):
    """A daemon, for asyncio. It keeps its connections in an `async with` block."""

    def __init__(self, url: str | None = None, *, token: str | None = None, actor: str | None = None) -> None:
        self._transport = AsyncTransport()
        super().__init__(parse_endpoint(url, token, actor), self._transport.run)

    async def namespace(
        self,
        name: str | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> "AsyncNamespace":
        """Create a separate broker; an `async with` block removes it at its end."""
        created = await self._run(operations.make_namespace(name, topics, config, durable=durable))
        return AsyncNamespace(replace(self._endpoint, namespace=created.name), self._transport.run, created)

    async def namespaces(self) -> list[Any]:
        """Return all brokers, the daemon's own first."""
        found: list[Any] = (await self._run(operations.namespaces())).namespaces
        return found

    async def open_namespace(self, name: str) -> "AsyncNamespace":
        """Return an existing namespace. Raises NoSuchNamespace."""
        found = await self._run(operations.describe_namespace(name))
        return AsyncNamespace(replace(self._endpoint, namespace=name), self._transport.run, found)

    async def close(self) -> None:
        """Close all connections; the daemon continues."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncNamespace(AsyncBroker):
    def __init__(self, endpoint: ApiEndpoint, send: Send, described: Value) -> None:
        super().__init__(endpoint, send)
        self._described = described

    @property
    def name(self) -> str:
        """The name of the namespace."""
        name: str = self._described.name
        return name

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients: HOST:PORT."""
        address: str = self._described.bootstrap
        return address

    async def advertise(self, **addresses: str) -> None:
        self._described = await self._run(operations.advertise(self.name, addresses))

    async def reset(self) -> None:
        """Reset the namespace to its initial state."""
        self._described = await self._run(operations.reset_namespace(self.name))

    async def remove(self) -> None:
        """Remove the namespace and all its data."""
        await self._run(operations.remove_namespace(self.name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the namespace {self.name}"):
            await self.remove()
