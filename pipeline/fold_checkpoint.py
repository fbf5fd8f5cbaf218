"""The checkpoint of a build: up to which batch of silver commits are folded, and where the folds lie.

    _folds/current.json   the checkpoint in force
    _folds/<name>/        the folds of all commits up to a batch, as pieces (`pipeline.group_pass`)

A directory is complete before `current.json` names it, by one rename, and never changes. A killed build
leaves the old checkpoint in force, and a directory of its own, which the next build removes. Without a
checkpoint, with one of another version, or with `--full`, a build folds all commits. Builds keep no folds of
a small log.
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
    """The step of plots in which CONSUMED and POSITIONS are kept."""

    @classmethod
    def create(cls, through_batch: int, grain_s: int) -> "FoldCheckpoint":
        """Name a directory for folds that are about to be written."""
        return cls(VERSION, f"{FOLDS}/{uuid4().hex}", through_batch, grain_s)


def read_checkpoint(warehouse: Warehouse) -> FoldCheckpoint | None:
    """Return the checkpoint of the last build, None without one that this version wrote for this silver."""
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
    """Put a checkpoint in force, or none, and remove the folds of all others."""
    if new is None:
        warehouse.directory.delete(CURRENT)
    else:
        warehouse.directory.write(CURRENT, json.dumps(new._asdict()).encode() + b"\n")
    delete_unused_folds(warehouse)


def delete_unused_folds(warehouse: Warehouse) -> None:
    """Remove folds that no checkpoint names. Call it only while no other build runs."""
    current = read_checkpoint(warehouse)
    for name in warehouse.directory.names(FOLDS):
        place = f"{FOLDS}/{name}"
        if place != CURRENT and (current is None or place != current.place):
            warehouse.directory.delete(place)
