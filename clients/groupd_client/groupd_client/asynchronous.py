"""`AsyncGroupd`: the same for asyncio, over aiohttp. Methods and values are those of `Groupd`; everything that
asks the daemon is awaited, also what is a property there."""

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
    """Sends the requests that an `ApiEndpoint` creates: over connections that stay between `open` and `close`, and
    over one for each operation otherwise, so that nothing is left in any event loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def run(self, through: ApiEndpoint, operation: Operation) -> Any:
        """The answer. Raises Problem and Unreachable."""
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
            raise endpoint.create_unreachable(f"it said nothing for {request.timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise endpoint.create_unreachable(str(error)) from None
        return endpoint.read_answer(operation, response.status, kind, data)

    def open(self) -> None:
        """Keeps connections, in the event loop that runs."""
        self._session = self._session or aiohttp.ClientSession()

    async def close(self) -> None:
        """Closes them."""
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
        """As it is now."""
        found: Value = await self._run(operations.describe_namespace(self._endpoint.namespace or "default"))
        return found

    async def advertise(self, **addresses: str) -> None:
        """Has clients that connect from now on be told another address."""
        await self._run(operations.advertise(self._endpoint.namespace or "default", addresses))

    async def topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> Value:
        """Makes a topic."""
        created: Value = await self._run(operations.make_topic(name, partitions, config))
        return created

    async def topics(self) -> list[Any]:
        """Those that are not the broker's own."""
        found: list[Any] = (await self._run(operations.topics())).topics
        return found

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        await self._run(operations.delete_topic(name))

    def group(self, group_id: str) -> AsyncGroup:
        """A group, which need not be there yet."""
        return AsyncGroup(group_id, self._run)

    async def groups(self, *, state: str | None = None, prefix: str | None = None) -> list[Any]:
        """All groups, or some."""
        found: list[Any] = (await self._run(operations.groups(state, prefix))).groups
        return found

    @property
    def clock(self) -> AsyncClock:
        """The clock of all groups that have none of their own."""
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
        """A fault for as long as the block; arguments are those of `Broker.fault`."""
        created = await self._run(operations.make_fault(fault_rule(name, use, match, on, do, more)))
        async with AsyncFault(created.name, self._run) as fault:
            yield fault

    async def remove_faults(self) -> None:
        """All of them."""
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
        """Something of the API as people read it."""
        answer: str = await self._run(operations.read_text(*path, **query))
        return answer

    async def call(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, lasts_s: float = 0, **query: Any
    ) -> Any:
        """Any operation of the API."""
        return await self._run(Operation(method, path, query, body, lasts_s))


class AsyncGroupd(AsyncBroker):
    """A daemon, for asyncio. In an `async with` it keeps its connections."""

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
        """Makes a broker of its own, which is gone at the end of an `async with`."""
        created = await self._run(operations.make_namespace(name, topics, config, durable=durable))
        return AsyncNamespace(replace(self._endpoint, namespace=created.name), self._transport.run, created)

    async def namespaces(self) -> list[Any]:
        """What brokers there are, its own first."""
        found: list[Any] = (await self._run(operations.namespaces())).namespaces
        return found

    async def open_namespace(self, name: str) -> "AsyncNamespace":
        """A namespace that is there. Raises NoSuchNamespace."""
        found = await self._run(operations.describe_namespace(name))
        return AsyncNamespace(replace(self._endpoint, namespace=name), self._transport.run, found)

    async def close(self) -> None:
        """Closes its connections; the daemon goes on."""
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
        """As the daemon knows it."""
        name: str = self._described.name
        return name

    @property
    def bootstrap(self) -> str:
        """What clients connect to first: HOST:PORT."""
        address: str = self._described.bootstrap
        return address

    async def advertise(self, **addresses: str) -> None:
        self._described = await self._run(operations.advertise(self.name, addresses))

    async def reset(self) -> None:
        """Has it be as it was when it was made."""
        self._described = await self._run(operations.reset_namespace(self.name))

    async def remove(self) -> None:
        """Nothing is left of it."""
        await self._run(operations.remove_namespace(self.name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the namespace {self.name}"):
            await self.remove()
