"""The document of security.json: valid content round-trips, and errors name invalid content."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism
from coordinator.security.core.security_state import SecurityState

SECRET = b"not for messages"
ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.DENY,
)
STATE = SecurityState(
    frozenset({ACL}),
    {("alice", ScramMechanism.SCRAM_SHA_512): ScramCredential(b"salt", SECRET, SECRET, 4096)},
)

texts = st.text(st.characters(codec="utf-8"), min_size=1)
acls = st.builds(
    AclBinding,
    st.sampled_from((ResourceType.TOPIC, ResourceType.USER)),
    texts,
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    texts.map("User:{}".format),
    texts,
    st.sampled_from(tuple(AclOperation)[2:]),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
credentials = st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), st.integers(1, 2**31))


@given(
    st.frozensets(acls, max_size=5),
    st.dictionaries(st.tuples(texts, st.sampled_from(ScramMechanism)), credentials, max_size=3),
)
def test_what_is_written_is_read(
    found: frozenset[AclBinding], scram: dict[tuple[str, ScramMechanism], ScramCredential]
) -> None:
    state = SecurityState(found, scram)
    assert SecurityState.from_document(json.loads(json.dumps(state.to_document()))) == state


def test_what_is_printed_has_no_secret() -> None:
    assert "not for messages" not in repr(STATE)


def document(**changes: Any) -> dict[str, Any]:
    """That of the state above, with other fields in its ACL or its credential."""
    found: dict[str, Any] = json.loads(json.dumps(STATE.to_document()))
    for name, value in changes.items():
        entry = found["acls" if name in found["acls"][0] else "scram"][0]
        entry[name] = value
    return found


def without(name: str) -> dict[str, Any]:
    found = document()
    for entry in (*found["acls"], *found["scram"]):
        entry.pop(name, None)
    return found


def added(name: str, **fields: str) -> dict[str, Any]:
    found = document()
    found[name][0] |= fields
    return found


def twice(name: str, **changes: Any) -> dict[str, Any]:
    found = document()
    found[name].append(found[name][0] | changes)
    return found


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        ([], "the file is not a JSON object"),
        ({}, "version None is not 1"),
        ({"version": 2}, "version 2 is not 1"),
        ({"version": 1, "scram": []}, "acls: it must be a list"),
        ({"version": 1, "acls": {}, "scram": []}, "acls: it must be a list"),
        ({"version": 1, "acls": [1], "scram": []}, "acls[0]: it must be a JSON object"),
        ({"version": 1, "acls": []}, "scram: it must be a list"),
        (without("host"), "acls[0]: 'host' is missing"),
        (without("operation"), "acls[0]: 'operation' is missing"),
        (document(operation="READS"), "acls[0]: operation: 'READS' is not known"),
        (document(operation=3), "acls[0]: operation: it must be a string"),
        (document(permission="ANY"), "acls[0]: Invalid permissionType ANY"),
        (document(resource_name=""), "acls[0]: Invalid empty resource name"),
        (document(host=""), "acls[0]: Host pattern cannot be null or empty"),
        (
            document(mechanism="PLAIN"),
            "scram[0]: mechanism: 'PLAIN' must be one of SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (document(iterations=True), "scram[0]: iterations: it must be a number above 0"),
        (document(stored_key="secret!"), "scram[0]: stored_key: it must be base64"),
        (without("salt"), "scram[0]: 'salt' is missing"),
        ({"version": 1, "acls": [], "scram": [], "quotas": []}, "'quotas' is not known"),
        (added("acls", condition="never"), "acls[0]: 'condition' is not known"),
        (added("scram", password="secret!"), "scram[0]: 'password' is not known"),
        (twice("acls"), "acls[1]: it repeats acls[0]"),
        (twice("scram", iterations=5000), "scram[1]: it repeats scram[0]"),
    ],
)
def test_damage_is_named(damaged: object, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        SecurityState.from_document(damaged)
