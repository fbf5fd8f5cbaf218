"""Authorization of one request: the decisions for its client, the denials that follow from them, and the audit log.

`AuthHelper` caches decisions until the request is answered, so that a slow response is consistent. Denials recur,
since clients retry: the audit log has one line a minute for each principal, host, operation, resource and API.

Source: Kafka's `StandardAuthorizerData.buildAuditMessage`; KIP-430.
"""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.core.daemon_log import LogLineLimit, format_repeats
from coordinator.core.message_text import printable
from coordinator.network.request_context import RequestContext
from coordinator.security.core.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    ResourceType,
    format_java_address,
)
from coordinator.security.core.authorizer import Authorizer, Decision
from coordinator.security.core.principal import Principal
from coordinator.topics.catalogue import Catalogue
from protocol.error_codes import ErrorCode
from protocol.error_response import Entry, build_error_entry, build_error_response

_LOG: Final = logging.getLogger("kafka.authorizer.logger")

_DEBUG: Final = logging.DEBUG
_TOPIC: Final = ResourceType.TOPIC  # access to an enumeration member is slow

_RESOURCE_NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
}
_MAX_RULE: Final = 500


class AuditLog:
    """The audit log of one server."""

    def __init__(self) -> None:
        self._limit = LogLineLimit()

    def log_decision(
        self,
        decision: Decision,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        api_name: str,
    ) -> None:
        """Log a decision: a denied operation at INFO, an allowed one at DEBUG."""
        if not _LOG.isEnabledFor(_DEBUG if decision.allowed else logging.INFO):
            return
        count = 1
        if not decision.allowed:
            count = self._limit.admit(principal, host, operation, resource_type, name, api_name)
            if not count:
                return
        arguments = (
            printable(str(principal)),
            operation.name,
            host,
            f"{_RESOURCE_NAMES[resource_type]}:LITERAL:{printable(name)}",
            api_name,
            printable(decision.rule_text, _MAX_RULE),
        )
        if decision.allowed:
            _LOG.debug(
                "Principal = %s is Allowed operation = %s from host = %s on resource = %s for request = %s with "
                "resourceRefCount = 1 based on rule %s",
                *arguments,
            )
        else:
            _LOG.info(
                "Principal = %s is Denied operation = %s from host = %s on resource = %s for request = %s with "
                "resourceRefCount = 1 based on rule %s%s",
                *arguments,
                format_repeats(count),
            )


class AuthorizationDenied(Struct, frozen=True):
    """The denial of a whole request, which its handler does not get."""

    response: object
    """The response, or a value of `coordinator.core.response_status`."""


class AuthHelper:
    """Decides which operations the client of one request may do."""

    __slots__ = (
        "_audit",
        "_authorizer",
        "_context",
        "_decisions",
        "_host",
        "_logs_allowed",
        "_operations",
        "_principal",
        "api_version",
        "catalogue",
    )

    def __init__(
        self, authorizer: Authorizer, audit: AuditLog, catalogue: Catalogue, context: RequestContext
    ) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._context = context
        self._logs_allowed = _LOG.isEnabledFor(_DEBUG)
        client = context.client
        self._principal = client.principal
        self._host = format_java_address(client.host)
        self._decisions: dict[tuple[AclOperation, ResourceType, str], Decision] = {}
        self._operations: dict[tuple[ResourceType, str], int] = {}
        self.catalogue = catalogue
        """Finds the names of topics that a request gives by id."""
        self.api_version = context.api_version

    def allows(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
        logs_allowed: bool = True,
    ) -> bool:
        """Return whether the client may do an operation on a resource. The flags select the decisions for the audit
        log.
        """
        key = operation, resource_type, name
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._authorizer.decide(self._principal, self._host, operation, resource_type, name)
            self._decisions[key] = decision
            if (logs_allowed and self._logs_allowed) if decision.allowed else logs_denied:
                api_name = self._context.api_name
                self._audit.log_decision(
                    decision, self._principal, self._host, operation, resource_type, name, api_name
                )
        return decision.allowed

    def allows_on_cluster(self, operation: AclOperation, *, logs_denied: bool = True) -> bool:
        """Return whether the client may do an operation on the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=logs_denied)

    def allows_on_topic(self, operation: AclOperation, name: str, *, is_silent: bool = False) -> bool:
        """Return whether the client may do an operation on a topic. `is_silent`: the audit log omits the
        decision.
        """
        return self.allows(operation, _TOPIC, name, logs_denied=not is_silent, logs_allowed=not is_silent)

    def may_describe(self, name: str) -> bool:
        """Return whether the client may describe a topic that its request does not name. The audit log omits
        denials.
        """
        return self.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=False)

    def may_write_any_topic(self) -> bool:
        """Return whether the client may write to at least one topic, existing or not."""
        return self._authorizer.may_write_any_topic(self._principal, self._host)

    def deny_request(
        self, request: object, error: ErrorCode, message: str | None = None
    ) -> AuthorizationDenied:
        """Return the denial of a whole request."""
        return AuthorizationDenied(build_error_response(request, self.api_version, error, message))

    def build_denied_entry(
        self, entry_class: type[Entry], element: object, error: ErrorCode, message: str | None = None
    ) -> Entry:
        """Return the entry of a response for an element of the request that is denied."""
        return build_error_entry(entry_class, element, self.api_version, error, message)

    def find_authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the client may do on a resource, as a bit set. Source: KIP-430."""
        key = resource_type, name
        bits = self._operations.get(key)
        if bits is None:
            bits = self._operations[key] = _to_bits(
                operation
                for operation in SUPPORTED_OPERATIONS[resource_type]
                if self._authorizer.decide(
                    self._principal, self._host, operation, resource_type, name
                ).allowed
            )
        return bits

    def find_cluster_operations(self) -> int:
        """Return the operations that the client may do on the cluster, as a bit set; 0 without the right to
        describe it.
        """
        if not self.allows_on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.find_authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)

    def find_topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with an id, or None."""
        topic = self.catalogue.find_topic_by_id(topic_id)
        return None if topic is None else topic.name


def _to_bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)
