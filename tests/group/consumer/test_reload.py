"""After a crash behind any batch of the log, groups reach the same state as in an uninterrupted run.

A batch holds the records of one write in Kafka.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from coordinator.core.outcome import Outcome
from coordinator.group.topics_image import TopicImage
from tests.group.consumer.clients import ClassicClient, ConsumerClient
from tests.group.consumer.members import BAR, FOO, Members
from tests.group.coordinator import GROUP
from tests.group.entries import entries_of

Client = ConsumerClient | ClassicClient
Act = Callable[[], None]


class Cut(Exception):
    """The process ended after writing a batch, before any response."""


class Run(Members):
    """A coordinator that ends after `batches` written batches (0: never) and loads its log.

    With `loses_answers`, the last requester gets no response and retries.
    """

    def __init__(self, end_after: int, *, loses_answers: bool) -> None:
        self.clients: list[Client] = []
        self.batches = 0
        self.end_after = end_after
        self.loses_answers = loses_answers
        super().__init__()

    def take(self, outcome: Outcome) -> None:
        if outcome.records:
            self.batches += 1
            if self.batches == self.end_after and self.loses_answers:
                self.log.extend(entries_of(outcome))
                raise Cut
        super().take(outcome)

    def act(self, act: Act) -> None:
        """Perform an action of a client. If the coordinator ends during it, load the log."""
        before = self.batches
        try:
            act()
        except Cut:
            self._load()
            act()
        else:
            if not self.loses_answers and before < self.end_after <= self.batches:
                self._load()

    def _load(self) -> None:
        self.work.clear()
        for client in self.clients:
            if isinstance(client, ClassicClient):
                client.lose_connection()
        self.restart()

    def pass_rounds(self, count: int) -> None:
        """Let every client send a request once a second, for `count` seconds."""
        for _ in range(count):
            for client in list(self.clients):
                self.act(partial(client.step, self))
            self.act(partial(self._pass_until, self.now.monotonic_ms + 1_000))

    def _pass_until(self, end_ms: int) -> None:
        self.advance(end_ms - self.now.monotonic_ms)

    def come(self, *clients: Client) -> None:
        """Add clients, and let all members reach their targets."""
        self.clients += clients
        self.pass_rounds(8)

    def go(self, client: ConsumerClient, epoch: int = -1) -> None:
        """Let a member leave with a leave heartbeat of this epoch."""
        self.clients.remove(client)
        self.act(lambda: client.leave(self, epoch))

    def outcome(self) -> tuple[object, ...]:
        """Return type and state of the group, the number of epochs by which the target is behind, and the
        assignments."""
        view = self.shard.view_group(GROUP, self.now)
        assert view is not None
        behind = None if view.assignment_epoch is None else view.generation_id - view.assignment_epoch
        return view.type, view.state, behind, [self._owned_by(client) for client in self.clients]

    def epoch(self) -> int:
        """Return the epoch of the group, or its generation if it is classic."""
        view = self.shard.view_group(GROUP, self.now)
        assert view is not None
        return view.generation_id

    def _owned_by(self, client: Client) -> list[tuple[bytes, int]]:
        if isinstance(client, ClassicClient):
            return [(FOO, number) for number in sorted(client.owned)]
        return sorted((topic, number) for topic, numbers in client.owned.items() for number in numbers)


def joins(run: Run) -> None:
    for name in "ABC":
        run.come(ConsumerClient(name))


def joins_at_once(run: Run) -> None:
    run.come(*(ConsumerClient(name) for name in "ABCD"))


def subscribes_to_other_topics(run: Run) -> None:
    run.topics_are(TopicImage("foo", FOO, 3), TopicImage("bar", BAR, 2))
    a, b = ConsumerClient("A"), ConsumerClient("B")
    run.come(a, b)
    a.names = ("bar",)
    run.pass_rounds(8)
    a.names = ()
    run.pass_rounds(8)
    run.act(lambda: run.topics_are(TopicImage("foo", FOO, 5), TopicImage("bar", BAR, 2)))
    run.pass_rounds(8)


def leaves(run: Run) -> None:
    a, b, c = (ConsumerClient(name) for name in "ABC")
    run.come(a, b, c)
    run.go(b)
    run.pass_rounds(8)
    run.go(a)
    run.pass_rounds(8)


def is_silent(run: Run) -> None:
    a, b = ConsumerClient("A"), ConsumerClient("B")
    run.come(a, b)
    run.clients.remove(a)
    run.pass_rounds(100)


def reads_expressions(run: Run) -> None:
    a, b = ConsumerClient("A", None, "f.*"), ConsumerClient("B", None, ".*r")
    run.come(a, b)
    run.pass_rounds(20)
    run.act(lambda: run.topics_are(TopicImage("foo", FOO, 3), TopicImage("far", BAR, 2)))
    run.pass_rounds(30)
    a.regex = ".*r"
    run.pass_rounds(30)
    run.go(b)
    run.pass_rounds(30)


def is_static(run: Run) -> None:
    a, b = ConsumerClient("A", instance="i"), ConsumerClient("B", instance="j")
    run.come(a, b)
    run.go(a, -2)
    run.pass_rounds(3)
    run.come(ConsumerClient("C", instance="i"))
    run.go(b, -2)
    run.pass_rounds(100)


def is_upgraded(run: Run) -> None:
    run.come(ClassicClient())
    run.come(ConsumerClient("A"))
    run.come(ConsumerClient("B"))


def is_downgraded(run: Run) -> None:
    run.come(ClassicClient())
    a = ConsumerClient("A")
    run.come(a)
    run.go(a)
    run.pass_rounds(8)
    run.come(ClassicClient())


HISTORIES: Final[dict[str, Callable[[Run], None]]] = {
    each.__name__: each
    for each in (
        joins,
        joins_at_once,
        subscribes_to_other_topics,
        leaves,
        is_silent,
        reads_expressions,
        is_static,
        is_upgraded,
        is_downgraded,
    )
}


CASES: Final = [(name, False) for name in HISTORIES] + [
    # As in Kafka, a static member cannot rejoin if the response to its first join was lost.
    (name, True)
    for name in HISTORIES
    if name != "is_static"
]


def story(name: str, end_after: int, *, loses_answers: bool) -> Run:
    run = Run(end_after, loses_answers=loses_answers)
    HISTORIES[name](run)
    return run


@pytest.mark.parametrize(("name", "loses_answers"), CASES)
def test_a_group_comes_to_the_same_wherever_its_log_ended(name: str, loses_answers: bool) -> None:
    whole = story(name, 0, loses_answers=loses_answers)
    assert whole.batches > 4
    epochs = {whole.epoch()}
    if name == "is_downgraded":
        # As in Kafka, no record has the rebalance that the downgrade starts, so a load loses it.
        epochs.add(whole.epoch() - 1)
    for end_after in range(1, whole.batches + 1):
        run = story(name, end_after, loses_answers=loses_answers)
        assert run.outcome() == whole.outcome(), f"loaded after batch {end_after}"
        assert run.epoch() in epochs, f"loaded after batch {end_after}"
