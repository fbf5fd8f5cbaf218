"""The journal check predicts the result of a start."""

from random import Random

import pytest

from storage.batch import encode_batch
from storage.data_directory import DataDirectory
from storage.inspection.journal_check import JournalCheck
from storage.inspection.log_findings import FindingEffect
from storage.inspection.log_reader import find_logs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.crash.late_worker import LateSyncer, results
from tests.storage.faulty_files import FaultyFiles

META = MetaProperties("cluster", 1, "directory")
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
NAMES = [TopicPartition("orders", 0), TopicPartition("payments", 3)]
TOPIC_IDS = {"orders": b"o" * 16, "payments": b"p" * 16}
SEEDS = range(150)


def opened(files: FaultyFiles) -> tuple[DataDirectory, dict[TopicPartition, PartitionLog]]:
    directory = DataDirectory.open(files, "/data", META, 64 * 1024)
    logs = {
        name: directory.open_log(name, CONFIG, TOPIC_IDS[name.topic], is_journaled=True) for name in NAMES
    }
    return directory, logs


def after_power_cut(seed: int) -> FaultyFiles:
    """Logs that were synced once, and then by the journal, and in part by themselves."""
    files, random = FaultyFiles(), Random(seed)
    directory, logs = opened(files)
    late = LateSyncer(random)
    for log in logs.values():
        append(log, random)
        log.sync()
    directory.write_checkpoints(logs)
    for _ in range(random.randrange(1, 25)):
        some = random.sample(list(logs.values()), random.randrange(1, 3))
        for log in some:
            append(log, random)
        found, done = results()
        late.syncer.submit(some, done)
        late.work_until(found)
        if random.random() < 0.2:
            late.syncer.settle_logs(some)
            late.work_some()
    return files.crash(random)


def append(log: PartitionLog, random: Random) -> None:
    values = [random.randbytes(random.choice([10, 300])) for _ in range(random.randrange(1, 4))]
    log.append(encode_batch([Record(-1, 1000, b"k", value) for value in values]))


def check(files: FaultyFiles) -> JournalCheck:
    return JournalCheck(files, find_logs(files, "/data"))


def test_what_is_said_to_be_missing_is_what_a_start_takes_back() -> None:
    taken = 0
    for seed in SEEDS:
        files = after_power_cut(seed)
        lacks = check(files).missing_tails
        _, logs = opened(files)
        for log in logs.values():
            report = log.recovery_report
            lack = lacks.get(log.directory)
            assert (lack is not None) == (report.replayed_bytes > 0), (seed, report)
            if lack is not None:
                taken += 1
                assert lack.gap_end_offset is None
                assert lack.end_offset == report.log_end_offset, seed
                missing = [batch.data for batch in log.iterate_batches(lack.offset)]
                assert sum(map(len, missing)) == report.replayed_bytes, seed
                assert lack.to_finding().effect is FindingEffect.TAKEN_BACK
    assert taken > len(SEEDS) // 4


@pytest.mark.parametrize("is_used", [False, True])
def test_a_directory_in_use_is_left_to_whoever_uses_it(is_used: bool) -> None:
    files = next(files for files in map(after_power_cut, SEEDS) if check(files).missing_tails)
    if is_used:
        files.lock("/data/.lock")
        files.write("/data/.lock", b"")
    assert bool(check(files).missing_tails) is not is_used


def test_what_belongs_to_another_life_of_a_topic_is_not_missing() -> None:
    files = next(files for files in map(after_power_cut, SEEDS) if check(files).missing_tails)
    for name in NAMES:
        path = f"/data/{name}/partition.metadata"
        files.write(path, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    assert not check(files).missing_tails


def test_a_gap_is_nothing_that_a_start_could_close() -> None:
    """The log was truncated below its settled offset."""
    files, random = FaultyFiles(), Random(1)
    _, logs = opened(files)
    log = logs[NAMES[0]]
    late = LateSyncer(random)
    for number in range(4):
        append(log, random)
        found, done = results()
        late.syncer.submit([log], done)
        late.work_until(found)
        if number == 2:
            late.syncer.settle_logs([log])
            for worker in late.workers.values():
                worker.work(worker.waiting)
            assert log.synced_offset == log.log_end_offset
    files = files.crash()
    for segment in find_logs(files, f"/data/{NAMES[0]}")[0].segments:
        files.unlink(segment.path) if segment.base_offset else files.write(segment.path, b"")
    (lack,) = check(files).missing_tails.values()
    assert lack.gap_end_offset is not None
    assert lack.to_finding().effect is FindingEffect.STOPS_LOAD
