"""Where groupd's properties differ from Kafka's on purpose. docs/configuration.md tells it from this, and a test
finds every difference that is not here, and every one that is no more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.config.security_properties import OAUTH_VALIDATORS
from coordinator.config.validators import AUTHORIZER


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
    """Which values Kafka takes and groupd does not."""
    takes: Callable[[str], bool] = _nothing
    """Which values groupd takes and Kafka does not."""


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
    Explained(
        ("authorizer.class.name",),
        "any class",
        "Kafka's own",
        "No Java runs here.",
        refuses=lambda value: value not in AUTHORIZER.words,
    ),
    Explained(
        ("sasl.server.callback.handler.class",),
        "a class that is there",
        "also the name of Kafka's validator before 4.0",
        "Files that name it stay as they are.",
        takes=lambda value: value == OAUTH_VALIDATORS[1],
    ),
    Explained(
        ("ssl.enabled.protocols",),
        "anything",
        "`TLSv1.2`, `TLSv1.3`",
        "Older ones are broken; Kafka starts, and fails on a name that Java does not know.",
        refuses=lambda value: not set(value.replace(" ", "").split(",")) <= {"", "TLSv1.2", "TLSv1.3"},
    ),
    Explained(
        ("ssl.cipher.suites",),
        "anything",
        "names of TLS 1.2 and 1.3",
        "The same.",
        refuses=lambda value: "NONSENSE" in value or value == "AES256-SHA",
    ),
    Explained(
        ("ssl.keystore.type", "ssl.truststore.type"),
        "anything",
        "`JKS`, `PKCS12`, `PEM`",
        "Kafka starts, and then needs a provider of that type.",
        refuses=lambda value: value in ("", "BKS"),
    ),
    Explained(
        ("ssl.keystore.location", "ssl.truststore.location"),
        "any text",
        "the path of a file",
        "Kafka fails later.",
        refuses=lambda value: value.endswith("/") or "\0" in value,
    ),
    Explained(
        ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"),
        "any text",
        "printable text",
        "Nobody has typed another password.",
        refuses=lambda value: not value.isprintable(),
    ),
    Explained(
        ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"),
        "any text",
        "PEM",
        "Kafka fails later.",
        refuses=lambda value: value == "not PEM",
    ),
    Explained(
        ("ssl.principal.mapping.rules",),
        "any text",
        "rules",
        "The same.",
        refuses=lambda value: value not in ("", "DEFAULT") and not value.startswith("RULE:"),
    ),
    Explained(
        ("sasl.jaas.config",),
        "any text",
        "a login module",
        "The same.",
        refuses=lambda value: value == "nonsense",
    ),
    Explained(
        ("sasl.server.max.receive.size",),
        "any number",
        "not below 1",
        "A negative one means without a bound in Kafka, for whoever comes.",
        refuses=lambda value: int(value) < 1,
    ),
    Explained(
        ("sasl.oauthbearer.clock.skew.seconds",),
        "any number",
        "not below 0",
        "Nothing is less than nothing.",
        refuses=lambda value: int(value) < 0,
    ),
    Explained(
        (
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        ),
        "any number",
        "not below 1",
        "Kafka fails where it is used.",
        refuses=lambda value: int(value) < 1,
    ),
    Explained(
        ("sasl.oauthbearer.jwks.endpoint.url",),
        "any text",
        "https:, http: or file:",
        "The same.",
        refuses=lambda value: value not in ("", "file:///keys.json", "https://id.example/keys"),
    ),
    Explained(
        (
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
        ),
        "any text",
        "printable text, and a claim has a name",
        "The same.",
        refuses=lambda value: not value.isprintable(),
    ),
    Explained(
        ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name"),
        "nothing",
        "some text",
        "The same.",
        refuses=lambda value: value == "",
    ),
    Explained(
        ("inter.broker.listener.name",),
        "a listener that is there",
        "also none: the first that is PLAINTEXT",
        "It counts in a cluster alone, where another that is not there stops the start.",
        takes=lambda value: value == "",
    ),
    Explained(
        ("security.inter.broker.protocol",),
        "the name of a listener that is there",
        "any protocol",
        "The same.",
        takes=lambda value: value in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Explained(
        ("sasl.mechanism.inter.broker.protocol", "ssl.endpoint.identification.algorithm"),
        "any text",
        "printable text",
        "In a cluster the former has to be a mechanism of the listener between brokers, and the latter `https` or "
        "nothing; else the start stops.",
        refuses=lambda value: not value.isprintable(),
    ),
    Explained(
        ("broker.rack",),
        "any text",
        "printable text",
        "It is part of answers and of lines of the log.",
        refuses=lambda value: not value.isprintable(),
    ),
)

OWN: Final = (
    "accept.any.replication.factor",
    "authentication.timeout.ms",
    "cluster.append.timeout.ms",
    "cluster.etcd.ca",
    "cluster.etcd.cert",
    "cluster.etcd.endpoints",
    "cluster.etcd.key",
    "cluster.etcd.password",
    "cluster.etcd.prefix",
    "cluster.etcd.quota.bytes",
    "cluster.etcd.username",
    "cluster.move.delay.ms",
    "cluster.topics.max.bytes",
    "control.enable",
    "control.hosts",
    "control.token",
    "control.token.file",
    "http.listener",
    "http.max.connections",
    "http.request.timeout.ms",
    "http.tls.certificate",
    "http.tls.key",
    "ledger.bytes",
    "ledger.file",
    "namespace.idle.timeout.ms",
    "namespace.max.bytes",
    "namespace.ports",
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

UNDEFINED: Final = ("super.users", "allow.everyone.if.no.acl.found")
"""Properties that Kafka's authorizer reads, and that Kafka nowhere defines."""
