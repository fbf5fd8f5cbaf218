"""For every state, request and kind of caller: the error code of Kafka's response, and the next state.

A cell has the error code, or `wait` for a parked request, then `>` and the next state if the state changes. States
are M (missing group), E (Empty), P (PreparingRebalance), C (CompletingRebalance), S (Stable), D (Dead: the shard
was unloaded).

In the last four states the group has a leader, a follower and a static member, all of generation 1, and a pending
member. In P, the follower waits in the join phase of the next generation.
"""

import pytest

from protocol.messages.delete_groups import DeleteGroupsResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_delete import OffsetDeleteResponse
from tests.group.ask import Ask
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import CHANGED, new_generation, stable_group

TABLE = """
request           | caller          | M       | E       | P    | C       | S       | D
join              | leader          | 25      | 25      | wait | 0       | wait>P  | 15
join              | follower        | 25      | 25      | wait | 0       | 0       | 15
join              | static          | 25      | 25      | wait | 0       | 0       | 15
join              | unknown         | 25      | 25      | 25   | 25      | 25      | 15
join              | fenced          | 25      | 25      | 82   | 82      | 82      | 15
join              | other instance  | 25      | 25      | 25   | 25      | 25      | 15
join              | pending         | 25      | wait>P  | wait | wait>P  | wait>P  | 15
join changed      | leader          | 25      | 25      | wait | wait>P  | wait>P  | 15
join changed      | follower        | 25      | 25      | wait | wait>P  | wait>P  | 15
join changed      | static          | 25      | 25      | wait | wait>P  | wait>P  | 15
join              | new             | 79>E    | 79      | 79   | 79      | 79      | 15
join v3           | new             | wait>P  | wait>P  | wait | wait>P  | wait>P  | 15
join              | new static      | wait>P  | wait>P  | wait | wait>P  | wait>P  | 15
join              | static restarts | wait>P  | wait>P  | wait | wait>P  | 0       | 15
join changed      | static restarts | wait>P  | wait>P  | wait | wait>P  | 0       | 15
join other type   | new             | 79>E    | 79      | 23   | 23      | 23      | 15
join other type   | follower        | 25      | 25      | 23   | 23      | 23      | 15
join other name   | new             | 79>E    | 79      | 23   | 23      | 23      | 15
join other name   | follower        | 25      | 25      | 23   | 23      | 23      | 15
join other name   | unknown         | 25      | 25      | 23   | 23      | 23      | 15
join no protocol  | new             | 23>E    | 23      | 23   | 23      | 23      | 15
join no type      | new             | 23>E    | 23      | 23   | 23      | 23      | 15
join short        | leader          | 26      | 26      | 26   | 26      | 26      | 26
sync              | leader          | 25      | 25      | 27   | 0>S     | 0       | 15
sync              | follower        | 25      | 25      | 27   | wait    | 0       | 15
sync              | static          | 25      | 25      | 27   | wait    | 0       | 15
sync              | unknown         | 25      | 25      | 25   | 25      | 25      | 15
sync              | fenced          | 25      | 25      | 82   | 82      | 82      | 15
sync              | other instance  | 25      | 25      | 25   | 25      | 25      | 15
sync              | pending         | 25      | 25      | 25   | 25      | 25      | 15
sync              | stale           | 25      | 25      | 22   | 22      | 22      | 15
sync other type   | leader          | 25      | 25      | 23   | 23      | 23      | 15
sync other name   | leader          | 25      | 25      | 23   | 23      | 23      | 15
sync no type      | leader          | 23      | 23      | 23   | 23      | 23      | 23
sync no name      | unknown         | 23      | 23      | 23   | 23      | 23      | 23
sync v4 no type   | leader          | 25      | 25      | 27   | 0>S     | 0       | 15
heartbeat         | leader          | 25      | 25      | 27   | 0       | 0       | 15
heartbeat         | follower        | 25      | 25      | 27   | 0       | 0       | 15
heartbeat         | static          | 25      | 25      | 27   | 0       | 0       | 15
heartbeat         | unknown         | 25      | 25      | 25   | 25      | 25      | 15
heartbeat         | fenced          | 25      | 25      | 82   | 82      | 82      | 15
heartbeat         | other instance  | 25      | 25      | 25   | 25      | 25      | 15
heartbeat         | pending         | 25      | 25      | 25   | 25      | 25      | 15
heartbeat         | stale           | 25      | 25      | 22   | 22      | 22      | 15
leave             | leader          | 25      | 25      | 0    | 0>P     | 0>P     | 15
leave             | follower        | 25      | 25      | 0    | 0>P     | 0>P     | 15
leave             | static          | 25      | 25      | 0    | 0>P     | 0>P     | 15
leave             | unknown         | 25      | 25      | 25   | 25      | 25      | 15
leave             | fenced          | 25      | 25      | 82   | 82      | 82      | 15
leave             | other instance  | 25      | 25      | 25   | 25      | 25      | 15
leave             | pending         | 25      | 0       | 0    | 0>P     | 0>P     | 15
leave             | static restarts | 25      | 25      | 0    | 0>P     | 0>P     | 15
leave             | new             | 25      | 25      | 25   | 25      | 25      | 15
leave v2          | leader          | 25      | 25      | 0    | 0>P     | 0>P     | 15
leave v2          | unknown         | 25      | 25      | 25   | 25      | 25      | 15
commit            | leader          | 69      | 25      | 0    | 27      | 0       | 15
commit            | follower        | 69      | 25      | 0    | 27      | 0       | 15
commit            | static          | 69      | 25      | 0    | 27      | 0       | 15
commit            | unknown         | 69      | 25      | 25   | 25      | 25      | 15
commit            | fenced          | 69      | 25      | 82   | 82      | 82      | 15
commit            | other instance  | 69      | 25      | 25   | 25      | 25      | 15
commit            | pending         | 69      | 25      | 25   | 25      | 25      | 15
commit            | stale           | 69      | 25      | 22   | 22      | 22      | 15
commit v8         | leader          | 22      | 25      | 0    | 27      | 0       | 15
commit            | nobody          | 0>E     | 0       | 25   | 25      | 25      | 15
commit no gen     | leader          | 0>E     | 0       | 22   | 22      | 22      | 15
commit no gen     | unknown         | 0>E     | 0       | 25   | 25      | 25      | 15
commit no gen     | fenced          | 0>E     | 0       | 82   | 82      | 82      | 15
txn               | leader          | 69      | 25      | 0    | 0       | 0       | 15
txn               | follower        | 69      | 25      | 0    | 0       | 0       | 15
txn               | static          | 69      | 25      | 0    | 0       | 0       | 15
txn               | unknown         | 69      | 25      | 25   | 25      | 25      | 15
txn               | fenced          | 69      | 25      | 82   | 82      | 82      | 15
txn               | other instance  | 69      | 25      | 25   | 25      | 25      | 15
txn               | pending         | 69      | 25      | 25   | 25      | 25      | 15
txn               | stale           | 69      | 25      | 22   | 22      | 22      | 15
txn v5            | leader          | 22      | 25      | 0    | 0       | 0       | 15
txn               | nobody          | 0>E     | 0       | 0    | 0       | 0       | 15
txn no gen        | leader          | 0>E     | 0       | 22   | 22      | 22      | 15
txn no gen        | unknown         | 0>E     | 0       | 25   | 25      | 25      | 15
txn no gen        | fenced          | 0>E     | 0       | 82   | 82      | 82      | 15
fetch             | nobody          | 0       | 0       | 0    | 0       | 0       | 0
delete offset     | nobody          | 69      | 0       | 86   | 86      | 86      | 69
delete other      | nobody          | 69      | 0       | 0    | 0       | 0       | 69
delete group      | nobody          | 69      | 0>M     | 68   | 68      | 68      | 69
"""

NAMES = {
    "Dead": "MD",
    "Empty": "E",
    "PreparingRebalance": "P",
    "CompletingRebalance": "C",
    "Stable": "S",
}


class Callers:
    """Return member id and group instance id of each kind of caller."""

    def __init__(self, coordinator: Coordinator, state: str) -> None:
        leader, follower, static = "no-leader", "no-follower", "no-static"
        if state in "PCSD":
            opening = new_generation if state == "C" else stable_group
            leader, follower, static = opening(coordinator, 3, static=1)
        if state == "E":
            (leader,) = stable_group(coordinator, 1)
            coordinator.leave_alone(leader)
            assert coordinator.state() == "Empty"
        if state == "P":
            assert coordinator.join(follower, protocols=CHANGED).is_parked
            assert coordinator.state() == "PreparingRebalance"
        pending = "no-pending" if state == "M" else coordinator.join().joined.member_id
        if state == "D":
            coordinator.unload()
        self.ids: dict[str, tuple[str, str | None]] = {
            "leader": (leader, None),
            "follower": (follower, None),
            "static": (static, "instance-0"),
            "static restarts": ("", "instance-0"),
            "fenced": (follower, "instance-0"),
            "other instance": (static, "instance-9"),
            "unknown": ("stranger", None),
            "pending": (pending, None),
            "stale": (leader, None),
            "nobody": ("", None),
            "new": ("", None),
            "new static": ("", "instance-1"),
        }
        # In state P the follower waits with changed metadata, so a JoinGroup with unchanged metadata has these.
        self.same = CHANGED if state == "P" else RANGE


def ask(coordinator: Coordinator, request: str, caller: str, callers: Callers) -> str:
    """Send the request of a row. Return the error code of its response, or "wait" if it is parked."""
    member_id, instance = callers.ids[caller]
    generation = 0 if caller == "stale" else 1
    api, _, variant = request.partition(" ")
    if api == "join":
        return _join(coordinator, variant, member_id, instance, callers)
    if api == "sync":
        return _text(_sync(coordinator, variant, member_id, generation, instance))
    if api == "heartbeat":
        return str(int(coordinator.heartbeat(member_id, generation, instance=instance)))
    if api == "leave":
        return str(_leave(coordinator, variant, member_id, instance))
    if api == "commit":
        given = -1 if variant == "no gen" or caller == "nobody" else generation
        version = 8 if variant == "v8" else 9
        error = coordinator.commit(member_id, given, instance=instance, version=version)
        return str(int(error))
    if api == "txn":
        given = -1 if variant == "no gen" or caller == "nobody" else generation
        version = 5 if variant == "v5" else 6
        return str(int(coordinator.txn_commit(9, member_id, given, instance=instance, version=version)))
    return _administer(coordinator, request)


def _join(
    coordinator: Coordinator, variant: str, member_id: str, instance: str | None, callers: Callers
) -> str:
    protocols: dict[str, list[tuple[str, bytes]]] = {
        "changed": [(name, data + b"!") for name, data in RANGE],
        "other name": [("other", b"")],
        "no protocol": [],
    }
    reply = coordinator.join(
        member_id,
        version=3 if variant == "v3" else 9,
        instance=instance,
        protocols=protocols.get(variant, callers.same),
        protocol_type={"other type": "connect", "no type": ""}.get(variant, "consumer"),
        session=5_999 if variant == "short" else 10_000,
    )
    return _text(reply)


def _sync(
    coordinator: Coordinator, variant: str, member_id: str, generation: int, instance: str | None
) -> Ask:
    return coordinator.sync(
        member_id,
        generation,
        version=4 if variant.startswith("v4") else 5,
        instance=instance,
        protocol_type={"other type": "connect", "no type": None, "v4 no type": None}.get(variant, "consumer"),
        protocol_name={"other name": "other", "no name": None}.get(variant, "range"),
    )


def _leave(coordinator: Coordinator, variant: str, member_id: str, instance: str | None) -> int:
    if variant == "v2":
        return int(coordinator.leave_alone(member_id))
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance)
    response = coordinator.leave(identity).answer(LeaveGroupResponse)
    return response.error_code or response.members[0].error_code


def _administer(coordinator: Coordinator, request: str) -> str:
    if request == "fetch":
        assert coordinator.fetch({"foo": [0]}) == {("foo", 0): (-1, -1, "")}
        return "0"
    if request == "delete group":
        results = coordinator.delete_groups(GROUP).answer(DeleteGroupsResponse).results
        return str(int(results[0].error_code))
    topic = "foo" if request == "delete offset" else "bar"
    deleted = coordinator.delete_offsets((topic, 0)).answer(OffsetDeleteResponse)
    partition_error = deleted.topics[0].partitions[0].error_code if deleted.topics else 0
    return str(int(deleted.error_code or partition_error))


def _text(reply: Ask) -> str:
    return "wait" if reply.is_parked else str(int(reply.error))


def _cells() -> list[tuple[str, str, str, str]]:
    header, *rows = [[cell.strip() for cell in row.split("|")] for row in TABLE.strip().splitlines()]
    return [
        (request, caller, state, cell)
        for request, caller, *cells in rows
        for state, cell in zip(header[2:], cells, strict=True)
    ]


@pytest.mark.parametrize(("request_name", "caller", "state", "cell"), _cells())
def test_answer_and_next_state(request_name: str, caller: str, state: str, cell: str) -> None:
    coordinator = Coordinator()
    callers = Callers(coordinator, state)
    expected, _, next_state = cell.partition(">")
    assert ask(coordinator, request_name, caller, callers) == expected
    assert (next_state or state) in NAMES[coordinator.state()]
