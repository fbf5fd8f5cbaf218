"""Fetch: READ on each topic, whenever it is fetched from.

What a session fetches from is known to the data plane alone: it asks, once for each topic and request. Source:
Kafka's `KafkaApis.handleFetchRequest`.
"""

from functools import partial

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import Pass, Verdict
from coordinator.topics.topic_rights import TopicRights
from protocol.messages.fetch import FetchRequest


def guard_fetch(request: FetchRequest, permits: Permits) -> Verdict:
    """What comes from another broker, or says so, needs CLUSTER_ACTION instead."""
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        may_read_all = permits.allows_on_cluster(Operation.CLUSTER_ACTION)
        return Pass(arguments=(TopicRights(may_read=lambda _: may_read_all),))
    return Pass(arguments=(TopicRights(may_read=partial(permits.allows_on_topic, Operation.READ)),))
