"""Every operation that a client offers by name: one function each, used by both clients."""

from collections.abc import Mapping
from typing import Any

from groupd_client.operation import Operation, Span, seconds

DEFAULT_WAIT = "10s"
DEFAULT_SETTLE = "5s"
Fields = Mapping[str, Any]


def _drop_none(**fields: Any) -> dict[str, Any]:
    """What was said."""
    return {name: value for name, value in fields.items() if value is not None}


# Namespaces and topics


def make_namespace(
    name: str | None, topics: Mapping[str, int] | None, config: Mapping[str, str] | None, *, durable: bool
) -> Operation:
    """A broker of its own."""
    texts = None if config is None else {key: _format_property(value) for key, value in config.items()}
    body = _drop_none(name=name, topics=topics, config=texts, durable=durable or None)
    return Operation("POST", ("namespaces",), body=body)


def _format_property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def namespaces() -> Operation:
    """All of them."""
    return Operation("GET", ("namespaces",))


def describe_namespace(name: str) -> Operation:
    """One of them."""
    return Operation("GET", ("namespaces", name))


def remove_namespace(name: str) -> Operation:
    """Nothing is left of it."""
    return Operation("DELETE", ("namespaces", name))


def reset_namespace(name: str) -> Operation:
    """As it was when it was made."""
    return Operation("POST", ("namespaces", name, "reset"))


def advertise(name: str, addresses: Mapping[str, str]) -> Operation:
    """What clients are told to connect to, by listener."""
    return Operation("PUT", ("namespaces", name, "advertised"), body=addresses)


def topics() -> Operation:
    """All that are not the broker's own."""
    return Operation("GET", ("topics",))


def make_topic(name: str, partitions: int | None, config: Mapping[str, str] | None) -> Operation:
    return Operation("POST", ("topics",), body=_drop_none(name=name, partitions=partitions, config=config))


def delete_topic(name: str) -> Operation:
    return Operation("DELETE", ("topics", name))


# Groups


def groups(state: str | None, prefix: str | None) -> Operation:
    """All, or some."""
    return Operation("GET", ("groups",), query={"state": state, "prefix": prefix})


def group_operation(
    method: str, group: str, *path: str, body: Fields | None = None, **query: Any
) -> Operation:
    """Whatever is asked of one group and answered at once."""
    return Operation(method, ("groups", group, *path), query=query, body=body)


def wait(group: str, conditions: Fields, within: Span) -> Operation:
    """Answered when the group is so."""
    body = {**_drop_none(**conditions), "within": within}
    return Operation("POST", ("groups", group, "wait"), body=body, lasts_s=seconds(within))


def check(group: str, conditions: Fields) -> Operation:
    """Whether the group is so now."""
    return Operation("POST", ("groups", group, "check"), body=_drop_none(**conditions))


def read_text(*path: str, **query: Any) -> Operation:
    """Something as people read it."""
    return Operation("GET", path, query=query, is_text=True)


def failover(
    group: str, not_coordinator: Span, loading: Span, settle: Span, to: int | None = None
) -> Operation:
    """The coordinator moves, to another broker or back."""
    body: dict[str, Any] = {"not_coordinator": not_coordinator, "loading": loading, "settle": settle}
    if to is not None:
        body["to"] = to
    lasts_s = seconds(not_coordinator) + seconds(loading) + seconds(settle)
    return Operation("POST", ("groups", group, "failover"), body=body, lasts_s=lasts_s)


# Clocks: of a group, or of all (None)


def clock(
    group: str | None, method: str, *path: str, body: Fields | None = None, lasts_s: float = 0
) -> Operation:
    """Something about a clock."""
    of = ("clock",) if group is None else ("groups", group, "clock")
    return Operation(method, (*of, *path), body=body, lasts_s=lasts_s)


def advance(group: str | None, by: Span, silent: list[str] | None, settle: Span) -> Operation:
    """So much time passes."""
    body = _drop_none(by=by, silent=silent, settle=settle)
    return clock(group, "POST", "advance", body=body, lasts_s=seconds(settle) * 10)


def step(group: str | None, silent: list[str] | None, settle: Span) -> Operation:
    """Time passes until something happens."""
    return clock(
        group, "POST", "step", body=_drop_none(silent=silent, settle=settle), lasts_s=seconds(settle) * 10
    )


# Faults, violations


def make_fault(rule: Fields) -> Operation:
    """A fault."""
    return Operation("POST", ("faults",), body=_drop_none(**rule))


def fault(method: str, name: str, *path: str, body: Fields | None = None) -> Operation:
    """Something about a fault."""
    return Operation(method, ("faults", name, *path), body=body)


def wait_for_hit(name: str, hit: int, within: Span) -> Operation:
    """Answered when a fault has hit so often."""
    body = {"hit": hit, "within": within}
    return Operation("POST", ("faults", name, "wait"), body=body, lasts_s=seconds(within))


def violations(group: str | None, oracle: str | None, severity: str, limit: int) -> Operation:
    """List the findings of the oracles with one severity: "violation" or "notice"."""
    query = {"group": group, "oracle": oracle, "severity": severity, "limit": limit}
    return Operation("GET", ("violations",), query=query)
