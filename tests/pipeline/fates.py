"""Histories of groups: disasters, each with the kind of finding it has to give, and days on which nothing is wrong.

Each group has the name of its function, and topics of its own. They last an hour.
"""

from collections.abc import Callable

from pipeline.log_ends.log_end import LogEnd
from tests.pipeline.hand_made import HandMade, Partitions, at

HOUR_S = 3600
Fate = Callable[[HandMade, str], list[LogEnd]]
"""Plays the history of a group and returns the end of its topic."""

DISASTERS: dict[str, tuple[Fate, str]] = {}
HEALTHY: dict[str, Fate] = {}


def disaster(kind: str) -> Callable[[Fate], Fate]:
    def keep(fate: Fate) -> Fate:
        DISASTERS[fate.__name__] = fate, kind
        return fate

    return keep


def healthy(fate: Fate) -> Fate:
    HEALTHY[fate.__name__] = fate
    return fate


def end(topic: str, partition: int, seconds: float, offset: int, start: int = 0) -> LogEnd:
    """What was measured then."""
    return LogEnd(topic, partition, int(at(seconds).timestamp() * 1000), start, offset, "file")


def both(first: str, second: str, topic: str) -> dict[str, Partitions]:
    """Two members with a partition each."""
    return {first: [(topic, 0)], second: [(topic, 1)]}


def commits(made: HandMade, name: str, since: int, until: int, *, every: int = 60) -> None:
    """A message a second in each of two partitions, committed as it comes."""
    for seconds in range(since, until, every):
        for partition in (0, 1):
            made.commit(name, name, partition, seconds, seconds)


def kept_up(name: str) -> list[LogEnd]:
    """Both partitions are read to their end."""
    return [end(name, n, seconds, seconds) for n in (0, 1) for seconds in range(600, HOUR_S - 59, 600)] + [
        end(name, n, HOUR_S, HOUR_S - 60) for n in (0, 1)
    ]


# What must be found


@disaster("abandoned_group")
def abandoned(made: HandMade, name: str) -> list[LogEnd]:
    """Both consumers leave after ten minutes, while the topic continues to grow."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 600)
    made.generation(name, 2, {"b1": [(name, 0), (name, 1)]}, 600)
    made.emptied(name, 3, 660)
    return [
        end(name, n, at_s, 540 + (at_s - 540) * 8 * (at_s > 540))
        for n in (0, 1)
        for at_s in (540, 1800, 3600)
    ]


@disaster("rebalance_storm")
def storm(made: HandMade, name: str) -> list[LogEnd]:
    """Three clients, of which one after the other comes back under another member id."""
    ids = {"x": 1, "y": 1, "z": 1}
    for number in range(1, 62):
        if number > 1:
            ids["xyz"[number % 3]] += 1
        names = [f"{client}{n}" for client, n in ids.items()]
        made.generation(
            name, number, {names[0]: [(name, 0)], names[1]: [(name, 1)], names[2]: []}, 10 * number
        )
    commits(made, name, 660, HOUR_S)
    return kept_up(name)


@disaster("regular_leaving")
def slow_poll(made: HandMade, name: str) -> list[LogEnd]:
    """One of two consumers works longer than max.poll.interval.ms on each poll."""
    number = 1
    made.generation(name, number, both("good1", "slow1", name), 1)
    for time in range(1, 9):
        made.generation(name, number + 1, {"good1": [(name, 0), (name, 1)]}, 300 * time)
        made.generation(name, number + 2, both("good1", f"slow{time + 1}", name), 300 * time + 20)
        number += 2
    commits(made, name, 2460, HOUR_S)
    return kept_up(name)


@disaster("lost_messages")
def too_late(made: HandMade, name: str) -> list[LogEnd]:
    """The topic's retention was faster than the group."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, HOUR_S)
    return [end(name, 0, HOUR_S, 90_000, start=50_000), end(name, 1, HOUR_S, HOUR_S - 60)]


@disaster("stuck_partition")
def stuck(made: HandMade, name: str) -> list[LogEnd]:
    """A message that cannot be processed: the same offset again and again."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    for seconds in range(60, HOUR_S, 60):
        made.commit(name, name, 0, min(seconds, 600), seconds)
        made.commit(name, name, 1, seconds, seconds)
    return kept_up(name)


@disaster("offset_rewind")
def reset(made: HandMade, name: str) -> list[LogEnd]:
    """Somebody went back to the beginning."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 1800)
    made.commit(name, name, 0, 0, 1830)
    for seconds in range(1860, HOUR_S, 60):
        made.commit(name, name, 0, min(seconds, 4 * (seconds - 1830)), seconds)
        made.commit(name, name, 1, seconds, seconds)
    return kept_up(name)


@disaster("flapping_group")
def crash_loop(made: HandMade, name: str) -> list[LogEnd]:
    """All of it comes and goes, at no regular distance."""
    for number, seconds in enumerate((100, 130, 500, 910, 1800), start=1):
        made.generation(name, 2 * number - 1, both(f"a{number}", f"b{number}", name), seconds)
        made.emptied(name, 2 * number, seconds + 20)
    made.generation(name, 11, both("a9", "b9", name), 2000)
    commits(made, name, 2040, HOUR_S)
    return kept_up(name)


@disaster("unread_without_members")
def left_behind(made: HandMade, name: str) -> list[LogEnd]:
    """The consumers stop far behind the end of a topic that does not grow any more."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 600)
    made.generation(name, 2, {"b1": [(name, 0), (name, 1)]}, 600)
    made.emptied(name, 3, 660)
    return [end(name, n, seconds, 9_000) for n in (0, 1) for seconds in (60, 540, 1800, 3600)]


@disaster("rising_lag")
def overrun(made: HandMade, name: str) -> list[LogEnd]:
    """Twice as many messages come as the group reads."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, HOUR_S)
    return [end(name, n, seconds, 2 * seconds) for n in (0, 1) for seconds in range(60, HOUR_S + 1, 60)]


@disaster("expiring_offsets")
def forgotten(made: HandMade, name: str) -> list[LogEnd]:
    """A job that set its own, short retention and does not come back."""
    made.commit(name, name, 0, 5, 60, expire_ts=at(HOUR_S + 600))
    return [end(name, 0, HOUR_S, 5)]


@disaster("idle_members")
def too_many(made: HandMade, name: str) -> list[LogEnd]:
    """Three members for two partitions."""
    made.generation(name, 1, both("a1", "b1", name) | {"c1": []}, 1, topics=[name])
    commits(made, name, 60, HOUR_S)
    return kept_up(name)


@disaster("outside_ownership")
def without_owner(made: HandMade, name: str) -> list[LogEnd]:
    """A consumer commits a partition that it does not own."""
    made.generation(name, 1, {"a1": [(name, 0)]}, 1)
    commits(made, name, 60, HOUR_S)
    return kept_up(name)


@disaster("mixed_commits")
def half_transactional(made: HandMade, name: str) -> list[LogEnd]:
    """Every second commit comes in a transaction."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    for seconds in range(60, HOUR_S, 60):
        for partition in (0, 1):
            producer_id = 7 if seconds % 120 else None
            made.commit(name, name, partition, seconds, seconds, producer_id=producer_id)
    return kept_up(name)


# What must not be found


@healthy
def steady(made: HandMade, name: str) -> list[LogEnd]:
    """Nothing happens."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, HOUR_S)
    return kept_up(name)


@healthy
def rolling_restart(made: HandMade, name: str) -> list[LogEnd]:
    """Each of two comes back once."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 1200)
    made.generation(name, 2, {"b1": [(name, 0), (name, 1)]}, 1200)
    made.generation(name, 3, both("a2", "b1", name), 1215)
    made.generation(name, 4, {"a2": [(name, 0), (name, 1)]}, 1230)
    made.generation(name, 5, both("a2", "b2", name), 1245)
    commits(made, name, 1260, HOUR_S)
    return kept_up(name)


@healthy
def static_members(made: HandMade, name: str) -> list[LogEnd]:
    """Static members restart several times without a rebalance."""
    for number in range(1, 9):
        made.generation(name, 1, both(f"a{number}@i", "b1@j", name), 200 * number)
    commits(made, name, 1620, HOUR_S)
    return kept_up(name)


@healthy
def scaled_up(made: HandMade, name: str) -> list[LogEnd]:
    """A cooperative assignor takes two steps for it."""
    made.generation(name, 1, {"a1": [(name, 0), (name, 1)]}, 1, protocol="cooperative-sticky")
    commits(made, name, 60, 1800)
    first = {"a1": [(name, 0)], "b1": []}
    made.generation(name, 2, first, 1800, protocol="cooperative-sticky", topics=[name])
    made.generation(name, 3, both("a1", "b1", name), 1801, protocol="cooperative-sticky", topics=[name])
    commits(made, name, 1860, HOUR_S)
    return kept_up(name)


@healthy
def simple(made: HandMade, name: str) -> list[LogEnd]:
    """A consumer that assigns its partitions itself, so the group never has members."""
    commits(made, name, 60, HOUR_S)
    return kept_up(name)


@healthy
def finished(made: HandMade, name: str) -> list[LogEnd]:
    """A job that read all there is, and went."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 1800)
    made.generation(name, 2, {"b1": [(name, 0), (name, 1)]}, 1800)
    made.emptied(name, 3, 1801)
    return [
        end(name, n, seconds, min(seconds, 1740)) for n in (0, 1) for seconds in range(600, HOUR_S + 1, 600)
    ]


@healthy
def removed(made: HandMade, name: str) -> list[LogEnd]:
    """A group that was deleted, with its offsets, while its topic went on."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 600)
    made.emptied(name, 2, 600)
    for partition in (0, 1):
        made.commit(name, name, partition, None, 700)
    made.deleted(name, 700)
    return kept_up(name)


@healthy
def exactly_once(made: HandMade, name: str) -> list[LogEnd]:
    """All commits come in transactions."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    for seconds in range(60, HOUR_S, 60):
        for partition in (0, 1):
            made.commit(name, name, partition, seconds, seconds, producer_id=9)
    return kept_up(name)


@healthy
def caught_up(made: HandMade, name: str) -> list[LogEnd]:
    """A peak that was worked off."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, HOUR_S)
    peak = [end(name, n, 1250, 9000) for n in (0, 1)]
    return [each for each in kept_up(name) if each.at_ms < peak[0].at_ms] + [
        end(name, n, HOUR_S, HOUR_S - 60) for n in (0, 1)
    ]


@healthy
def batches(made: HandMade, name: str) -> list[LogEnd]:
    """All that came within ten minutes is committed at once."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 600, HOUR_S, every=600)
    return [end(name, n, seconds, seconds) for n in (0, 1) for seconds in range(60, HOUR_S + 1, 60)]


@healthy
def remade_topic(made: HandMade, name: str) -> list[LogEnd]:
    """The topic is deleted and created again under its name: offsets restart."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    commits(made, name, 60, 1800)
    for partition in (0, 1):
        made.commit(name, name, partition, None, 1800)
    for seconds in range(1860, HOUR_S, 60):
        for partition in (0, 1):
            made.commit(name, name, partition, seconds - 1800, seconds)
    return [end(name, n, HOUR_S, HOUR_S - 60 - 1800) for n in (0, 1)]


@healthy
def clock_set_back(made: HandMade, name: str) -> list[LogEnd]:
    """The broker's clock was ahead by ten minutes, and is set back."""
    made.generation(name, 1, both("a1", "b1", name), 601)
    for seconds in range(60, HOUR_S, 60):
        for partition in (0, 1):
            made.commit(name, name, partition, seconds, seconds + (600 if seconds < 1800 else 0))
    return [end(name, n, HOUR_S, HOUR_S - 60) for n in (0, 1)]


@healthy
def empty_topic(made: HandMade, name: str) -> list[LogEnd]:
    """Nothing to read, and nothing committed."""
    made.generation(name, 1, both("a1", "b1", name), 1)
    return [end(name, n, HOUR_S, 0) for n in (0, 1)]


def play(made: HandMade, fates: dict[str, Fate]) -> list[LogEnd]:
    """Play all histories in one log; return the ends of the topics."""
    return [measured for name, fate in fates.items() for measured in fate(made, name)]
