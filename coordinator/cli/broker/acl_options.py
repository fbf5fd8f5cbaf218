"""What people write on the command line about resources, patterns and operations."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import click

from coordinator.cli.control.failure import Misused
from coordinator.security.acl import CLUSTER_NAME, Operation, PatternType, ResourceType

_BY_NAME: Final = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
    "delegation_tokens": ResourceType.DELEGATION_TOKEN,
    "user_principals": ResourceType.USER,
}
_PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_FILTERS: Final = {**_PATTERNS, "any": PatternType.ANY, "match": PatternType.MATCH}

OPERATIONS: Final = {
    "".join(part.capitalize() for part in each.name.split("_")): each
    for each in Operation
    if each >= Operation.ALL
}
"""As kafka-acls calls them: `DescribeConfigs`."""


class Resource(NamedTuple):
    """A type and a name."""

    type: ResourceType
    name: str


def resource_options(*, is_filter: bool) -> Callable[[Any], Any]:
    """--topic, --group and so on, and what kind of names these are: passed on as `resources` and `pattern_type`, by
    way of `gathered`."""
    patterns = _FILTERS if is_filter else _PATTERNS
    default = "any" if is_filter else "literal"

    def declare(run: Any) -> Any:
        for option in reversed(
            (
                _named("--topic", "topics", "A topic; '*' is every one."),
                _named("--group", "groups", "A group."),
                _named("--transactional-id", "transactional_ids", "A transactional id."),
                _named("--delegation-token", "delegation_tokens", "A delegation token."),
                _named("--user-principal", "user_principals", "A user, as User:NAME."),
                click.option("--cluster", "is_cluster", is_flag=True, help="The cluster."),
                click.option(
                    "--prefixed", "is_prefixed", is_flag=True, help="The names are how others begin."
                ),
                click.option(
                    "--resource-pattern-type",
                    "pattern",
                    type=click.Choice(list(patterns), case_sensitive=False),
                    help=f"What the names are. [default: {default}]",
                ),
            )
        ):
            run = option(run)
        return run

    return declare


def _named(option: str, name: str, text: str) -> Callable[[Any], Any]:
    return click.option(option, name, multiple=True, metavar="NAME", callback=_not_empty, help=text)


def _not_empty(_: click.Context, __: click.Parameter, values: Sequence[str]) -> Sequence[str]:
    if "" in values:
        raise click.BadParameter("the empty name is none")
    return values


def resources_of(named: dict[str, Any]) -> list[Resource]:
    """In: the parameters that `resource_options` declares; they are taken out."""
    found = [Resource(kind, name) for key, kind in _BY_NAME.items() for name in named.pop(key)]
    if named.pop("is_cluster"):
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME))
    return found


def pattern_of(named: dict[str, Any], default: PatternType) -> PatternType:
    """The same for the kind of names. Raises Misused."""
    is_prefixed, pattern = named.pop("is_prefixed"), named.pop("pattern")
    if is_prefixed and pattern not in (None, "prefixed"):
        raise Misused(f"--prefixed and --resource-pattern-type {pattern} contradict each other")
    if is_prefixed:
        return PatternType.PREFIXED
    return default if pattern is None else _FILTERS[pattern]


def operation_option(*, is_filter: bool) -> Callable[[Any], Any]:
    """--operation, passed on as `operations`: what `operations_of` takes."""
    default = "any" if is_filter else "All"
    return click.option(
        "--operation",
        "operations",
        multiple=True,
        type=click.Choice(list(OPERATIONS), case_sensitive=False),
        help=f"What is done; may be repeated. [default: {default}]",
    )


def operations_of(names: Sequence[str], default: Operation) -> list[Operation]:
    """In: as `operation_option` passes them on."""
    return [OPERATIONS[name] for name in dict.fromkeys(names)] or [default]


def as_principal(_: click.Context, __: click.Parameter, values: Sequence[str]) -> list[str]:
    """The values of an option for principals."""
    for value in values:
        if value.find(":") < 1:
            raise click.BadParameter("a principal has a type and a name: User:alice, or User:*")
    return list(dict.fromkeys(values))
