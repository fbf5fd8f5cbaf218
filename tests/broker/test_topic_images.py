"""What groups know of topics, through every change of these."""

from pathlib import Path

from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.machine.outcome import Context
from coordinator.server.server import Server
from coordinator.topics.steps import taken
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from tests.server.harness import Client, serving
from tests.server.test_runtime import ONE_PARTITION, active, code, commit, committed

DELETE = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
ORDERS = CreatableTopic(name="orders", num_partitions=5, replication_factor=1, assignments=[], configs=[])
CREATE = CreateTopicsRequest(topics=[ORDERS], timeout_ms=1000)
GROW = CreatePartitionsRequest(
    topics=[CreatePartitionsTopic(name="orders", count=7)], timeout_ms=1000, validate_only=False
)


def known(server: Server) -> dict[str, int]:
    """Partition counts of the topics that the groups know; all partitions of the groups share an image."""
    shards = [partition.machine for partition in server.runtime.partitions]
    images = [shard.topics for shard in shards if shard is not None]
    assert len(images) == len(shards)
    assert all(image is images[0] for image in images)
    return {name: topic.partitions for name, topic in images[0].by_name.items()}


async def test_groups_know_the_topics_after_every_change_and_after_a_load() -> None:
    async with serving() as server, Client(server) as client:
        assert known(server) == {"__consumer_offsets": 3, "orders": 3}
        await client.call(DELETE, 3)
        assert known(server) == {"__consumer_offsets": 3}
        await client.call(CREATE, 5)
        assert known(server)["orders"] == 5
        await client.call(GROW, 2)
        assert known(server)["orders"] == 7
        for partition in server.runtime.partitions:
            server.runtime.ownership.reload(partition)
        await active(server)
        assert known(server)["orders"] == 7


async def test_offsets_of_a_topic_that_is_deleted_while_its_groups_are_read_go() -> None:
    async with serving(None, ONE_PARTITION) as server, Client(server) as client:
        assert code(await client.call(commit(5), 2)) == ErrorCode.NONE
        (partition,) = server.runtime.partitions
        server.runtime.ownership.reload(partition)
        for request, version in ((DELETE, 3), (CREATE, 5)):
            # As a connection hands it in, but at once: the groups are still being read.
            context = Context(0, version, "client", "/127.0.0.1")
            server.topics_changed(server.data_plane.handle(request, context, server.arrival.now).changes)
        assert partition.machine is None
        await active(server)
        assert await committed(client) == -1
        assert known(server)["orders"] == 5


async def test_offsets_of_a_topic_that_is_gone_at_a_start_stay(tmp_path: Path) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert code(await client.call(commit(5), 2)) == ErrorCode.NONE
        catalogue = server.data_plane.catalogue
        topic = catalogue.get("orders")
        assert topic is not None
        taken(catalogue.deleting([topic]))
    async with serving(tmp_path, ONE_PARTITION, topics=()) as server, Client(server) as client:
        assert await committed(client) == 5


def test_a_topic_is_gone_where_another_one_has_its_name() -> None:
    def image(**ids: int) -> TopicsImage:
        return TopicsImage(TopicImage(name, bytes([number]) * 16, 1) for name, number in ids.items())

    before = image(kept=1, deleted=2, replaced=3)
    assert before.gone_in(image(kept=1, replaced=4, created=5)) == ("deleted", "replaced")
    assert before.gone_in(before) == ()
