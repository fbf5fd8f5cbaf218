"""All APIs about topics, by principals with different rights, for a topic that exists and one that does not.

Kafka checks some rights before it looks whether a topic exists and some afterwards: a refusal may reveal a topic.
"""

from collections.abc import Mapping
from typing import Final

from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.oracle.guarded import CLIENT, NAMES, Guarded, Stage
from tests.oracle.peers import SECURED
from tests.oracle.play import Play, Topic
from tests.oracle.rights import grant
from tests.oracle.secured import enter
from tests.oracle.session import session
from tests.oracle.sessions import rights_to_administer, rights_to_records
from tests.oracle.sessions.topics import topic as creatable

PRINCIPALS: Final[Mapping[str, tuple[str, ...]]] = {
    "owner": ("ALL TOPIC *",),
    "viewer": ("DESCRIBE TOPIC *",),
    "remover without describe": ("DELETE TOPIC *", "DENY DESCRIBE TOPIC *"),
    "remover": ("DELETE TOPIC *",),
    "reader": ("READ TOPIC *",),
    "writer": ("WRITE TOPIC *",),
    "operator": ("CREATE TOPIC *", "ALTER TOPIC *", "DESCRIBE_CONFIGS TOPIC *", "ALTER_CONFIGS TOPIC *"),
    "administrator without topics": ("ALL CLUSTER", "DENY ALL TOPIC *"),
    "owner but for a prefix": ("ALL TOPIC *", "DENY DESCRIBE TOPIC ord..."),
    "nobody": (),
}
"""The rights of each principal by its name."""
UNKNOWN_ID: Final = b"a topic that no-"
_TIMEOUT_MS: Final = 20_000
_DELETE_VERSIONS: Final = (1, 5, 6)
_BY_STATE_SINCE: Final = 6
_LEFT_OUT: Final = ("CreateTopics", "DeleteTopics", "AlterUser", "DescribeUser")
_OF_THE_BROKER: Final = ("-of-a-broker", "-everywhere")
READ_ONLY_APIS: Final[Mapping[str, Guarded]] = {
    name: each
    for name, each in (rights_to_records.TABLE | rights_to_administer.TABLE).items()
    if not name.startswith(_LEFT_OUT) and not name.endswith(_OF_THE_BROKER)
}
"""Topic requests of the other authorization sessions that do not change topics."""


@session(setup=SECURED, principal=PRINCIPALS)
def every_api_about_topics(play: Play, principal: str) -> None:
    """The first two of `NAMES` exist."""
    enter(play, CLIENT)
    existing = [play.topic(short, 1) for short in NAMES[:2]]
    grant(play, CLIENT, *PRINCIPALS[principal])
    for name, api in READ_ONLY_APIS.items():
        stage = Stage(play, api.versions[-1], [*existing, Topic(play.name(NAMES[2]), UNKNOWN_ID)])
        play.ask(api.request(stage), stage.version, CLIENT, name, api.own)


@session(setup=SECURED, principal=PRINCIPALS)
def topics_created_by_principals(play: Play, principal: str) -> None:
    """Of one that exists, two new ones, and an illegal name."""
    enter(play, CLIENT)
    play.topic("there", 1)
    grant(play, CLIENT, *PRINCIPALS[principal])
    names = [play.name(short) for short in ("there", "orders", "payments")] + ["not a name!"]
    for validate_only in (True, False):
        topics = [creatable(name) for name in names]
        request = CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
        play.ask(request, 7, CLIENT, "validated" if validate_only else "")


@session(setup=SECURED, principal=PRINCIPALS, version=_DELETE_VERSIONS)
def topics_deleted_by_name(play: Play, principal: str, version: int) -> None:
    enter(play, CLIENT)
    names = [play.topic(short, 1).name for short in ("orders", "payments", "twice")] + [play.name("nothing")]
    grant(play, CLIENT, *PRINCIPALS[principal])
    names += [names[2], play.name("ord-nothing"), "not a name!"]
    if version >= _BY_STATE_SINCE:
        states = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in names]
        request = DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)
    else:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=_TIMEOUT_MS)
    play.ask(request, version, CLIENT)
    _tell_what_is_left(play, *names[:3])


@session(setup=SECURED, principal=PRINCIPALS)
def topics_deleted_by_id(play: Play, principal: str) -> None:
    """Delete by id, by name and id, by both in one entry, and by a repeated id."""
    enter(play, CLIENT)
    orders, payments, both, twice = (
        play.topic(short, 1) for short in ("orders", "payments", "both", "twice")
    )
    grant(play, CLIENT, *PRINCIPALS[principal])
    asked: list[tuple[str, list[tuple[str | None, bytes]]]] = [
        ("ids", [(None, orders.id), (None, payments.id), (None, UNKNOWN_ID), (None, bytes(16))]),
        ("by name and by id", [(both.name, bytes(16)), (None, both.id)]),
        ("both in one", [(twice.name, twice.id)]),
        ("an id twice", [(None, twice.id), (None, twice.id)]),
        ("an id twice and its name", [(None, twice.id), (None, twice.id), (twice.name, bytes(16))]),
        ("an id and its name twice", [(None, twice.id), (twice.name, bytes(16)), (twice.name, bytes(16))]),
    ]
    for note, states in asked:
        topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
        play.ask(DeleteTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS), 6, CLIENT, note)
    _tell_what_is_left(play, orders.name, payments.name, both.name, twice.name)


def _tell_what_is_left(play: Play, *names: str) -> None:
    """Wait until the broker has applied the controller's changes, by a topic created afterwards."""
    play.topic("marker", 1)
    topics = [MetadataRequestTopic(name=name) for name in names]
    play.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9, "admin", "what is left")
