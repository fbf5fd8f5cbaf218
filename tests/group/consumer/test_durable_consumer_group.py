"""Loading any prefix of the log gives the durable state that a consumer group had at its end."""

from random import Random

import pytest

from coordinator.core.outcome import NO_PRODUCER_ID
from coordinator.group.topics_image import TopicImage
from tests.group.consumer.members import BAR, Members
from tests.group.coordinator import GROUP
from tests.group.entries import replay
from tests.group.new_shard import new_shard


def wander(group: Members, random: Random) -> None:
    """Perform one random step, such as a request, a change of topics, a restart or an advance of the clock."""
    described = group.described().members
    names = random.choice([["foo"], ["bar"], ["foo", "bar"], []])
    step = random.randrange(12)
    if step < 2 or not described:
        regex = random.choice(["", "", "fo+", ".*"])
        instance = random.choice([None, None, "i", "j"])
        group.enter(random.choice("ABCD"), names=names, regex=regex, instance=instance)
        return
    member = random.choice(described)
    who: dict[str, object] = {"instance": member.instance_id}
    if step == 2:
        epoch = -1 if member.instance_id is None else random.choice([-1, -2])
        group.say(member.member_id, epoch, **who)
    elif step == 3:
        group.advance(random.choice([500, 1_000, 11_000, 61_000]))
    elif step == 4:
        foo = group.topics.by_name.get("foo", TopicImage("foo", random.randbytes(16), 0))
        topics = [foo._replace(partitions=foo.partitions + random.randrange(1, 3)), TopicImage("bar", BAR, 2)]
        group.topics_are(*topics[: random.randrange(3)])
    elif step == 5:
        group.restart()
    elif step == 6:
        group.say(member.member_id, member.member_epoch, names=names, **who)
    elif step == 7:
        group.delete_groups(GROUP)
    elif step == 8:
        group.join(version=3)
    else:
        target = {one.topic_id: one.partitions for one in member.target_assignment.topic_partitions}
        group.say(member.member_id, member.member_epoch, owned=target, **who)


@pytest.mark.parametrize("seed", range(20))
def test_every_prefix_of_the_log_gives_the_state_that_was_live_there(seed: int) -> None:
    random, group = Random(seed), Members()
    states = {0: group.shard.snapshot_durable()}
    for _ in range(120):
        wander(group, random)
        states[len(group.log)] = group.shard.snapshot_durable()
    assert len(states) > 4
    for length, state in states.items():
        loaded = new_shard()
        replay(loaded, group.log[:length])
        assert loaded.snapshot_durable() == state
        copied = new_shard()
        replay(copied, [(fact, NO_PRODUCER_ID) for fact in loaded.copy_durable().facts()])
        assert copied.snapshot_durable() == state
        loaded.on_loaded(group.now)
        loaded.check_invariants()
        assert loaded.snapshot_durable() == state
