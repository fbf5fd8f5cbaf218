"""A fault that acts is named in the ledger, beside the rebalance that it is in the way of."""

from contextlib import AsyncExitStack

from coordinator.control.ledger.ledger_entry import EntryResult
from tests.control.clock.living_member import GROUP, LivingMember, members_of, until
from tests.control.faults.lab import Lab


async def test_an_answer_to_a_sync_group_that_is_held(lab: Lab) -> None:
    """The group is Stable before the answer leaves, so that its entry is closed by then."""
    async with AsyncExitStack() as stack:
        _, bob = await members_of(stack, lab.server, "alice", "bob")
        lab.fault({"api": "SyncGroup", "client_id": "bob"}, name="late", do={"at": "answer", "hold": True})
        await stack.enter_async_context(LivingMember(lab.server, GROUP, "carol"))
        await lab.hit("late")
        (entry,) = lab.control.ledger.list_entries(GROUP, last=1)
        assert entry.result is EntryResult.STABLE
        assert "late holds the answer to SyncGroup of bob" in [act.what for act in entry.also]
        assert entry.members_count == 3
        lab.faults.release_fault("late")
        await until(lambda: bob.generation_id == entry.generation_id and bob.is_settled.is_set())
