"""Options of the command line for resources, patterns and operations."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import click

from coordinator.cli.command_errors import InvalidArguments
from coordinator.security.core.acl import CLUSTER_NAME, AclOperation, PatternType, ResourceType

_TYPES_BY_PARAMETER: Final = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
    "delegation_tokens": ResourceType.DELEGATION_TOKEN,
    "user_principals": ResourceType.USER,
}
_PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_FILTER_PATTERNS: Final = {**_PATTERNS, "any": PatternType.ANY, "match": PatternType.MATCH}

OPERATIONS_BY_NAME: Final = {
    "".join(part.capitalize() for part in each.name.split("_")): each
    for each in AclOperation
    if each >= AclOperation.ALL
}
"""The operations by the names of kafka-acls, such as `DescribeConfigs`."""


class NamedResource(NamedTuple):
    """The type and the name of a resource."""

    type: ResourceType
    name: str


def resource_options(*, is_filter: bool) -> Callable[[Any], Any]:
    """Add --topic, --group and so on, with the pattern type. `pop_resources` and `pop_pattern_type` read their
    values from the parameters of the command."""
    patterns = _FILTER_PATTERNS if is_filter else _PATTERNS
    default = "any" if is_filter else "literal"

    def declare(run: Any) -> Any:
        for option in reversed(
            (
                _create_name_option("--topic", "topics", "A topic; '*' means every topic."),
                _create_name_option("--group", "groups", "A group."),
                _create_name_option("--transactional-id", "transactional_ids", "A transactional id."),
                _create_name_option("--delegation-token", "delegation_tokens", "A delegation token."),
                _create_name_option("--user-principal", "user_principals", "A user, as User:NAME."),
                click.option("--cluster", "is_cluster", is_flag=True, help="The cluster."),
                click.option("--prefixed", "is_prefixed", is_flag=True, help="The names are prefixes."),
                click.option(
                    "--resource-pattern-type",
                    "pattern",
                    type=click.Choice(list(patterns), case_sensitive=False),
                    help=f"How to match the names. [default: {default}]",
                ),
            )
        ):
            run = option(run)
        return run

    return declare


def _create_name_option(option: str, name: str, text: str) -> Callable[[Any], Any]:
    return click.option(option, name, multiple=True, metavar="NAME", callback=_check_not_empty, help=text)


def _check_not_empty(_: click.Context, __: click.Parameter, values: Sequence[str]) -> Sequence[str]:
    if "" in values:
        raise click.BadParameter("a name must not be empty")
    return values


def pop_resources(named: dict[str, Any]) -> list[NamedResource]:
    """Remove the parameters of `resource_options` from `named` and return their resources."""
    found = [
        NamedResource(kind, name) for key, kind in _TYPES_BY_PARAMETER.items() for name in named.pop(key)
    ]
    if named.pop("is_cluster"):
        found.append(NamedResource(ResourceType.CLUSTER, CLUSTER_NAME))
    return found


def pop_pattern_type(named: dict[str, Any], default: PatternType) -> PatternType:
    """Take the pattern type out of the parameters that `resource_options` declares. Raises InvalidArguments."""
    is_prefixed, pattern = named.pop("is_prefixed"), named.pop("pattern")
    if is_prefixed and pattern not in (None, "prefixed"):
        raise InvalidArguments(f"--prefixed and --resource-pattern-type {pattern} contradict each other")
    if is_prefixed:
        return PatternType.PREFIXED
    return default if pattern is None else _FILTER_PATTERNS[pattern]


def operation_option(*, is_filter: bool) -> Callable[[Any], Any]:
    """Create the option --operation. Its values are passed as `operations`, the argument of
    `parse_operations`."""
    default = "any" if is_filter else "All"
    return click.option(
        "--operation",
        "operations",
        multiple=True,
        type=click.Choice(list(OPERATIONS_BY_NAME), case_sensitive=False),
        help=f"An operation; may be repeated. [default: {default}]",
    )


def parse_operations(names: Sequence[str], default: AclOperation) -> list[AclOperation]:
    """Parse the values of `operation_option`; without any, return `default`."""
    return [OPERATIONS_BY_NAME[name] for name in dict.fromkeys(names)] or [default]


def parse_principals(_: click.Context, __: click.Parameter, values: Sequence[str]) -> list[str]:
    """Check the values of an option for principals. Return each value once."""
    for value in values:
        if value.find(":") < 1:
            raise click.BadParameter("a principal must have a type and a name: User:alice, or User:*")
    return list(dict.fromkeys(values))
