"""Properties and environment variables of Kafka and its images that groupd ignores or does not support.

An ignored name changes nothing that a client or an operator could miss, and gets one line for information.
The properties are those of a broker of Kafka 4.4, and some of older releases and of Confluent's distribution.
The variables are those of Kafka's start scripts, of the images `apache/kafka` and `bitnami/kafka`, and of
older images.

An unsupported name requests a function that groupd lacks. It gets a warning with the reason and an
alternative.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

IGNORED_PROPERTIES: Final = frozenset(
    """
    advertised.host.name advertised.port alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    auto.include.jmx.reporter auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms
    broker.id.generation.enable client.quota.callback.class
    cluster.id config.providers control.plane.listener.name controlled.shutdown.enable
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
    cordoned.log.dirs create.topic.policy.class.name
    delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.master.key
    delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners eligible.leader.replicas.enable
    errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.consumer.assignor.offload.enable group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
    group.coordinator.new.enable group.coordinator.threads group.share.assignment.interval.ms
    group.share.assignor.offload.enable group.share.assignors group.share.delivery.count.limit
    group.share.dlq.manager.class.name group.share.enable group.share.heartbeat.interval.ms
    group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.groups group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
    group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
    group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
    group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
    group.share.partition.max.record.locks group.share.persister.class.name
    group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms
    group.streams.assignor.offload.enable group.streams.assignors group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.max.warmup.replicas
    group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
    group.streams.num.standby.replicas group.streams.num.warmup.replicas
    group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
    group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class host.name
    initial.broker.registration.timeout.ms inter.broker.protocol.version
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
    leader.imbalance.check.interval.seconds log.cleaner.dedupe.buffer.size
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.threads log.dir.failure.timeout.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
    log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
    max.connection.creation.rate metadata.log.dir metadata.log.max.record.bytes.between.snapshots
    metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads
    num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
    num.replica.fetchers offsets.commit.required.acks offsets.commit.timeout.ms offsets.load.buffer.size
    offsets.topic.replication.factor password.encoder.secret port process.roles
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests quota.consumer.default quota.producer.default quota.window.num
    quota.window.size.seconds remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
    remote.log.reader.threads remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix remote.log.storage.system.enable replica.fetch.backoff.ms
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
    replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms
    replication.quota.window.num replication.quota.window.size.seconds request.timeout.ms
    reserved.broker.max.id sasl.client.callback.handler.class sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.receive.buffer.bytes socket.send.buffer.bytes
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm telemetry.max.bytes
    transaction.state.log.load.buffer.size transaction.state.log.min.isr
    transaction.state.log.replication.factor transaction.two.phase.commit.enable
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
    zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
    zookeeper.metadata.migration.enable zookeeper.session.timeout.ms zookeeper.set.acl
    zookeeper.ssl.client.enable
    """.split()  # noqa: SIM905 - a list of names reads better so
)

_IGNORED_PREFIXES: Final = ("confluent.", "zookeeper.")

_IMAGE_VARIABLES: Final = frozenset(
    """
    KAFKA_BOOTSTRAP_SERVERS KAFKA_CERTIFICATE_PASSWORD KAFKA_CFG_MAX_PARTITION_FETCH_BYTES
    KAFKA_CFG_MAX_REQUEST_SIZE
    KAFKA_CLIENT_LISTENER_NAME KAFKA_CLIENT_PASSWORDS KAFKA_CLIENT_USERS KAFKA_CLUSTER_ID
    KAFKA_CONTROLLER_PASSWORD KAFKA_CONTROLLER_USER KAFKA_CREATE_TOPICS KAFKA_DEBUG KAFKA_DEBUG_PORT
    KAFKA_ENABLE_KRAFT KAFKA_EXTRA_FLAGS KAFKA_GC_LOG_OPTS KAFKA_HEAP_OPTS KAFKA_HOME
    KAFKA_INTER_BROKER_PASSWORD KAFKA_INTER_BROKER_USER KAFKA_JMX_HOSTNAME KAFKA_JMX_OPTS KAFKA_JMX_PORT
    KAFKA_JVM_PERFORMANCE_OPTS KAFKA_KRAFT_CLUSTER_ID KAFKA_LOG4J_CMD_OPTS KAFKA_LOG4J_LOGGERS
    KAFKA_LOG4J_OPTS KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_OPTS KAFKA_SSL_KEYSTORE_CREDENTIALS
    KAFKA_SSL_KEYSTORE_FILENAME KAFKA_SSL_KEY_CREDENTIALS KAFKA_SSL_TRUSTSTORE_CREDENTIALS
    KAFKA_SSL_TRUSTSTORE_FILENAME KAFKA_TLS_CLIENT_AUTH KAFKA_TLS_TYPE KAFKA_TOOLS_LOG4J_LOGLEVEL
    KAFKA_RESTART_ATTEMPTS KAFKA_RESTART_DELAY KAFKA_URL KAFKA_USER KAFKA_VERSION
    """.split()  # noqa: SIM905 - a list of names reads better so
)
_SERVICE_LINK: Final = re.compile(
    r"KAFKA(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)?)"
)
"""Variables that Kubernetes sets in every container for a service whose name begins with `kafka`."""


def is_ignored_property(name: str) -> bool:
    """Return whether Kafka, or a distribution of it, has a property of this name that groupd ignores."""
    return name in IGNORED_PROPERTIES or name.startswith(_IGNORED_PREFIXES)


def is_ignored_variable(variable: str) -> bool:
    """Return whether groupd ignores a variable that start scripts of Kafka's images read, or that Kubernetes sets
    for a service."""
    return variable in _IMAGE_VARIABLES or _SERVICE_LINK.fullmatch(variable) is not None


_UNLIMITED: Final = ("", "-1", "9223372036854775807")
_NO_JAVA_CLASS: Final = "groupd loads no Java classes"


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _is_limit(text: str) -> bool:
    return text not in _UNLIMITED


def _has_agent(text: str) -> bool:
    return "-javaagent:" in text


class UnsupportedSetting(NamedTuple):
    """A function that groupd lacks. `reason` has the reason and the remedy as the end of a sentence; `is_requested`
    takes a value and returns whether it requests the function."""

    reason: str
    is_requested: Callable[[str], bool] = bool


_METRICS: Final = UnsupportedSetting("groupd has no JMX: read the metrics at /metrics of http.listener")
_REPORTERS: Final = UnsupportedSetting(f"{_NO_JAVA_CLASS}: read the metrics at /metrics of http.listener")
_POLICY: Final = UnsupportedSetting(
    f"{_NO_JAVA_CLASS}, and no policy checks topics: restrict clients by ACLs (authorizer.class.name)"
)
_QUOTAS: Final = UnsupportedSetting("groupd has no quotas and never throttles clients: unset it", _is_limit)
_TOKENS: Final = UnsupportedSetting("groupd has no delegation tokens: let clients log in by SCRAM or PLAIN")
_COMMANDS: Final = UnsupportedSetting(
    "groupd runs no commands of variables: set the result as a KAFKA_... variable"
)

UNSUPPORTED_PROPERTIES: Final[Mapping[str, UnsupportedSetting]] = {
    "alter.config.policy.class.name": _POLICY,
    "client.quota.callback.class": UnsupportedSetting(
        f"{_NO_JAVA_CLASS} and never throttles clients: unset it"
    ),
    "config.providers": UnsupportedSetting(
        f"{_NO_JAVA_CLASS} and takes values like ${{file:...}} literally: set the values themselves"
    ),
    "confluent.http.server.listeners": UnsupportedSetting(
        "groupd has no REST API of Confluent's: run Confluent's REST proxy beside it"
    ),
    "confluent.metadata.server.listeners": UnsupportedSetting(
        "groupd has no metadata service: manage access by ACLs (groupd acl)"
    ),
    "create.topic.policy.class.name": _POLICY,
    "delegation.token.master.key": _TOKENS,
    "delegation.token.secret.key": _TOKENS,
    "kafka.metrics.reporters": _REPORTERS,
    "metric.reporters": _REPORTERS,
    "quota.consumer.default": _QUOTAS,
    "quota.producer.default": _QUOTAS,
    "remote.log.storage.system.enable": UnsupportedSetting(
        "groupd keeps all records in log.dirs: bound them by log.retention.bytes",
        _is_true,
    ),
    "replica.selector.class": UnsupportedSetting(
        f"{_NO_JAVA_CLASS}, and consumers read from the leader of a partition: unset it"
    ),
    "ssl.engine.factory.class": UnsupportedSetting(
        f"{_NO_JAVA_CLASS}: give the key and the certificates by ssl.keystore.location and "
        "ssl.truststore.location"
    ),
    "transaction.two.phase.commit.enable": UnsupportedSetting(
        "groupd has no two-phase commit, and transaction.max.timeout.ms ends such transactions, too: unset it",
        _is_true,
    ),
}
"""Unsupported functions by the property that requests them."""

UNSUPPORTED_VARIABLES: Final[Mapping[str, UnsupportedSetting]] = {
    "KAFKA_EXTRA_FLAGS": UnsupportedSetting(
        "groupd does not read it: set each --override of it as a KAFKA_... variable"
    ),
    "KAFKA_JMX_PORT": _METRICS,
    "KAFKA_OPTS": UnsupportedSetting("groupd has no JVM for an agent: remove -javaagent", _has_agent),
}
"""Unsupported functions by the variable of the environment that requests them, wherever groupd runs."""

UNSUPPORTED_IMAGE_VARIABLES: Final[Mapping[str, UnsupportedSetting]] = {
    "BROKER_ID_COMMAND": _COMMANDS,
    "CUSTOM_INIT_SCRIPT": _COMMANDS,
    "HOSTNAME_COMMAND": _COMMANDS,
    "JMX_PORT": _METRICS,
    "PORT_COMMAND": _COMMANDS,
    "RACK_COMMAND": _COMMANDS,
}
"""Unsupported functions by variable, only in groupd's image: elsewhere other programs may use these variables."""


def describe_unsupported_setting(label: str, unsupported: UnsupportedSetting) -> str:
    """Format the warning about an unsupported setting. `label` is its name, with its source."""
    return f"{label} has no effect, because {unsupported.reason}"
