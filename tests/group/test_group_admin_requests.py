import pytest

from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import GroupDeleted
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponse
from protocol.messages.list_groups import ListGroupsResponse
from tests.group.ask import WHO
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import new_generation, stable_group

NOT_REQUESTED = -(2**31)


def listed(coordinator: Coordinator, states: list[str], types: list[str]) -> list[str]:
    response = coordinator.list_groups(states, types).answer(ListGroupsResponse)
    return [group.group_id for group in response.groups]


def test_a_list_tells_state_type_and_protocol_type() -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 1)
    coordinator.commit(group="simple")
    response = coordinator.list_groups().answer(ListGroupsResponse)
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups] == [
        (GROUP, "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], [GROUP, "simple"]),
        (["Stable"], [], [GROUP]),
        ([" sTABLE ", "empty"], [], [GROUP, "simple"]),
        (["Assigning"], [], []),
        ([], ["Classic"], [GROUP, "simple"]),
        ([], ["consumer"], []),
        (["Empty"], ["classic"], ["simple"]),
        (["Empty"], ["share"], []),
        (["nonsense", "Empty"], ["nonsense", "classic"], ["simple"]),
    ],
)
def test_filters_ignore_case_and_blanks_and_both_must_match(
    states: list[str], types: list[str], expected: list[str]
) -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 1)
    coordinator.commit(group="simple")
    assert listed(coordinator, states, types) == expected


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    coordinator = Coordinator()
    leader, static = stable_group(coordinator, 2, static=1)
    group = coordinator.describe()
    assert (group.protocol_type, group.protocol_data, group.error_code) == ("consumer", "range", 0)
    member = group.members[1]
    assert (member.member_id, member.group_instance_id) == (static, "instance-0")
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert member.member_metadata == RANGE[0][1]
    assert member.member_assignment == b"for " + static.encode()
    assert group.members[0].member_id == leader


def test_a_rebalancing_group_tells_no_protocol_but_what_is_still_assigned() -> None:
    coordinator = Coordinator()
    leader, _ = stable_group(coordinator)
    coordinator.join(leader)
    group = coordinator.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert group.members[0].member_metadata == b""
    assert group.members[0].member_assignment == b"for " + leader.encode()


def test_a_completing_group_has_no_assignments_yet() -> None:
    coordinator = Coordinator()
    new_generation(coordinator)
    members = coordinator.describe().members
    assert [(one.member_metadata, one.member_assignment) for one in members] == [(b"", b"")] * 2


def test_a_missing_group_is_dead_and_from_version_6_an_error() -> None:
    coordinator = Coordinator()
    for version in range(7):
        group = coordinator.describe("nobody's", version)
        assert (group.group_state, group.members) == ("Dead", [])
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else ErrorCode.NONE)
        assert bool(group.error_message) == (version == 6)


def test_authorized_operations_are_told_on_request_unless_the_description_is_an_error() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    assert coordinator.describe().authorized_operations == NOT_REQUESTED
    assert coordinator.describe(authorized=True).authorized_operations == 3400
    assert coordinator.describe("nobody's", 5, authorized=True).authorized_operations == 3400
    assert coordinator.describe("nobody's", 6, authorized=True).authorized_operations == NOT_REQUESTED


def test_deleting_answers_each_group_once_in_order() -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 1)
    coordinator.commit(group="simple")
    coordinator.commit(group="simple", partition=1)
    response = coordinator.delete_groups("nobody's", "simple", GROUP, "simple").answer(DeleteGroupsResponse)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("nobody's", ErrorCode.GROUP_ID_NOT_FOUND),
        ("simple", ErrorCode.NONE),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
    ]
    assert coordinator.find_events(GroupDeleted) == [
        GroupDeleted("simple", 2, "request", member=MemberName("", None, *WHO))
    ]
    assert coordinator.fetch(group="simple") == {}


def test_a_deleted_group_is_buried_with_its_offsets_and_may_come_again() -> None:
    coordinator = Coordinator()
    coordinator.commit(group="simple")
    coordinator.delete_groups("simple")
    assert [record.value is None for record in coordinator.records] == [False, True, True]
    coordinator.restart()
    assert coordinator.state("simple") == "Dead"
    coordinator.commit(group="simple", offset=1)
    assert coordinator.fetch(group="simple") == {("foo", 0): (1, -1, "")}


def test_deleting_an_empty_group_forgets_who_was_about_to_join() -> None:
    coordinator = Coordinator()
    pending = coordinator.join().joined.member_id
    coordinator.delete_groups(GROUP)
    assert coordinator.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.advance(3_600_000)
    assert coordinator.state() == "Dead"
