"""Authorized operations in responses, on request (KIP-430)."""

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.oracle.consumer import Consumer
from tests.oracle.member import commit_request
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant
from tests.oracle.secured import enter
from tests.oracle.session import session

CLIENT = "alice"
RIGHTS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "seeing": ("DESCRIBE TOPIC orders", "DESCRIBE GROUP g", "DESCRIBE CLUSTER"),
    "reading": ("READ TOPIC orders", "READ GROUP g"),
    "writing": ("WRITE TOPIC orders", "READ GROUP *"),
    "deleting": ("DELETE TOPIC *", "DELETE GROUP *", "CREATE CLUSTER"),
    "altering": ("ALTER TOPIC orders", "ALTER CLUSTER", "READ GROUP g..."),
    "configs": (
        *("ALTER_CONFIGS TOPIC ord...", "DESCRIBE TOPIC ord...", "DESCRIBE GROUP *", "ALTER_CONFIGS GROUP g"),
        *("ALTER_CONFIGS CLUSTER", "DESCRIBE CLUSTER"),
    ),
    "everything": ("ALL TOPIC *", "ALL GROUP *", "ALL CLUSTER"),
    "everything but": (
        *("ALL TOPIC *", "ALL GROUP *", "ALL CLUSTER", "DENY WRITE TOPIC orders", "DENY READ GROUP g"),
        *("DENY CREATE CLUSTER", "DENY ALTER_CONFIGS TOPIC *"),
    ),
    "everything but seeing": (
        *("ALL TOPIC *", "ALL GROUP *", "ALL CLUSTER"),
        *("DENY DESCRIBE TOPIC orders", "DENY DESCRIBE GROUP g", "DENY DESCRIBE CLUSTER"),
    ),
}


@session(setup=SECURED, rights=RIGHTS)
def operations_of_who_may(play: Play, rights: str) -> None:
    enter(play, CLIENT)
    orders = play.topic("orders", 1)
    grant(play, CLIENT, *RIGHTS[rights])
    with play.quietly():
        play.ask(commit_request(play.group, {(orders.name, 0): 1}), 8, "admin")
        Consumer(play, "a", [orders], group=play.name("gc"), member_id="m").join()
    for by in (CLIENT, "admin"):
        for version in (8, 10, 13):
            cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
            topics = [MetadataRequestTopic(name=name) for name in (orders.name, play.name("nothing"))]
            asked = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
                **cluster,
            )
            play.ask(asked, version, by)
        asked = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        play.ask(asked, 12, by, "all", own=True)
        partitions = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in (orders.name, play.name("nothing"))]
        )
        play.ask(partitions, 0, by)
        for includes in (True, False):
            note = "" if includes else "not asked"
            play.ask(DescribeClusterRequest(include_cluster_authorized_operations=includes), 1, by, note)
            groups = [play.group, play.name("gone")]
            play.ask(
                DescribeGroupsRequest(groups=groups, include_authorized_operations=includes), 6, by, note
            )
            consumers = [play.name("gc"), play.name("gone")]
            described = ConsumerGroupDescribeRequest(
                group_ids=consumers, include_authorized_operations=includes
            )
            play.ask(described, 1, by, note)
