"""Read the position of the ingest from Spark's checkpoint."""

import json
from typing import Any, Final

from pipeline.directory import local_path
from pipeline.warehouse import CHECKPOINT, Warehouse

_PLANNED: Final = f"{CHECKPOINT}/offsets"
_COMPLETED: Final = f"{CHECKPOINT}/commits"


def read_planned_offset(warehouse: Warehouse) -> dict[str, Any] | None:
    """Return the end offset of the last batch that Spark planned; None without a readable one."""
    batches = _batches(warehouse, _PLANNED)
    if not batches:
        return None
    lines = warehouse.directory.read(f"{_PLANNED}/{batches[-1]}").splitlines()
    try:
        offset = json.loads(lines[-1])
    except (ValueError, IndexError):
        return None  # spark reports the error
    return offset if isinstance(offset, dict) else None


def read_last_offset(warehouse: Warehouse) -> dict[str, Any] | None:
    """Return the offset at which the ingest of a local warehouse stopped; None before the first batch, after an
    interrupted one, or if only Spark can read the checkpoint.
    """
    if local_path(warehouse.root) is None:
        return None
    if _batches(warehouse, _PLANNED)[-1:] != _batches(warehouse, _COMPLETED)[-1:]:
        return None
    return read_planned_offset(warehouse)


def _batches(warehouse: Warehouse, place: str) -> list[int]:
    return sorted(int(name) for name in warehouse.directory.names(place) if name.isdigit())
