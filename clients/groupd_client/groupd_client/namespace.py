"""Brokers: the daemon's own, and namespaces."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from groupd_client import operations
from groupd_client.deprecated_names import warn_renamed
from groupd_client.fault import Fault, fault_rule
from groupd_client.group import Clock, Group
from groupd_client.operation import ApiEndpoint, Operation
from groupd_client.problem import note_cleanup_error
from groupd_client.value import Value

Run = Callable[[ApiEndpoint, Operation], Any]
"""Sends an operation to an endpoint."""


class Broker:
    """The operations of every broker."""

    def __init__(self, endpoint: ApiEndpoint, run: Run) -> None:
        self._endpoint = endpoint
        self._send = run

    def _run(self, operation: Operation) -> Any:
        __tracebackhide__ = True
        return self._send(self._endpoint, operation)

    @property
    def endpoint(self) -> ApiEndpoint:
        """The endpoint of the broker, for another client of it."""
        return self._endpoint

    @property
    def door(self) -> ApiEndpoint:
        """Return `endpoint`. Deprecated."""
        warn_renamed("Broker.door", "Broker.endpoint")
        return self._endpoint

    @property
    def description(self) -> Value:
        """The current description: `bootstrap`, `listeners`, `topics`, `groups`, `connections`, ..."""
        found: Value = self._run(operations.describe_namespace(self._endpoint.namespace or "default"))
        return found

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients: HOST:PORT."""
        address: str = self.description.bootstrap
        return address

    def advertise(self, **addresses: str) -> None:
        """Set the advertised addresses for later requests: PLAINTEXT="localhost:49153"."""
        self._run(operations.advertise(self._endpoint.namespace or "default", addresses))

    # Topics

    def topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> Value:
        """Create a topic. Raises NameTaken."""
        created: Value = self._run(operations.make_topic(name, partitions, config))
        return created

    def topics(self) -> list[Any]:
        """Return all topics except internal ones."""
        found: list[Any] = self._run(operations.topics()).topics
        return found

    def delete_topic(self, name: str) -> None:
        """Delete a topic by its name."""
        self._run(operations.delete_topic(name))

    # Groups

    def group(self, group_id: str) -> Group:
        """Return a group, which need not exist yet."""
        return Group(group_id, self._run)

    def groups(self, *, state: str | None = None, prefix: str | None = None) -> list[Any]:
        """Return the groups, optionally by state and prefix of the id."""
        found: list[Any] = self._run(operations.groups(state, prefix)).groups
        return found

    @property
    def clock(self) -> Clock:
        """The clock of all groups without one of their own."""
        return Clock(None, self._run)

    # Faults, violations

    def fault(
        self,
        name: str | None = None,
        *,
        use: str | None = None,
        match: Mapping[str, Any] | None = None,
        on: Mapping[str, Any] | None = None,
        do: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Fault:
        """Create a fault: a preset (`use`), or a condition on requests (`match`) or events (`on`) with an
        action (`do`). `more` has `times`, `skip`, `probability`, `seed` and `duration` (the API's `for`). A
        context manager removes the fault at the end of the block and releases its held requests."""
        created = self._run(operations.make_fault(fault_rule(name, use, match, on, do, more)))
        return Fault(created.name, self._run)

    def remove_faults(self) -> None:
        """Remove all faults and release their held requests."""
        self._run(Operation("DELETE", ("faults",)))

    def violations(
        self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000
    ) -> list[Any]:
        """Return the violations that the oracles found, oldest first: wrong for every application."""
        found: list[Any] = self._run(operations.violations(group, oracle, "violation", limit)).violations
        return found

    def notices(self, *, group: str | None = None, oracle: str | None = None, limit: int = 1000) -> list[Any]:
        """Return the notices of the oracles, oldest first: unusual, but some applications do it on purpose."""
        found: list[Any] = self._run(operations.violations(group, oracle, "notice", limit)).violations
        return found

    # Everything else

    def text(self, *path: str, **query: Any) -> str:
        """Return a resource as text for people: `broker.text("groups", "billing", "ledger", last=3)`."""
        answer: str = self._run(operations.read_text(*path, **query))
        return answer

    def call(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, lasts_s: float = 0, **query: Any
    ) -> Any:
        """Call any operation of the API, below /v1 or below this namespace: `broker.call("GET", "offsets")`."""
        return self._run(Operation(method, path, query, body, lasts_s))


class Namespace(Broker):
    """A separate broker in the daemon's process."""

    def __init__(self, endpoint: ApiEndpoint, run: Run, described: Value) -> None:
        """`described` is the description from the creation."""
        super().__init__(endpoint, run)
        self.described = described
        """The last description of the namespace."""

    @property
    def name(self) -> str:
        """The name of the namespace."""
        name: str = self.described.name
        return name

    @property
    def bootstrap(self) -> str:
        address: str = self.described.bootstrap
        return address

    def advertise(self, **addresses: str) -> None:
        self.described = self._run(operations.advertise(self.name, addresses))

    def reset(self) -> None:
        """Reset the namespace: no groups, no offsets, its first topics, the same port."""
        self.described = self._run(operations.reset_namespace(self.name))

    def remove(self) -> None:
        """Remove the namespace and all its data."""
        self._run(operations.remove_namespace(self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the namespace {self.name}"):
            self.remove()
