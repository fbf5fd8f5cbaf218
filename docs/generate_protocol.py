"""Generate docs/protocol.md: the APIs from `protocol.apis`, the evidence from the recordings of Kafka.

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
_INTRODUCTION: Final = """# APIs

This page lists the APIs and versions of groupd, and the evidence for each version. `ApiVersions` advertises
exactly these. The page is generated from `protocol/apis.py` and from recordings of Kafka by `python -m
docs.generate_protocol`; a test fails if it is stale.

The module of an API below `protocol/messages/` declares the fields of its messages with their versions.
`python -m protocol.codegen JoinGroupRequest 9` prints the code that encodes and decodes a message.

| key | API | versions | flexible from | declared in |
|---:|---|---|---|---|
"""


_PROOF: Final = """
## Evidence for each version

- Sessions: the number of scripted sessions (`tests/oracle/sessions/`) with this version, for each recorded
  version of Kafka. Each field of each response is compared with Kafka's. `make test` compares with
  `tests/oracle/recordings/`, `make oracle` with a live broker.
- Frames: the number of recorded requests and responses between a client and Kafka (`tests/frames/`). groupd
  decodes them and encodes them to the same bytes.
- Clients: the stock clients, or the broker, that used this version in these frames. The clients also form
  groups with groupd in `tests/interop/`.

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
    """Return the text of the page."""
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
    """Count the sessions with a request such as `JoinGroup v9`, by the recorded version of Kafka."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for recorded in recordings.read().values():
        for what in {short_name(entry.label) for entry in recorded.entries}:
            counts[what][recorded.version] += 1
    return counts


def frames_by_version() -> dict[str, Counter[str]]:
    """Count the recorded exchanges of a request such as `JoinGroup v9`, by client."""
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
        f"\nThe frames were {about['origin']} on {about['date']}, with {releases}.\n"
        "Frames of versions without support in that Kafka come from an older one.\n"
    )


def _text(versions: VersionRange) -> str:
    return str(versions.first) if versions.first == versions.last else f"{versions.first} to {versions.last}"


def _flexible_from(versions: VersionRange, flexible: VersionRange) -> str:
    first = max(versions.first, flexible.first)
    return str(first) if first in versions and first in flexible else "never"


if __name__ == "__main__":
    PAGE.write_text(page())
