"""The transport of the asynchronous client: requests over aiohttp, sessions, and awaitable results."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import aiohttp

from groupd_client.operation import ApiEndpoint, Operation
from groupd_client.value import Value

Send = Callable[[ApiEndpoint, Operation], Awaitable[Any]]
"""Sends an operation to an endpoint."""
Method = TypeVar("Method", bound=Callable[..., Any])


def sync_property(method: Method) -> Method:
    """Mark a method that is a property of the synchronous client."""
    return method


class AsyncTransport:
    """Sends the requests of an `ApiEndpoint`. Between `open` and `close` it keeps connections. Otherwise each
    operation uses its own connection, so that no connection stays open in an event loop."""

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


class AsyncClientSession:
    """The connections of a client, which an `async with` block keeps and closes."""

    def __init__(self) -> None:
        self._transport = AsyncTransport()

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


class AsyncEntries(ABC):
    """A ledger. `await` returns its entries."""

    @abstractmethod
    async def entries(self) -> list[Value]:
        """Return all current entries."""

    def __await__(self) -> Generator[Any, None, list[Value]]:
        return self.entries().__await__()


class _Context(Protocol):
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Created = TypeVar("Created", bound=_Context)


class Pending(Generic[Created]):
    """A fault or namespace before its creation. `await` creates it; `async with` creates it and removes it at the
    end."""

    def __init__(self, creation: Coroutine[Any, Any, Created]) -> None:
        self._creation = creation
        self._created: Created | None = None

    def __await__(self) -> Generator[Any, None, Created]:
        return self._creation.__await__()

    async def __aenter__(self) -> Created:
        self._created = await self._creation
        return await self._created.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._created is not None, "the block has begun"
        await self._created.__aexit__(kind, error, trace)
