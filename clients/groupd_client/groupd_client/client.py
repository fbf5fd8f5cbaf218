"""`Groupd`: the synchronous client of a daemon."""

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError

from groupd_client import operations
from groupd_client.namespace import Broker, Namespace
from groupd_client.operation import ApiEndpoint, Operation, parse_endpoint

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


class Groupd(Broker):
    """A daemon. The operations of a broker act on the daemon's own broker. Use it in a `with` block, or `close`
    it."""

    def __init__(self, url: str | None = None, *, token: str | None = None, actor: str | None = None) -> None:
        """`url` is the HTTP address, by default http://127.0.0.1:9080; `token` its control.token; `actor` a
        name of this client for the log and the ledger. Raises ValueError for an invalid URL."""
        self._transport = Transport()
        super().__init__(parse_endpoint(url, token, actor), self._transport.run)

    @property
    def url(self) -> str:
        """The URL of the daemon."""
        return self._endpoint.url

    def namespace(
        self,
        name: str | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> Namespace:
        """Create a separate broker on its own port, with files in memory. `name` is chosen by groupd if None;
        `topics` has the number of partitions by topic; `config` has properties by Kafka's names. A context
        manager removes the broker at the end of the block. Raises NameTaken, BadRequest."""
        created = self._run(operations.make_namespace(name, topics, config, durable=durable))
        return Namespace(replace(self._endpoint, namespace=created.name), self._transport.run, created)

    def namespaces(self) -> list[Any]:
        """Return all brokers, the daemon's own first."""
        found: list[Any] = self._run(operations.namespaces()).namespaces
        return found

    def open_namespace(self, name: str) -> Namespace:
        """Return an existing namespace. Raises NoSuchNamespace."""
        found = self._run(operations.describe_namespace(name))
        return Namespace(replace(self._endpoint, namespace=name), self._transport.run, found)

    def close(self) -> None:
        """Close all connections; the daemon continues."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
