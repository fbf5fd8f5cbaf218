"""A daemon and its brokers: the daemon's own, and namespaces.

`AsyncGroupd` is the client for asyncio. `python -m release.generate_client` writes the synchronous client from it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from groupd_client.async_transport import AsyncClientSession, Pending, Send, sync_property
from groupd_client.asynchronous_group import AsyncClock, AsyncFault, AsyncGroup, AsyncResource
from groupd_client.deprecated_names import FormerNames
from groupd_client.operation import ApiEndpoint, Operation, drop_none, format_property, parse_endpoint
from groupd_client.problem import note_cleanup_error
from groupd_client.value import Value


class AsyncBroker(AsyncResource, FormerNames):
    """The operations of every broker. A request raises Problem if groupd refuses it, Unreachable without groupd."""

    def __init__(self, endpoint: ApiEndpoint, send: Send) -> None:
        super().__init__(self._send_operation)
        self._endpoint = endpoint
        self._send = send

    async def _send_operation(self, operation: Operation) -> Any:
        __tracebackhide__ = True
        return await self._send(self._endpoint, operation)

    @property
    def endpoint(self) -> ApiEndpoint:
        """The endpoint of the broker, for another client of it."""
        return self._endpoint

    @sync_property
    async def description(self) -> Value:
        """Return the current description: `bootstrap`, `listeners`, `topics`, `groups`, `connections`, ..."""
        return await self._call("GET", "namespaces", self._endpoint.namespace or "default")

    async def advertise(self, **addresses: str) -> None:
        """Set the advertised address of listeners for later requests, by listener:
        PLAINTEXT="localhost:49153"."""
        name = self._endpoint.namespace or "default"
        await self._call("PUT", "namespaces", name, "advertised", body=addresses)

    async def topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> Value:
        """Create a topic. The default of `partitions` is the broker's num.partitions. Raises NameTaken."""
        body = drop_none({"name": name, "partitions": partitions, "config": config})
        return await self._call("POST", "topics", body=body)

    async def topics(self) -> list[Any]:
        """Return all topics except internal ones."""
        found: list[Any] = (await self._call("GET", "topics")).topics
        return found

    async def delete_topic(self, name: str) -> None:
        """Delete a topic by its name."""
        await self._call("DELETE", "topics", name)

    def group(self, group_id: str) -> AsyncGroup:
        """Return a group, which need not exist yet."""
        return AsyncGroup(group_id, self._run)

    async def groups(self, *, state: str | None = None, prefix: str | None = None) -> list[Any]:
        """Return the groups, optionally by state and prefix of the id."""
        found: list[Any] = (await self._call("GET", "groups", state=state, prefix=prefix)).groups
        return found

    @property
    def clock(self) -> AsyncClock:
        """The default clock, which all groups without an own clock use."""
        return AsyncClock(None, self._run)

    def fault(
        self,
        name: str | None = None,
        *,
        use: str | None = None,
        match: Mapping[str, Any] | None = None,
        on: Mapping[str, Any] | None = None,
        do: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Pending[AsyncFault]:
        """Create a fault.

        A context manager removes the fault at the end of the block and releases its held requests.

        Args:
            name: the name of the fault; None lets groupd choose one.
            use: a preset, which the other arguments override.
            match: a condition on requests.
            on: a condition on events of groups.
            do: the action.
            more: `times`, `skip`, `probability`, `seed` and `duration` (the API's `for`).
        """
        if "duration" in more:
            more["for"] = more.pop("duration")  # a reserved word in Python
        rule = {"name": name, "use": use, "match": match, "on": on, "do": do, **more}
        return Pending(self._create_fault(rule))

    async def _create_fault(self, rule: Mapping[str, Any]) -> AsyncFault:
        __tracebackhide__ = True
        created = await self._call("POST", "faults", body=drop_none(rule))
        return AsyncFault(created.name, self._run)

    async def remove_faults(self) -> None:
        """Remove all faults and release their held requests."""
        await self._call("DELETE", "faults")

    async def violations(
        self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000
    ) -> list[Any]:
        """Return the violations of the oracles, oldest first. A violation is wrong for every application."""
        return await self._list_findings("violation", group, oracle, limit)

    async def notices(
        self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000
    ) -> list[Any]:
        """Return the notices of the oracles, oldest first. A notice is unusual, but some applications cause it on
        purpose."""
        return await self._list_findings("notice", group, oracle, limit)

    async def _list_findings(
        self, severity: str, group: str | None, oracle: str | None, limit: int
    ) -> list[Any]:
        listed = await self._call(
            "GET", "violations", group=group, oracle=oracle, severity=severity, limit=limit
        )
        found: list[Any] = listed.violations
        return found

    async def text(self, *path: str, **query: Any) -> str:
        """Return a resource as text for people: `broker.text("groups", "billing", "ledger", last=3)`."""
        return await self._read_text(*path, **query)

    async def call(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, lasts_s: float = 0, **query: Any
    ) -> Any:
        """Call any operation of the API, below /v1 or below this namespace: `broker.call("GET", "offsets")`.

        `lasts_s` is the longest wait of the daemon in seconds, which is added to the timeout of the response.
        """
        return await self._call(method, *path, body=body, lasts_s=lasts_s, **query)


class AsyncGroupd(AsyncClientSession, AsyncBroker):
    """A daemon, and the operations of its own broker. The client keeps connections until `close` or the end of a
    block."""

    def __init__(self, url: str | None = None, *, token: str | None = None, actor: str | None = None) -> None:
        """Create a client, without connecting.

        Args:
            url: the HTTP address of the daemon, by default http://127.0.0.1:9080.
            token: the control.token of the daemon.
            actor: a name of this client for the log and the ledger.

        Raises:
            ValueError: the URL is invalid.
        """
        AsyncClientSession.__init__(self)
        AsyncBroker.__init__(self, parse_endpoint(url, token, actor), self._transport.run)

    @property
    def url(self) -> str:
        """The URL of the daemon."""
        return self._endpoint.url

    @sync_property
    async def bootstrap(self) -> str:
        """Return the bootstrap address for clients: HOST:PORT."""
        address: str = (await self.description()).bootstrap
        return address

    def namespace(
        self,
        name: str | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> "Pending[AsyncNamespace]":
        """Create a separate broker on its own port.

        A context manager removes the broker at the end of the block.

        Args:
            name: the name of the namespace; None lets groupd choose one.
            topics: the number of partitions by topic.
            config: properties by Kafka's names.
            durable: whether its files are on the disk instead of in memory.

        Raises:
            NameTaken: the name is already in use.
            BadRequest: a topic or a property is invalid.
        """
        texts = None if config is None else {key: format_property(value) for key, value in config.items()}
        return Pending(
            self._create_namespace(
                {"name": name, "topics": topics, "config": texts, "durable": durable or None}
            )
        )

    async def _create_namespace(self, fields: Mapping[str, Any]) -> "AsyncNamespace":
        __tracebackhide__ = True
        created = await self._call("POST", "namespaces", body=drop_none(fields))
        return AsyncNamespace(replace(self._endpoint, namespace=created.name), self._send, created)

    async def namespaces(self) -> list[Any]:
        """Return all brokers, the daemon's own first."""
        found: list[Any] = (await self._call("GET", "namespaces")).namespaces
        return found

    async def open_namespace(self, name: str) -> "AsyncNamespace":
        """Return an existing namespace. Raises NoSuchNamespace."""
        found = await self._call("GET", "namespaces", name)
        return AsyncNamespace(replace(self._endpoint, namespace=name), self._send, found)


class AsyncNamespace(AsyncBroker):
    """A separate broker in the daemon's process."""

    def __init__(self, endpoint: ApiEndpoint, send: Send, described: Value) -> None:
        """Create the namespace of a description by the daemon. The last description is kept."""
        super().__init__(endpoint, send)
        self.described = described

    @property
    def name(self) -> str:
        """The name of the namespace."""
        name: str = self.described.name
        return name

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients: HOST:PORT."""
        address: str = self.described.bootstrap
        return address

    async def advertise(self, **addresses: str) -> None:
        """Set the advertised addresses for later requests: PLAINTEXT="localhost:49153"."""
        self.described = await self._call("PUT", "namespaces", self.name, "advertised", body=addresses)

    async def reset(self) -> None:
        """Reset the namespace: no groups, no offsets, its first topics, the same port."""
        self.described = await self._call("POST", "namespaces", self.name, "reset")

    async def remove(self) -> None:
        """Remove the namespace and all its data."""
        await self._call("DELETE", "namespaces", self.name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the namespace {self.name}"):
            await self.remove()
