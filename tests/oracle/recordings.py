"""Kafka's responses in text files: one per subject, with sessions in the order of their names.

All responses of the newest Kafka are kept. Of an older Kafka only sessions with different responses are kept, and
those that the newest cannot answer because it dropped a version.

# Answers of Apache Kafka 4.4.0, recorded on 2026-11-21 by `make oracle-record`.

= a_beat_of_nobody[v0]
a Heartbeat v0 -> {"error_code": "UNKNOWN_MEMBER_ID"}
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests.oracle.play import Account, Entry

RECORDINGS: Final = Path(__file__).with_name("recordings")
_ORIGIN: Final = "# Answers of Apache Kafka {version}, recorded on {date} by `make oracle-record`.\n"


class Recorded(NamedTuple):
    """What Kafka answered in a session, and which Kafka."""

    version: str
    subject: str
    entries: list[Entry]


def write(version: str, date: str, accounts: Iterable[Account], subjects: Collection[str]) -> None:
    """Replace the recordings of these subjects for this version of Kafka."""
    folder = RECORDINGS / version
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        if old.stem in subjects:
            old.unlink()
    by_subject: dict[str, list[Account]] = defaultdict(list)
    for account in accounts:
        by_subject[account.session.subject].append(account)
    for subject, mine in by_subject.items():
        lines = [_ORIGIN.format(version=version, date=date)]
        for account in sorted(mine, key=lambda account: account.session.name):
            lines.append(f"\n= {account.session.name}\n")
            lines += [f"{entry.label} -> {json.dumps(entry.answer)}\n" for entry in account.entries]
        (folder / f"{subject}.txt").write_text("".join(lines), "utf-8")


def read() -> dict[str, Recorded]:
    """Every session that is kept, by name; the newest Kafka's answer where several answered."""
    recorded: dict[str, Recorded] = {}
    for version in versions():
        recorded |= read_version(version)
    return recorded


def read_version(version: str) -> dict[str, Recorded]:
    """The sessions that are kept of one Kafka, by name."""
    return {
        name: Recorded(version, file.stem, entries)
        for file in sorted((RECORDINGS / version).glob("*.txt"))
        for name, entries in _sessions(file.read_text("utf-8"))
    }


def versions() -> list[str]:
    """The Kafkas of which answers are kept, the newest last."""
    found = (folder.name for folder in RECORDINGS.glob("*") if folder.is_dir())
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def _sessions(text: str) -> Iterable[tuple[str, list[Entry]]]:
    for block in text.split("\n= ")[1:]:
        name, *lines = block.splitlines()
        parts = [line.partition(" -> ") for line in lines if line]
        yield name, [Entry(label, json.loads(answer)) for label, _, answer in parts]
