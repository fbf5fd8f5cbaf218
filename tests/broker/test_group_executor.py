"""A thread does the work of groups in time slices: an expression that takes hours blocks no other group."""

import asyncio

import pytest

from coordinator.broker import group_executor
from coordinator.broker.group_executor import RegexesTooSlow, create_group_workers
from coordinator.core import time_budget
from coordinator.core.time_budget import RunQueue
from coordinator.group.consumer.regex_resolution import REGEX_WORK, RegexWork
from coordinator.group.consumer.target_assignment import TARGET_WORK, TargetWork
from coordinator.group.modern.partition_assignors import GroupSpec, MemberSpec
from coordinator.group.topics_image import TopicImage, TopicsImage

ROOM = 1_000_000
FOO = bytes(15) + b"\1"
SPEC = GroupSpec(
    members={"m": MemberSpec(member_id="m", topic_ids=(FOO,), assigned={}, subscribed=1)},
    is_homogeneous=True,
    partitions={FOO: 1},
)


def slow_work() -> RegexWork:
    """A hundred expressions that hardly fit into memory together: a topic takes them many milliseconds, all of
    10,000 an hour."""
    topics = [TopicImage("a" * 80 + str(number), number.to_bytes(16), 1) for number in range(1, 10_001)]
    regexes = tuple(f"(a?){{500}}a{{{number}}}" for number in range(300, 400))
    return RegexWork("slow", regexes, TopicsImage(topics, 1), 0, ROOM)


def quick_work() -> RegexWork:
    return RegexWork("quick", ("f.*", "b.*"), TopicsImage([TopicImage("foo", FOO, 1)], 1), 0, ROOM)


async def test_other_work_runs_while_the_matches_of_a_member_are_authorized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An ACL that is added meanwhile counts for the topics that follow."""
    monkeypatch.setattr(time_budget, "SLICE_NS", -1)  # each step uses a whole slice
    topics = [TopicImage(f"foo-{number}", number.to_bytes(16), 1) for number in range(1, 21)]
    checked: list[str] = []
    denied_since = len(topics)

    def may_describe(name: str) -> bool:
        checked.append(name)
        return len(checked) <= denied_since

    async def deny() -> None:
        nonlocal denied_since
        while len(checked) < 5:  # noqa: ASYNC110 - it has its turn between two topics
            await asyncio.sleep(0)
        denied_since = len(checked)

    work = RegexWork("g", ("foo.*", "foo-1"), TopicsImage(topics, 1), 0, ROOM, may_describe=may_describe)
    denial = asyncio.create_task(deny())
    found = await create_group_workers(RunQueue(asyncio.get_running_loop()))[REGEX_WORK](work)
    await denial
    assert isinstance(found, dict)
    assert 5 <= denied_since < len(topics)
    assert sorted(found["foo.*"]) == sorted(checked[:denied_since])
    assert found["foo-1"] == [name for name in checked[:denied_since] if name == "foo-1"]


async def test_slow_expressions_let_others_in_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_executor, "MAX_REGEX_NS", 300_000_000)
    workers = create_group_workers(RunQueue(asyncio.get_running_loop()))
    slow = asyncio.ensure_future(workers[REGEX_WORK](slow_work()))
    target = TargetWork("g", "uniform", SPEC)
    assert await workers[TARGET_WORK](target) == {"m": {FOO: (0,)}}
    assert await workers[REGEX_WORK](quick_work()) == {"f.*": ["foo"], "b.*": []}
    assert not slow.done()
    with pytest.raises(RegexesTooSlow):
        await slow
