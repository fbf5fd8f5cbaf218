"""What the sender of one request may do: the face of the authorizer that guards see.

Decisions are remembered until the request is answered, so that an answer that takes long is all of one mind.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.net.caller import Caller
from coordinator.security.acl import CLUSTER_NAME, OPERATIONS_ON, Operation, ResourceType
from coordinator.security.authorizer import Authorizer, Decision
from coordinator.security.host import as_java_writes
from coordinator.server.authorization.audit import Audit
from coordinator.topics.catalogue import Catalogue

_TOPIC: Final = ResourceType.TOPIC  # a member of an enum is looked up each time that it is named


class Permits:
    """Of one request. Everything of its caller is read when this is made: it holds longer than the caller does."""

    __slots__ = (
        "_audit",
        "_authorizer",
        "_decided",
        "_host",
        "_operations",
        "_principal",
        "_tells_allowed",
        "api_name",
        "api_version",
        "catalogue",
    )

    def __init__(self, authorizer: Authorizer, audit: Audit, catalogue: Catalogue, caller: Caller) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._tells_allowed = audit.tells_allowed
        self._principal = caller.principal
        self._host = as_java_writes(caller.client_host)
        self._decided: dict[tuple[Operation, ResourceType, str], Decision] = {}
        self._operations: dict[tuple[ResourceType, str], int] = {}
        self.catalogue = catalogue
        """Where topics that are asked for by id have their names."""
        self.api_name = caller.api_name
        self.api_version = caller.api_version

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
        logs_allowed: bool = True,
    ) -> bool:
        """Whether the client may do something to a resource. In: what of that is for the audit log."""
        key = operation, resource_type, name
        decision = self._decided.get(key)
        if decision is None:
            decision = self._authorizer.decide(self._principal, self._host, operation, resource_type, name)
            self._decided[key] = decision
            if (logs_allowed and self._tells_allowed) if decision.allowed else logs_denied:
                self._audit.decided(
                    decision, self._principal, self._host, operation, resource_type, name, self.api_name
                )
        return decision.allowed

    def allows_on_cluster(self, operation: Operation, *, logs_denied: bool = True) -> bool:
        """The same for the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=logs_denied)

    def allows_on_topic(self, operation: Operation, name: str, *, is_silent: bool = False) -> bool:
        """The same for a topic. In: whether nothing of it is for the audit log."""
        return self.allows(operation, _TOPIC, name, logs_denied=not is_silent, logs_allowed=not is_silent)

    def may_describe(self, name: str) -> bool:
        """Whether the client may know of a topic that it has not named; only that it may is for the audit log."""
        return self.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=False)

    def may_write_any_topic(self) -> bool:
        """Whether there may be a topic that the client may write to."""
        return self._authorizer.may_write_any_topic(self._principal, self._host)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """All that the client may do to a resource, a bit for each operation. Source: KIP-430."""
        key = resource_type, name
        bits = self._operations.get(key)
        if bits is None:
            bits = self._operations[key] = _bits(
                operation
                for operation in OPERATIONS_ON[resource_type]
                if self._authorizer.decide(
                    self._principal, self._host, operation, resource_type, name
                ).allowed
            )
        return bits

    def operations_on_cluster(self) -> int:
        """The same for the cluster; nothing for whoever may not describe it."""
        if not self.allows_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic that has an id; None where there is none."""
        topic = self.catalogue.get_by_id(topic_id)
        return None if topic is None else topic.name


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)
