from coordinator.group.group_requests import FetchOffsets
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import stable_group

TOPIC_ID, OTHER_ID = bytes([1] * 16), bytes([2] * 16)


def fetch(coordinator: Coordinator, topic_id: bytes) -> OffsetFetchResponsePartitions:
    topic = OffsetFetchRequestTopics(name="foo", topic_id=topic_id, partition_indexes=[0])
    request = FetchOffsets(OffsetFetchRequestGroup(group_id=GROUP, topics=[topic]))
    response = coordinator.send(request, 10).answer(OffsetFetchResponseGroup)
    assert response.topics[0].topic_id == topic_id
    return response.topics[0].partitions[0]


def test_partitions_are_answered_in_their_order_with_or_without_an_offset() -> None:
    coordinator = Coordinator()
    coordinator.commit(partition=2, offset=20)
    answered = coordinator.fetch({"bar": [0], "foo": [5, 2, 1]})
    assert list(answered.items()) == [
        (("bar", 0), (-1, -1, "")),
        (("foo", 5), (-1, -1, "")),
        (("foo", 2), (20, -1, "")),
        (("foo", 1), (-1, -1, "")),
    ]


def test_all_offsets_of_the_group_and_no_other() -> None:
    coordinator = Coordinator()
    coordinator.commit(topic="a", partition=1, offset=1)
    coordinator.commit(topic="b", offset=2)
    coordinator.commit(topic="c", offset=3, group="another")
    assert coordinator.fetch() == {("a", 1): (1, -1, ""), ("b", 0): (2, -1, "")}


def test_an_unknown_group_has_no_offsets_and_that_is_no_error() -> None:
    coordinator = Coordinator()
    assert coordinator.fetch(group="nobody's") == {}
    assert coordinator.fetch({"foo": [0]}, group="nobody's") == {("foo", 0): (-1, -1, "")}
    assert coordinator.fetch({}) == {}


def test_a_stable_group_answers_anyone() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1, offset=9)
    assert coordinator.fetch({"foo": [0]}) == {("foo", 0): (9, -1, "")}


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_there() -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=9, topic_id=TOPIC_ID)
    assert fetch(coordinator, TOPIC_ID).committed_offset == 9
    assert fetch(coordinator, bytes(16)).committed_offset == 9
    assert fetch(coordinator, OTHER_ID).committed_offset == -1
    coordinator.commit(offset=10)
    assert fetch(coordinator, OTHER_ID).committed_offset == 10


def test_an_unloaded_shard_shows_nothing() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.unload()
    assert coordinator.fetch() == {}
