"""A crash at every file-system call while ACLs and credentials change.

With any part of the unsynced data on the disk, acknowledged changes are there, and at most one unacknowledged
change is there as a whole. The next process can continue.
"""

import asyncio
import errno
from contextlib import suppress
from random import Random
from typing import Final

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
from storage.storage_errors import StorageError
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.storage.full_disk import FullDisk

META: Final = MetaProperties("cluster", 1, "directory")
CHANGES: Final = 2


def state(number: int) -> SecurityState:
    """That after so many changes."""
    acls = (
        AclBinding(
            *(ResourceType.TOPIC, f"orders-{each}", PatternType.LITERAL, "User:alice", "*"),
            *(AclOperation.READ, AclPermissionType.ALLOW),
        )
        for each in range(number)
    )
    credential = ScramCredential(b"salt", bytes([number]), b"server", 4096)
    scram = {("alice", ScramMechanism.SCRAM_SHA_256): credential} if number else {}
    return SecurityState(frozenset(acls), scram)


def opened(files: FaultyFiles) -> SecurityStore:
    directory = DataDirectory.open(files, "/data", META)
    return SecurityStore.open(directory, OngoingFailures("LogManager"), authorizes=True)


class Life:
    """What one process did, as far as it got."""

    def __init__(self, files: FaultyFiles) -> None:
        self._files = files
        self.answered = 0

    async def run(self) -> None:
        security = opened(self._files)
        for number in range(1, CHANGES + 1):
            await security.change_state(state(number))
            self.answered = number


def check(life: Life, files: FaultyFiles) -> SecurityStore:
    """Check the invariants of the remaining state."""
    security = opened(files)
    assert security.state in (state(life.answered), state(life.answered + 1))
    return security


def check_next(life: Life, files: FaultyFiles) -> None:
    """Check the remaining state and the changes of the next process."""
    asyncio.run(check(life, files).change_state(state(CHANGES + 1)))
    assert opened(files.crash()).state == state(CHANGES + 1)


def calls() -> int:
    """How many a whole life takes."""
    files = FaultyFiles()
    asyncio.run(Life(files).run())
    count = files.calls.total()
    assert count > 3 * CHANGES
    return count


@pytest.mark.parametrize("torn_bytes", [0, 100])
def test_a_crash_at_every_call(torn_bytes: int) -> None:
    for nth in range(1, calls() + 1):
        files = FaultyFiles()
        files.crash_at("any", nth, torn_bytes)
        life = Life(files)
        with suppress(CrashError):
            asyncio.run(life.run())
        check(life, files.crash())
        check(life, files.crash(Random(nth)))
        check(life, files.crash(Random(-nth)))
        check_next(life, files.kill())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_process_that_stops_at_any_failing_call(error: int) -> None:
    for nth in range(1, calls() + 1):
        files = FaultyFiles()
        files.fail("any", nth, error, torn_bytes=nth % 40)
        life = Life(files)
        with suppress(StorageError, OSError):
            asyncio.run(life.run())
        check(life, files.crash())
        check_next(life, files.kill())


@pytest.mark.parametrize("stays_full", [False, True], ids=["once", "for good"])
def test_a_change_that_any_call_refuses_has_no_effect(stays_full: bool) -> None:
    """Neither in this process nor after a kill or a power cut. One that is answered has it in all of them."""

    async def change(nth: int) -> None:
        files = FullDisk()
        security = opened(files)
        await security.change_state(state(1))
        files.arm(nth, stays_full=stays_full)
        expected = state(2)
        try:
            await security.change_state(expected)
        except OSError:
            expected = state(1)
        assert security.state == expected, nth
        for left in (files.kill(), files.crash(), files.crash(Random(nth))):
            assert opened(left).state == expected, nth
        files.is_full = False
        files.arm(0, stays_full=False)
        await security.change_state(state(2))
        assert opened(files.crash()).state == state(2), nth

    for nth in range(1, calls() + 1):
        asyncio.run(change(nth))
