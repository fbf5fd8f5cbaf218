"""ACLs and credentials of a broker's directory that is taken over, from the cluster's log beside it."""

from pathlib import Path

import pytest

from coordinator.broker.composition_root import open_server
from coordinator.core.message_text import StartFailed
from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism
from coordinator.security.core.security_state import SecurityState
from coordinator.topics.kafka_metadata_security import read_cluster_security
from protocol.records.cluster_metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from storage.files import OsFiles
from tests.broker.harness import settings
from tests.storage.faulty_files import FaultyFiles
from tests.topics.test_kafka_metadata_log import DIRECTORY, SEGMENT, batch

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def acl(number: int, binding: AclBinding = ACL) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=bytes([number] * 16),
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def credential(name: str, mechanism: int, salt: bytes = b"salt") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=salt, stored_key=b"stored", server_key=b"server", iterations=4096
    )


CONTENT = batch(
    acl(1),
    acl(2, ACL._replace(resource_name="gone")),
    acl(3, ACL._replace(principal="User:bob", host="10.0.0/8")),
    acl(4, ACL._replace(principal="nobody")),
    RemoveAccessControlEntryRecord(id=b"\2" * 16),
    credential("alice", 1),
    credential("alice", 2),
    credential("alice", 2, b"newer"),
    credential("bob", 1),
    credential("carol", 7),
    RemoveUserScramCredentialRecord(name="bob", mechanism=1),
    BeginTransactionRecord(),
    acl(5, ACL._replace(principal="User:carol")),
    credential("carol", 1),
    AbortTransactionRecord(),
)
SHA_256, SHA_512 = ScramMechanism
WANTED = SecurityState(
    frozenset({ACL, ACL._replace(principal="User:bob", host="10.0.0/8")}),
    {
        ("alice", SHA_256): ScramCredential(b"salt", b"stored", b"server", 4096),
        ("alice", SHA_512): ScramCredential(b"newer", b"stored", b"server", 4096),
    },
)


def test_what_the_cluster_knew() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    assert read_cluster_security(files, "/data") == SecurityState()
    files.mkdir(DIRECTORY)
    files.write(SEGMENT, CONTENT)
    assert read_cluster_security(files, "/data") == WANTED


def given_up_by_a_broker(tmp_path: Path, content: bytes) -> None:
    files = OsFiles()
    files.mkdir(f"{tmp_path}/__cluster_metadata-0")
    files.write(f"{tmp_path}/__cluster_metadata-0/{0:020d}.log", content)


async def started(tmp_path: Path, properties: dict[str, str]) -> SecurityState:
    """What a server knows that is then stopped."""
    server = open_server(settings(tmp_path, properties))
    try:
        return server.security.store.state
    finally:
        server.abandon()


async def test_a_first_start_takes_it_over_and_a_later_one_does_not(tmp_path: Path) -> None:
    given_up_by_a_broker(tmp_path, CONTENT)
    assert await started(tmp_path, {}) == WANTED
    given_up_by_a_broker(tmp_path, batch(acl(9, ACL._replace(principal="User:late"))))
    assert await started(tmp_path, AUTHORIZER) == WANTED


async def test_nobody_is_let_in_by_acls_that_cannot_be_read(tmp_path: Path) -> None:
    given_up_by_a_broker(tmp_path, CONTENT[:-1] + b"?")
    with pytest.raises(StartFailed, match="cluster metadata"):
        await started(tmp_path, AUTHORIZER)
    assert await started(tmp_path, {}) == SecurityState()
    assert not (tmp_path / "security.json").exists()
