"""Intended differences of groupd's properties from Kafka's, and the source of a table in docs/configuration.md. A
test fails for a difference that is not listed, and for a listed one that does not exist.
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
    """A difference of some properties, in words and as a check for a test."""

    names: tuple[str, ...]
    kafka: str
    here: str
    why: str
    is_default: bool = False
    """Whether the difference is the default."""
    refuses: Callable[[str], bool] = _nothing
    """The values that Kafka accepts and groupd refuses."""
    takes: Callable[[str], bool] = _nothing
    """The values that groupd accepts and Kafka refuses."""


EXPLAINED: Final = (
    Explained(("node.id",), "no default", "1", "A single broker needs no choice.", is_default=True),
    Explained(
        ("listeners",),
        "`PLAINTEXT://:9092`",
        "`PLAINTEXT://127.0.0.1:9092`",
        "Without access control only this machine can connect by default. The image listens on every address.",
        is_default=True,
    ),
    Explained(
        ("log.dirs",), "`/tmp/kafka-logs`", "`./data`", "The system deletes temporary files.", is_default=True
    ),
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
        "Thousands of clients can connect at once without retries.",
        is_default=True,
    ),
    Explained(
        ("queued.max.request.bytes",),
        "-1",
        "268435456",
        "Incomplete requests could otherwise fill the memory.",
        is_default=True,
    ),
    Explained(
        ("log.flush.interval.ms",),
        "no default",
        "1000",
        "It has an effect only with `log.flush=interval`.",
        is_default=True,
    ),
    Explained(
        ("group.initial.rebalance.delay.ms", "offset.metadata.max.bytes"),
        "any number",
        "not below 0",
        "A negative value has no meaning. In Kafka such a delay is 0, and such a length forbids metadata.",
        refuses=lambda value: int(value) < 0,
    ),
    Explained(
        ("group.min.session.timeout.ms",),
        "any number",
        "from 0 to `group.max.session.timeout.ms`",
        "Kafka starts, but no member can join.",
        refuses=lambda value: not 0 <= int(value) <= 1_800_000,
    ),
    Explained(
        ("group.max.session.timeout.ms",),
        "any number",
        "not below `group.min.session.timeout.ms`",
        "Otherwise no member can join.",
        refuses=lambda value: int(value) < 6000,
    ),
    Explained(
        ("listeners", "advertised.listeners"),
        "ports above 65535",
        "refused",
        "Kafka accepts the text and fails later.",
        refuses=lambda value: value.endswith(":65536"),
    ),
    Explained(
        ("log.dirs",),
        "a zero byte",
        "refused",
        "Kafka accepts the text and fails later.",
        refuses=lambda value: "\0" in value,
    ),
    Explained(
        ("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
        "`NaN`",
        "refused",
        "NaN is not a ratio.",
        refuses=lambda value: value == "NaN",
    ),
    Explained(
        ("internal.segment.bytes",),
        "any number",
        "not below 1",
        "A smaller segment holds no record.",
        refuses=lambda value: int(value) < 1,
    ),
    Explained(
        ("authorizer.class.name",),
        "any class",
        "Kafka's own",
        "groupd cannot load Java classes.",
        refuses=lambda value: value not in AUTHORIZER.words,
    ),
    Explained(
        ("sasl.server.callback.handler.class",),
        "an existing class",
        "also the name of Kafka's validator before 4.0",
        "Existing configurations keep working.",
        takes=lambda value: value == OAUTH_VALIDATORS[1],
    ),
    Explained(
        ("ssl.enabled.protocols",),
        "anything",
        "`TLSv1.2`, `TLSv1.3`",
        "Older versions are insecure; Kafka starts, and fails on an unknown name.",
        refuses=lambda value: not set(value.replace(" ", "").split(",")) <= {"", "TLSv1.2", "TLSv1.3"},
    ),
    Explained(
        ("ssl.cipher.suites",),
        "anything",
        "names of TLS 1.2 and 1.3",
        "Older suites are insecure; Kafka starts, and fails on an unknown name.",
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
        "Other characters are typing errors.",
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
        "Kafka fails later.",
        refuses=lambda value: value not in ("", "DEFAULT") and not value.startswith("RULE:"),
    ),
    Explained(
        ("sasl.jaas.config",),
        "any text",
        "a login module",
        "Kafka fails later.",
        refuses=lambda value: value == "nonsense",
    ),
    Explained(
        ("sasl.server.max.receive.size",),
        "any number",
        "not below 1",
        "In Kafka a negative value disables the limit for unauthenticated clients.",
        refuses=lambda value: int(value) < 1,
    ),
    Explained(
        ("sasl.oauthbearer.clock.skew.seconds",),
        "any number",
        "not below 0",
        "A negative value has no meaning.",
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
        "Kafka fails when it uses the value.",
        refuses=lambda value: int(value) < 1,
    ),
    Explained(
        ("sasl.oauthbearer.jwks.endpoint.url",),
        "any text",
        "https:, http: or file:",
        "Kafka fails when it uses the value.",
        refuses=lambda value: value not in ("", "file:///keys.json", "https://id.example/keys"),
    ),
    Explained(
        (
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
        ),
        "any text",
        "printable text; the name of a claim must not be empty",
        "Kafka fails when it uses the value.",
        refuses=lambda value: not value.isprintable(),
    ),
    Explained(
        ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name"),
        "nothing",
        "some text",
        "Kafka fails when it uses the value.",
        refuses=lambda value: value == "",
    ),
    Explained(
        ("inter.broker.listener.name",),
        "an existing listener",
        "also empty: the first PLAINTEXT listener",
        "It has an effect only in a cluster, where an unknown listener is an error at the start.",
        takes=lambda value: value == "",
    ),
    Explained(
        ("security.inter.broker.protocol",),
        "the name of an existing listener",
        "any protocol",
        "It has an effect only in a cluster.",
        takes=lambda value: value in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Explained(
        ("sasl.mechanism.inter.broker.protocol", "ssl.endpoint.identification.algorithm"),
        "any text",
        "printable text",
        "In a cluster the first must be a mechanism of the listener between brokers, and the second `https` or "
        "empty; otherwise groupd refuses to start.",
        refuses=lambda value: not value.isprintable(),
    ),
    Explained(
        ("broker.rack",),
        "any text",
        "printable text",
        "It appears in responses and log lines.",
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
