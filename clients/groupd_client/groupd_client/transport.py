"""The transport of the synchronous client: requests over urllib3, sessions, and the ledger as a sequence."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, overload

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError

from groupd_client.operation import ApiEndpoint, Operation
from groupd_client.value import Value

Send = Callable[[ApiEndpoint, Operation], Any]
"""Sends an operation to an endpoint."""
_CONNECT_S: Final = 10.0
_CONNECTIONS: Final = 8


class Transport:
    """Sends the requests of an `ApiEndpoint`. Several threads may use it."""

    def __init__(self) -> None:
        self._pool = urllib3.PoolManager(retries=False, maxsize=_CONNECTIONS)

    def run(self, through: ApiEndpoint, operation: Operation) -> Any:
        """Send a request and return the response. Raises Problem and Unreachable."""
        __tracebackhide__ = True
        request = through.create_request(operation)
        timeout = urllib3.Timeout(connect=_CONNECT_S, read=request.timeout_s)
        try:
            response = self._pool.request(
                request.method,
                request.url,
                body=request.body,
                headers=request.headers,
                timeout=timeout,
                redirect=False,
            )
        except ReadTimeoutError:
            raise through.create_unreachable(f"it did not answer within {request.timeout_s:g} s") from None
        except NewConnectionError as error:
            raise through.create_unreachable(str(error.__cause__ or error)) from None
        except HTTPError as error:
            raise through.create_unreachable(str(error)) from None
        return through.read_answer(
            operation, response.status, response.headers.get("Content-Type", ""), response.data
        )

    def close(self) -> None:
        """Close all open connections."""
        self._pool.clear()


class ClientSession:
    """The connections of a client, which `close` or the end of a `with` block closes."""

    def __init__(self) -> None:
        self._transport = Transport()

    def close(self) -> None:
        """Close all connections; the daemon continues."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Entries(Sequence[Value], ABC):
    """A ledger as a sequence. Each access requests its entries from the daemon."""

    @abstractmethod
    def entries(self) -> list[Value]:
        """Return all current entries."""

    @abstractmethod
    def text(self) -> str:
        """Return the entries as text for people."""

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | list[Value]:
        return self.entries()[index]

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[Value]:
        return iter(self.entries())

    def __str__(self) -> str:
        return self.text()
