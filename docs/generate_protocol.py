"""Writes docs/protocol.md: what is served, from the table that serves it; where that is proven, from what is
recorded of Kafka.

python -m docs.generate_protocol
"""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from protocol.apis import APIS, VersionRange
from tests.frames import recording
from tests.kafka_log.artifacts import NEWEST
from tests.oracle import recordings
from tests.oracle.play import short_name

PAGE: Final = Path(__file__).with_name("protocol.md")
_INTRODUCTION: Final = """# The APIs that groupd serves

Generated from `protocol/apis.py` and from what is recorded of Kafka by `python -m docs.generate_protocol`; a test
fails when it is stale.
`ApiVersions` advertises exactly this. The fields of a message, version by version, are its declaration: one
file an API below `protocol/messages/`; `python -m protocol.codegen JoinGroupRequest 9` prints the code that
reads and writes one.

| key | API | versions | flexible from | declared in |
|---:|---|---|---|---|
"""


_PROOF: Final = """
## Where each version is proven

- Sessions: scripted conversations (`tests/oracle/sessions/`) that ask for this version, each answer of which is
  compared field by field with Apache Kafka's; the number for each Kafka whose answers are kept. `make test`
  compares with what is kept in `tests/oracle/recordings/`, `make oracle` with a live broker.
- Frames: requests and answers that a client and Apache Kafka exchanged (`tests/frames/`), which decode and encode
  to the same bytes.
- Clients: the stock clients among them that speak this version by themselves, or a broker that does; the clients
  also form groups against groupd in `tests/interop/`.

| API | version | sessions | frames | clients |
|---|---:|---|---:|---|
"""
_NAMES: Final = {
    "aiokafka": "aiokafka",
    "confluent": "librdkafka",
    "franz_go": "franz-go",
    "java": "Java",
    "kafka": "a broker",
    "kafka_python": "kafka-python",
    "kafkajs": "kafkajs",
}
_BY_HAND: Final = "oracle"


def page() -> str:
    """The page as it should be."""
    return (
        _INTRODUCTION
        + "".join(
            f"| {key} | {api.name} | {_text(api.versions)} | {_flexible_from(api.versions, api.flexible)} "
            f"| `protocol/messages/{api.key.name.lower()}.py` |\n"
            for key, api in sorted(APIS.items())
        )
        + _PROOF
        + "".join(f"| {' | '.join(row)} |\n" for row in _proofs())
        + _clients()
    )


def sessions_by_version() -> dict[str, Counter[str]]:
    """How many sessions ask for `JoinGroup v9`, by the Kafka whose answers are kept."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for recorded in recordings.read().values():
        for what in {short_name(entry.label) for entry in recorded.entries}:
            counts[what][recorded.version] += 1
    return counts


def frames_by_version() -> dict[str, Counter[str]]:
    """How many exchanges are kept of `JoinGroup v9`, by client."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for exchange in recording.read():
        counts[f"{exchange.api.name} v{exchange.version}"][exchange.client] += 1
    return counts


def _proofs() -> list[tuple[str, ...]]:
    sessions, frames = sessions_by_version(), frames_by_version()
    return [
        (
            api.name,
            str(version),
            ", ".join(f"{kafka}: {count}" for kafka, count in sorted(sessions[what].items(), reverse=True))
            or "-",
            str(frames[what].total() or "-"),
            ", ".join(_NAMES[client] for client in sorted(frames[what]) if client != _BY_HAND) or "-",
        )
        for _, api in sorted(APIS.items())
        for version in range(api.versions.first, api.versions.last + 1)
        for what in [f"{api.name} v{version}"]
    ]


def _clients() -> str:
    about = recording.origin(NEWEST)
    releases = ", ".join(
        f"{_NAMES[name]} {release.partition('(librdkafka ')[2].rstrip(')') or release}"
        for name, release in sorted(about["clients"].items())
    )
    return (
        f"\nThe frames were {about['origin']} on {about['date']}, with {releases};\n"
        "those of versions that it does not answer come from an older one.\n"
    )


def _text(versions: VersionRange) -> str:
    return str(versions.first) if versions.first == versions.last else f"{versions.first} to {versions.last}"


def _flexible_from(versions: VersionRange, flexible: VersionRange) -> str:
    first = max(versions.first, flexible.first)
    return str(first) if first in versions and first in flexible else "never"


if __name__ == "__main__":
    PAGE.write_text(page())
