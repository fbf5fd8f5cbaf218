"""The names of members in sentences and commands, which the API must take for exactly these members."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.control.diagnosis.member_labels import MemberLabels, matches_reference
from coordinator.group.event_details import MemberName

HOST: Final = "/127.0.0.1"


@pytest.mark.parametrize(
    ("member", "other", "reference"),
    [
        (MemberName("a-1", None, "a", HOST), MemberName("b-1", None, "b", HOST), "a"),
        (MemberName("a-1", "i", "a", HOST), MemberName("a-2", "j", "a", HOST), "i"),
        (MemberName("a-1", None, "a", HOST), MemberName("a-2", None, "a", HOST), "a-1"),
        (MemberName("x-1", "i", "x", HOST), MemberName("b-1", "x", "b", HOST), "i"),
        (MemberName("a-1", "x", "c", HOST), MemberName("x-1", None, "x", HOST), "c"),
        (MemberName("x-1", None, "x", HOST), MemberName("x", None, "b", HOST), "x-1"),
        (MemberName("x-1", "x", "x", HOST), MemberName("b-1", None, "b", HOST), "x"),
    ],
)
def test_a_reference_is_the_shortest_name_of_one_member(
    member: MemberName, other: MemberName, reference: str
) -> None:
    assert MemberLabels([member, other]).find_reference(member) == reference


NAMES: Final = st.sampled_from(["x", "y", "z"])


@given(st.dictionaries(NAMES, st.tuples(st.none() | NAMES, NAMES), min_size=1))
def test_a_reference_matches_no_other_member(names: dict[str, tuple[str | None, str]]) -> None:
    members = [
        MemberName(member_id, instance_id, client_id, HOST)
        for member_id, (instance_id, client_id) in names.items()
    ]
    labels = MemberLabels(members)
    for member in members:
        reference = labels.find_reference(member)
        matching = [each for each in members if matches_reference(each, reference)]
        assert matching == [member] or reference == member.member_id  # the API tries member ids first
