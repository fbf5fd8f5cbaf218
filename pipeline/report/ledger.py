"""Read causes of rebalances that only the daemon's ledger has, such as whether a member left or its session
expired.

Source: the file of the property `ledger.file`, one entry per line; `….1` has the entries before it.
"""

import json
import os
from collections.abc import Collection, Iterator
from typing import Any, Final

from pipeline.errors import BadInput
from pipeline.gold.causes import client_name
from pipeline.report.words import count, listed
from storage.storage_errors import format_error_reason

OLDER: Final = ".1"
_SHOWN: Final = 4


def read_ledger(path: str, groups: Collection[str]) -> dict[str, dict[int, str]]:
    """Read the causes and members of rebalances, by group and resulting generation (or epoch).

    An incomplete last line is ignored, because the daemon is still writing it.

    Args:
        path: the ledger file.
        groups: the groups to read.

    Raises:
        BadInput: a line is malformed; the text names it.
    """
    found: dict[str, dict[int, str]] = {group: {} for group in groups}
    for each in (path + OLDER, path):
        if each == path or os.path.exists(each):
            for entry in _entries(each):
                if entry["group_id"] in found:
                    found[entry["group_id"]][entry["generation_id"]] = _why(entry)
    return found


def _entries(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    entry = json.loads(line)
                    assert isinstance(entry["group_id"], str)
                    assert isinstance(entry["generation_id"], int)
                    assert isinstance(entry["cause"], str)
                except (ValueError, KeyError, TypeError, AssertionError) as error:
                    raise BadInput(f"{path}: line {number} is not an entry of a ledger") from error
                yield entry
    except OSError as error:
        raise BadInput(f"{path}: {format_error_reason(error, path)}") from error


def _why(entry: dict[str, Any]) -> str:
    actor = entry.get("actor")
    if not isinstance(actor, dict):
        return str(entry["cause"])
    return f"{entry['cause']}: {client_name(actor.get('client_id'), actor.get('client_host'))}"


def in_short(known: dict[int, str]) -> str:
    """Return the number of rebalances by cause."""
    found: dict[str, int] = {}
    for why in known.values():
        cause = why.partition(":")[0]
        found[cause] = found.get(cause, 0) + 1
    ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return listed([f"{cause} ({count(n, 'time')})" for cause, n in ranked], _SHOWN)
