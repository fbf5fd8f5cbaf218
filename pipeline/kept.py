"""Up to which batch of silver the commits are folded, as builds write it down for the next one."""

import json
from typing import Final, NamedTuple

from pipeline.warehouse import FOLDS, Warehouse

VERSION: Final = 2
"""Of what the folds hold: one more whenever a fold or the commit history changes."""

CURRENT: Final = f"{FOLDS}/current.json"


class Kept(NamedTuple):
    """What `current.json` says."""

    version: int
    place: str
    through_batch: int
    grain_s: int


def kept(warehouse: Warehouse) -> Kept | None:
    """What earlier builds left to go on with: nothing, where it is not what this version writes."""
    if not warehouse.directory.exists(CURRENT):
        return None
    try:
        said = json.loads(warehouse.directory.read(CURRENT))
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("version") != VERSION or said.keys() != set(Kept._fields):
        return None
    found = Kept(**said)
    is_there = warehouse.directory.exists(found.place)
    is_of_this_silver = found.through_batch <= max(warehouse.complete_batches(), default=0)
    return found if is_there and is_of_this_silver else None
