"""Topics that are created and deleted while many groups subscribe to other topics."""

from functools import partial

from coordinator.core.outcome import Context, Now
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.executed_code import count_bytecodes
from tests.group.consumer.members import BAR, FOO, Members
from tests.group.new_shard import new_shard

NOW = Now(1_000, 1_000)
READ = TopicImage("read", bytes(15) + b"\1", 1)
MANY = [TopicImage(f"topic-{number}", bytes(14) + b"\2" + bytes([number]), 1) for number in range(100)]


def shard_with_groups(count: int) -> GroupShard:
    """Return a shard with `count` groups of one member, which subscribes to one topic."""
    shard = new_shard(topics=TopicsImage([READ], 1))
    for number in range(count):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"group-{number}",
            member_id="A",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["read"],
            topic_partitions=[],
        )
        ((_, response),) = shard.handle(request, Context(number, 1, "client", "/host"), NOW).replies
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert response.member_epoch > 0
    return shard


def change_topics(shard: GroupShard, *images: TopicsImage) -> None:
    for image in images:
        change = TopicsChanged(image, shard.topics.find_deleted(image))
        shard.handle(change, Context(0, 0, "", ""), NOW)


def test_groups_that_do_not_read_the_changed_topics_cost_nothing() -> None:
    costs = []
    for groups in (1, 100):
        shard = shard_with_groups(groups)
        images = TopicsImage([READ, *MANY], 2), TopicsImage([READ], 3)
        change_topics(shard, *images)  # executes the initializations that a process runs only once
        costs.append(count_bytecodes(partial(change_topics, shard, *images))[1])
    assert costs[0] == costs[1]


def test_a_group_learns_of_changes_of_the_topics_that_it_reads_now() -> None:
    group = Members()
    assert group.enter("A", ["foo"]) == (2, {FOO: [0, 1, 2]})
    for names, owned in ((["bar"], {FOO: [0, 1, 2]}), (["bar"], {})):
        group.say("A", group.described().members[0].member_epoch, names=names, owned=owned)
    (member,), (_, epoch, _) = group.described().members, group.epochs()
    group.topics_are(TopicImage("foo", FOO, 4))
    group.say("A", member.member_epoch)
    assert group.epochs()[1] == epoch
    group.topics_are(TopicImage("foo", FOO, 4), TopicImage("bar", BAR, 1))
    group.say("A", member.member_epoch)
    assert group.epochs()[1] == epoch + 1
