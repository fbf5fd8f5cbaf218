"""What was decided about clients, as the audit log of Kafka has it.

Denials come again and again, from clients that do not take no for an answer: one line a minute tells of those of
one principal, resource and API. Source: Kafka's `StandardAuthorizerData.buildAuditMessage`.
"""

import logging
from typing import Final

from coordinator.net.peer import printable
from coordinator.ongoing_failures import times
from coordinator.security.acl import Operation, ResourceType
from coordinator.security.authorizer import Decision
from coordinator.security.principal import Principal
from coordinator.server.line_limit import LineLimit

_LOG: Final = logging.getLogger("kafka.authorizer.logger")

_RESOURCES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
}
_MOST_RULE: Final = 500


class Audit:
    """Of one server."""

    def __init__(self) -> None:
        self._limit = LineLimit()

    @property
    def tells_allowed(self) -> bool:
        """Whether anything is told of what is allowed."""
        return _LOG.isEnabledFor(logging.DEBUG)

    def decided(
        self,
        decision: Decision,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        api_name: str,
    ) -> None:
        """Tells of a decision: at INFO of what is denied, at DEBUG of what is allowed."""
        if not _LOG.isEnabledFor(logging.DEBUG if decision.allowed else logging.INFO):
            return
        count = 1
        if not decision.allowed:
            count = self._limit.admit(principal, host, operation, resource_type, name, api_name)
            if not count:
                return
        words = (
            printable(str(principal)),
            operation.name,
            host,
            f"{_RESOURCES[resource_type]}:LITERAL:{printable(name)}",
            api_name,
            printable(decision.rule_text, _MOST_RULE),
        )
        if decision.allowed:
            _LOG.debug(
                "Principal = %s is Allowed operation = %s from host = %s on resource = %s for request = %s with "
                "resourceRefCount = 1 based on rule %s",
                *words,
            )
        else:
            _LOG.info(
                "Principal = %s is Denied operation = %s from host = %s on resource = %s for request = %s with "
                "resourceRefCount = 1 based on rule %s%s",
                *words,
                times(count),
            )
