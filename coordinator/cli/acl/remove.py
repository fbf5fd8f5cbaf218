"""`groupd acl remove`."""

from typing import Any, Final

import click

from coordinator.cli.acl.acls import acls_of
from coordinator.cli.acl.printed import print_acls
from coordinator.cli.acl.resources import (
    as_principal,
    operation_option,
    operations_of,
    pattern_of,
    resource_options,
    resources_of,
)
from coordinator.cli.broker.command import YES, Asking, broker_command
from coordinator.cli.broker.directory import directory_option
from coordinator.cli.control.failure import Misused
from coordinator.security.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    in_order,
)

EPILOG: Final = """Of what is not given, all is meant; names are literal unless said otherwise. Examples:

\b
groupd acl remove --topic orders
groupd acl remove --allow-principal User:alice --operation read --topic orders- --prefixed
groupd acl remove --all"""


@broker_command(epilog=EPILOG)
@click.option(
    "--allow-principal", "allowed", multiple=True, metavar="TYPE:NAME", callback=as_principal, help="Who may."
)
@click.option(
    "--deny-principal",
    "denied",
    multiple=True,
    metavar="TYPE:NAME",
    callback=as_principal,
    help="Who may not.",
)
@operation_option(is_filter=True)
@resource_options(is_filter=True)
@click.option("--all", "is_all", is_flag=True, help="Every ACL there is.")
@directory_option()
def command(
    asking: Asking,
    allowed: list[str],
    denied: list[str],
    operations: list[str],
    is_all: bool,
    data_dir: str | None,
    **named: Any,
) -> int:
    """Remove ACLs, and show which ones are gone."""
    resources = resources_of(named)
    pattern_type = pattern_of(named, PatternType.LITERAL if resources else PatternType.ANY)
    is_some = bool(allowed or denied or operations or resources)
    if is_some is is_all:
        raise Misused("say which: --topic, --allow-principal, ...; or --all of them")
    by: list[tuple[Permission, str | None]] = [
        *((Permission.ALLOW, each) for each in allowed),
        *((Permission.DENY, each) for each in denied),
    ]
    about: list[tuple[ResourceType, str | None]] = [*resources]
    filters = [
        AclFilter(resource_type, name, pattern_type, principal, operation=operation, permission=permission)
        for permission, principal in by or [(Permission.ANY, None)]
        for operation in operations_of(operations, Operation.ANY)
        for resource_type, name in about or [(ResourceType.ANY, None)]
    ]
    with acls_of(asking, data_dir) as kept:
        gone = kept.delete(filters)
    print_acls(in_order(gone), asking, "no ACLs like that")
    return YES
