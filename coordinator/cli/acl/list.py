"""`groupd acl list`."""

from typing import Any, Final

import click

from coordinator.cli.acl.acls import acls_of
from coordinator.cli.acl.printed import print_acls
from coordinator.cli.acl.resources import as_principal, pattern_of, resource_options, resources_of
from coordinator.cli.broker.command import YES, Asking, broker_command
from coordinator.cli.broker.directory import directory_option
from coordinator.security.acl import (
    AclBinding,
    AclFilter,
    PatternType,
    ResourceType,
    in_order,
)

EPILOG: Final = """What applies to a topic is found with match: ACLs of its name, its prefixes, and '*'. Examples:

\b
groupd acl list
groupd acl list --topic orders --resource-pattern-type match
groupd acl list --principal User:alice --json | jq -r .acls[].resource_name"""


@broker_command(epilog=EPILOG)
@resource_options(is_filter=True)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="TYPE:NAME",
    callback=as_principal,
    help="Only those of.",
)
@directory_option()
def command(asking: Asking, principals: list[str], data_dir: str | None, **named: Any) -> int:
    """List ACLs: all, or those about some resources or principals."""
    pattern_type = pattern_of(named, PatternType.ANY)
    about: list[tuple[ResourceType, str | None]] = [*resources_of(named)]
    by: list[str | None] = [*principals]
    found: set[AclBinding] = set()
    with acls_of(asking, data_dir) as kept:
        for resource_type, name in about or [(ResourceType.ANY, None)]:
            for principal in by or [None]:
                found.update(kept.described(AclFilter(resource_type, name, pattern_type, principal)))
    print_acls(in_order(found), asking, "no ACLs" + (" like that" if about or by else ""))
    return YES
