"""Where groupd's properties differ from Kafka's on purpose. docs/configuration.md tells it from this, and a test
finds every difference that is not here, and every one that is no more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def _nothing(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Explained:
    """A difference of some properties, in words and so that a test can recognise it."""

    names: tuple[str, ...]
    kafka: str
    here: str
    why: str
    is_default: bool = False
    """Whether another default is the difference."""
    refuses: Callable[[str], bool] = _nothing
    """Which values Kafka takes and groupd does not. There are none the other way round."""


EXPLAINED: Final = (
    Explained(("node.id",), "no default", "1", "There is one node.", is_default=True),
    Explained(
        ("listeners",),
        "`PLAINTEXT://:9092`",
        "`PLAINTEXT://127.0.0.1:9092`",
        "Without access control nobody else is let in unasked. The image listens on every address.",
        is_default=True,
    ),
    Explained(("log.dirs",), "`/tmp/kafka-logs`", "`./data`", "Temporary files go.", is_default=True),
    Explained(
        ("log.dirs",),
        "several directories",
        "one",
        "One directory holds everything.",
        refuses=lambda value: "," in value,
    ),
    Explained(
        ("socket.listen.backlog.size",),
        "50",
        "4096",
        "Thousands of clients that connect at once are not made to try again.",
        is_default=True,
    ),
    Explained(
        ("queued.max.request.bytes",),
        "-1",
        "268435456",
        "Requests that are begun and never sent whole would take all memory.",
        is_default=True,
    ),
    Explained(
        ("log.flush.interval.ms",),
        "no default",
        "1000",
        "It acts with `log.flush=interval` only.",
        is_default=True,
    ),
    Explained(
        ("group.initial.rebalance.delay.ms", "offset.metadata.max.bytes"),
        "any number",
        "not below 0",
        "Nothing is less than nothing; Kafka takes such a delay for none, and then no metadata at all.",
        refuses=lambda value: int(value) < 0,
    ),
    Explained(
        ("group.min.session.timeout.ms",),
        "any number",
        "from 0 to `group.max.session.timeout.ms`",
        "Kafka starts, and above that no member can join.",
        refuses=lambda value: not 0 <= int(value) <= 1_800_000,
    ),
    Explained(
        ("group.max.session.timeout.ms",),
        "any number",
        "not below `group.min.session.timeout.ms`",
        "The same.",
        refuses=lambda value: int(value) < 6000,
    ),
    Explained(
        ("listeners", "advertised.listeners"),
        "ports above 65535",
        "refused",
        "Kafka takes the text and fails later.",
        refuses=lambda value: value.endswith(":65536"),
    ),
    Explained(
        ("log.dirs",),
        "a zero byte",
        "refused",
        "The same.",
        refuses=lambda value: "\0" in value,
    ),
    Explained(
        ("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
        "`NaN`",
        "refused",
        "It is no share.",
        refuses=lambda value: value == "NaN",
    ),
    Explained(
        ("internal.segment.bytes",),
        "any number",
        "not below 1",
        "No record fits into less.",
        refuses=lambda value: int(value) < 1,
    ),
)

OWN: Final = (
    "control.enable",
    "control.hosts",
    "control.token",
    "control.token.file",
    "http.listener",
    "http.max.connections",
    "http.request.timeout.ms",
    "ledger.bytes",
    "ledger.file",
    "max.incremental.fetch.session.cache.partitions",
    "offsets.history",
    "open.files.reserved",
    "oracle.commits",
    "oracle.orphan.ms",
    "oracle.stuck.ms",
    "queued.max.request.stall.ms",
    "log.flush",
    "log.journal.file.bytes",
    "transaction.version",
)
"""Properties that Kafka does not have."""
