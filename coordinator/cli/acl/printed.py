"""ACLs on standard output."""

from collections.abc import Iterable
from typing import Final

from coordinator.cli.broker.command import Asking
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.table import Column, cell, print_table
from coordinator.security.acl import AclBinding


def _permission_style(text: str) -> str:
    return "red" if text == "DENY" else ""


_COLUMNS: Final = (
    Column("resource"),
    Column("name", folds=True, style=lambda _: "bold"),
    Column("pattern", may_go=True),
    Column("permission", style=_permission_style),
    Column("principal", folds=True),
    Column("operation"),
    Column("host", folds=True, may_go=True),
)


def print_acls(acls: Iterable[AclBinding], asking: Asking, none: str) -> None:
    """In: what people are told where there are none."""
    found = list(acls)
    if asking.is_json:
        print_json({"acls": [_fields(acl) for acl in found]}, asking.output)
    elif not found and asking.output.is_for_people:
        print(none)
    else:
        rows = [
            [
                acl.resource_type.name,
                cell(acl.resource_name),
                acl.pattern_type.name,
                acl.permission.name,
                cell(acl.principal),
                acl.operation.name,
                cell(acl.host),
            ]
            for acl in found
        ]
        print_table(_COLUMNS, rows, asking.output)


def _fields(acl: AclBinding) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }
