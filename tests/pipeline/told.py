"""An invented history, from silver to the report."""

from collections.abc import Callable, Collection
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.build import BuildSettings, Built, build
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.snapshot import Snapshot
from pipeline.report.gather import Gathered
from pipeline.report.page import write_report
from pipeline.report.report_tables import Selection
from pipeline.warehouse import Warehouse
from storage.topic_partition import TopicPartition
from tests.pipeline.hand_made import HandMade, at, fill

HOSTILE = "<script>document.title='owned'</script>'\"&$x^2$\\\u202e\x00\n" + "long" * 60
N_SHOWN = 4
N_ABORTED = 25
Fill = Callable[[HandMade], None]


def eventful(made: HandMade) -> None:
    """Write ten minutes of several groups, one with a hostile name."""
    made.generation("quiet", 3, {"lonely": []}, 0)
    for n in range(8):
        made.generation("restless", 1 + n, {f"r{n}": [("orders", 0)], f"s{n}": [("orders", 1)]}, 30 * n)
        made.commit("restless", "orders", 0, 10 * n, 30 * n + 5)
    made.emptied("restless", 9, 300)
    made.generation(HOSTILE, 1, {HOSTILE: [(HOSTILE, n) for n in range(3)]}, 1)
    made.generation("wide", 1, {f"w{n}@w{n}": [("docs", n), ("docs", n + 30)] for n in range(30)}, 2)
    for n in range(60):
        made.commit(HOSTILE, HOSTILE, 0, 500 - 7 * n, 10 * n)
        made.commit("wide", "docs", n, 5, 10 * n)
        made.commit("wide", "orders", 0, 5, 10 * n, producer_id=4 if n % 3 == 1 else None)
    for n in range(20):
        made.commit(f"small-{n}", "orders", 1, n, 600)
    for n in range(N_ABORTED):
        made.finding("aborted_transaction", 50 + n, 600)
    made.finding("open_transaction", 20, 300)
    made.finding("open_transaction", made.next_offset, 600)


class Told:
    """A warehouse that grows by one ingest after the other, with a new build and report each time."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.warehouse = Warehouse(str(directory / "warehouse"))
        self.file = directory / "report.html"
        self.asked: list[tuple[set[TopicPartition], Period]] = []
        self.built: list[Built] = []
        self._made = HandMade()
        self._batches = 0

    def goes_on(self, history: Fill, ends: Collection[LogEnd] = ()) -> Gathered:
        """Return the report on the whole history after one more piece."""
        later = HandMade()
        later.next_offset = self._made.next_offset
        history(later)
        self._made, self._batches = later, self._batches + 1
        fill(self.warehouse, later, self._batches)

        def measure(
            partitions: Collection[TopicPartition], period: Period, _: Snapshot
        ) -> Collection[LogEnd]:
            self.asked.append((set(partitions), period))
            return ends

        build(lambda: self.spark, self.warehouse, BuildSettings(measure=measure, on_table=self.built.append))
        return write_report(self.warehouse, str(self.file), Selection(n_groups=N_SHOWN))

    @property
    def text(self) -> str:
        """Return the current report."""
        return self.file.read_text(encoding="utf-8")


def ends(*measured: tuple[str, int, float, int]) -> list[LogEnd]:
    """Topic, partition, second of the measurement, log end."""
    return [
        LogEnd(topic, n, int(at(second).timestamp() * 1000), 0, end, "file")
        for topic, n, second, end in measured
    ]


MEASURED = ends(("orders", 0, 100, 50), ("orders", 0, 600, 900), ("orders", 1, 600, 19))
