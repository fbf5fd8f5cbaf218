"""Changes of ACLs, and who made them, as lines of a log."""

import logging
from collections.abc import Sequence
from typing import Final

from coordinator.net.caller import Caller
from coordinator.net.peer import printable
from coordinator.security.acl import AclBinding
from coordinator.server.log_words import client

_LOG: Final = logging.getLogger("SecurityManager")

_MOST_LINES: Final = 100
_MOST_NAME: Final = 80
_MOST_ACL: Final = 500


def who_asks(caller: Caller) -> str:
    """`User:alice (kafka-acls at 127.0.0.1)`."""
    name = client(printable(caller.client_id, _MOST_NAME), caller.client_host)
    return f"{printable(str(caller.principal))} ({name})"


def log_added(acls: Sequence[AclBinding], who: str) -> None:
    """Writes that ACLs were added: a line for each, up to a hundred of a request. In: who did it."""
    for acl in acls[:_MOST_LINES]:
        _LOG.info("Added ACL %s, by %s", printable(words(acl), _MOST_ACL), who)
    if len(acls) > _MOST_LINES:
        _LOG.info("Added %d more ACLs, by %s", len(acls) - _MOST_LINES, who)


def log_removed(acls: Sequence[AclBinding], who: str) -> None:
    """The same of ACLs that are gone."""
    for acl in acls[:_MOST_LINES]:
        _LOG.info("Removed ACL %s, by %s", printable(words(acl), _MOST_ACL), who)
    if len(acls) > _MOST_LINES:
        _LOG.info("Removed %d more ACLs, by %s", len(acls) - _MOST_LINES, who)


def words(acl: AclBinding) -> str:
    """An ACL for people: `ALLOW User:alice READ of TOPIC orders (LITERAL) from *`."""
    return (
        f"{acl.permission.name} {acl.principal} {acl.operation.name} of {acl.resource_type.name} "
        f"{acl.resource_name} ({acl.pattern_type.name}) from {acl.host}"
    )
