"""What clients may do to topics and their records: produce, fetch, look up."""

from collections.abc import Iterable
from typing import Any

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.oracle.batches import batch, fetch_request, produce_request
from tests.oracle.guarded import CLIENT, Guarded, Stage, cases, of_each, play_guarded
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant, revoke
from tests.oracle.secured import enter
from tests.oracle.session import session

_IDS_SINCE = 13


def topics_of(answer: Any) -> Iterable[str | bytes | None]:
    """The topics of an answer, in its order."""
    for name in ("responses", "topics"):
        for topic in getattr(answer, name, ()):
            found = getattr(topic, "name", "") or getattr(topic, "topic", "")
            yield found or getattr(topic, "topic_id", None)


def _produce(stage: Stage) -> Any:
    return produce_request(*((topic, 0, batch()) for topic in stage.topics))


def _fetch(stage: Stage) -> Any:
    return fetch_request(*((topic, 0, 0) for topic in stage.topics), wait_ms=0, min_bytes=0)


def _list_offsets(stage: Stage) -> Any:
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=name, partitions=[latest]) for name in stage.names]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def _leader_epochs(stage: Stage) -> Any:
    first = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[first]) for name in stage.names]
    return OffsetForLeaderEpochRequest(topics=topics)


def _delete_records(stage: Stage) -> Any:
    none = DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [DeleteRecordsTopic(name=name, partitions=[none]) for name in stage.names]
    return DeleteRecordsRequest(topics=topics, timeout_ms=10_000)


def _metadata(stage: Stage) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in stage.names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _metadata_by_id(stage: Stage) -> Any:
    ids = [*(topic.id for topic in stage.topics), b"a topic that no-"]
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=each) for each in ids])


def _all_metadata(stage: Stage) -> Any:
    return MetadataRequest(topics=[] if stage.version == 0 else None, allow_auto_topic_creation=False)


def _partitions(stage: Stage) -> Any:
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in stage.names])


def _all_partitions(stage: Stage) -> Any:
    return DescribeTopicPartitionsRequest(topics=[])


def _producers(stage: Stage) -> Any:
    topics = [DescribeProducersTopicRequest(name=name, partition_indexes=[0, 1]) for name in stage.names]
    return DescribeProducersRequest(topics=topics)


TABLE = {
    "Produce": Guarded((3, 9, 12, 13), _produce, of_each("WRITE")),
    "Fetch": Guarded((4, 12, 13, 18), _fetch, of_each("READ"), topics_of),
    "ListOffsets": Guarded((1, 6, 11), _list_offsets, of_each("DESCRIBE"), topics_of),
    "ListOffsets-by-reading": Guarded((7,), _list_offsets, of_each("READ"), topics_of),
    "OffsetForLeaderEpoch": Guarded((2, 3, 4), _leader_epochs, of_each("DESCRIBE"), topics_of),
    "OffsetForLeaderEpoch-in-a-cluster": Guarded(
        (4,), _leader_epochs, {"the cluster": ("CLUSTER_ACTION CLUSTER",)}, topics_of
    ),
    "DeleteRecords": Guarded((0, 1, 2), _delete_records, of_each("DELETE")),
    "Metadata": Guarded((0, 6, 9, 13), _metadata, of_each("DESCRIBE")),
    "Metadata-by-id": Guarded((12, 13), _metadata_by_id, of_each("DESCRIBE")),
    "Metadata-of-all": Guarded((0, 5, 13), _all_metadata, of_each("DESCRIBE"), own=True),
    "DescribeTopicPartitions": Guarded((0,), _partitions, of_each("DESCRIBE"), topics_of),
    "DescribeTopicPartitions-of-all": Guarded(
        (0,), _all_partitions, of_each("DESCRIBE"), topics_of, own=True
    ),
    "DescribeProducers": Guarded((0,), _producers, of_each("READ")),
}


@session(setup=SECURED, case=cases(TABLE))
def rights_to_records(play: Play, case: str) -> None:
    play_guarded(play, TABLE, case)


@session(setup=SECURED, version=(3, 11))
def topics_that_are_not_there_are_refused_alike(play: Play, version: int) -> None:
    """Nobody learns from a refusal whether a topic exists."""
    enter(play, CLIENT)
    orders, nothing = play.topic("orders", 1), play.name("nothing")
    for note, rights in (("nothing", ()), ("all", ("ALL TOPIC *",))):
        grant(play, CLIENT, *rights)
        play.ask(produce_request((orders, 0, batch()), (nothing, 0, batch())), version, CLIENT, note)
        play.ask(fetch_request((orders, 9, 0), (nothing, 0, 0), wait_ms=0), version + 1, CLIENT, note)
        topics = [MetadataRequestTopic(name=name) for name in (orders.name, nothing)]
        asked = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        play.ask(asked, version + 1, CLIENT, note)


@session(setup=SECURED)
def topic_ids_that_are_not_there_are_told_first(play: Play) -> None:
    enter(play, CLIENT)
    unknown = type(play.topic("orders", 1))(play.name("nothing"), b"a topic that no-")
    play.ask(fetch_request((unknown, 0, 0), wait_ms=0), _IDS_SINCE, CLIENT)
    play.ask(produce_request((unknown, 0, batch())), _IDS_SINCE, CLIENT)


@session(setup=SECURED, version=(3, 13))
def a_refused_producer_that_wants_no_answer(play: Play, version: int) -> None:
    """Its connection ends."""
    enter(play, CLIENT)
    mine, denied = play.topic("mine", 1), play.topic("theirs", 1)
    grant(play, CLIENT, "WRITE TOPIC mine", "READ TOPIC theirs")
    for note, topics in (("allowed", (mine,)), ("refused", (denied,)), ("both", (mine, denied))):
        wire = play.wire(CLIENT)
        wire.send(produce_request(*((topic, 0, batch()) for topic in topics), acks=0), version)
        wire.forget()
        answer = play.ask(MetadataRequest(topics=[]), 12, CLIENT, note)
        assert (answer is None) == (note != "allowed")
    _list = ListOffsetsPartition(partition_index=0, timestamp=-1)
    for topic in (mine, denied):
        asked = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[_list])]
        )
        play.ask(asked, 7, "admin", "what came of it")


@session(setup=SECURED, version=(4, 9, 13))
def a_topic_that_is_made_by_asking(play: Play, version: int) -> None:
    """CREATE on the topic, or on the cluster, and DESCRIBE in any case."""
    enter(play, CLIENT)
    steps: dict[str, tuple[str, ...]] = {
        "nothing": (),
        "seeing it": ("DESCRIBE TOPIC made", "DESCRIBE TOPIC another"),
        "making one": ("CREATE TOPIC made",),
        "making all": ("CREATE CLUSTER",),
    }
    for note, rights in steps.items():
        grant(play, CLIENT, *rights)
        for short in ("made", "another", "third"):
            wanted = MetadataRequestTopic(name=play.name(short))
            asked = MetadataRequest(topics=[wanted], allow_auto_topic_creation=True)
            with play.quietly():
                error = play.ask(asked, version, CLIENT).topics[0].error_code
            play.tell(f"{short}, with {note}", {"error_code": error if error == 29 else "(none of it)"})


@session(setup=SECURED, version=(7, 12, 13, 18))
def rights_that_change_within_a_fetch_session(play: Play, version: int) -> None:
    enter(play, CLIENT)
    first, second = play.topic("first", 1), play.topic("second", 1)
    play.ask(produce_request((first, 0, batch()), (second, 0, batch())), 12, "admin")
    grant(play, CLIENT, "READ TOPIC first")
    begun = play.ask(
        fetch_request((first, 0, 0), (second, 0, 0), wait_ms=0, session=(0, 0)),
        version,
        CLIENT,
        "the first of two",
    )
    epoch = 1

    def go_on(note: str) -> None:
        nonlocal epoch
        asked = fetch_request(wait_ms=0, min_bytes=0, session=(begun.session_id, epoch))
        play.ask(asked, version, CLIENT, note)
        epoch += 1

    go_on("the same again")
    grant(play, CLIENT, "READ TOPIC second")
    go_on("now both")
    go_on("both again")
    revoke(play, CLIENT, "READ TOPIC first")
    go_on("now the second")
    revoke(play, CLIENT)
    go_on("nothing")
