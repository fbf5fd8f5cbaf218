"""Merging silver files never changes the rows of a reader, even when a merge is killed."""

import copy
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pipeline import merging
from pipeline.directory import LocalDirectory
from pipeline.fold_checkpoint import CURRENT, VERSION, FoldCheckpoint
from pipeline.lock import reading
from pipeline.merging import Batch, due, merge
from pipeline.silver.schemas import SILVER
from pipeline.warehouse import CHECKPOINT, FOLDS, STAGING, Warehouse, parquet_schema

MANY = 4
START = datetime(2026, 3, 1, tzinfo=UTC)
FILLED = ("commits", "members", "unknown_records")
"""Tables with rows here: of numbers, of lists, of bytes."""
CHANGING = ("create", "write", "rename", "link", "exchange", "delete")


class Killed(BaseException):
    """From here on nothing is done, as if the process had ended."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that may lie side by side; and no power fails here, for which to make each of the files durable."""
    monkeypatch.setattr(merging, "MANY", MANY)
    monkeypatch.setattr("pipeline.directory._sync", lambda _: None)


class Files:
    """Of Parquet, in directories of batches, each read once: none of them ever changes."""

    def __init__(self) -> None:
        self._columns: dict[tuple[int, ...], dict[str, list[Any]]] = {}

    def column(self, directory: str, column: str) -> list[tuple[int, list[Any]]]:
        """What a reader finds of a column below a directory: by file, its batch and its values."""
        found = []
        for path in Path(directory).glob("*/*.parquet"):
            stat = path.stat()
            name = stat.st_ino, stat.st_size, stat.st_mtime_ns
            if name not in self._columns:
                self._columns[name] = pq.read_table(path, partitioning=None).to_pydict()
            number = int(path.parent.name.removeprefix("ingest_batch="))
            found.append((number, self._columns[name][column]))
        return found


class Ingesting:
    """What an ingest does to a warehouse, without Spark."""

    def __init__(self, root: Path, seed: object) -> None:
        self.chance = random.Random(f"{seed}")
        self.warehouse = Warehouse(str(root))
        self.warehouse.create()
        self.warehouse.prepare()
        self.warehouse.directory.create(f"{CHECKPOINT}/offsets")
        self.rows: dict[str, Counter[int]] = {name: Counter() for name in FILLED}
        """How often each log offset is there, by table."""
        self.since: dict[int, int] = {}
        """The first log offset of each batch."""
        self.last = self.offset = self.n_records = 0
        self._files = Files()

    def adds(self, *, is_completed: bool = True) -> None:
        """A batch; one that is not completed has some of its tables."""
        number = self.last + 1
        self.since[number] = self.offset
        for name in FILLED if is_completed else FILLED[:1]:
            added = range(self.offset, self.offset + self.chance.choice([0, 1, 1, 2, 40]))
            if not added or self.warehouse.has_batch(name, number):
                continue
            staging = self.warehouse.stage(name, number)
            for place in range(self.chance.choice([1, 2])):
                rows = [row_of(offset) for offset in added[place::2]] + [row_of(added[0])] * (place and 2)
                table = pa.Table.from_pylist(rows, parquet_schema(SILVER[name]))
                pq.write_table(table, self.warehouse.path(f"{staging}/part-{place}.parquet"))
                self.rows[name].update(row["log_offset"] for row in rows)
            self.warehouse.publish(name, number, staging, self.warehouse.directory.names(staging))
        if is_completed:
            self.offset += 40
            self.n_records += 40
            self.warehouse.complete_batch(number, 40)
            self.last = number

    def folds(self) -> None:
        """A build goes up to here."""
        self.warehouse.directory.create(f"{FOLDS}/one")
        said = FoldCheckpoint(VERSION, f"{FOLDS}/one", self.last, 5)
        self.warehouse.directory.write(CURRENT, json.dumps(said._asdict()).encode())

    def begins_again(self) -> None:
        """Another process takes over."""
        self.warehouse = Warehouse(self.warehouse.root)
        self.warehouse.prepare()

    def copied(self, root: Path) -> "Ingesting":
        """The same in another place."""
        shutil.copytree(self.warehouse.root, root)
        other = copy.copy(self)
        other.warehouse, other.rows = Warehouse(str(root)), copy.deepcopy(self.rows)
        return other

    def looks(self, name: str, after_batch: int = -1) -> Counter[int]:
        """The rows of a table as any reader of Parquet sees them, by log offset."""
        found = Counter[int]()
        for number, offsets in self._files.column(self.warehouse.path(name), "log_offset"):
            if number > after_batch:
                found.update(offsets)
        return found

    def check(self) -> None:
        """Check that each row occurs as often as it was added, and that complete batches are known."""
        assert {name: self.looks(name) for name in FILLED} == self.rows
        batches = self._files.column(self.warehouse.path("ingest_batches"), "n_records")
        assert sum(sum(n_records) for _, n_records in batches) == self.n_records
        numbers = [number for number, n_records in batches for _ in n_records]
        assert sorted(numbers) == self.warehouse.complete_batches()
        assert max(numbers, default=0) == self.last
        for name in FILLED:
            files = self._files.column(self.warehouse.path(name), "log_offset")
            used = {number for number, offsets in files if offsets}
            assert {number for number in used if number <= self.last} <= set(numbers)

    @property
    def n_directories(self) -> int:
        return max(len(self.warehouse.directory.names(name)) for name in SILVER)


def row_of(offset: int) -> dict[str, Any]:
    """Of any table: those columns that it does not have are left out."""
    return {
        "log_partition": 7,
        "log_offset": offset,
        "record_ts": START + timedelta(seconds=offset),
        "group": f"group-{offset}",
        "subscribed_topics": None if offset % 3 else [f"topic-{offset}", "é"],
        "value": bytes([offset % 256]),
    }


@contextmanager
def at_each_change(
    monkeypatch: pytest.MonkeyPatch, look: Callable[[], None], killed_at: int | None = None
) -> Iterator[list[int]]:
    """Call `look` before and after each directory change, and kill the merge at one.

    yield the number of changes.
    """
    made = [0]

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: LocalDirectory, *arguments: Any) -> Any:
            look()
            if made[0] == killed_at:
                raise Killed
            made[0] += 1
            done = method(self, *arguments)
            look()
            return done

        return call

    with monkeypatch.context() as patched:
        for name in CHANGING:
            patched.setattr(LocalDirectory, name, counting(getattr(LocalDirectory, name)))
        yield made


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(3))
def test_no_reader_ever_sees_a_row_twice_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    made = Ingesting(tmp_path / "warehouse", seed)
    most = 0
    for _ in range(40):
        happens = made.chance.random()
        if happens < 0.1:
            made.folds()
        made.adds(is_completed=happens < 0.9)
        made.check()
        killed_at = made.chance.choice([None, made.chance.randrange(200)])
        try:
            with at_each_change(monkeypatch, made.check, killed_at):
                merge(made.warehouse)
        except Killed:
            made.begins_again()
        made.check()
        most = max(most, made.n_directories)
    merge(made.warehouse)
    assert most <= 3 * (MANY + 2), "those before the folds, those after, and what kills left"
    assert made.n_directories <= 2 * MANY + 2
    assert not list(Path(made.warehouse.path(STAGING)).iterdir())


@pytest.mark.usefixtures("few")
def test_killed_at_each_step_of_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, killed_at = Ingesting(tmp_path / "warehouse", 3), 0
    for _ in range(MANY + 1):
        made.adds()
    made.adds(is_completed=False)
    before = made
    while True:
        made = before.copied(tmp_path / f"{killed_at}")
        try:
            with at_each_change(monkeypatch, lambda: None, killed_at):
                merge(made.warehouse)
        except Killed:
            made.check()
            made.begins_again()
            made.adds()
            merge(made.warehouse)
            made.check()
            assert made.n_directories <= MANY + 1
            killed_at += 1
        else:
            break
    assert killed_at > 30


@pytest.mark.usefixtures("few")
def test_what_was_folded_stays_folded_and_nothing_else(tmp_path: Path) -> None:
    """A build reads the rows of batches above the one up to which it has folded: these and no others."""
    made = Ingesting(tmp_path / "warehouse", 1)
    for _ in range(MANY - 1):
        made.adds()
    made.folds()
    through, first = made.last, made.offset
    for _ in range(3 * MANY):
        made.adds()
        merge(made.warehouse)
        for name in FILLED:
            new = Counter({offset: n for offset, n in made.rows[name].items() if offset >= first})
            assert made.looks(name, after_batch=through) == new
    assert made.n_directories <= 2 * MANY + 2
    made.folds()
    for _ in range(2 * MANY):
        made.adds()
        merge(made.warehouse)
    assert made.looks("commits", after_batch=made.last) == Counter()
    made.check()


@pytest.mark.usefixtures("few")
def test_nothing_is_merged_under_a_reader_who_says_so(tmp_path: Path) -> None:
    made = Ingesting(tmp_path / "warehouse", 1)
    for _ in range(2 * MANY):
        made.adds()
    listed = sorted(Path(made.warehouse.path("commits")).rglob("*"))
    with reading(made.warehouse):
        merge(made.warehouse)
    assert sorted(Path(made.warehouse.path("commits")).rglob("*")) == listed
    merge(made.warehouse)
    assert made.n_directories <= MANY + 1


@pytest.mark.usefixtures("few")
def test_where_directories_cannot_be_exchanged_all_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ingesting(tmp_path / "warehouse", 1)
    for _ in range(2 * MANY):
        made.adds()

    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("pipeline.directory.exchange", refuse)
    merge(made.warehouse)
    made.check()
    assert made.warehouse.complete_batches() == list(range(1, 2 * MANY + 1))
    assert not list(Path(made.warehouse.path(STAGING)).iterdir())


def sizes_after(sizes: Sequence[int], through_batch: int = 0) -> tuple[list[Batch], int]:
    """Batches that come one after the other, as they lie at the end, and the bytes that were written again."""
    batches: list[Batch] = []
    rewritten = 0
    for number, size in enumerate(sizes, 1):
        batches.append(Batch(number, size))
        while numbers := due(batches, through_batch):
            chosen = [one for one in batches if one.number in numbers]
            at = batches.index(chosen[0])
            assert batches[at : at + len(chosen)] == chosen, "neighbours"
            assert len(chosen) > 1
            total = sum(one.size_bytes for one in chosen)
            batches[at : at + len(chosen)] = [Batch(numbers[-1], total)]
            rewritten += total
    return batches, rewritten


@pytest.mark.parametrize("kind", ["equal", "any", "falling", "one large"])
def test_few_are_left_and_little_is_written_again(kind: str) -> None:
    chance = random.Random(kind)
    sizes = {
        "equal": [1000] * 3000,
        "any": [int(10 ** chance.uniform(1, 7)) for _ in range(3000)],
        "falling": [1 << 20 >> number % 20 for number in range(3000)],
        "one large": [merging.ENOUGH_BYTES - 1, *[100] * 3000],
    }[kind]
    batches, rewritten = sizes_after(sizes)
    full = [one for one in batches if one.size_bytes >= merging.ENOUGH_BYTES]
    assert sum(one.size_bytes for one in batches) == sum(sizes)
    assert len(batches) <= (len(full) + 1) * (merging.MANY + 1)
    assert rewritten <= 12 * sum(sizes)


def test_of_ever_smaller_batches_the_last_two_are_made_one() -> None:
    halves = [Batch(number, merging.ENOUGH_BYTES >> number) for number in range(1, merging.MANY + 2)]
    assert due(halves, 0) == [merging.MANY, merging.MANY + 1]


def test_batches_on_both_sides_of_the_folds_are_never_one() -> None:
    for through_batch in range(1, 30):
        batches, _ = sizes_after([10] * 30, through_batch)
        assert through_batch in [one.number for one in batches]
