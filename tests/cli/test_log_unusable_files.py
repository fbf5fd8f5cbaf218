"""`groupd log verify` and `repair`, and a start, where something else is in the place of a file of a log.

That is a fact about the one file. All other files and logs are looked at, repaired and served.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.batch import walk_batches
from storage.files import OsFiles
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.cli.log_directory import ORDERS, SMALL_SEGMENTS, json_lines, log, segments, write_data_directory
from tests.topics.broker import Broker

OTHER = TopicPartition("other", 0)


def directory(path: Path) -> None:
    path.mkdir()
    (path / "file").write_bytes(b"what somebody put here")


def broken_link(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two logs of several segments, to be copied."""
    path = tmp_path_factory.mktemp("sound") / "data"
    batches = [[Record(-1, 1_700_000_000_000 + number, b"key", bytes(300))] for number in range(20)]
    write_data_directory(path, {ORDERS: batches, OTHER: batches}, SMALL_SEGMENTS)
    (path / str(ORDERS) / f"{0:020d}.txnindex").touch()
    return path


def records(path: Path, name: TopicPartition) -> int:
    return sum(
        len(list(walk_batches(segment.read_bytes()))) for segment in segments(path, name) if segment.is_file()
    )


FILES = [
    *(
        "first.log",
        "middle.log",
        "last.log",
        "first.index",
        "last.index",
        "first.timeindex",
        "first.txnindex",
    ),
    *(
        "first.snapshot",
        "first.log.swap",
        "first.log.cleaned",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ),
]


@pytest.fixture(params=[directory, broken_link, link_to_itself, pipe])
def put(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    """Makes a directory, a link or a pipe at a path."""
    make: Callable[[Path], None] = request.param
    return make


@pytest.fixture(params=FILES)
def spoiled(request: pytest.FixtureRequest, put: Callable[[Path], None], sound: Path, tmp_path: Path) -> Path:
    """A path in the first of two logs where something else is than a file."""
    data = Path(shutil.copytree(sound, tmp_path / "data"))
    stems = [segment.stem for segment in segments(data, ORDERS)]
    assert len(stems) > 2
    which, _, suffix = request.param.partition(".")
    names = {"first": stems[0], "middle": stems[1], "last": stems[-1]}
    path = data / str(ORDERS) / (f"{names[which]}.{suffix}" if which in names else request.param)
    path.unlink(missing_ok=True)
    put(path)
    return path


def test_verify_names_an_unusable_file_and_checks_the_rest(spoiled: Path) -> None:
    data = spoiled.parents[1]
    damaged = segments(data, OTHER)[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    *found, summary = json_lines(log("verify", "--json", data), 1)
    own = [finding for finding in found if finding["topic"] == ORDERS.topic]
    assert [finding["path"] for finding in own if finding["kind"] == "unusable_file"] == [str(spoiled)]
    assert [finding["path"] for finding in found if finding["topic"] == OTHER.topic] == [str(damaged)]
    assert summary["findings"] == len(found)


def test_a_repaired_copy_has_all_that_can_be_read(spoiled: Path, tmp_path: Path) -> None:
    data, copy = spoiled.parents[1], tmp_path / "copy"
    kept = records(data, ORDERS)
    losses = [
        each for each in json_lines(log("repair", "--json", "--out", copy, data)) if each["type"] == "loss"
    ]
    assert [each["path"] for each in losses] == [str(spoiled)] * spoiled.name.endswith(".log")
    assert records(copy, ORDERS) == kept
    assert records(copy, OTHER) == 20
    assert log("verify", copy).exit_code == 0


def test_a_log_that_is_repaired_in_place_is_sound(spoiled: Path) -> None:
    data = spoiled.parents[1]
    kept = records(data, ORDERS)
    assert log("repair", "--in-place", data).exit_code == 0
    assert os.path.lexists(f"{spoiled}.damaged")
    assert not spoiled.exists() or spoiled.is_file()
    assert records(data, ORDERS) == kept
    assert records(data, OTHER) == 20
    verified = log("verify", data)
    assert verified.exit_code == 0, verified.output


def test_a_start_names_an_unusable_file_and_serves_the_rest(spoiled: Path) -> None:
    broker = Broker(str(spoiled.parents[1]))
    failed = broker.plane.list_failed_partitions()
    assert failed.keys() <= {ORDERS}
    assert all(spoiled.name in str(error) for error in failed.values()), failed
    other = broker.plane.catalogue.find_partition(*OTHER)
    assert other is not None
    assert other.high_watermark == 20
    broker.crash()


@pytest.mark.parametrize("make", [directory, pipe])
def test_special_files_are_not_opened(make: Callable[[Path], None], tmp_path: Path) -> None:
    """The opening of a pipe would wait for a writer."""
    path, files = tmp_path / "file", OsFiles()
    make(path)
    for use in (files.read, files.open_read, files.open_append, files.open_update):
        with pytest.raises(OSError, match=str(path)):
            use(str(path))
