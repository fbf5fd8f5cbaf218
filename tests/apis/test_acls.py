"""DescribeAcls, CreateAcls, DeleteAcls of a server with an authorizer."""

import asyncio
import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.apis import acl_handlers, scram_credential_handlers
from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.core.message_text import StartFailed
from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from coordinator.security.core.principal import ANONYMOUS
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism
from coordinator.security.core.security_state import SecurityState
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from storage.metadata_files import HAS_SECURITY
from tests.broker.harness import Client, serving, settings
from tests.storage.faulty_files import FaultyFiles

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:admin;{ANONYMOUS}",
}
NOBODY = {**AUTHORIZER, "super.users": "User:admin"}
ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
PREFIXED = ACL._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
DENIED = ACL._replace(principal="User:bob", operation=AclOperation.ALL, permission=AclPermissionType.DENY)
GROUP = ACL._replace(resource_type=ResourceType.GROUP, resource_name="billing")


FIELDS = (
    *("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation"),
    "permission_type",
)


def creation(acl: AclBinding, **changes: Any) -> AclCreation:
    return AclCreation(**{**dict(zip(FIELDS, acl, strict=True)), **changes})


def create(*acls: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[creation(acl) for acl in acls])


def describe(**changes: Any) -> DescribeAclsRequest:
    return DescribeAclsRequest(**{**open_filter(), **changes})


def delete(*filters: dict[str, Any]) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**{**open_filter(), **each}) for each in filters])


def open_filter() -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    }


def described(answer: Any) -> list[AclBinding]:
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return [
        AclBinding(
            ResourceType(of.resource_type),
            of.resource_name,
            PatternType(of.pattern_type),
            one.principal,
            one.host,
            AclOperation(one.operation),
            AclPermissionType(one.permission_type),
        )
        for of in answer.resources
        for one in of.acls
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_there_until_they_are_deleted(tmp_path: Path, version: int) -> None:
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        made = await client.call(create(GROUP, DENIED, PREFIXED, ACL), version)
        assert [(each.error_code, each.error_message) for each in made.results] == [(ErrorCode.NONE, "")] * 4
        found = await client.call(describe(), version)
        assert described(found) == [DENIED, ACL, PREFIXED, GROUP]
        assert len(found.resources) == 3
        gone = await client.call(
            delete({"resource_type_filter": ResourceType.TOPIC}, {"principal_filter": "User:carol"}), version
        )
        assert [(each.error_code, len(each.matching_acls)) for each in gone.filter_results] == [
            (0, 3),
            (0, 0),
        ]
        assert described(await client.call(describe(), version)) == [GROUP]
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        assert described(await client.call(describe(), version)) == [GROUP]


async def test_version_0_knows_literal_names_only() -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL, PREFIXED), 3)
        assert described(await client.call(describe(), 0)) == [ACL]
        gone = await client.call(delete({}), 0)
        assert len(gone.filter_results[0].matching_acls) == 1
        assert described(await client.call(describe(), 3)) == [PREFIXED]


async def test_an_acl_bites_at_once() -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        authorizer = server.security.authorizer
        assert authorizer is not None
        asked = (server_principal("alice"), "127.0.0.1", AclOperation.DESCRIBE, ResourceType.TOPIC, "orders")
        epoch = authorizer.epoch
        assert not authorizer.decide(*asked).allowed
        await client.call(create(ACL), 3)
        assert authorizer.decide(*asked).allowed
        assert authorizer.epoch != epoch
        await client.call(delete({}), 3)
        assert not authorizer.decide(*asked).allowed


def server_principal(name: str) -> Any:
    return ANONYMOUS._replace(name=name)


async def test_each_acl_of_a_request_has_its_own_result() -> None:
    wrong = ACL._replace(resource_type=ResourceType.CLUSTER)
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        made = await client.call(create(ACL, wrong, ACL, PREFIXED._replace(principal="bob")), 3)
        assert [each.error_code for each in made.results] == [0, ErrorCode.INVALID_REQUEST, 0, 42]
        assert (
            made.results[1].error_message == "The only valid name for the CLUSTER resource is kafka-cluster"
        )
        assert described(await client.call(describe(), 3)) == [ACL]
        gone = await client.call(delete({"operation": 99}, {"resource_type_filter": 99}, {}), 3)
        assert [each.error_message for each in gone.filter_results] == [
            "Unknown entryFilter.",
            "Unknown patternFilter.",
            None,
        ]


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"resource_pattern_type": PatternType.ANY},
        {"operation": AclOperation.ANY},
        {"permission_type": AclPermissionType.ANY},
    ],
)
async def test_what_only_filters_have_fails_the_whole_request(changes: dict[str, int]) -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        made = await client.call(CreateAclsRequest(creations=[creation(ACL), creation(ACL, **changes)]), 3)
        failed = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
        assert [(each.error_code, each.error_message) for each in made.results] == [failed] * 2
        assert described(await client.call(describe(), 3)) == []


async def test_what_says_unknown_itself_cannot_be_read() -> None:
    requests = (
        CreateAclsRequest(creations=[creation(ACL, operation=0)]),
        describe(permission_type=0),
        delete({}, {"pattern_type_filter": 0}),
    )
    async with serving(None, AUTHORIZER) as server:
        for request in requests:
            async with Client(server) as client:
                client.send(request, 3)
                assert await client.closed()


async def test_who_may_not_is_refused_everywhere() -> None:
    async with serving(None, NOBODY) as server, Client(server) as client:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        found = await client.call(describe(), 3)
        assert (found.error_code, found.resources) == (refused, [])
        made = await client.call(create(ACL, ACL), 3)
        assert [each.error_code for each in made.results] == [refused] * 2
        gone = await client.call(delete({}, {}), 3)
        assert [each.error_code for each in gone.filter_results] == [refused] * 2


async def test_the_rights_are_describe_and_alter_of_the_cluster(tmp_path: Path) -> None:
    cluster = ACL._replace(
        resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster", principal=str(ANONYMOUS)
    )
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(cluster._replace(operation=AclOperation.DESCRIBE)), 3)
    async with serving(tmp_path, NOBODY) as server, Client(server) as client:
        assert len(described(await client.call(describe(), 3))) == 1
        made = await client.call(create(ACL), 3)
        assert made.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_disk_that_refuses_changes_nothing() -> None:
    files = FaultyFiles()
    async with serving("/data", AUTHORIZER, files=files) as server, Client(server) as client:
        await client.call(create(ACL), 3)
        files.is_full = True
        many = [GROUP._replace(resource_name=f"group-{number}") for number in range(200)]
        made = await client.call(create(*many, ACL), 3)
        assert [each.error_code for each in made.results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 201
        files.is_full = False
        files.fail("write_atomically", times=10**9)
        gone = await client.call(delete({}), 3)
        assert gone.filter_results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert described(await client.call(describe(), 3)) == [ACL]
        files.faults.clear()
        await client.call(create(GROUP), 3)
        assert described(await client.call(describe(), 3)) == [ACL, GROUP]


async def test_what_was_answered_survives_a_crash() -> None:
    files = FaultyFiles()
    async with serving("/data", AUTHORIZER, files=files) as server, Client(server) as client:
        await client.call(create(ACL), 3)
        left = files.crash()
    assert b"User:alice" in left.read("/data/security.json")


async def test_requests_at_the_same_time_lose_nothing() -> None:
    async with serving(None, AUTHORIZER) as server:

        async def add(number: int) -> None:
            async with Client(server) as client:
                await client.call(create(ACL._replace(principal=f"User:u{number}")), 3)

        await asyncio.gather(*map(add, range(8)))
        assert len(server.security.store.state.acls) == 8


async def test_there_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.apis.acl_handlers.MAX_ACLS", 3)
    monkeypatch.setattr("coordinator.apis.acl_handlers.MAX_DELETED", 2)
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL, PREFIXED, GROUP), 3)
        made = await client.call(create(ACL, DENIED), 3)
        assert [each.error_code for each in made.results] == [ErrorCode.POLICY_VIOLATION] * 2
        gone = await client.call(delete({}), 3)
        assert gone.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
        assert "more than 2 acls" in gone.filter_results[0].error_message
        assert len(described(await client.call(describe(), 3))) == 3


async def test_many_acls_are_looked_through_beside_the_loop_and_have_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "SecurityManager")
    acls = [ACL._replace(principal=f"User:u{number}") for number in range(1200)]
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(*acls), 3)
        assert [record.getMessage() for record in caplog.records][100:] == [
            "Added 1100 more ACLs, by User:ANONYMOUS (test-client at 127.0.0.1)"
        ]
        assert sorted(described(await client.call(describe(), 3))) == sorted(acls)
        gone = await client.call(delete({}), 3)
        assert len(gone.filter_results[0].matching_acls) == len(acls)


async def test_each_change_has_a_line_with_who_made_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "SecurityManager")
    async with serving(None, AUTHORIZER) as server, Client(server, "tool\n") as client:
        await client.call(create(ACL._replace(resource_name="a\nb")), 3)
        await client.call(delete({}), 3)
    who = "by User:ANONYMOUS (tool\\n at 127.0.0.1)"
    assert [record.getMessage() for record in caplog.records] == [
        f"{verb} ACL ALLOW User:alice READ of TOPIC a\\nb (LITERAL) from *, {who}"
        for verb in ("Added", "Removed")
    ]


async def test_nobody_else_reads_what_is_kept(tmp_path: Path) -> None:
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL), 3)
    assert stat.S_IMODE(os.stat(tmp_path / "security.json").st_mode) == 0o600
    assert json.loads((tmp_path / "security.json").read_text())["version"] == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "JSON object"),
        (b'{"version": 1, "acls": [], "acls": [], "scram": []}', "'acls'"),
        (b'{"version": 2, "acls": [], "scram": []}', "version 2 is not 1"),
        (b'{"version": 1, "acls": [{}], "scram": []}', r"acls\[0\]: 'resource_type' is missing"),
        (b'{"version": 1, "acls": [], "scram": [], "tokens": []}', "'tokens' is not known"),
    ],
)
async def test_a_damaged_file_stops_the_start(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "security.json").write_bytes(content)
    for properties in ({}, AUTHORIZER):
        with pytest.raises(StartFailed, match=rf"security\.json: .*{why}"):
            open_server(settings(tmp_path, properties))
    assert (tmp_path / "security.json").read_bytes() == content


async def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "security.json").mkdir()
    with pytest.raises(StartFailed, match=r"security\.json: is a directory"):
        open_server(settings(tmp_path, AUTHORIZER))


def without_marker(directory: Path) -> None:
    """Remove the line of `meta.properties` about ACLs and users, as in directories of earlier versions."""
    meta = directory / "meta.properties"
    assert f"{HAS_SECURITY}\n" in meta.read_text()
    meta.write_text(meta.read_text().replace(f"{HAS_SECURITY}\n", ""))


@pytest.mark.parametrize("properties", [{}, AUTHORIZER], ids=["no authorizer", "an authorizer"])
async def test_a_directory_that_had_acls_does_not_start_without_them(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL), 3)
    kept = (tmp_path / "security.json").read_bytes()
    (tmp_path / "security.json").unlink()
    for _ in range(2):
        with pytest.raises(StartFailed, match=rf"security\.json: is missing.*{HAS_SECURITY} from .*meta"):
            open_server(settings(tmp_path, properties))
    (tmp_path / "security.json").write_bytes(kept)
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        assert described(await client.call(describe(), 3)) == [ACL]
    (tmp_path / "security.json").unlink()
    without_marker(tmp_path)  # which is how an operator says that it is to start all the same
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        assert described(await client.call(describe(), 3)) == []


async def test_a_directory_of_an_earlier_version_is_protected_from_its_first_start_on(tmp_path: Path) -> None:
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL), 3)
    without_marker(tmp_path)
    async with serving(tmp_path, {}):
        pass
    (tmp_path / "security.json").unlink()
    with pytest.raises(StartFailed, match=r"security\.json: is missing"):
        open_server(settings(tmp_path, {}))


async def test_acls_that_no_authorizer_enforces_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL, GROUP), 3)
    assert "authorizer.class.name" not in caplog.text
    async with serving(tmp_path, {}):
        assert "2 ACLs are not enforced" in caplog.text


ALICE = ("alice", ScramMechanism.SCRAM_SHA_256)
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


async def change_while_examining(monkeypatch: pytest.MonkeyPatch, server: Server, **changes: Any) -> None:
    """Let another request change ACLs or credentials while a thread first examines the earlier state."""

    async def run(work: Callable[[], object], _: int) -> object:
        result, store = work(), server.security.store
        if changes:
            await asyncio.create_task(store.change_state(replace(store.state, **changes)))
            changes.clear()
        return result

    for handlers in (acl_handlers, scram_credential_handlers):
        monkeypatch.setattr(handlers, "run_in_thread_if_large", run)


async def test_new_acls_keep_credentials_that_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await change_while_examining(monkeypatch, server, scram={ALICE: CREDENTIAL})
        await client.call(create(ACL), 3)
        assert server.security.store.state == SecurityState(frozenset({ACL}), {ALICE: CREDENTIAL})


async def test_deleted_acls_keep_acls_that_another_broker_adds_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await client.call(create(ACL), 3)
        await change_while_examining(monkeypatch, server, acls=frozenset({ACL, GROUP}))
        await client.call(delete({}), 3)
        assert server.security.store.state.acls == {GROUP}


async def test_new_credentials_keep_acls_that_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(None, AUTHORIZER) as server, Client(server) as client:
        await change_while_examining(monkeypatch, server, acls=frozenset({ACL}))
        upsertion = ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"password"
        )
        answer = await client.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]), 0)
        assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
        assert server.security.store.state.acls == {ACL}
        assert ALICE in server.security.store.state.scram
