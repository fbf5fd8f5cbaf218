"""Changes of ACLs and credentials: durable when they are answered, one after the other, none undone by another."""

import asyncio
import json
from dataclasses import replace

import pytest

from coordinator.core.daemon_log import OngoingFailures
from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism
from coordinator.security.core.security_state import SecurityState
from coordinator.security.security_store import SecurityStore
from storage.data_directory import DataDirectory
from storage.metadata_files import MetaProperties
from tests.storage.faulty_files import FaultyFiles

ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
OTHER = ACL._replace(principal="User:bob")
ALICE, BOB = (("alice", ScramMechanism.SCRAM_SHA_256), ("bob", ScramMechanism.SCRAM_SHA_256))
FIRST, SECOND = (ScramCredential(salt, b"stored", b"server", 4096) for salt in (b"1", b"2"))


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def store(files: FaultyFiles) -> SecurityStore:
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"))
    return SecurityStore.open(directory, OngoingFailures("LogManager"), authorizes=True)


def kept(files: FaultyFiles) -> SecurityState:
    """What a crash would leave."""
    return SecurityState.from_document(json.loads(files.crash().read("/data/security.json")))


async def test_what_is_answered_is_durable(files: FaultyFiles) -> None:
    security = store(files)
    wanted = SecurityState(frozenset({ACL}), {ALICE: FIRST})
    await security.change_state(wanted)
    assert security.state == kept(files) == wanted


async def test_changes_at_the_same_time_do_not_undo_each_other(files: FaultyFiles) -> None:
    security = store(files)
    await security.change_state(SecurityState(frozenset({ACL}), {ALICE: FIRST, BOB: FIRST}))
    base = security.state
    await asyncio.gather(
        security.change_state(replace(base, acls=base.acls | {OTHER})),
        security.change_state(replace(base, acls=base.acls - {ACL})),
        security.change_state(replace(base, scram={**base.scram, ALICE: SECOND})),
        security.change_state(replace(base, scram={ALICE: FIRST})),
    )
    assert security.state == kept(files) == SecurityState(frozenset({OTHER}), {ALICE: SECOND})


async def test_a_change_that_the_disk_refuses_is_none(files: FaultyFiles) -> None:
    security = store(files)
    await security.change_state(SecurityState(frozenset({ACL})))
    assert security.authorizer is not None
    epoch = security.authorizer.epoch
    files.is_full = True
    large = frozenset(OTHER._replace(resource_name=f"orders-{number}") for number in range(1000))
    with pytest.raises(OSError, match="space"):
        await security.change_state(SecurityState(large))
    assert security.state == kept(files) == SecurityState(frozenset({ACL}))
    assert security.authorizer.epoch == epoch
    files.is_full = False
    await security.change_state(SecurityState(frozenset({OTHER})))
    assert security.state == kept(files) == SecurityState(frozenset({OTHER}))
    assert security.authorizer.epoch != epoch


async def test_a_change_that_was_refused_late_is_none_after_the_next_start(files: FaultyFiles) -> None:
    security = store(files)
    await security.change_state(SecurityState(frozenset({ACL})))
    files.fail("fsync_directory")
    with pytest.raises(OSError, match="error"):
        await security.change_state(SecurityState())
    assert files.has_failed
    assert security.state == SecurityState(frozenset({ACL}))
    document = json.loads(files.kill().read("/data/security.json"))
    assert SecurityState.from_document(document) == security.state == kept(files)


async def test_one_that_waits_is_finished_before_the_end(files: FaultyFiles) -> None:
    security = store(files)
    change = asyncio.ensure_future(security.change_state(SecurityState(frozenset({ACL}))))
    await asyncio.sleep(0)
    await security.stop()
    assert kept(files) == SecurityState(frozenset({ACL}))
    await change
    with pytest.raises(OSError, match="stopping"):
        await security.change_state(SecurityState())
