"""Clock, recorder, oracles, request faults and disk faults of one server, registered in every order."""

from itertools import permutations

import pytest

from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording
from coordinator.runtime import partition_driver
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, heartbeat_request, join_alone
from tests.broker.test_group_partitions import active, code, commit, committed
from tests.control.faults.lab import Lab
from tests.control.interception import list_interceptors
from tests.control.serving import controlled
from tests.storage.faulty_files import FaultyFiles

GROUP = "g"
PROPERTIES = {"offsets.topic.num.partitions": "1", "oracle.commits": "true"}
COMMITS = {"api": "OffsetCommit", "group": GROUP}


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_driver, "RETRY_S", 0.01)


@pytest.mark.parametrize("order", list(permutations(("clock", "recorder", "faults"))), ids="-".join)
async def test_each_does_its_work_in_every_order_of_registration(order: tuple[str, ...]) -> None:
    async with controlled(None, PROPERTIES, FaultyFiles()) as (server, control), Client(server) as client:
        lab = Lab(server, control)
        member_id, generation_id = await join_alone(client, GROUP)

        async def register(name: str) -> None:
            if name == "clock":
                await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
            elif name == "recorder":
                control.recordings.start_recording(GROUP)
            else:
                lab.fault(COMMITS, name="refuse", times=1, do={"at": "request", "error": "UNKNOWN_MEMBER_ID"})
                lab.fault(COMMITS, name="late-append", times=1, do={"at": "append", "delay": 5})
                lab.fault(COMMITS, name="late-sync", times=1, skip=1, do={"at": "sync", "delay": 5})
                lab.fault(COMMITS, name="bad-sync", times=1, skip=2, do={"at": "sync", "fail": "EIO"})

        for name in order:
            await register(name)
        assert list_interceptors(server.runtime.find_partition(GROUP)) == ["ClockedShard", "RecordedShard"]
        codes = []
        for offset in (5, 9, 8, 7):
            request = commit(offset, group=GROUP, member_id=member_id, generation_id=generation_id)
            codes.append(code(await client.call(request, 7)))
        assert codes == [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.NOT_COORDINATOR,
        ]
        await active(server)
        assert await committed(client, GROUP) == 7, "the batch was written, and only its sync has failed"
        heartbeat = heartbeat_request(GROUP, member_id, generation_id)
        assert (await client.call(heartbeat, 3)).error_code == ErrorCode.NONE
        assert [fault.hit for fault in lab.faults.list_faults()] == [1, 1, 1, 1]
        found = control.oracles.violations.list_after(oracle=OracleName.COMMIT_WENT_BACK)
        assert [(one.oracle, one.times) for one in found] == [(OracleName.COMMIT_WENT_BACK, 2)]
        recorded = read_recording(b"".join(control.recordings.pieces(GROUP)).splitlines(keepends=True))
        assert compare_recording(recorded).different is None
        offsets = [
            line.fields["body"]["topics"][0]["partitions"][0]["committed_offset"]
            for line in recorded.lines
            if line.fields.get("request") == "OffsetCommitRequest"
        ]
        assert offsets == [9, 8, 7], "the recorder gets what the request fault lets through"
        lab.faults.remove_all()
        control.recordings.delete_all()
        await control.clocks.remove(GROUP)
        assert list_interceptors(server.runtime.find_partition(GROUP)) == []
        await lab.until_plain()
