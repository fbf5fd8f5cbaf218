"""Requests about very many topics and partitions, and about more than there are file descriptors."""

from pathlib import Path
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.schema import ZERO_UUID
from tests.crash.process import Process
from tests.hostile.few_files import FILES
from tests.hostile.siege.attacker import Attacker, Hostile, frame
from tests.hostile.siege.siege import besieged

TOPICS: Final = 3000
PARTITIONS: Final = 5000
FIT: Final = FILES - FILES // 2 - 5
"""Partitions of topics for which few descriptors are enough, where half of them are kept and the groups take 5."""


def creation(*topics: tuple[str, int]) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name, partitions in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=30_000)


async def create(hostile: Hostile, *topics: tuple[str, int]) -> list[int]:
    return [topic.error_code for topic in (await hostile.call(creation(*topics), 7)).topics]


async def test_metadata_that_names_thousands_of_new_topics(tmp_path: Path) -> None:
    async with besieged(tmp_path) as siege:
        await siege.begin()
        hostile = await siege.attacker.connect()
        names = [MetadataRequestTopic(name=f"new-{number}") for number in range(TOPICS)]
        answer = await hostile.call(MetadataRequest(topics=names, allow_auto_topic_creation=True), 12)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
        assert len((await hostile.call(MetadataRequest(topics=None), 12)).topics) == TOPICS + 1
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_topics_of_thousands_of_partitions_are_created_and_deleted(tmp_path: Path) -> None:
    async with besieged(tmp_path) as siege:
        await siege.begin()
        hostile = await siege.attacker.connect()
        assert await create(hostile, ("wide", PARTITIONS)) == [ErrorCode.NONE]
        doomed = [DeleteTopicState(name="wide", topic_id=ZERO_UUID)]
        deleted = await hostile.call(DeleteTopicsRequest(topics=doomed, timeout_ms=30_000), 6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def codes(hostile: Hostile, *names: str, may_create: bool = True) -> list[int]:
    """Return the Metadata of topics, which the request may create."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
    answer = await hostile.call(request, 12)
    return [topic.error_code for topic in answer.topics]


async def commit(hostile: Hostile, topic: str) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    answer = await hostile.call(OffsetCommitRequest(group_id="g", topics=topics), 2)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def test_more_partitions_than_descriptors(tmp_path: Path) -> None:
    async with besieged(tmp_path, module="tests.hostile.few_files") as siege:
        await siege.begin()
        hostile = await siege.attacker.connect()
        assert await create(hostile, ("wide", 10 * FILES)) == [ErrorCode.POLICY_VIOLATION]
        assert await create(hostile, ("half", FIT - 2)) == [ErrorCode.NONE]
        more = CreatePartitionsTopic(name="half", count=FIT + 1)
        grown = await hostile.call(
            CreatePartitionsRequest(topics=[more], timeout_ms=30_000, validate_only=False), 2
        )
        assert grown.results[0].error_code == ErrorCode.POLICY_VIOLATION
        assert "ulimit" in grown.results[0].error_message
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked = await codes(hostile, "a", "b", "c", "d")
        assert asked == [ErrorCode.NONE, ErrorCode.NONE, unknown, unknown]
        assert await commit(hostile, "half") == ErrorCode.NONE
        doomed = [DeleteTopicState(name="half", topic_id=ZERO_UUID)]
        deleted = await hostile.call(DeleteTopicsRequest(topics=doomed, timeout_ms=30_000), 6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert await create(hostile, ("again", FIT - 2)) == [ErrorCode.NONE]
        assert await codes(hostile, "c") == [unknown]
        toll = await siege.toll()
        assert toll.is_bearable(), toll
        assert siege.daemon.log().count("limit of open files (1 ") == 1


async def test_a_start_with_more_partitions_than_descriptors_serves_the_rest(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    options = ("--profile", "test", "-o", "offsets.topic.num.partitions=5")
    topics = ("--topic", f"orders:{2 * FILES}")
    for module, chosen in (("coordinator", (*options, *topics)), ("tests.hostile.few_files", options)):
        daemon = await Process.start(data, log, chosen, module=module)
        try:
            await daemon.ready()
            attacker = Attacker(daemon.port)
            hostile = await attacker.connect()
            assert await commit(hostile, "orders") == ErrorCode.NONE
            answer = await hostile.call(MetadataRequest(topics=None), 12)
            leaders = [part.leader_id for topic in answer.topics for part in topic.partitions]
            await attacker.close()
            daemon.terminate()
            assert await daemon.ended() == 0
        finally:
            await daemon.kill()
    assert leaders.count(-1) == 2 * FILES - FIT
    lines = [line for line in log.read_text().splitlines() if "offline" in line]
    assert len(lines) == 1
    assert str(2 * FILES - FIT) in lines[0]


async def test_a_begun_change_completes_after_a_disconnection(tmp_path: Path) -> None:
    async with besieged(tmp_path) as siege:
        hostile, other = await siege.attacker.connect(), await siege.attacker.connect()
        await hostile.send(frame(creation(("wide", 500)), 7))
        absent = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        while (told := await codes(other, "wide", may_create=False)) == absent:
            pass
        assert told == [ErrorCode.LEADER_NOT_AVAILABLE]
        await hostile.close()
        while (told := await codes(other, "wide", may_create=False)) != [ErrorCode.NONE]:
            assert told == [ErrorCode.LEADER_NOT_AVAILABLE]
