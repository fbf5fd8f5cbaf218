import pytest

from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_state_machine import MEANINGS, TRANSITIONS, ClassicGroupState
from docs import generate_state_machine


@pytest.mark.parametrize("source", ClassicGroupState)
@pytest.mark.parametrize("target", ClassicGroupState)
def test_a_group_takes_the_transitions_of_the_table_and_no_other(
    source: ClassicGroupState, target: ClassicGroupState
) -> None:
    group = ClassicGroup("g", 0)
    group.state = source
    if (source, target) in TRANSITIONS:
        group.transition_to(target, 5)
        assert (group.state, group.state_timestamp_ms) == (target, 5)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(target, 5)
        assert group.state is source


def test_every_state_has_a_meaning_and_ends_with_the_shard() -> None:
    assert set(MEANINGS) == set(ClassicGroupState)
    assert all((state, ClassicGroupState.DEAD) in TRANSITIONS for state in ClassicGroupState)


def test_the_page_about_the_states_is_what_the_table_says() -> None:
    page = generate_state_machine.CLASSIC_GROUP
    assert page.path.read_text() == page.text()
