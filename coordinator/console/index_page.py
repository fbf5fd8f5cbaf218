"""What `/` says to a terminal: what this is, and what is here. Browsers get the page (`page.py`)."""

from collections.abc import Mapping
from typing import Final

from coordinator.net.peer import printable
from coordinator.server.overview import Overview

WHAT: Final = (
    "groupd is a standalone Kafka group coordinator, for tests and for debugging and teaching consumer groups. "
    "Kafka clients bootstrap against its listeners as they would against a broker."
)
MAX_TEXT: Final = 1000


def as_text(overview: Overview, paths: Mapping[str, str]) -> str:
    """In: what there is at other paths."""
    lines = [f"groupd {overview.version}, {overview.standing}", "", WHAT.replace(". ", ".\n"), ""]
    lines += [f"{name}: {printable(value, MAX_TEXT)}" for name, value in _facts(overview)]
    lines += ["", *(f"{path:<10} {meaning}" for path, meaning in paths.items())]
    return "\n".join(lines) + "\n"


def _facts(overview: Overview) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    facts = [
        (f"Listener {listener.name}", f"{listener.bound}, advertised as {listener.advertised_text}")
        for listener in overview.listeners
    ]
    groups = str(overview.groups)
    if overview.loaded_partitions < overview.partitions:
        groups += f", from {overview.loaded_partitions} of {overview.partitions} partitions"
    if overview.failed_partitions:
        groups += f" ({overview.failed_partitions} could not be read)"
    facts += [
        ("Data directory", overview.data_dir),
        ("Topics", str(overview.topics)),
        ("Groups", groups),
    ]
    if overview.transactional_ids is not None:
        producers = str(overview.transactional_ids)
        if overview.failed_transaction_partitions:
            producers += f" ({overview.failed_transaction_partitions} partitions could not be read)"
        facts.append(("Transactional ids", producers))
    return facts
