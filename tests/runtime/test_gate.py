import pytest

from coordinator.runtime.coordinator_partition import Gate


def test_answers_leave_in_order_up_to_what_is_durable() -> None:
    gate = Gate()
    for waiter, position in enumerate([1, 3, 3, 7]):
        gate.hold_answer(position, waiter, f"answer {waiter}")
    assert list(gate.release_answers(0)) == []
    assert list(gate.release_answers(3)) == [(1, 0, "answer 0"), (3, 1, "answer 1"), (3, 2, "answer 2")]
    assert len(gate) == 1
    assert list(gate.release_answers(100)) == [(7, 3, "answer 3")]


def test_a_position_before_one_that_is_held_is_a_mistake() -> None:
    gate = Gate()
    gate.hold_answer(5, 1, "later")
    with pytest.raises(AssertionError):
        gate.hold_answer(4, 2, "earlier")


def test_a_cleared_gate_releases_nothing() -> None:
    gate = Gate()
    gate.hold_answer(1, 1, "answer")
    gate.clear()
    assert list(gate.release_answers(10)) == []
