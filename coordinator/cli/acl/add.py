"""`groupd acl add`."""

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
    ANYTHING,
    OPERATIONS_ON,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    in_order,
    why_invalid,
)

EPILOG: Final = """Every combination of what is given becomes an ACL of its own. Examples:

\b
groupd acl add --allow-principal User:alice --operation read --topic orders --group '*'
groupd acl add --allow-principal User:alice --operation write --topic orders- --prefixed
groupd acl add --allow-principal User:alice --topic orders --data-dir /var/lib/groupd
groupd acl add --deny-principal 'User:*' --deny-host 10.0.0.0/8 --topic payments"""


@broker_command(epilog=EPILOG)
@click.option(
    "--allow-principal",
    "allowed",
    multiple=True,
    metavar="TYPE:NAME",
    callback=as_principal,
    help="Who may: User:alice; 'User:*' is everybody.",
)
@click.option(
    "--deny-principal",
    "denied",
    multiple=True,
    metavar="TYPE:NAME",
    callback=as_principal,
    help="Who may not.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Where from: an address, or a range of them.",
)
@click.option("--deny-host", "denied_hosts", multiple=True, metavar="HOST", help="The same for who may not.")
@operation_option(is_filter=False)
@resource_options(is_filter=False)
@directory_option()
def command(
    asking: Asking,
    allowed: list[str],
    denied: list[str],
    allowed_hosts: list[str],
    denied_hosts: list[str],
    operations: list[str],
    data_dir: str | None,
    **named: Any,
) -> int:
    """Allow or deny principals operations on resources, and show the ACLs for it."""
    pattern_type = pattern_of(named, PatternType.LITERAL)
    resources = resources_of(named)
    if not resources:
        raise Misused("say for what: --topic, --group, --transactional-id, --cluster, ...")
    if not allowed and not denied:
        raise Misused("say for whom: --allow-principal or --deny-principal")
    for option, hosts, principals in (("allow", allowed_hosts, allowed), ("deny", denied_hosts, denied)):
        if hosts and not principals:
            raise Misused(f"--{option}-host needs --{option}-principal")
    acls = in_order(
        {
            AclBinding(resource.type, resource.name, pattern_type, principal, host, operation, permission)
            for permission, principals, hosts in (
                (Permission.ALLOW, allowed, allowed_hosts),
                (Permission.DENY, denied, denied_hosts),
            )
            for principal in principals
            for host in hosts or (ANYTHING,)
            for operation in operations_of(operations, Operation.ALL)
            for resource in resources
        }
    )
    for acl in acls:
        why = why_invalid(acl) or _why_meaningless(acl)
        if why is not None:
            raise Misused(why)
    with acls_of(asking, data_dir) as kept:
        kept.create(acls)
    print_acls(acls, asking, "")
    return YES


def _why_meaningless(acl: AclBinding) -> str | None:
    """A broker takes such a one, and never asks for it."""
    meant = (Operation.ALL, *OPERATIONS_ON[acl.resource_type])
    if acl.operation in meant:
        return None
    return (
        f"{acl.operation.name} is not done to a {acl.resource_type.name}; "
        f"there is: {', '.join(each.name for each in meant)}"
    )
