"""Unknown topics of a request are reported beside the response, with the obstacle to their creation."""

from coordinator.broker.server_settings import create_data_plane_config
from coordinator.config.properties import Config
from coordinator.core.response_status import BLOCKED
from coordinator.topics.data_plane_answer import MissingReason, MissingTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.topics.broker import Broker
from tests.topics.fetching import FOREVER_MS, fetch_request

STRANGE_ID = bytes(range(16))


def ask_for(broker: Broker, *names: str, create: bool = True) -> list[MissingTopic]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return list(broker.send(MetadataRequest(topics=topics, allow_auto_topic_creation=create)).missing)


def test_metadata_says_what_keeps_a_topic_from_being_created(broker: Broker) -> None:
    broker.create("a.b")
    assert ask_for(broker, "a.b", "created") == []
    assert ask_for(broker, "x", create=False) == [MissingTopic("x", MissingReason.NOT_ALLOWED)]
    assert ask_for(broker, "no/pe", "", "a_b", "__transaction_state") == [
        MissingTopic("no/pe", MissingReason.ILLEGAL_NAME),
        MissingTopic("", MissingReason.ILLEGAL_NAME),
        MissingTopic("a_b", MissingReason.COLLIDES),
        MissingTopic("__transaction_state", MissingReason.INTERNAL),
    ]
    broker.plane.config = create_data_plane_config(Config(auto_create_topics_enable=False), {})
    assert ask_for(broker, "x") == [MissingTopic("x", MissingReason.AUTO_CREATION_OFF)]


def test_metadata_by_an_id_that_is_no_topics(broker: Broker) -> None:
    answer = broker.send(MetadataRequest(topics=[MetadataRequestTopic(topic_id=STRANGE_ID)]))
    assert answer.missing == [MissingTopic("", MissingReason.UNKNOWN, topic_id=STRANGE_ID)]


def test_a_list_of_all_topics_misses_none(broker: Broker) -> None:
    assert broker.send(MetadataRequest(topics=None)).missing == []


def test_list_offsets_tells_a_topic_from_a_partition(broker: Broker) -> None:
    broker.create("orders", 2)
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in (1, 2)]
    topics = [ListOffsetsTopic(name=name, partitions=wanted) for name in ("orders", "ordres")]
    assert broker.send(ListOffsetsRequest(replica_id=-1, topics=topics)).missing == [
        MissingTopic("orders", MissingReason.NO_PARTITION, 2),
        MissingTopic("ordres", MissingReason.UNKNOWN),
        MissingTopic("ordres", MissingReason.UNKNOWN),
    ]


def test_a_fetch_is_told_at_once_even_if_it_is_parked_and_only_for_who_asked(broker: Broker) -> None:
    broker.create("orders")
    wanted = {("orders", 0): 0, ("ordres", 0): 0}
    answer = broker.send(fetch_request(wanted, max_wait_ms=FOREVER_MS), 12)
    assert answer.response is BLOCKED
    assert answer.missing == [MissingTopic("ordres", MissingReason.UNKNOWN)]
    broker.fill("orders", 1)
    completions = list(broker.answer.completions)
    assert len(completions) == 1
    assert broker.answer.missing == ()
    assert broker.send(fetch_request({("orders", 0): 0}), 12).missing == []


def test_a_fetch_by_an_id_that_is_no_topics(broker: Broker) -> None:
    request = fetch_request({("", 0): 0})
    request.topics[0].topic_id = STRANGE_ID
    answer = broker.send(request, 17)
    assert answer.missing == [MissingTopic("", MissingReason.UNKNOWN, topic_id=STRANGE_ID)]
