"""Every operation that a client offers by name: one function each, used by both clients."""

from collections.abc import Mapping
from typing import Any

from groupd_client.operation import Operation, Span, seconds

DEFAULT_WAIT = "10s"
DEFAULT_SETTLE = "5s"
Fields = Mapping[str, Any]


def _drop_none(**fields: Any) -> dict[str, Any]:
    """Return the fields with a value."""
    return {name: value for name, value in fields.items() if value is not None}


# Namespaces and topics


def make_namespace(
    name: str | None, topics: Mapping[str, int] | None, config: Mapping[str, str] | None, *, durable: bool
) -> Operation:
    """Create a namespace, which is a separate broker."""
    texts = None if config is None else {key: _format_property(value) for key, value in config.items()}
    body = _drop_none(name=name, topics=topics, config=texts, durable=durable or None)
    return Operation("POST", ("namespaces",), body=body)


def _format_property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def namespaces() -> Operation:
    """List all namespaces."""
    return Operation("GET", ("namespaces",))


def describe_namespace(name: str) -> Operation:
    """Describe one namespace by its name."""
    return Operation("GET", ("namespaces", name))


def remove_namespace(name: str) -> Operation:
    """Remove the namespace and all its data."""
    return Operation("DELETE", ("namespaces", name))


def reset_namespace(name: str) -> Operation:
    """Reset a namespace to its initial state."""
    return Operation("POST", ("namespaces", name, "reset"))


def advertise(name: str, addresses: Mapping[str, str]) -> Operation:
    """Set the advertised address of each listener."""
    return Operation("PUT", ("namespaces", name, "advertised"), body=addresses)


def topics() -> Operation:
    """List all topics except internal ones."""
    return Operation("GET", ("topics",))


def make_topic(name: str, partitions: int | None, config: Mapping[str, str] | None) -> Operation:
    return Operation("POST", ("topics",), body=_drop_none(name=name, partitions=partitions, config=config))


def delete_topic(name: str) -> Operation:
    return Operation("DELETE", ("topics", name))


# Groups


def groups(state: str | None, prefix: str | None) -> Operation:
    """List groups, optionally by state and prefix of the id."""
    return Operation("GET", ("groups",), query={"state": state, "prefix": prefix})


def group_operation(
    method: str, group: str, *path: str, body: Fields | None = None, **query: Any
) -> Operation:
    """Call an operation on one group that returns at once."""
    return Operation(method, ("groups", group, *path), query=query, body=body)


def wait(group: str, conditions: Fields, within: Span) -> Operation:
    """Wait until a group meets the conditions."""
    body = {**_drop_none(**conditions), "within": within}
    return Operation("POST", ("groups", group, "wait"), body=body, lasts_s=seconds(within))


def check(group: str, conditions: Fields) -> Operation:
    """Check whether a group meets the conditions now."""
    return Operation("POST", ("groups", group, "check"), body=_drop_none(**conditions))


def read_text(*path: str, **query: Any) -> Operation:
    """Read a resource as text for people."""
    return Operation("GET", path, query=query, is_text=True)


def failover(
    group: str, not_coordinator: Span, loading: Span, settle: Span, to: int | None = None
) -> Operation:
    """Move the coordinator of a group to another broker, or reload it."""
    body: dict[str, Any] = {"not_coordinator": not_coordinator, "loading": loading, "settle": settle}
    if to is not None:
        body["to"] = to
    lasts_s = seconds(not_coordinator) + seconds(loading) + seconds(settle)
    return Operation("POST", ("groups", group, "failover"), body=body, lasts_s=lasts_s)


# Clocks: of a group, or of all (None)


def clock(
    group: str | None, method: str, *path: str, body: Fields | None = None, lasts_s: float = 0
) -> Operation:
    """Call an operation on a clock."""
    of = ("clock",) if group is None else ("groups", group, "clock")
    return Operation(method, (*of, *path), body=body, lasts_s=lasts_s)


def advance(group: str | None, by: Span, silent: list[str] | None, settle: Span) -> Operation:
    """Advance a clock by a duration."""
    body = _drop_none(by=by, silent=silent, settle=settle)
    return clock(group, "POST", "advance", body=body, lasts_s=seconds(settle) * 10)


def step(group: str | None, silent: list[str] | None, settle: Span) -> Operation:
    """Advance a clock to its next deadline."""
    return clock(
        group, "POST", "step", body=_drop_none(silent=silent, settle=settle), lasts_s=seconds(settle) * 10
    )


# Faults, violations


def make_fault(rule: Fields) -> Operation:
    """Create a fault from its rule."""
    return Operation("POST", ("faults",), body=_drop_none(**rule))


def fault(method: str, name: str, *path: str, body: Fields | None = None) -> Operation:
    """Call an operation on a fault."""
    return Operation(method, ("faults", name, *path), body=body)


def wait_for_hit(name: str, hit: int, within: Span) -> Operation:
    """Wait until a fault has a number of hits."""
    body = {"hit": hit, "within": within}
    return Operation("POST", ("faults", name, "wait"), body=body, lasts_s=seconds(within))


def violations(group: str | None, oracle: str | None, severity: str, limit: int) -> Operation:
    """List the findings of the oracles with one severity: "violation" or "notice"."""
    query = {"group": group, "oracle": oracle, "severity": severity, "limit": limit}
    return Operation("GET", ("violations",), query=query)
