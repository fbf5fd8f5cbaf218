"""Consumers that subscribe by a regular expression."""

from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.oracle.consumer import (
    LEAVE_FOR_A_WHILE,
    Consumer,
    group_of,
    known_topic,
    look,
    settle,
    stable,
    tell_group,
)
from tests.oracle.offsets import delete_request
from tests.oracle.peers import ALONE, CONSUMERS
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.sessions.consumer_topics import delete

UNSUBSCRIBED = ""


def of_all(play: Play, begin: str = ".*") -> str:
    """An expression for the topics of this session that begin so."""
    return begin + play.suffix


def until_resolved(play: Play, epoch: int = 2) -> None:
    """Waits until the group has this epoch, to which the resolution raises it."""
    play.until(lambda: group_of(play).group_epoch >= epoch)


def resolved(play: Play, *members: Consumer) -> None:
    """The members join and settle after their expressions are resolved; not recorded."""
    with play.quietly():
        for each in members:
            each.join()
    until_resolved(play)
    settle(*members)


@session(setup=CONSUMERS)
def a_consumer_joins_with_an_expression(play: Play) -> None:
    known_topic(play, "a1"), known_topic(play, "a2", partitions=1), known_topic(play, "b")
    a = Consumer(play, "a", regex=of_all(play, "a."))
    a.join()
    until_resolved(play)
    look(play, "resolved")
    a.heartbeat()
    a.heartbeat("again")
    a.full()
    look(play, "settled")


@session(setup=CONSUMERS)
def an_expression_that_matches_nothing(play: Play) -> None:
    a = Consumer(play, "a", regex=of_all(play, "nothing"))
    a.join()
    a.heartbeat()
    play.pause(500)
    a.heartbeat("a while later")
    look(play)


@session(setup=ALONE)
def an_expression_for_everything(play: Play) -> None:
    known_topic(play)
    a = Consumer(play, "a", regex=".*")
    a.join()
    until_resolved(play)
    settle(a)
    names = [part.topic_name for part in group_of(play).members[0].target_assignment.topic_partitions]
    mine = [play.names.text(name) for name in names if play.suffix in name or name == "__consumer_offsets"]
    play.tell("matched", [*sorted(mine)])


VALID = (
    "[a-c]{2}", "(?i)ORDERS.*", "a|b", "\\Qa.b\\E", "(?P<name>a)", "[[:alpha:]]+", "\\p{Greek}*", "\\pN", "a{1000}",
    "(?s:.)", "a*?", "(?:)", "\\x{10FFFF}", "[^a]", "^a$", "\\A\\z", "\\bx\\B", "é", " ", "(?<name>a)",
)  # fmt: skip
INVALID = (
    "([", "*", "(?=x)", "\\1", "(?P<a>", "a{2,1}", "a{1001}", "[z-a]", "\\8", "(?i", "a**", "\\pX",
    "\\p{Nope}", ")", "[[:nope:]]", "a++", "\\", "(?<!a)b", "(?P<a>b)(?P<a>c)", "[a", "(a", "?", "+a",
    "(?z)", "(?P=a)", "\\Z", "\\x{zz}", "(?>a)", "[]", "a{,2}{3}", "(?P<1 a>b)", "x{2}{",
    "(((a{100}){100}){100})", "\\c", "[\\", "(?", "(?P", "(?#c)",
)  # fmt: skip


@session(setup=CONSUMERS)
def expressions_that_are_none(play: Play) -> None:
    for number, expression in enumerate(INVALID):
        a = Consumer(play, f"a{number}", regex=expression)
        answer = a.heartbeat(expression, by="a", **a.join_fields())
        play.tell("why", answer.error_message)
    look(play, "nobody is there")


@session(setup=CONSUMERS)
def expressions_of_every_kind(play: Play) -> None:
    for number, expression in enumerate(VALID):
        a = Consumer(play, f"a{number}", regex=expression)
        a.heartbeat(expression, by="a", **a.join_fields())


@session(setup=CONSUMERS)
def a_member_whose_new_expression_is_none(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.heartbeat("no expression", subscribed_topic_regex="([")
    a.heartbeat("no expression, at another address", subscribed_topic_regex="([", by="b")
    look(play, "nothing has changed")
    a.heartbeat("goes on")


@session(setup=CONSUMERS)
def an_expression_and_names(play: Play) -> None:
    orders = known_topic(play)
    known_topic(play, "a1")
    a = Consumer(play, "a", [orders], regex=of_all(play, "a."))
    a.join()
    until_resolved(play, 3)
    look(play, "resolved")
    a.heartbeat()
    a.subscribe(note="without names")
    tell_group(play, a, note="settled")


@session(setup=CONSUMERS)
def two_consumers_with_one_expression(play: Play) -> None:
    known_topic(play, "a1", partitions=4)
    a, b = (Consumer(play, name, regex=of_all(play, "a.")) for name in "ab")
    resolved(play, a)
    b.join("the same")
    look(play)
    a.heartbeat("has to give up")
    tell_group(play, a, b, note="settled")
    a.leave("one of them")
    b.heartbeat("has all")
    look(play, "one is left")


@session(setup=CONSUMERS)
def two_consumers_with_different_expressions(play: Play) -> None:
    known_topic(play, "a1", partitions=4), known_topic(play, "b1", partitions=1)
    a = Consumer(play, "a", regex=of_all(play, "a."))
    b = Consumer(play, "b", regex=of_all(play, "[ab]."))
    resolved(play, a)
    b.join("another")
    look(play, "not resolved yet")
    play.until(lambda: b.confirm() and group_of(play).group_epoch >= 3)
    tell_group(play, a, b, note="settled")


@session(setup=CONSUMERS)
def a_consumer_gives_up_its_expression(play: Play) -> None:
    known_topic(play, "a1")
    a = Consumer(play, "a", regex=of_all(play, "a."))
    resolved(play, a)
    a.heartbeat("without it", subscribed_topic_regex=UNSUBSCRIBED)
    look(play, "without it")
    a.heartbeat("gave up", owns={})
    look(play, "gave up")
    a.heartbeat("again", subscribed_topic_regex=a.regex)
    until_resolved(play, 4)
    tell_group(play, a, note="settled")


@session(setup=CONSUMERS)
def a_consumer_changes_its_expression(play: Play) -> None:
    known_topic(play, "a1", partitions=1), known_topic(play, "b1", partitions=1)
    a = Consumer(play, "a", regex=of_all(play, "a."))
    resolved(play, a)
    a.heartbeat("another", subscribed_topic_regex=of_all(play, "b."))
    play.until(lambda: a.confirm() and group_of(play).group_epoch >= 3)
    tell_group(play, a, note="settled")


@session(setup=CONSUMERS)
def a_consumer_changes_to_the_expression_of_another(play: Play) -> None:
    known_topic(play, "a1"), known_topic(play, "b1")
    a, b = Consumer(play, "a", regex=of_all(play, "a.")), Consumer(play, "b", regex=of_all(play, "b."))
    resolved(play, a)
    b.join()
    play.until(lambda: b.confirm() and group_of(play).group_epoch >= 3)
    settle(a, b)
    b.heartbeat("the one of the other", subscribed_topic_regex=a.regex)
    look(play, "changed")
    tell_group(play, a, b, note="settled")


@session(setup=CONSUMERS)
def a_topic_is_made_that_an_expression_matches(play: Play) -> None:
    known_topic(play, "a1", partitions=1)
    a = Consumer(play, "a", regex=of_all(play, "a."))
    resolved(play, a)
    known_topic(play, "b1")
    known_topic(play, "a2", partitions=1)
    a.heartbeat("too soon")
    play.until(lambda: a.confirm() and group_of(play).group_epoch >= 3)
    tell_group(play, a, note="settled")


@session(setup=CONSUMERS)
def a_topic_is_deleted_that_an_expression_matches(play: Play) -> None:
    one = known_topic(play, "a1", partitions=1)
    known_topic(play, "a2", partitions=1)
    a = Consumer(play, "a", regex=of_all(play, "a."))
    resolved(play, a)
    delete(play, one)
    play.until(lambda: a.heartbeat() and group_of(play).group_epoch >= 3)
    look(play, "deleted")
    a.full("gave it up")
    tell_group(play, a, note="settled")


@session(setup=CONSUMERS)
def the_last_subscriber_of_an_expression_leaves(play: Play) -> None:
    known_topic(play, "a1", partitions=1)
    orders = known_topic(play, partitions=1)
    a, b = Consumer(play, "a", regex=of_all(play, "a.")), Consumer(play, "b", [orders])
    with play.quietly():
        b.join()
        a.join()
    until_resolved(play, 3)
    settle(a, b)
    asked = delete_request(play.group, {play.name("a1"): [0]})
    play.ask(asked, 0, note="subscribed by an expression")
    a.leave()
    look(play, "left")
    play.ask(asked, 0, note="subscribed by nobody")
    b.leave()
    look(play, "empty")
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    look(play, "deleted")


@session(setup=CONSUMERS)
def a_static_consumer_comes_back_with_its_expression(play: Play) -> None:
    known_topic(play, "a1")
    a = Consumer(play, "a", regex=of_all(play, "a."), instance="i")
    resolved(play, a)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    look(play, "away")
    again = Consumer(play, "b", regex=a.regex, instance="i")
    again.join("comes back")
    look(play, "it is back")
    away = Consumer(play, "c", regex=of_all(play, "nothing"), instance="i")
    again.leave("for a while", LEAVE_FOR_A_WHILE)
    away.join("with another")
    play.until(lambda: away.confirm() and group_of(play).group_epoch >= 3)
    tell_group(play, away, note="settled")
