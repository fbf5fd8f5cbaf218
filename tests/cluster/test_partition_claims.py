"""Claims: ownership of a partition, and the state after a lost response."""

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Put,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
)
from coordinator.cluster.partition_claims import Claim, ClaimRefused, PartitionToken, create_release
from tests.cluster.model_map import ModelMap

KEYS = ClusterKeys("c")
PARTITION = ("t", 0)


class Node:
    """A registered node."""

    def __init__(self, engine: ModelMap, node_id: int) -> None:
        self.engine, self.node_id = engine, node_id
        self.lease = engine.grant(9_000, 0)
        key = KEYS.broker(node_id)
        registration = StoreTransaction((CreatedAt(key, ABSENT),), (Put(key, b"", self.lease),))
        self.epoch = engine.transact(registration).revision

    def claim(self, token: int | None = None) -> Claim:
        return Claim(KEYS, PARTITION, self.node_id, self.lease, self.epoch, token)


def ask(engine: ModelMap, claim: Claim) -> PartitionToken | ClaimRefused | None:
    request = claim.next_command()
    return claim.apply_answer(
        engine.read(request) if isinstance(request, ReadRange) else engine.transact(request)
    )


def finish(engine: ModelMap, claim: Claim) -> PartitionToken | ClaimRefused:
    while (outcome := ask(engine, claim)) is None:
        pass
    return outcome


def owned(outcome: PartitionToken | ClaimRefused) -> PartitionToken:
    assert isinstance(outcome, PartitionToken)
    return outcome


def test_one_of_two_gets_it_and_each_owner_has_a_higher_epoch() -> None:
    engine = ModelMap()
    first, second = Node(engine, 1), Node(engine, 2)
    got = owned(finish(engine, first.claim()))
    assert finish(engine, second.claim()) == ClaimRefused(1)
    assert engine.transact(create_release(KEYS, PARTITION, got.token)).succeeded
    later = owned(finish(engine, second.claim()))
    assert later.epoch == got.epoch + 1
    assert later.token > got.token


def test_a_claim_without_its_session_is_refused() -> None:
    engine = ModelMap()
    node = Node(engine, 1)
    claim = node.claim()
    ask(engine, claim)
    engine.revoke(node.lease)
    assert finish(engine, claim) == ClaimRefused(None)


def test_a_lost_answer_to_a_claim_that_happened_ends_in_ownership_with_a_new_token() -> None:
    engine = ModelMap()
    claim = Node(engine, 1).claim()
    ask(engine, claim)
    request = claim.next_command()
    assert isinstance(request, StoreTransaction)
    seen = engine.transact(request).revision
    assert claim.apply_answer(StoreUnavailable("lost")) is None
    got = owned(finish(engine, claim))
    assert got.token > seen
    assert got.epoch == 1


def test_a_try_that_lands_after_another_owner_was_there_is_refused() -> None:
    engine = ModelMap()
    first, second = Node(engine, 1), Node(engine, 2)
    claim = first.claim()
    ask(engine, claim)
    late = claim.next_command()
    assert isinstance(late, StoreTransaction)
    got = owned(finish(engine, second.claim()))
    engine.transact(create_release(KEYS, PARTITION, got.token))
    assert not engine.transact(late).succeeded


def test_a_reload_takes_a_new_token_and_keeps_the_epoch() -> None:
    engine = ModelMap()
    node = Node(engine, 1)
    before = owned(finish(engine, node.claim()))
    after = owned(finish(engine, node.claim(before.token)))
    assert after.token > before.token
    assert after.epoch == before.epoch
    assert not engine.transact(create_release(KEYS, PARTITION, before.token)).succeeded


def test_who_lost_a_partition_gets_no_new_token() -> None:
    engine = ModelMap()
    first, second = Node(engine, 1), Node(engine, 2)
    before = owned(finish(engine, first.claim()))
    engine.transact(create_release(KEYS, PARTITION, before.token))
    finish(engine, second.claim())
    assert finish(engine, first.claim(before.token)) == ClaimRefused(2)
