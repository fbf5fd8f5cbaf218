"""`Groupd`: a daemon, asked over HTTP by a program that waits for the answer."""

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
    """Sends the requests that an `ApiEndpoint` creates. May be used in several threads."""

    def __init__(self) -> None:
        self._pool = urllib3.PoolManager(retries=False, maxsize=_CONNECTIONS)

    def run(self, through: ApiEndpoint, operation: Operation) -> Any:
        """The answer. Raises Problem and Unreachable."""
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
            raise through.create_unreachable(f"it said nothing for {request.timeout_s:g} s") from None
        except NewConnectionError as error:
            raise through.create_unreachable(str(error.__cause__ or error)) from None
        except HTTPError as error:
            raise through.create_unreachable(str(error)) from None
        return through.read_answer(
            operation, response.status, response.headers.get("Content-Type", ""), response.data
        )

    def close(self) -> None:
        """Closes its connections."""
        self._pool.clear()


class Groupd(Broker):
    """A daemon; what a broker can be asked is asked of its own one. Use it in a `with`, or `close` it."""

    def __init__(self, url: str | None = None, *, token: str | None = None, actor: str | None = None) -> None:
        """In: where its HTTP port is (http://127.0.0.1:9080 by itself); what it has as control.token; who asks, in
        words for its log and its ledger. Raises ValueError for what is no URL."""
        self._transport = Transport()
        super().__init__(parse_endpoint(url, token, actor), self._transport.run)

    @property
    def url(self) -> str:
        """Where it is asked."""
        return self._endpoint.url

    def namespace(
        self,
        name: str | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> Namespace:
        """Makes a broker of its own, on a port of its own, with files in memory. In: a name, or groupd finds one;
        partitions by topic; properties, by Kafka's names. Raises NameTaken, BadRequest. As a context manager it is
        gone at the end of the block."""
        created = self._run(operations.make_namespace(name, topics, config, durable=durable))
        return Namespace(replace(self._endpoint, namespace=created.name), self._transport.run, created)

    def namespaces(self) -> list[Any]:
        """What brokers there are, its own first."""
        found: list[Any] = self._run(operations.namespaces()).namespaces
        return found

    def open_namespace(self, name: str) -> Namespace:
        """A namespace that is there. Raises NoSuchNamespace."""
        found = self._run(operations.describe_namespace(name))
        return Namespace(replace(self._endpoint, namespace=name), self._transport.run, found)

    def close(self) -> None:
        """Closes its connections; the daemon goes on."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
