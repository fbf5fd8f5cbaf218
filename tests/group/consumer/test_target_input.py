"""Targets of members whose topics a thread puts in order, compared with those computed in the call."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core.outcome import WorkDone
from coordinator.group.consumer import target_assignment
from coordinator.group.topics_image import TopicImage
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.group.consumer.members import Members, read_response

NAMES = [f"topic-{number}" for number in range(12)]
Step = tuple[object, ...]
SUBSCRIPTION = st.one_of(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True),
    st.sampled_from(["topic-[0-4]", "topic-1.*"]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("subscribe"), st.integers(0, 4), SUBSCRIPTION, st.sampled_from(["range", "uniform"])
        ),
        st.tuples(st.just("leave"), st.integers(0, 4)),
        st.tuples(st.just("topics"), st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5), min_size=1)),
    ),
    min_size=2,
    max_size=12,
)


def play(steps: Sequence[Step]) -> tuple[Members, list[object]]:
    """Play steps on a new coordinator. Return it with all responses."""
    group, epochs, responses = Members(), dict[int, int](), list[object]()
    set_topics(group, dict.fromkeys(NAMES[:6], 2))
    for kind, *arguments in steps:
        group.advance(10_000)
        match kind, arguments:
            case "subscribe", [int(number), list() | str() as subscription, str(assignor)]:
                response = group.beat(
                    f"member-{number}",
                    epochs.get(number, 0),
                    names=subscription if isinstance(subscription, list) else None,
                    regex=subscription if isinstance(subscription, str) else "",
                    owned={},
                    rebalance=60_000,
                    assignor=assignor,
                ).answer(ConsumerGroupHeartbeatResponse)
                epochs[number] = response.member_epoch  # 0 after an error
            case "leave", [int(number)]:
                response = group.beat(f"member-{number}", -1).answer(ConsumerGroupHeartbeatResponse)
                epochs.pop(number, None)
            case _, [dict(partitions)]:
                set_topics(group, partitions)
                continue
        responses.append(response)
    return group, responses


def set_topics(group: Members, partitions: dict[str, int]) -> None:
    """Create, grow and delete topics. A topic that is created again has another id."""
    version, before = group.topics.version, group.topics.by_name
    images = []
    for number, (name, count) in enumerate(partitions.items()):
        new = TopicImage(name, (version << 32 | number).to_bytes(16), count)
        old = before.get(name, new)
        images.append(old._replace(partitions=max(old.partitions, count)))
    group.topics_are(*images)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(STEPS)
def test_targets_are_those_that_the_call_computes(monkeypatch: pytest.MonkeyPatch, steps: list[Step]) -> None:
    inline, responses = play(steps)
    with monkeypatch.context() as patch:
        patch.setattr(target_assignment, "MAX_INLINE_NAMES", -1)
        threaded, their_responses = play(steps)
    assert their_responses == responses
    assert threaded.records == inline.records
    assert threaded.events == inline.events


def test_the_call_puts_no_large_number_of_names_in_order() -> None:
    """Neither the first processing of the request that needs the target does it, nor the second one with the
    result.
    """
    group = Members()
    group.does_work = False
    names = [f"topic-{number}" for number in range(target_assignment.MAX_INLINE_NAMES + 1)]
    set_topics(group, dict.fromkeys(names[:100], 1))
    ordered: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_assignment, "_order_subscribed_topics", ordered.append)
        parked = group.beat("A", 0, names=names, owned={}, rebalance=60_000)
    (work,) = group.work
    result = WorkDone(work, target_assignment.compute_target(work.argument))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_assignment, "_order_subscribed_topics", ordered.append)
        group.tell(result)
    _, partitions = read_response(parked)
    assert isinstance(partitions, dict)
    assert len(partitions) == 100
    assert ordered == []
