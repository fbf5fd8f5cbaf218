"""`groupd acl`: list, add and remove ACLs, at a broker or in the directory of a stopped daemon."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import click

from coordinator.broker.security_file import SecurityFile
from coordinator.cli.broker.acl_options import (
    operation_option,
    parse_operations,
    parse_principals,
    pop_pattern_type,
    pop_resources,
    resource_options,
)
from coordinator.cli.broker.broker_acls import BrokerAcls
from coordinator.cli.broker.broker_command import (
    YES,
    BrokerContext,
    broker_command,
    directory_option,
    edit_security_file,
)
from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand
from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.daemon_command import print_json
from coordinator.cli.table_output import print_table
from coordinator.cli.text_table import Column, format_cell
from coordinator.security.core.acl import (
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    sort_acls,
    why_invalid,
)

SUBCOMMANDS: Final = {
    "add": Subcommand("cli.broker.acl_commands:add_acls", "Add ACLs that allow or deny an operation."),
    "list": Subcommand("cli.broker.acl_commands:list_acls", "List ACLs."),
    "remove": Subcommand("cli.broker.acl_commands:remove_acls", "Remove ACLs."),
}


@click.group(cls=DefaultSubcommand, default="list", subcommands=SUBCOMMANDS)
def acl() -> None:
    """List, add and remove ACLs, as kafka-acls does. `groupd acl` without a subcommand lists them.

    The command connects to a daemon or to any Kafka broker. With --data-dir it changes the directory of a stopped
    daemon.
    """


class AclStore(Protocol):
    """A store of ACLs. All methods raise ServerUnreachable, and BrokerError if the broker refuses."""

    def find_acls(self, wanted: AclFilter) -> set[AclBinding]:
        """Return the ACLs that a filter selects."""

    def create_acls(self, acls: list[AclBinding]) -> None:
        """Add ACLs. ACLs that exist already stay."""

    def delete_acls(self, filters: list[AclFilter]) -> set[AclBinding]:
        """Remove the ACLs that any of the filters selects; return them."""


class _DirectoryAcls:
    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def find_acls(self, wanted: AclFilter) -> set[AclBinding]:
        return {acl for acl in self._file.state.acls if wanted.matches(acl)}

    def create_acls(self, acls: list[AclBinding]) -> None:
        self._write_acls(self._file.state.acls.union(acls))

    def delete_acls(self, filters: list[AclFilter]) -> set[AclBinding]:
        removed = set[AclBinding]().union(*(self.find_acls(wanted) for wanted in filters))
        self._write_acls(self._file.state.acls - removed)
        return removed

    def _write_acls(self, acls: frozenset[AclBinding]) -> None:
        if acls != self._file.state.acls:
            self._file.write_state(replace(self._file.state, acls=acls))


@contextmanager
def open_acl_store(context: BrokerContext, data_dir: str | None) -> Iterator[AclStore]:
    """Yield the ACLs of the broker, or of the directory of a stopped daemon. Raises InvalidArguments,
    ServerUnreachable."""
    if data_dir is None:
        yield BrokerAcls(context.broker)
        return
    with edit_security_file(data_dir) as file:
        yield _DirectoryAcls(file)


def _permission_style(text: str) -> str:
    return "red" if text == "DENY" else ""


_COLUMNS: Final = (
    Column("resource"),
    Column("name", wraps=True, style=lambda _: "bold"),
    Column("pattern", is_optional=True),
    Column("permission", style=_permission_style),
    Column("principal", wraps=True),
    Column("operation"),
    Column("host", wraps=True, is_optional=True),
)


def print_acls(acls: Iterable[AclBinding], context: BrokerContext, empty_text: str) -> None:
    """Print ACLs as a table or as JSON. A terminal gets `empty_text` for an empty list."""
    found = list(acls)
    if context.is_json:
        print_json({"acls": [_list_fields(acl) for acl in found]}, context.output)
    elif not found and context.output.is_for_people:
        print(empty_text)
    else:
        rows = [
            [
                acl.resource_type.name,
                format_cell(acl.resource_name),
                acl.pattern_type.name,
                acl.permission.name,
                format_cell(acl.principal),
                acl.operation.name,
                format_cell(acl.host),
            ]
            for acl in found
        ]
        print_table(_COLUMNS, rows, context.output)


def _list_fields(acl: AclBinding) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


LIST_EPILOG: Final = """\
--resource-pattern-type match finds all ACLs of a name: literal ones, its prefixes, and '*'. Examples:

\b
groupd acl list
groupd acl list --topic orders --resource-pattern-type match
groupd acl list --principal User:alice --json | jq -r .acls[].resource_name"""


@broker_command(epilog=LIST_EPILOG)
@resource_options(is_filter=True)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="TYPE:NAME",
    callback=parse_principals,
    help="Only ACLs of this principal.",
)
@directory_option()
def list_acls(context: BrokerContext, principals: list[str], data_dir: str | None, **named: Any) -> int:
    """List ACLs: all, or those about some resources or principals."""
    pattern_type = pop_pattern_type(named, PatternType.ANY)
    about: list[tuple[ResourceType, str | None]] = [*pop_resources(named)]
    by: list[str | None] = [*principals]
    found: set[AclBinding] = set()
    with open_acl_store(context, data_dir) as store:
        for resource_type, name in about or [(ResourceType.ANY, None)]:
            for principal in by or [None]:
                found.update(store.find_acls(AclFilter(resource_type, name, pattern_type, principal)))
    print_acls(sort_acls(found), context, "no ACLs" + (" like that" if about or by else ""))
    return YES


ADD_EPILOG: Final = """The command adds one ACL for each combination of the options. Examples:

\b
groupd acl add --allow-principal User:alice --operation read --topic orders --group '*'
groupd acl add --allow-principal User:alice --operation write --topic orders- --prefixed
groupd acl add --allow-principal User:alice --topic orders --data-dir /var/lib/groupd
groupd acl add --deny-principal 'User:*' --deny-host 10.0.0.0/8 --topic payments"""


@broker_command(epilog=ADD_EPILOG)
@click.option(
    "--allow-principal",
    "allowed",
    multiple=True,
    metavar="TYPE:NAME",
    callback=parse_principals,
    help="An allowed principal: User:alice; 'User:*' means every user.",
)
@click.option(
    "--deny-principal",
    "denied",
    multiple=True,
    metavar="TYPE:NAME",
    callback=parse_principals,
    help="A denied principal.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Host of the allowed principals: an address, or a range of addresses.",
)
@click.option(
    "--deny-host",
    "denied_hosts",
    multiple=True,
    metavar="HOST",
    help="Host of the denied principals. [default: every host]",
)
@operation_option(is_filter=False)
@resource_options(is_filter=False)
@directory_option()
def add_acls(
    context: BrokerContext,
    allowed: list[str],
    denied: list[str],
    allowed_hosts: list[str],
    denied_hosts: list[str],
    operations: list[str],
    data_dir: str | None,
    **named: Any,
) -> int:
    """Allow or deny principals operations on resources, and show the ACLs for it."""
    pattern_type = pop_pattern_type(named, PatternType.LITERAL)
    resources = pop_resources(named)
    if not resources:
        raise InvalidArguments("a resource is required: --topic, --group, --transactional-id, --cluster, ...")
    if not allowed and not denied:
        raise InvalidArguments("--allow-principal or --deny-principal is required")
    for option, hosts, principals in (("allow", allowed_hosts, allowed), ("deny", denied_hosts, denied)):
        if hosts and not principals:
            raise InvalidArguments(f"--{option}-host needs --{option}-principal")
    acls = sort_acls(
        {
            AclBinding(resource.type, resource.name, pattern_type, principal, host, operation, permission)
            for permission, principals, hosts in (
                (AclPermissionType.ALLOW, allowed, allowed_hosts),
                (AclPermissionType.DENY, denied, denied_hosts),
            )
            for principal in principals
            for host in hosts or (WILDCARD,)
            for operation in parse_operations(operations, AclOperation.ALL)
            for resource in resources
        }
    )
    for acl in acls:
        why = why_invalid(acl) or _why_without_effect(acl)
        if why is not None:
            raise InvalidArguments(why)
    with open_acl_store(context, data_dir) as store:
        store.create_acls(acls)
    print_acls(acls, context, "")
    return YES


def _why_without_effect(acl: AclBinding) -> str | None:
    """Return the reason why a broker accepts an ACL but never evaluates it, or None."""
    supported = (AclOperation.ALL, *SUPPORTED_OPERATIONS[acl.resource_type])
    if acl.operation in supported:
        return None
    return (
        f"{acl.operation.name} is not an operation of a {acl.resource_type.name}. "
        f"Use one of: {', '.join(each.name for each in supported)}"
    )


REMOVE_EPILOG: Final = """An omitted option matches every value. Names are literal without --prefixed. Examples:

\b
groupd acl remove --topic orders
groupd acl remove --allow-principal User:alice --operation read --topic orders- --prefixed
groupd acl remove --all"""


@broker_command(epilog=REMOVE_EPILOG)
@click.option(
    "--allow-principal",
    "allowed",
    multiple=True,
    metavar="TYPE:NAME",
    callback=parse_principals,
    help="Who may.",
)
@click.option(
    "--deny-principal",
    "denied",
    multiple=True,
    metavar="TYPE:NAME",
    callback=parse_principals,
    help="A denied principal.",
)
@operation_option(is_filter=True)
@resource_options(is_filter=True)
@click.option("--all", "is_all", is_flag=True, help="Remove all ACLs.")
@directory_option()
def remove_acls(
    context: BrokerContext,
    allowed: list[str],
    denied: list[str],
    operations: list[str],
    is_all: bool,
    data_dir: str | None,
    **named: Any,
) -> int:
    """Remove ACLs, and show the removed ones."""
    resources = pop_resources(named)
    pattern_type = pop_pattern_type(named, PatternType.LITERAL if resources else PatternType.ANY)
    is_some = bool(allowed or denied or operations or resources)
    if is_some is is_all:
        raise InvalidArguments("a filter (--topic, --allow-principal, ...) or --all is required")
    by: list[tuple[AclPermissionType, str | None]] = [
        *((AclPermissionType.ALLOW, each) for each in allowed),
        *((AclPermissionType.DENY, each) for each in denied),
    ]
    about: list[tuple[ResourceType, str | None]] = [*resources]
    filters = [
        AclFilter(resource_type, name, pattern_type, principal, operation=operation, permission=permission)
        for permission, principal in by or [(AclPermissionType.ANY, None)]
        for operation in parse_operations(operations, AclOperation.ANY)
        for resource_type, name in about or [(ResourceType.ANY, None)]
    ]
    with open_acl_store(context, data_dir) as store:
        removed = store.delete_acls(filters)
    print_acls(sort_acls(removed), context, "no ACLs match")
    return YES
