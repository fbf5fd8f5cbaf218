from coordinator.group.group_event_types import OffsetsDeleted
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.topics_image import NO_TOPICS, TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteResponse
from tests.group.ask import Ask
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import joined_member, stable_group


def codes(ask: Ask) -> list[tuple[str, int, int]]:
    response = ask.answer(OffsetDeleteResponse)
    assert response.error_code == ErrorCode.NONE
    return [
        (topic.name, one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ]


def test_offsets_of_subscribed_topics_stay_and_others_go() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1, topic="foo")
    coordinator.commit(member, 1, topic="bar")
    ask = coordinator.delete_offsets(("foo", 0), ("bar", 0), ("bar", 9))
    assert codes(ask) == [("foo", 0, 86), ("bar", 0, 0), ("bar", 9, 0)]
    assert coordinator.fetch() == {("foo", 0): (7, -1, "")}
    assert coordinator.records[-1].value is None
    assert coordinator.find_events(OffsetsDeleted) == [OffsetsDeleted(GROUP, 1, "request")]


def test_an_empty_group_reads_nothing() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1, topic="foo")
    coordinator.leave_alone(member)
    assert codes(coordinator.delete_offsets(("foo", 0))) == [("foo", 0, 0)]
    assert coordinator.fetch() == {}


def test_an_offset_is_buried_once() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.delete_offsets(("foo", 0), ("foo", 0))
    assert [record.value is None for record in coordinator.records] == [False, True]


def test_what_cannot_be_known_to_be_unread_stays() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocols=[("custom", b"\x00")])
    coordinator.advance(3_000)
    coordinator.sync(ask.joined.member_id, 1, protocol_name="custom")
    assert codes(coordinator.delete_offsets(("any", 0))) == [("any", 0, 86)]


def test_before_its_first_generation_a_group_may_read_anything() -> None:
    coordinator = Coordinator()
    joined_member(coordinator)
    assert codes(coordinator.delete_offsets(("any", 0))) == [("any", 0, 86)]


def test_a_group_of_others_than_consumers_must_be_empty() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocol_type="connect", protocols=[("eager", b"")])
    assert coordinator.delete_offsets(("foo", 0)).error is ErrorCode.NON_EMPTY_GROUP
    coordinator.advance(3_000)
    assert coordinator.delete_offsets(("foo", 0)).error is ErrorCode.NON_EMPTY_GROUP
    coordinator.leave_alone(ask.joined.member_id)
    assert codes(coordinator.delete_offsets(("foo", 0))) == [("foo", 0, 0)]


def test_a_group_id_is_required_and_the_group_must_be_there() -> None:
    coordinator = Coordinator()
    assert coordinator.delete_offsets(("foo", 0), group="").error is ErrorCode.INVALID_GROUP_ID
    assert coordinator.delete_offsets(("foo", 0)).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_takes_every_groups_offsets_along() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1, topic="foo", partition=1)
    coordinator.commit(member, 1, topic="bar")
    coordinator.commit(group="simple", topic="foo")
    assert coordinator.send(TopicsChanged(NO_TOPICS, ["foo", "gone"]), 0).is_parked
    assert coordinator.fetch() == {("bar", 0): (7, -1, "")}
    assert coordinator.fetch(group="simple") == {}
    assert coordinator.state() == "Stable"
    assert coordinator.find_events(OffsetsDeleted) == [
        OffsetsDeleted(GROUP, 1, "topic deleted"),
        OffsetsDeleted("simple", 1, "topic deleted"),
    ]


def test_what_was_committed_for_the_next_topic_of_the_name_stays() -> None:
    coordinator = Coordinator()
    first, second = bytes(15) + b"1", bytes(15) + b"2"
    coordinator.commit(group="simple", topic="foo", partition=0, topic_id=first)
    coordinator.commit(group="simple", topic="foo", partition=1, topic_id=second)
    image = TopicsImage([TopicImage("foo", second, 2)])
    assert coordinator.send(TopicsChanged(image, ["foo"]), 0).is_parked
    assert coordinator.fetch(group="simple") == {("foo", 1): (7, -1, "")}
