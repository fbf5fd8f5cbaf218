"""A group that is exported and imported into another shard behaves as in its own shard."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.control.recording.json_codec import ValueDecoder, ValueEncoder
from coordinator.core.open_transaction_records import OpenTransactions
from coordinator.core.outcome import Context, Fact, Now
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.group_export import (
    export_durable,
    export_group,
    has_group_state,
    import_durable,
    import_group,
    iterate_records,
)
from coordinator.group.group_requests import EndTransaction, GroupConfigsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.group.modern.java_order import TimelineOrder
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.group_record_schemas import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from tests.group.new_shard import new_shard

GROUP = "g"
OTHER = "other"
NOW = Now(1_000_000, 1_700_000_000_000)
CONTEXT = Context(1, 8, "client", "/127.0.0.1")


def commit(offset: int, group: str = GROUP) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )


def pending_commit(producer_id: int, offset: int, group: str = GROUP) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    return TxnOffsetCommitRequest(
        transactional_id=f"t-{producer_id}",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


def create_shard(*requests: Any) -> GroupShard:
    """Return a shard that has handled these requests."""
    shard = new_shard()
    shard.on_loaded(NOW)
    for request in requests:
        shard.handle(request, CONTEXT, NOW)
    return shard


def copy_value(value: Any) -> Any:
    """Return a copy by the encoding of recordings, independent of the shard that owns the original."""
    return ValueDecoder().decode(ValueEncoder().encode(value))


def rebuild(shard: GroupShard) -> GroupShard:
    """Return another shard with only the group of this one."""
    other = new_shard()
    import_group(other, GROUP, copy_value(export_group(shard, GROUP)))
    other.check_invariants()
    return other


INTERLEAVED = (
    commit(1),
    pending_commit(5, 10),
    commit(2),
    pending_commit(6, 20),
    pending_commit(7, 30, OTHER),
    pending_commit(5, 11),
    commit(3, OTHER),
)
"""Offsets of one partition. The second offset of producer 5 is newer than all others of the group."""


def check_ends(ends: list[int], *requests: Any) -> None:
    """Check that the ends of transactions have the same results in a shard and in its rebuilt copy."""
    shard = create_shard(*requests)
    other = rebuild(shard)
    assert other.snapshot_durable()[GROUP] == shard.snapshot_durable()[GROUP]
    for producer_id in ends:
        for one in (shard, other):
            one.handle(EndTransaction(producer_id, 0, 1, is_committed=True), CONTEXT, NOW)
        assert other.list_committed_offsets(GROUP) == shard.list_committed_offsets(GROUP)
        assert other.view_group(GROUP, NOW) == shard.view_group(GROUP, NOW)


@pytest.mark.parametrize("ends", [[5, 6], [6, 5], [7, 5, 6]], ids=str)
def test_open_transactions_end_as_in_the_original(ends: list[int]) -> None:
    check_ends(ends, *INTERLEAVED)
    check_ends(ends, *INTERLEAVED[:4])
    check_ends(ends, pending_commit(5, 10), commit(2), pending_commit(6, 20))


def fill_consumer_group(shard: GroupShard) -> None:
    """Replay a group of eight members that once had forty."""
    names = [f"member-{number}" for number in range(40)]
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1_000,
        server_assignor="uniform",
        classic_member_metadata=None,
    )
    for name in names:
        shard.replay(Fact(ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=name), value))
    for name in names:
        if name not in names[::5]:
            shard.replay(Fact(ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=name), None))


def check_member_order() -> None:
    shard, other = new_shard(), new_shard()
    fill_consumer_group(shard)
    state = copy_value(export_durable(shard, GROUP))
    import_durable(other, GROUP, state)
    imported = export_durable(other, GROUP).consumer
    assert imported is not None
    assert list(imported.order) == list(state.consumer.order)
    assert list(imported.facts()) == list(state.consumer.facts())


def test_members_keep_the_order_of_a_table_that_has_grown() -> None:
    check_member_order()


@pytest.mark.parametrize(
    ("owner", "name", "check"),
    [
        (OpenTransactions, "adopt_arrivals", lambda: check_ends([5], *INTERLEAVED[:4])),
        (DurableConsumerGroup, "adopt_orders", check_member_order),
        (GroupShard, "replay", lambda: check_ends([], commit(1))),
    ],
    ids=["arrivals", "members", "records"],
)
def test_an_import_without_one_of_its_parts_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, check: Callable[[], None]
) -> None:
    check()
    monkeypatch.setattr(owner, name, lambda *_: None)
    with pytest.raises((AssertionError, KeyError)):
        check()


def test_an_import_replays_the_records_that_a_load_would_read() -> None:
    shard = create_shard(*INTERLEAVED)
    state = export_durable(shard, GROUP)
    loaded = new_shard()
    for fact, producer_id in iterate_records(GROUP, state):
        loaded.replay(fact, producer_id)
    assert loaded.snapshot_durable()[GROUP] == shard.snapshot_durable()[GROUP]
    assert OTHER not in loaded.snapshot_durable()


@pytest.mark.parametrize("is_classic_last", [True, False])
def test_the_later_records_decide_the_type_of_an_imported_group(*, is_classic_last: bool) -> None:
    metadata = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=None,
        current_state_timestamp=1,
        members=[],
    )
    classic = Fact(GroupMetadataKey(group=GROUP), metadata)
    shard, other = new_shard(), new_shard()
    for step in (fill_consumer_group, lambda one: one.replay(classic))[:: 1 if is_classic_last else -1]:
        step(shard)
    import_durable(other, GROUP, copy_value(export_durable(shard, GROUP)))
    assert other.snapshot_durable() == shard.snapshot_durable()
    assert other.snapshot_durable()[GROUP].is_consumer is not is_classic_last


def test_configs_of_a_group_are_exported_too() -> None:
    shard = create_shard(GroupConfigsChanged(GROUP, {"consumer.session.timeout.ms": "50000"}))
    assert has_group_state(shard, GROUP)
    assert not has_group_state(shard, OTHER)
    assert rebuild(shard).find_overrides(GROUP) == {"consumer.session.timeout.ms": "50000"}


def test_orders_of_other_records_are_refused() -> None:
    pending: OpenTransactions[str, int] = OpenTransactions()
    pending.add_record(5, "a", 1)
    with pytest.raises(ValueError, match="other records"):
        pending.adopt_arrivals({5: {"b": (1, 1)}}, {}, 1)
    with pytest.raises(ValueError, match="other records"):
        pending.adopt_arrivals({5: {"a": (1, 1)}}, {"b": 2}, 2)
    pending.adopt_arrivals({5: {"a": (7, 1)}}, {}, 9)
    assert (pending.by_producer, pending.last_number) == ({5: {"a": (7, 1)}}, 9)

    one, other = TimelineOrder(), TimelineOrder()
    one.insert("a")
    with pytest.raises(ValueError, match="other keys"):
        one.adopt_history(other)
