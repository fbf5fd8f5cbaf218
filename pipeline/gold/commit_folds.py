"""All folds of commits, computed chunk by chunk."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.anomalies.mixed_commits import MIXTURES
from pipeline.gold.anomalies.offset_rewind import REWINDS
from pipeline.gold.anomalies.outside_ownership import UNOWNED
from pipeline.gold.anomalies.stuck_partition import HABITS
from pipeline.gold.build_info import TOTALS
from pipeline.gold.commit_aggregates import aggregate_commits
from pipeline.gold.commit_history import LAST_COMMITS, link_commits, with_writers
from pipeline.gold.commit_stats import CLIENTS
from pipeline.gold.fold import Fold
from pipeline.gold.progress import CONSUMED, POSITIONS, lengthen_steps
from pipeline.gold.rebalance_stats import COMMITS_AFTER
from pipeline.gold.velocity import MINUTES
from pipeline.table import Table

OF_AGGREGATES: Final = (MINUTES, CONSUMED, POSITIONS, COMMITS_AFTER, CLIENTS, UNOWNED, HABITS, TOTALS)
OF_RARE_COMMITS: Final = (REWINDS, MIXTURES)
FOLDS: Final[dict[str, Fold]] = {fold.name: fold for fold in (*OF_AGGREGATES, *OF_RARE_COMMITS)}
FOLD_TABLES: Final[dict[str, Table]] = {
    LAST_COMMITS.name: LAST_COMMITS,
    **{name: fold.table for name, fold in FOLDS.items()},
}
"""By name: what a build keeps of commits."""

IN_STEPS: Final = (CONSUMED, POSITIONS)


class CommitFolder:
    """Folds the commits of some groups, in log order.

    In: all records of these groups (`log_partition`, `group`, `log_offset`); `writers` of them; the folds of all
    commits before; the step of plots in seconds, of which the step of those folds is a divisor.
    """

    def __init__(
        self, records: pa.Table, writers: pa.Table, so_far: Mapping[str, pa.Table], step_s: int
    ) -> None:
        self._records = records
        self._writers = writers
        self._step_s = step_s
        self._last_commits = so_far.get(LAST_COMMITS.name, LAST_COMMITS.no_rows())
        self._parts = {name: [so_far[name]] if name in so_far else [] for name in FOLDS}
        for fold in IN_STEPS:
            self._parts[fold.name] = [lengthen_steps(fold, part, step_s) for part in self._parts[fold.name]]

    def add(self, commits: pa.Table) -> None:
        """Fold some more commits. In: COMMIT_COLUMNS, in log order."""
        linked, self._last_commits = link_commits(commits, self._records, self._last_commits)
        aggregates = with_writers(aggregate_commits(linked, self._step_s), self._writers)
        for fold in OF_AGGREGATES:
            self._parts[fold.name].append(fold.of(aggregates))
        rare = linked.filter(pc.or_(linked.column("is_rewind"), linked.column("is_mixed")))
        if len(rare):
            written = with_writers(rare, self._writers)
            for fold in OF_RARE_COMMITS:
                self._parts[fold.name].append(fold.of(written))

    def result(self) -> dict[str, pa.Table]:
        """Return the folds of all commits, by name."""
        folds = {name: fold.combine(self._parts[name]) for name, fold in FOLDS.items()}
        return {LAST_COMMITS.name: self._last_commits} | folds
