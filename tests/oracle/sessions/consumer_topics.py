"""Consumer groups while their topics are created, grow, and are deleted."""

from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.oracle.consumer import Consumer, group_of, known_topic, look, settle, stable, tell_group
from tests.oracle.offsets import fetch_request, name_of
from tests.oracle.peers import CONSUMERS
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

TIMEOUT_MS = 20_000


def delete(play: Play, topic: Topic) -> None:
    """Delete a topic; not recorded."""
    with play.quietly():
        state = DeleteTopicState(topic_id=topic.id)
        answer = play.ask(DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS), 6, "admin")
    assert answer.responses[0].error_code == 0, answer


def grow(play: Play, topic: Topic, partitions: int) -> None:
    """Give a topic so many partitions; not recorded."""
    wanted = CreatePartitionsTopic(name=topic.name, count=partitions)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=False)
    with play.quietly():
        assert play.ask(request, 3, "admin").results[0].error_code == 0


def until_epoch(play: Play, member: Consumer, epoch: int) -> None:
    """Waits until the group has this epoch; a heartbeat of this member begins it."""
    play.until(lambda: member.heartbeat() and group_of(play).group_epoch >= epoch)


@session(setup=CONSUMERS, version=(0, 1))
def a_topic_is_made_that_consumers_read(play: Play, version: int) -> None:
    a, b = (Consumer(play, name, [play.name("orders")], version=version) for name in "ab")
    with play.quietly():
        a.join()
        b.join()
        a.heartbeat()
    look(play, "before")
    known_topic(play, partitions=3)
    until_epoch(play, b, 4)
    look(play, "made")
    a.heartbeat()
    b.heartbeat()
    look(play, "afterwards")


@session(setup=CONSUMERS)
def another_topic_is_made(play: Play) -> None:
    a = Consumer(play, "a", [known_topic(play)])
    stable(a)
    known_topic(play, "lines")
    a.heartbeat()
    a.heartbeat("again")
    look(play)


@session(setup=CONSUMERS)
def a_topic_of_a_consumer_grows(play: Play) -> None:
    orders = known_topic(play, partitions=1)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a, b)
    look(play, "before")
    grow(play, orders, 4)
    until_epoch(play, b, 4)
    look(play, "grown")
    a.heartbeat()
    look(play, "and a heartbeat")
    tell_group(play, a, b, note="settled")


@session(setup=CONSUMERS, version=(0, 1))
def a_topic_of_a_consumer_is_deleted(play: Play, version: int) -> None:
    orders, lines = known_topic(play, partitions=3), known_topic(play, "lines")
    a = Consumer(play, "a", [orders, lines], version=version)
    stable(a)
    delete(play, orders)
    until_epoch(play, a, 3)
    look(play, "deleted")
    a.full("still has it")
    a.heartbeat("gave it up", owns={lines: [0, 1]})
    look(play, "gave it up")
    delete(play, lines)
    until_epoch(play, a, 4)
    look(play, "nothing is left")
    a.heartbeat("gave it up", owns={})
    look(play, "gave it up")
    a.heartbeat()


@session(setup=CONSUMERS)
def a_topic_of_a_consumer_is_deleted_and_made_again(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a, b)
    delete(play, orders)
    play.names.topics[orders.id] = "id of the one before"
    known_topic(play, partitions=3)
    until_epoch(play, b, 4)
    settle(a, b)
    # Deleted and made: one step of the epoch where the coordinator hears of both at once, otherwise two.
    targets = [each.target_assignment.topic_partitions for each in group_of(play).members]
    play.tell("parts of", [play.names.topic(part[0].topic_id) for part in targets])


@session(setup=CONSUMERS)
def a_topic_is_deleted_that_is_to_be_given_up(play: Play) -> None:
    orders, lines = known_topic(play, partitions=4), known_topic(play, "lines", partitions=1)
    a, b = Consumer(play, "a", [orders, lines]), Consumer(play, "b", [orders])
    stable(a)
    b.join()
    a.heartbeat("has to give up")
    delete(play, orders)
    until_epoch(play, b, 4)
    look(play, "deleted")
    a.heartbeat("still has it", owns={orders: [0, 1, 2, 3], lines: [0]})
    b.heartbeat("waits")
    a.heartbeat("gave it up", owns={lines: [0]})
    a.heartbeat("and a heartbeat")
    b.heartbeat()
    look(play, "settled")


@session(setup=CONSUMERS)
def offsets_of_a_consumers_topic_that_is_deleted(play: Play) -> None:
    orders, lines = known_topic(play), known_topic(play, "lines")
    a = Consumer(play, "a", [orders, lines])
    stable(a)
    a.commit({(orders, 0): 1, (lines, 0): 2})
    play.ask(fetch_request(play.group, 9), 9, note="before")
    delete(play, orders)
    asked = fetch_request(play.group, 8)
    play.until(
        lambda: all(each.name != name_of(orders) for each in play.ask(asked, 8, "admin").groups[0].topics)
    )
    play.ask(fetch_request(play.group, 9), 9, note="deleted")
    until_epoch(play, a, 3)
    a.full()
    a.commit({(orders, 0): 1, (lines, 0): 3}, "of both")
    play.ask(fetch_request(play.group, 9), 9, note="at last")


@session(setup=CONSUMERS)
def the_only_topic_of_three_consumers_is_deleted(play: Play) -> None:
    orders = known_topic(play, partitions=6)
    members = [Consumer(play, name, [orders]) for name in "abc"]
    stable(*members)
    delete(play, orders)
    until_epoch(play, members[2], 5)
    for each in members:
        each.heartbeat("nothing said")
        each.heartbeat("has nothing", owns={})
    look(play, "settled")
    members[0].leave()
    look(play, "one left")
