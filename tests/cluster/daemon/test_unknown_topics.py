"""A daemon looks for the new topic of another daemon before it answers UNKNOWN_TOPIC_OR_PARTITION."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.cluster.daemon.refresh_unknown_topics import UnknownTopicRefresh
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.cluster.daemon.cluster_daemons import Daemon, Daemons, daemons, eventually
from tests.cluster.daemon.test_admin_of_daemons import other_than

NEW = CreatableTopic(name="new", num_partitions=2, replication_factor=1, assignments=[], configs=[])


async def create(daemon: Daemon) -> int:
    """The error code."""
    answer = await daemon.ask(CreateTopicsRequest(topics=[NEW], timeout_ms=5000), 5)
    return int(answer.topics[0].error_code)


async def commit(daemon: Daemon, topic: str, partition: int = 0) -> int:
    """The error code."""
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    answer = await daemon.ask(OffsetCommitRequest(group_id="g", topics=topics), 2)
    return int(answer.topics[0].partitions[0].error_code)


async def fetch(daemon: Daemon, topic: str) -> int:
    """The committed offset, -1 for none."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    answer = await daemon.ask(OffsetFetchRequest(group_id="g", topics=topics), 2)
    assert not answer.error_code
    return int(answer.topics[0].partitions[0].committed_offset)


async def delete(daemon: Daemon) -> int:
    """The error code."""
    answer = await daemon.ask(DeleteTopicsRequest(topic_names=["new"], timeout_ms=5000), 3)
    return int(answer.responses[0].error_code)


async def grow(daemon: Daemon, count: int) -> int:
    """The error code."""
    wanted = CreatePartitionsTopic(name="new", count=count, assignments=None)
    answer = await daemon.ask(
        CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=False), 0
    )
    return int(answer.results[0].error_code)


async def behind(cluster: Daemons) -> tuple[Daemon, Daemon]:
    """Return the coordinator, which learns of changes late, and another daemon."""
    owner = await cluster.owner()
    other = await other_than(cluster, owner)
    owner.engine.is_slow_to_see = True
    return owner, other


async def test_a_commit_for_it_is_taken() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        assert owner.server.data_plane.catalogue.find_topic("new") is None
        assert await commit(owner, "new") == ErrorCode.NONE
        assert await grow(other, 3) == ErrorCode.NONE
        assert await commit(owner, "new", 2) == ErrorCode.NONE
        for partition, topic in ((3, "new"), (0, "nothing")):
            assert await commit(owner, topic, partition) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_names_it_and_nobody_makes_it_again(tmp_path: Path) -> None:
    async with daemons(tmp_path, 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        made = other.server.data_plane.catalogue.find_topic("new")
        assert made is not None
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=False)
        [topic] = (await owner.ask(asked, 10)).topics
        assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, made.topic_id)
    async with daemons(tmp_path / "again", 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        assert await create(owner) == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_of_two_daemons_that_make_it_at_one_time_one_is_told_that_it_is_there() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        codes = await asyncio.gather(create(owner), create(other))
        assert sorted(codes) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


async def test_by_its_id_it_is_found_too() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        made = other.server.data_plane.catalogue.find_topic("new")
        assert made is not None
        asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=made.topic_id, name=None)])
        [topic] = (await owner.ask(asked, 12)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.NONE, "new")


async def test_an_engine_that_does_not_answer_holds_nobody_for_long() -> None:
    async with daemons(None, 1) as cluster:
        owner = await cluster.owner()
        owner.engine.is_cut = True
        assert await commit(owner, "nothing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_two_daemons_that_change_one_topic_at_a_time_both_do() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        assert await commit(owner, "new") == ErrorCode.NONE
        for daemon, name, value in ((other, "retention.ms", "5000"), (owner, "max.message.bytes", "6000")):
            config = AlterableConfig(name=name, value=value)
            resource = AlterConfigsResource(resource_type=2, resource_name="new", configs=[config])
            answer = await daemon.ask(AlterConfigsRequest(resources=[resource], validate_only=False), 1)
            assert answer.responses[0].error_code == ErrorCode.NONE
        owner.engine.is_slow_to_see = False
        both = {"retention.ms": "5000", "max.message.bytes": "6000"}
        for daemon in (owner, other):
            topic = daemon.server.data_plane.catalogue.find_topic("new")
            assert topic is not None
            await eventually(lambda topic=topic: topic.overrides == both)  # type: ignore[misc]


async def test_offsets_of_a_topic_that_was_deleted_unseen_are_gone_when_their_partition_is_read() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        assert await create(other) == ErrorCode.NONE
        assert await commit(owner, "new") == ErrorCode.NONE
        assert await owner.commit(7) == ErrorCode.NONE
        assert await delete(other) == ErrorCode.NONE
        assert await create(other) == ErrorCode.NONE
        assert await fetch(owner, "new") == 1  # it has not heard of it
        await cluster.kill(owner)
        await eventually(lambda: other.coordinates("g"))
        async with asyncio.timeout(60):
            while True:
                if await fetch(other, "new") == -1:
                    break
                await asyncio.sleep(0.01)
        assert await other.committed() == 7


async def test_offsets_of_a_topic_that_is_not_taken_up_yet_stay() -> None:
    async with daemons(None, 2) as cluster:
        owner, other = await behind(cluster)
        other.engine.is_slow_to_see = True
        assert await create(owner) == ErrorCode.NONE
        assert await commit(owner, "new") == ErrorCode.NONE
        await cluster.kill(owner)
        other.engine.is_slow_to_see = False
        await eventually(lambda: other.coordinates("g"))
        await eventually(lambda: other.server.data_plane.catalogue.find_topic("new") is not None)
        assert await fetch(other, "new") == 1


async def test_a_refresh_that_fails_still_lets_the_handler_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with daemons(None, 1) as cluster:
        owner = await cluster.owner()

        async def refresh_topics(names: Sequence[str] | None) -> bool:
            raise ValueError(names)

        refresh = UnknownTopicRefresh(owner.server.data_plane.catalogue, refresh_topics)
        answered = asyncio.Event()
        await refresh.start_refresh({"new"}, answered.set)
        assert answered.is_set()
        assert any(record.exc_info is not None for record in caplog.records)
