"""The texts of errors: the sessions about topics and their configs again, with the error messages word for word."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.oracle.peers import BROKERS
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.sessions import configs, topics
from tests.oracle.sessions.configs import SET, alter
from tests.oracle.sessions.topics import create, topic

LAST_CREATE, LAST_DELETE_BY_NAME, LAST_GROW, LAST_ALTER, LAST_DESCRIBE = 7, 5, 3, 1, 4
SCRIPTS: Final[Mapping[str, Callable[[Play], None]]] = {
    "created": partial(topics.topics_are_made, version=LAST_CREATE),
    "counts": partial(topics.numbers_of_a_topic_that_cannot_be, version=LAST_CREATE),
    "names": partial(topics.names_of_a_topic_that_cannot_be, version=LAST_CREATE),
    "colliding names": topics.names_that_only_differ_in_a_sign,
    "assignments": partial(topics.assignments_of_a_topic, version=LAST_CREATE),
    "configs of new topics": partial(topics.configs_of_a_topic, version=LAST_CREATE),
    "deleted by name": partial(topics.topics_are_deleted, version=LAST_DELETE_BY_NAME),
    "deleted by id": topics.topics_are_deleted_by_id,
    "more partitions": partial(topics.topics_grow, version=LAST_GROW),
    "altered configs": partial(configs.configs_are_altered, version=LAST_ALTER),
    "described configs": partial(configs.configs_are_described, version=LAST_DESCRIBE),
    "configs that cannot be altered": partial(configs.configs_that_cannot_be_altered, version=LAST_ALTER),
}
INVALID_VALUES: Final = {
    "cleanup.policy": ("compact,,delete", "COMPACT", "none"),
    "compression.gzip.level": ("0", "10", "x"),
    "compression.lz4.level": ("0", "18"),
    "compression.type": ("GZIP", ""),
    "compression.zstd.level": ("-131073", "23"),
    "delete.retention.ms": ("-1", "1.5", "9223372036854775808"),
    "file.delete.delay.ms": ("-1",),
    "flush.messages": ("0",),
    "flush.ms": ("-1",),
    "errors.deadletterqueue.group.enable": ("x",),
    "index.interval.bytes": ("-1", "2147483648"),
    "local.retention.bytes": ("-3",),
    "local.retention.ms": ("-3",),
    "max.compaction.lag.ms": ("0",),
    "max.decompressed.message.bytes": ("0",),
    "max.message.bytes": ("-1", ""),
    "message.timestamp.after.max.ms": ("-1",),
    "message.timestamp.before.max.ms": ("-1",),
    "message.timestamp.type": ("createtime", "x"),
    "min.cleanable.dirty.ratio": ("1.1", "-0.1", "x"),
    "min.compaction.lag.ms": ("-1",),
    "min.insync.replicas": ("0", "x"),
    "preallocate": ("yes", ""),
    "remote.copy.lag.bytes": ("-2",),
    "remote.copy.lag.ms": ("-2",),
    "remote.log.copy.disable": ("x",),
    "remote.log.delete.on.disable": ("x",),
    "retention.bytes": ("x",),
    "retention.ms": ("-2", " ", "1e3"),
    "segment.bytes": ("1048575",),
    "segment.index.bytes": ("3",),
    "segment.jitter.ms": ("-1",),
    "segment.ms": ("0",),
    "unclean.leader.election.enable": ("yes",),
}
"""Values that a config of a topic cannot have: outside its bounds, or of another type."""

CONTRADICTIONS: Final = {
    "throttled replicas": (("leader.replication.throttled.replicas", "x"),),
    "throttled followers": (("follower.replication.throttled.replicas", "1:x"),),
    "compaction": (("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")),
    "remote storage": (("remote.storage.enable", "true"),),
    "remote storage, perhaps": (("remote.storage.enable", "x"),),
    "a bad value and a bad name": (("retention.ms", "x"), ("no.such.config", "x")),
    "segments of the tests": (("internal.segment.bytes", "x"),),
}
"""Configs that cannot be together, and errors among several."""


@session(name=("__cluster_metadata", "__share_group_state"))
def texts_about_internal_topics(play: Play, name: str) -> None:
    play.names.keeps_texts = True
    create(play, LAST_CREATE, "", topic(name), validate_only=True)


@session(script=SCRIPTS)
def texts_of_errors(play: Play, script: str) -> None:
    play.names.keeps_texts = True
    SCRIPTS[script](play)


@session()
def texts_about_values(play: Play) -> None:
    play.names.keeps_texts = True
    orders = play.topic()
    for key, values in INVALID_VALUES.items():
        for value in values:
            note = f"{key}={value}"
            create(
                play, LAST_CREATE, note, topic(play.name("t"), configs=((key, value),)), validate_only=True
            )
            play.ask(alter((key, SET, value), name=orders.name, validate_only=True), LAST_ALTER, note=note)
    for note, pairs in CONTRADICTIONS.items():
        create(play, LAST_CREATE, note, topic(play.name("t"), configs=pairs), validate_only=True)
        changes = [(key, SET, value) for key, value in pairs]
        play.ask(alter(*changes, name=orders.name, validate_only=True), LAST_ALTER, note=note)


@session(setup=BROKERS)
def texts_about_replicas(play: Play) -> None:
    """Of three brokers."""
    play.names.keeps_texts = True
    for replicas in (4, 32767):
        create(play, LAST_CREATE, f"{replicas} replicas", topic(play.name(f"t{replicas}"), 1, replicas))
    for note, assignments in (
        ("an unknown broker", ((0, [1, 7]),)),
        ("a broker twice", ((0, [1, 2, 1]),)),
        ("a negative broker", ((0, [-1]),)),
    ):
        create(play, LAST_CREATE, note, topic(play.name("assigned"), -1, -1, assignments))
