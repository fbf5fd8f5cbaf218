"""The peers of `make bench` accept the requests of the load generator. A run omits a missing peer and reports
the reason."""

from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from benchmarks import peers as started
from benchmarks.commit import commit_frames
from benchmarks.connection import Connection
from benchmarks.groups import group_names
from benchmarks.member import TOPIC, Member
from benchmarks.peers import ECHO, KFAKE, MOCK, start_peers
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking


async def test_a_peer_that_cannot_be_built_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_go(topic: str, partitions: int, properties: Mapping[str, str]) -> list[str]:
        raise CannotBuild("go is not installed")

    monkeypatch.setattr(started, "kfake_command", no_go)
    with ExitStack() as stack:
        peers = await start_peers(stack, (ECHO, KFAKE), TOPIC, [])
        assert list(peers.servers) == [ECHO]
    assert peers.left_out == " Not there: kfake (go is not installed)."
    assert "kfake is left out: go is not installed" in capsys.readouterr().out


@pytest.mark.interop
@pytest.mark.parametrize(("name", "heartbeat_version"), [(KFAKE, 4), (MOCK, 3)])
async def test_a_peer_takes_joins_commits_and_heartbeats(name: str, heartbeat_version: int) -> None:
    groups = group_names(3)
    with ExitStack() as stack:
        peers = await start_peers(stack, [name], TOPIC, groups)
        if peers.missing:
            lacking(peers.missing[name])
        server = peers.servers[name]
        assert len(await commit_frames(server, groups)) == len(groups)
        member = Member(await Connection.open(server), "another")
        await member.join()
        answer = await member.connection.request(
            member.heartbeat_request(), heartbeat_version, HeartbeatResponse
        )
        assert answer.error_code == ErrorCode.NONE
        member.connection.transport.abort()
