import pytest

from coordinator.engine.gate import Gate


def test_answers_leave_in_order_up_to_what_is_durable() -> None:
    gate = Gate()
    for waiter, position in enumerate([1, 3, 3, 7]):
        gate.hold(position, waiter, f"answer {waiter}")
    assert list(gate.release(0)) == []
    assert list(gate.release(3)) == [(0, "answer 0"), (1, "answer 1"), (2, "answer 2")]
    assert len(gate) == 1
    assert list(gate.release(100)) == [(3, "answer 3")]


def test_a_position_before_one_that_is_held_is_a_mistake() -> None:
    gate = Gate()
    gate.hold(5, 1, "later")
    with pytest.raises(AssertionError):
        gate.hold(4, 2, "earlier")


def test_a_cleared_gate_releases_nothing() -> None:
    gate = Gate()
    gate.hold(1, 1, "answer")
    gate.clear()
    assert list(gate.release(10)) == []
