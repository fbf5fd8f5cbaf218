"""ConsumerGroupHeartbeat, ConsumerGroupDescribe: put to the partitions that hold the groups.

Source: Kafka's `KafkaApis`, `GroupCoordinatorService.consumerGroupHeartbeat`, `consumerGroupDescribe`.
"""

from collections.abc import Callable
from typing import Final

from coordinator.config.properties import Config
from coordinator.group.consumer.checks import check_heartbeat
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.refusal import error_response
from coordinator.net.caller import Caller
from coordinator.server.handlers.group_admin import GroupAdmin
from coordinator.server.handlers.groups import GroupRouter, beating
from coordinator.server.handlers.merge import Combining
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL: Final = "consumer"
"""Its name in `group.coordinator.rebalance.protocols`."""


class ConsumerGroups:
    """Answers both; UNSUPPORTED_VERSION where the protocol is not enabled."""

    def __init__(self, router: GroupRouter, admin: GroupAdmin, config: Config) -> None:
        self._router = router
        self._admin = admin
        self._config = config.view(ConsumerGroupConfig)
        self._is_enabled = PROTOCOL in config.group_coordinator_rebalance_protocols

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: Callable[[str], bool] | None = None,
    ) -> object:
        """Of a member; one of v0 without an id may get one. In: see `Context`."""
        if not self._is_enabled:
            return error_response(request, caller.api_version, ErrorCode.UNSUPPORTED_VERSION)
        runtime = self._router.runtime
        partition = runtime.partition_of(request.group_id)
        well = self._router.beat(partition, request, beating(caller))
        if well is not None:
            return well
        if not self._router.serves(partition) and not runtime.is_shut_down:
            refusal = check_heartbeat(request, caller.api_version, self._config)
            if refusal is not None:
                return ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
        return self._router.join(request, caller, may_describe)

    def describe(self, request: ConsumerGroupDescribeRequest, caller: Caller) -> object:
        """Each group as its partition describes it, in the order asked for."""
        if not self._is_enabled:
            return error_response(request, caller.api_version, ErrorCode.UNSUPPORTED_VERSION)

        def part(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(
                group_ids=group_ids, include_authorized_operations=request.include_authorized_operations
            )

        def combine(responses: list[ConsumerGroupDescribeResponse]) -> Combining:
            by_id: dict[str, ConsumerGroupDescribeResponseGroup] = {}
            for response in responses:
                by_id.update((group.group_id, group) for group in response.groups)
                yield
            return ConsumerGroupDescribeResponse(groups=[by_id[group_id] for group_id in request.group_ids])

        asked = self._admin.split(dict.fromkeys(request.group_ids), part)
        return self._admin.ask_all(asked, combine, caller)
