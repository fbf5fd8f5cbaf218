"""Names of every kind, of groups, clients, instances and reasons: kept as they are, and never more than text."""

import logging
import re
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.broker.server import Server
from coordinator.http.metric_collectors import ServerMetricsCollector
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.harness import Client, read_metrics, serving, sync_request

NAMES: Final = {
    "a line break": "g\nERROR forged line",
    "a carriage return": "g\r\x1b[2K",
    "colours of a terminal": "\x1b[31mred\x1b[0m",
    "NUL": "a\0b",
    "quotes": "\"'`",
    "a label": 'x"} 1\ngroupd_groups{state="',
    "a back slash": "\\n\\",
    "markup": "</script><script>alert(1)</script>",
    "a template": "{group_id} %s %(name)s {0} {{}}",
    "a path": "../../etc/passwd",
    "right to left": "\u202egnp.exe",
    "no width": "a\u200bb\ufeff",
    "line separators": "a\u2028b\u2029c\x85d",
    "beyond the basic plane": "🦀" * 10,
    "combining": "e" + "\u0301" * 50,
    "only blanks": "   ",
    "control characters of the second kind": "\x80\x9b31m",
    "long": "n" * 30_000,
}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u200b\ufeff]")


def join(name: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=name,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=name.encode())],
        reason=name,
    )


def commit(name: str, text: str) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=text[:1000])
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[part])]
    return OffsetCommitRequest(group_id=name, topics=topics)


async def one_life(server: Server, name: str) -> str:
    """Everything that a group of that name goes through; the id of its member."""
    async with Client(server, client_id=name) as client:
        joined = await client.call(join(name), 9)
        assert joined.error_code == ErrorCode.NONE
        assert joined.protocol_name == name
        assert [member.group_instance_id for member in joined.members] == [name]
        sync = sync_request(name, joined.member_id, joined.generation_id, {joined.member_id: name.encode()})
        sync.protocol_type, sync.protocol_name, sync.group_instance_id = "consumer", name, name
        synced = await client.call(sync, 5)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, name.encode())
        described = (await client.call(DescribeGroupsRequest(groups=[name]), 5)).groups[0]
        assert described.group_id == described.protocol_data == name
        member = described.members[0]
        assert (member.client_id, member.group_instance_id) == (name, name)
        await client.call(commit(name, name), 7)
        identity = MemberIdentity(member_id=joined.member_id, group_instance_id=name, reason=name)
        left = await client.call(LeaveGroupRequest(group_id=name, members=[identity]), 5)
        assert left.members[0].error_code == ErrorCode.NONE
        committed = await client.call(commit(name, name), 2)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        return str(joined.member_id)


async def test_any_name_is_kept_and_is_only_a_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path) as server:
        for name in NAMES.values():
            await one_life(server, name)
    async with serving(tmp_path) as server, Client(server) as client:
        listed = [group.group_id for group in (await client.call(ListGroupsRequest(), 4)).groups]
        assert sorted(listed) == sorted(NAMES.values())
        for name in NAMES.values():
            topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
            fetched = await client.call(OffsetFetchRequest(group_id=name, topics=topics), 7)
            part = fetched.topics[0].partitions[0]
            assert (part.committed_offset, part.metadata) == (5, name[:1000])
        registry = CollectorRegistry()
        registry.register(ServerMetricsCollector(read_metrics(server)))
        text = generate_latest(registry).decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert {sample.labels["state"] for sample in samples if sample.name == "groupd_groups"} == {
            "PreparingRebalance",
            "CompletingRebalance",
            "Stable",
            "Dead",
            "Empty",
        }
        deleted = await client.call(DeleteGroupsRequest(groups_names=list(NAMES.values())), 2)
        assert [result.error_code for result in deleted.results] == [ErrorCode.NONE] * len(NAMES)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("joins group" in line for line in lines) >= len(NAMES)
    for line in lines:
        assert not _CONTROL.search(line), line
        assert len(line) < 10_000


@pytest.mark.parametrize("name", ["", None])
async def test_a_client_without_a_name(tmp_path: Path, name: str | None) -> None:
    async with serving(tmp_path) as server, Client(server, client_id=name) as client:
        joined = await client.call(join("g"), 9)
        assert joined.error_code == ErrorCode.NONE
        described = (await client.call(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]
        assert described.members[0].client_id == ""


def directories(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if entry.is_dir()}


async def test_names_of_topics_that_cannot_be_are_refused_in_every_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, {"auto.create.topics.enable": "true"}) as server, Client(server) as client:
        for name in NAMES.values():
            part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topics = [OffsetCommitRequestTopic(name=name, partitions=[part])]
            answer = await client.call(OffsetCommitRequest(group_id="g", topics=topics), 2)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert directories(tmp_path) == {
        *(f"__consumer_offsets-{number}" for number in range(3)),
        *(f"orders-{number}" for number in range(3)),
    }
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
