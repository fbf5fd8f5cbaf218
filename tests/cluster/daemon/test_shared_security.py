"""ACLs and SCRAM users apply to the whole cluster, whichever broker received them."""

import asyncio
from dataclasses import replace

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon import shared_security
from coordinator.cluster.key_value_store import Delete, Put, StoreTransaction, TransactionResult
from coordinator.security.core.acl import AclBinding, AclOperation, AclPermissionType
from coordinator.security.core.sasl_mechanisms import ScramMechanism
from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.apis.authorized_clients import AUTHORIZER, TOPIC, acl, allow, change
from tests.broker.harness import Client
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, daemons, eventually
from tests.network.requests import trust_client_ids
from tests.security.server.sasl_server import credential, log_in

KEYS = ClusterKeys(CLUSTER_ID)
READ = AclOperation.DESCRIBE
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "20",
}
SHA_256 = ScramMechanism.SCRAM_SHA_256


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the client id as the principal on the plain listener."""
    trust_client_ids(monkeypatch)


async def may_look(daemon: Daemon, user: str) -> bool:
    """Return whether a user may describe the topic."""
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name="orders", partitions=[part])
    async with Client(daemon.server, user) as client:
        answer = await client.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)
    code = answer.topics[0].partitions[0].error_code
    return bool(code != ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def known(daemon: Daemon) -> frozenset[AclBinding]:
    return daemon.server.security.store.state.acls


async def test_what_one_broker_allows_all_allow_and_what_one_forbids_none_allows() -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        assert not await may_look(second, "alice")
        await allow(first.server, "alice", READ, TOPIC, "orders")
        assert await may_look(first, "alice")
        await eventually(lambda: bool(known(second)))
        assert await may_look(second, "alice")
        assert not await may_look(second, "bob")
        third = await cluster.start(3, **AUTHORIZER)
        assert await may_look(third, "alice")
        await change(second.server, removed=[acl("alice", READ, TOPIC, "orders")])
        assert not await may_look(second, "alice")
        for daemon in (first, third):
            await eventually(lambda daemon=daemon: not known(daemon))  # type: ignore[misc]
            assert not await may_look(daemon, "alice")


async def test_a_user_that_one_broker_was_told_of_logs_in_at_another_and_after_a_restart() -> None:
    async with daemons(None, 2, **SASL) as cluster:
        first, second = cluster.by_id.values()

        async def logs_in(daemon: Daemon, password: str) -> bool:
            async with Client(port=daemon.server.endpoints[0].port) as client:
                answer = await log_in(client, "carol", password, "SCRAM-SHA-256")
            return bool(answer.error_code == ErrorCode.NONE)

        store = first.server.security.store
        assert not await logs_in(second, "one")
        for password in ("one", "two"):
            wanted = {("carol", SHA_256): credential(SHA_256, password)}
            await store.change_state(replace(store.state, scram=wanted))
            assert await logs_in(first, password)
            await eventually(lambda: second.server.security.store.state.scram == store.state.scram)
            assert await logs_in(second, password)
        assert not await logs_in(second, "one")
        await cluster.kill(first)
        again = await cluster.start(first.node_id, **SASL)
        assert await logs_in(again, "two")


async def test_changes_of_two_brokers_at_one_time_undo_nothing() -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        users = [f"u{number}" for number in range(8)]
        bindings = {user: acl(user, READ, TOPIC, "orders") for user in users}
        await asyncio.gather(
            *(
                change((first, second)[number % 2].server, added=[bindings[user]])
                for number, user in enumerate(users)
            )
        )
        for daemon in (first, second):
            await eventually(lambda daemon=daemon: known(daemon) == set(bindings.values()))  # type: ignore[misc]
        await asyncio.gather(
            change(first.server, removed=[bindings["u0"]]),
            change(second.server, added=[acl("late", READ, TOPIC, "orders", AclPermissionType.DENY)]),
        )
        expected = {*bindings.values()} - {bindings["u0"]} | {
            acl("late", READ, TOPIC, "orders", AclPermissionType.DENY)
        }
        for daemon in (first, second):
            await eventually(lambda daemon=daemon: known(daemon) == expected)  # type: ignore[misc]


async def test_a_try_that_lands_late_brings_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        transact, tries = first.engine.transact, []

        async def noted(transaction: StoreTransaction) -> TransactionResult:
            if any(KEYS.security("acl/") in operation.key for operation in transaction.operations):
                tries.append(transaction)
            return await transact(transaction)

        monkeypatch.setattr(first.engine, "transact", noted)
        await allow(first.server, "alice", READ, TOPIC, "orders")
        await eventually(lambda: bool(known(second)))
        await change(second.server, removed=[acl("alice", READ, TOPIC, "orders")])
        assert tries
        for late in tries:
            assert not (await transact(late)).succeeded
        await change(second.server, added=[acl("bob", READ, TOPIC, "orders")])
        for daemon in (first, second):
            await eventually(lambda daemon=daemon: known(daemon) == {acl("bob", READ, TOPIC, "orders")})  # type: ignore[misc]


async def test_where_a_key_makes_no_sense_what_was_known_holds_and_changes_are_refused() -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        await allow(first.server, "alice", READ, TOPIC, "orders")
        await eventually(lambda: bool(known(second)))
        stray = KEYS.security("acl/stray")
        cluster.store.do(
            lambda map_: map_.transact(StoreTransaction((), (Put(stray, b'{"acl": {"x": "y"}}'),)))
        )
        binding = acl("alice", READ, TOPIC, "orders")

        def problem(daemon: Daemon) -> str:
            return daemon.cluster.security.problem

        for daemon in (first, second):
            await eventually(lambda daemon=daemon: bool(problem(daemon)))  # type: ignore[misc]
            with pytest.raises(OSError, match="invalid"):
                await change(daemon.server, removed=[binding])
            assert known(daemon) == {binding}
        cluster.store.do(lambda map_: map_.transact(StoreTransaction((), (Delete(stray),))))
        await eventually(lambda: not problem(second))
        await change(second.server, removed=[binding])
        await eventually(lambda: not known(first))


async def test_an_engine_that_has_lost_everything_opens_nothing() -> None:
    async with daemons(None, 1, **AUTHORIZER) as cluster:
        [daemon] = cluster.by_id.values()
        await allow(daemon.server, "alice", READ, TOPIC, "orders")
        before = known(daemon)
        security = daemon.cluster.security
        security.stop()
        begin, end = KEYS.kind_range("security")
        cluster.store.do(lambda map_: map_.transact(StoreTransaction((), (Delete(begin, end),))))
        security.start()
        with pytest.raises(OSError, match="lost"):
            await change(daemon.server, added=[acl("bob", READ, TOPIC, "orders")])
        assert known(daemon) == before


async def test_a_change_of_many_is_whole() -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        bindings = [acl(f"u{number}", READ, TOPIC, "orders") for number in range(350)]
        await change(first.server, added=bindings)
        assert known(first) == set(bindings)
        await eventually(lambda: known(second) == set(bindings))
        await change(second.server, removed=bindings)
        await eventually(lambda: not known(first))


async def test_without_the_engine_a_change_is_refused_and_what_was_known_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_security, "_TIMEOUT_S", 0.3)
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        await allow(first.server, "alice", READ, TOPIC, "orders")
        first.engine.is_cut = True
        part = AclCreation(
            resource_type=TOPIC,
            resource_name="orders",
            resource_pattern_type=3,
            principal="User:bob",
            host="*",
            operation=READ,
            permission_type=AclPermissionType.ALLOW,
        )
        async with Client(first.server, "admin") as admin:
            answer = await admin.call(CreateAclsRequest(creations=[part]), 3)
        assert answer.results[0].error_code != ErrorCode.NONE
        assert len(known(first)) == 1
        assert await may_look(first, "alice")
        assert not await may_look(first, "bob")
        first.engine.is_cut = False
        await eventually(lambda: len(known(second)) == 1)
        async with Client(first.server, "admin") as admin:
            answer = await admin.call(CreateAclsRequest(creations=[part]), 3)
        assert answer.results[0].error_code == ErrorCode.NONE
        await eventually(lambda: len(known(second)) == 2)


async def test_what_was_removed_before_its_maker_saw_it_stays_removed() -> None:
    async with daemons(None, 2, **AUTHORIZER) as cluster:
        first, second = cluster.by_id.values()
        binding = acl("alice", READ, TOPIC, "orders")
        first.engine.is_slow_to_see = True
        added = asyncio.create_task(change(first.server, added=[binding]))
        await eventually(lambda: known(second) == {binding})
        await change(second.server, removed=[binding])
        first.engine.is_slow_to_see = False
        await added
        await change(second.server, added=[acl("bob", READ, TOPIC, "orders")])
        for daemon in (first, second):
            await eventually(lambda daemon=daemon: known(daemon) == {acl("bob", READ, TOPIC, "orders")})  # type: ignore[misc]
