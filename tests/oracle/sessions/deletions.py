"""What is deleted under a group: offsets, the group itself, its topics."""

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from tests.oracle.member import Member, commit_request
from tests.oracle.offsets import delete_request, fetch_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session


def commit(play: Play, *topics: Topic) -> None:
    """Offset 1 of partition 0 of each, by no member."""
    play.ask(commit_request(play.group, {(topic, 0): 1 for topic in topics}), 9)


def subscription(*topics: Topic) -> list[JoinGroupRequestProtocol]:
    """What consumers of these topics offer."""
    wanted = ConsumerProtocolSubscription(topics=[topic.name for topic in topics])
    return [JoinGroupRequestProtocol(name="range", metadata=encode_subscription(wanted, 1))]


def subscribed(play: Play, *topics: Topic, version: int = 9) -> Member:
    """Return the only member of a group, with a consumer subscription. `version` is its JoinGroup version."""
    a = Member(play, "a", versions={"join": version})
    offered = subscription(*topics)
    with play.quietly():
        for _ in range(2):
            request, version = a.join_request({})
            request.protocols = offered
            answer = play.ask(request, version, "a")
            a.member_id = answer.member_id
        a.generation, a.leader = answer.generation_id, answer.leader
    return a


def delete_topic(play: Play, topic: Topic) -> None:
    """Delete a topic and wait until its offsets are deleted too."""
    with play.quietly():
        play.ask(DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=20_000), 5, "admin")
    request = fetch_request(play.group, 8)
    play.until(
        lambda: all(entry.name != topic.name for entry in play.ask(request, 8, "admin").groups[0].topics)
    )


@session(state=("completing", "stable", "empty"))
def offsets_of_topics_that_are_read(play: Play, state: str) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders)
    with play.quietly():
        if state != "completing":
            a.sync()
            a.commit({(orders, 0): 1, (lines, 0): 1})
        if state == "empty":
            a.leave()
    play.ask(delete_request(play.group, {orders: [0, 1, 7], lines: [0, 1, 7], "nowhere": [0]}), 0)
    play.ask(fetch_request(play.group, 9), 9)


@session(kind=("simple", "consumer", "connect"))
def offsets_of_an_idle_group(play: Play, kind: str) -> None:
    orders, lines = play.topic(), play.topic("lines")
    if kind != "simple":
        with play.quietly():
            a = Member(play, "a", protocol_type=kind)
            a.enter()
            a.sync()
            a.leave()
    commit(play, orders, lines)
    play.ask(delete_request(play.group, {}), 0, note="nothing")
    play.ask(delete_request(play.group, {orders: []}), 0, note="no partitions")
    play.ask(delete_request(play.group, {orders: [0, 0]}), 0, note="a partition twice")
    play.ask(delete_request(play.group, {orders: [0, 1]}), 0, note="what is gone")
    play.ask(delete_request(play.group, {"not a name!": [0], "": [0], lines: [0]}), 0, note="strange topics")
    play.ask(fetch_request(play.group, 9), 9)
    play.describe()


@session()
def offsets_of_another_kind_of_group(play: Play) -> None:
    orders = play.topic()
    a = Member(play, "a", protocol_type="connect")
    a.enter()
    play.ask(delete_request(play.group, {orders: [0]}), 0, note="before the sync")
    a.sync()
    a.commit({(orders, 0): 1})
    play.ask(delete_request(play.group, {orders: [0]}), 0)
    play.ask(fetch_request(play.group, 9), 9)


@session()
def offsets_of_no_group(play: Play) -> None:
    orders = play.topic()
    play.ask(delete_request("", {orders: [0]}), 0, note="no group id")
    play.ask(delete_request(play.group, {orders: [0]}), 0, note="an unknown group")
    play.ask(delete_request(play.group, {"nowhere": [0]}), 0, note="neither")


@session(version=range(4))
def groups_that_are_deleted(play: Play, version: int) -> None:
    orders = play.topic()
    commit(play, orders)
    a = Member(play, "a", group=play.name("h"))
    a.enter()
    a.sync()
    unknown = play.name("unknown")
    names = [play.group, a.group, unknown, play.group]
    play.ask(DeleteGroupsRequest(groups_names=names), version)
    play.ask(DeleteGroupsRequest(groups_names=[]), version, note="none")
    play.ask(fetch_request(play.group, 9), 9)
    play.describe()
    a.heartbeat()
    a.leave()
    play.ask(DeleteGroupsRequest(groups_names=[a.group]), version, note="now it is empty")
    commit(play, orders)
    play.ask(fetch_request(play.group, 9), 9, note="a new life")


@session(setup="tight")
def the_group_without_a_name(play: Play) -> None:
    orders = play.topic()
    play.ask(commit_request("", {(orders, 0): 1}), 9)
    play.ask(fetch_request("", 9), 9)
    play.ask(delete_request("", {orders: [0]}), 0)
    for version in range(4):
        play.ask(DeleteGroupsRequest(groups_names=[""]), version)


@session()
def a_group_is_deleted_and_joined_again(play: Play) -> None:
    a = Member(play, "a")
    a.enter()
    a.sync()
    a.leave()
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    a.join("with its old id")
    b = Member(play, "b")
    b.enter()
    play.describe()


@session()
def a_promise_in_a_group_that_is_deleted(play: Play) -> None:
    a = Member(play, "a")
    a.join()
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    a.join("what was promised")
    play.describe()


@session()
def a_topic_is_deleted_under_its_offsets(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    commit(play, orders, lines)
    delete_topic(play, orders)
    play.ask(fetch_request(play.group, 9), 9, note="all")
    play.ask(fetch_request(play.group, 9, {orders: [0]}), 9, note="by name")
    play.ask(fetch_request(play.group, 10, {orders: [0], lines: [0]}), 10, note="by id")
    commit(play, orders)
    play.ask(commit_request(play.group, {(orders, 0): 1}, 10), 10, note="by id")
    play.ask(delete_request(play.group, {orders: [0]}), 0)


@session()
def a_topic_is_deleted_and_made_again(play: Play) -> None:
    orders = play.topic()
    commit(play, orders)
    delete_topic(play, orders)
    again = play.topic()
    play.names.topics[again.id] = "id of the new orders"
    play.ask(fetch_request(play.group, 9, {orders: [0]}), 9, note="by name")
    play.ask(fetch_request(play.group, 10, {orders: [0], again: [0]}), 10, note="by old and new id")
    play.ask(commit_request(play.group, {(orders, 0): 2}, 10), 10, note="to the old id")
    play.ask(commit_request(play.group, {(again, 0): 3}, 10), 10, note="to the new id")
    play.ask(fetch_request(play.group, 10), 10, note="all")


@session()
def a_topic_is_deleted_under_a_live_group(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders, lines)
    a.sync()
    a.commit({(orders, 0): 1, (lines, 0): 1})
    delete_topic(play, orders)
    a.heartbeat()
    a.commit({(orders, 0): 2, (lines, 0): 2})
    play.describe()
    play.ask(fetch_request(play.group, 9), 9)
    play.ask(delete_request(play.group, {orders: [0], lines: [0]}), 0)
    a.join("still the same")
    a.sync()


@session()
def a_topic_grows_under_a_live_group(play: Play) -> None:
    orders = play.topic(partitions=1)
    a = subscribed(play, orders)
    a.sync()
    a.commit({(orders, 0): 1, (orders, 1): 1}, "before")
    growth = CreatePartitionsTopic(name=orders.name, count=2)
    request = CreatePartitionsRequest(topics=[growth], timeout_ms=20_000, validate_only=False)
    play.ask(request, 3, "admin")
    commit_to_it = commit_request(play.name("h"), {(orders, 1): 1})
    play.until(lambda: play.ask(commit_to_it, 9, "admin").topics[0].partitions[0].error_code == 0)
    a.heartbeat()
    a.commit({(orders, 0): 2, (orders, 1): 2}, "after")
    play.ask(fetch_request(play.group, 9), 9)
    play.describe()


@session()
def a_topic_comes_after_its_readers(play: Play) -> None:
    orders = Topic(play.name("orders"), bytes(16))
    a = subscribed(play, orders)
    a.sync()
    a.commit({(orders.name, 0): 1}, "too early")
    made = play.topic()
    a.heartbeat()
    a.commit({(made, 0): 1})
    play.ask(delete_request(play.group, {made: [0]}), 0)


@session()
def a_group_loses_its_last_offset(play: Play) -> None:
    orders = play.topic()
    commit(play, orders)
    delete_topic(play, orders)
    play.describe()
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)


@session()
def the_last_offset_of_a_simple_group_is_deleted(play: Play) -> None:
    orders = play.topic()
    commit(play, orders)
    play.ask(delete_request(play.group, {orders: [0]}), 0)
    play.describe(version=6)
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
