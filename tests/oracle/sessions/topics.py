"""Topics: created, refused, grown, deleted, described."""

from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.oracle.play import Play
from tests.oracle.session import session

TIMEOUT_MS = 20_000
CREATE_VERSIONS = range(8)
NO_CONFIGS = ()


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: tuple[tuple[int, list[int]], ...] = (),
    configs: tuple[tuple[str, str | None], ...] = NO_CONFIGS,
) -> CreatableTopic:
    """One topic of a CreateTopics."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=row, broker_ids=ids) for row, ids in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(play: Play, version: int, note: str, *topics: CreatableTopic, validate_only: bool = False) -> None:
    """Create topics and wait until the broker knows the created ones."""
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    answer = play.ask(request, version, note=note)
    if validate_only or answer is None:
        return
    for made in answer.topics:
        if made.error_code == 0:
            wanted = made.name
            play.until(lambda wanted=wanted: _known(play, wanted))  # type: ignore[misc]


def _known(play: Play, name: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return bool(play.ask(request, 8, "admin").topics[0].error_code == 0)


@session(version=CREATE_VERSIONS)
def topics_are_made(play: Play, version: int) -> None:
    create(play, version, "two", topic(play.name("t"), 2), topic(play.name("u")))
    create(play, version, "one that is there", topic(play.name("t"), 2))
    twice = (topic(play.name("v"), 2), topic(play.name("v"), 3), topic(play.name("w")))
    create(play, version, "a name twice", *twice)
    create(play, version, "none")
    create(play, version, "as the broker likes", topic(play.name("d"), -1, -1))
    if version >= 1:
        create(play, version, "validated", topic(play.name("x"), 2), validate_only=True)
        create(play, version, "validated, and there", topic(play.name("t")), validate_only=True)
        create(play, version, "after the validation", topic(play.name("x"), 2))
    play.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 4, own=True)


@session(version=CREATE_VERSIONS)
def numbers_of_a_topic_that_cannot_be(play: Play, version: int) -> None:
    for partitions, replicas in ((0, 1), (-2, 1), (1, 0), (1, 2), (1, -2), (-1, 1), (1, -1)):
        name = play.name(f"t{partitions}{replicas}")
        create(
            play, version, f"{partitions} partitions, {replicas} replicas", topic(name, partitions, replicas)
        )


@session(version=CREATE_VERSIONS)
def names_of_a_topic_that_cannot_be(play: Play, version: int) -> None:
    for name in ("", ".", "..", "a/b", "x" * 250, "with space", "ünï", "__consumer_offsets"):
        create(play, version, f"'{name[:20]}'", topic(name))


@session()
def names_that_only_differ_in_a_sign(play: Play) -> None:
    create(play, 7, "with a dot", topic(play.name("a.b")))
    create(play, 7, "with an underscore", topic(play.name("a_b")))


@session(version=CREATE_VERSIONS)
def assignments_of_a_topic(play: Play, version: int) -> None:
    for note, assignments in (
        ("two partitions", ((0, [1]), (1, [1]))),
        ("an unknown broker", ((0, [7]),)),
        ("no partition 0", ((1, [1]),)),
        ("a broker twice", ((0, [1, 1]),)),
        ("a partition twice", ((0, [1]), (0, [1]))),
        ("no brokers", ((0, []),)),
        ("a negative partition", ((-1, [1]),)),
    ):
        create(play, version, note, topic(play.name(note.replace(" ", "-")), -1, -1, assignments))
    create(play, version, "and a count", topic(play.name("c"), 1, 1, ((0, [1]),)))


@session(version=CREATE_VERSIONS)
def configs_of_a_topic(play: Play, version: int) -> None:
    for number, (key, value) in enumerate(
        [
            ("no.such.config", "1"), ("retention.ms", "x"), ("retention.ms", None), ("retention.ms", "-5"),
            ("cleanup.policy", "compact,delete"), ("cleanup.policy", "strange"), ("cleanup.policy", ""),
            ("segment.bytes", "10"), ("min.insync.replicas", "0"), ("compression.type", "strange"),
            ("max.message.bytes", "-1"), ("", "x"),
        ]
    ):  # fmt: skip
        create(play, version, f"{key}={value}", topic(play.name(f"t{number}"), configs=((key, value),)))
    twice = (("retention.ms", "5000"), ("retention.ms", "6000"))
    create(play, version, "a config twice", topic(play.name("twice"), configs=twice))


@session(version=range(6))
def topics_are_deleted(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    for note, names in (
        ("an unknown one", [play.name("unknown")]),
        ("one", [orders.name]),
        ("the same again", [orders.name]),
        ("one twice", [lines.name, lines.name]),
        ("none", []),
        ("one without a name", [""]),
        ("one with a strange name", ["not a name!"]),
    ):
        play.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), version, note=note)


@session()
def topics_are_deleted_by_id(play: Play) -> None:
    orders, lines, rest = play.topic(), play.topic("lines"), play.topic("rest")
    for note, topics in (
        ("an unknown name", [(play.name("unknown"), bytes(16))]),
        ("an unknown id", [(None, b"\x01" * 16)]),
        ("neither", [(None, bytes(16))]),
        ("both", [(orders.name, orders.id)]),
        ("one by name and by id", [(orders.name, bytes(16)), (None, orders.id)]),
        ("one by id", [(None, orders.id)]),
        ("the same again", [(None, orders.id)]),
        ("an id twice", [(None, lines.id), (None, lines.id)]),
        ("a name twice", [(lines.name, bytes(16)), (lines.name, bytes(16))]),
        ("two", [(lines.name, bytes(16)), (None, rest.id)]),
    ):
        states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
        play.ask(DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), 6, note=note)


@session(version=range(4))
def topics_grow(play: Play, version: int) -> None:
    orders = play.topic()
    for note, name, count, assignments in (
        ("an unknown one", play.name("unknown"), 3, None),
        ("as many as there are", orders.name, 2, None),
        ("fewer", orders.name, 1, None),
        ("none", orders.name, 0, None),
        ("minus one", orders.name, -1, None),
        ("too many brokers", orders.name, 3, [[1], [1]]),
        ("an unknown broker", orders.name, 3, [[9]]),
        ("a broker twice", orders.name, 3, [[1, 1]]),
        ("no broker", orders.name, 3, [[]]),
        ("no assignments", orders.name, 3, []),
        ("one more", orders.name, 3, [[1]]),
        ("two more", orders.name, 5, None),
        ("without a name", "", 3, None),
    ):
        brokers = (
            None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        )
        grown = [CreatePartitionsTopic(name=name, count=count, assignments=brokers)]
        for validate_only in (True, False):
            request = CreatePartitionsRequest(
                topics=grown, timeout_ms=TIMEOUT_MS, validate_only=validate_only
            )
            play.ask(request, version, note=note + (", validated" if validate_only else ""))
    twice = [CreatePartitionsTopic(name=orders.name, count=count) for count in (8, 9)]
    request = CreatePartitionsRequest(topics=twice, timeout_ms=TIMEOUT_MS, validate_only=False)
    play.ask(request, version, note="a topic twice")
    play.ask(
        CreatePartitionsRequest(topics=[], timeout_ms=TIMEOUT_MS, validate_only=False), version, note="none"
    )


def metadata(*names: str | None, create_them: bool = False, operations: bool = False) -> MetadataRequest:
    """A request for these topics."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create_them,
        include_topic_authorized_operations=operations,
    )


@session(version=range(14))
def topics_are_asked_for(play: Play, version: int) -> None:
    orders, unknown = play.topic(partitions=3), play.name("unknown")
    automatic = version < 4
    play.ask(metadata(orders.name, create_them=automatic), version)
    play.ask(metadata(orders.name, orders.name, create_them=automatic), version, note="twice")
    for name in ("", "not a name!", "x" * 300):
        play.ask(metadata(name, create_them=automatic), version, note=f"'{name[:12]}'")
    if version >= 1:
        play.ask(
            MetadataRequest(topics=None, allow_auto_topic_creation=automatic), version, note="all", own=True
        )
        play.ask(metadata(create_them=automatic), version, note="none")
    if version >= 4:
        play.ask(metadata(unknown, orders.name), version, note="one that is not there")
        play.ask(metadata("", "not a name!", create_them=True), version, note="made, if they could be")
    if version >= 8:
        play.ask(metadata(orders.name, unknown, operations=True), version, note="with operations")
    if 8 <= version <= 10:
        request = metadata()
        request.include_cluster_authorized_operations = True
        play.ask(request, version, note="with operations of the cluster")


@session(version=range(14))
def topics_that_asking_makes(play: Play, version: int) -> None:
    wanted = metadata(play.name("wanted"), create_them=True)
    with play.quietly():
        play.until(lambda: play.ask(wanted, version, "admin").topics[0].error_code == 0)
    if version >= 10:
        play.topic_id("wanted")
    play.ask(wanted, version)


@session(version=(10, 11, 12, 13))
def topics_are_asked_for_by_id(play: Play, version: int) -> None:
    orders = play.topic()
    for note, asked in (
        ("an id", [(orders.id, None)]),
        ("an unknown id", [(b"\x01" * 16, None)]),
        ("both", [(orders.id, orders.name)]),
        ("an id, then a name", [(orders.id, None), (bytes(16), orders.name)]),
    ):
        topics = [MetadataRequestTopic(topic_id=topic_id, name=name) for topic_id, name in asked]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        play.ask(request, version, note=note)


@session()
def the_offsets_topic_is_internal(play: Play) -> None:
    request = metadata("__consumer_offsets")
    with play.quietly():
        play.names.topics[play.ask(request, 12).topics[0].topic_id] = "id of the offsets topic"
    play.ask(request, 12)
    internal = [CreatePartitionsTopic(name="__consumer_offsets", count=51)]
    play.ask(CreatePartitionsRequest(topics=internal, timeout_ms=TIMEOUT_MS, validate_only=True), 3)


@session()
def partitions_are_described_page_by_page(play: Play) -> None:
    a, b = play.topic("a", partitions=3), play.topic("b")
    unknown = play.name("unknown")
    for note, names, limit, cursor in (
        ("two topics", [b.name, a.name], 2000, None),
        ("an unknown one", [unknown, a.name], 2000, None),
        ("a strange name", ["not a name!"], 2000, None),
        ("two partitions", [a.name, b.name], 2, None),
        ("three partitions", [a.name, b.name], 3, None),
        ("four partitions", [a.name, b.name], 4, None),
        ("from a cursor", [a.name, b.name], 2000, (a.name, 1)),
        ("from the second topic", [a.name, b.name], 2000, (b.name, 1)),
        ("past the end of one", [a.name, b.name], 2000, (a.name, 5)),
        ("past an unknown one", [a.name, b.name], 2000, (a.name + "z", 0)),
        ("a negative cursor", [a.name], 2000, (a.name, -1)),
        ("no partitions", [a.name], 0, None),
        ("a topic twice", [a.name, a.name], 2000, None),
    ):
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        play.ask(request, 0, note=note)


@session(version=range(3))
def the_cluster_is_described(play: Play, version: int) -> None:
    for endpoint_type in (1, 2, 3) if version else (1,):
        for operations in (False, True):
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=operations,
                endpoint_type=endpoint_type,
                include_fenced_brokers=version >= 2,
            )
            note = f"endpoints {endpoint_type}" + (", with operations" if operations else "")
            play.ask(request, version, note=note)
