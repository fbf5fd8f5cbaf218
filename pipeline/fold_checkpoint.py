"""The checkpoint of a build: the last silver batch with folded commits, and the location of the folds.

    _folds/current.json   the current checkpoint
    _folds/<name>/        the folds of all commits up to a batch, in pieces (`pipeline.group_pass`)

A rename of `current.json` publishes a complete directory, which then never changes. A killed build leaves the old
checkpoint and an unused directory; the next build removes the latter. A build folds all commits if there is no
checkpoint, if its version differs, or with `--full`. Builds keep no folds of a small log.
"""

import json
from typing import Final, NamedTuple
from uuid import uuid4

from pipeline.warehouse import FOLDS, Warehouse

VERSION: Final = 3
"""Of the folds' content. Raise it with each change of a fold, of the aggregates or of the links between commits."""

CURRENT: Final = f"{FOLDS}/current.json"


class FoldCheckpoint(NamedTuple):
    """The content of `current.json`."""

    version: int
    place: str
    through_batch: int
    grain_s: int
    """The step of plots of the stored CONSUMED and POSITIONS."""

    @classmethod
    def create(cls, through_batch: int, grain_s: int) -> "FoldCheckpoint":
        """Choose a directory for new folds."""
        return cls(VERSION, f"{FOLDS}/{uuid4().hex}", through_batch, grain_s)


def read_checkpoint(warehouse: Warehouse) -> FoldCheckpoint | None:
    """Return the last build's checkpoint; None unless this version wrote it for this silver."""
    if not warehouse.directory.exists(CURRENT):
        return None
    try:
        content = json.loads(warehouse.directory.read(CURRENT))
    except ValueError:
        return None
    fields = set(FoldCheckpoint._fields)
    if not isinstance(content, dict) or content.get("version") != VERSION or content.keys() != fields:
        return None
    found = FoldCheckpoint(**content)
    is_there = warehouse.directory.exists(found.place)
    is_of_this_silver = found.through_batch <= max(warehouse.complete_batches(), default=0)
    return found if is_there and is_of_this_silver else None


def replace_checkpoint(warehouse: Warehouse, new: FoldCheckpoint | None) -> None:
    """Publish a checkpoint, or remove it, and delete the folds of all others."""
    if new is None:
        warehouse.directory.delete(CURRENT)
    else:
        warehouse.directory.write(CURRENT, json.dumps(new._asdict()).encode() + b"\n")
    delete_unused_folds(warehouse)


def delete_unused_folds(warehouse: Warehouse) -> None:
    """Delete folds without a checkpoint. Call it only while no other build runs."""
    current = read_checkpoint(warehouse)
    for name in warehouse.directory.names(FOLDS):
        place = f"{FOLDS}/{name}"
        if place != CURRENT and (current is None or place != current.place):
            warehouse.directory.delete(place)
