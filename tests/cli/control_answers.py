"""Responses of the control API about groups."""

from typing import Any


def member(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "member_id": f"{name}-1",
        "group_instance_id": None,
        "client_id": name,
        "client_host": "/127.0.0.1",
        "is_leader": name == "alice",
        "is_connected": True,
        "connection_closed_ms_ago": None,
        "silent_ms": 400,
        "session_left_ms": 44600,
        "session_timeout_ms": 45000,
        "rebalance_timeout_ms": 300000,
        "awaits": None,
        "protocols": ["range"],
        "subscription": ["orders"],
        "assignment": {"orders": [0, 1, 2]},
    } | fields


def description(group_id: str = "billing", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "type": "classic",
        "state": "Stable",
        "state_since_ms": 1_700_000_000_000,
        "generation_id": 4,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "alice-1",
        "offsets_partition": 7,
        "members": [member("alice"), member("bob", assignment={"orders": [3, 5]})],
        "pending": [],
        "rebalance": None,
        "unowned": {},
    } | fields


def rebalance(**fields: Any) -> dict[str, Any]:
    awaited = {
        "member_id": "bob-1",
        "client_id": "bob",
        "request": "JoinGroup",
        "silent_ms": 12000,
        "session_left_ms": 33000,
        "left_ms": 33000,
        "is_connected": False,
    }
    return {
        "cause": "member joined",
        "reason": "Adding new member carol-1",
        "actor": "carol",
        "attempts": 1,
        "from_state": "Stable",
        "open_ms": 9200,
        "phase_ms": 9200,
        "left_ms": 290800,
        "is_initial": False,
        "awaited": [awaited],
    } | fields


def finding(group_id: str, client_id: str, operation: str = "expire_member", **fields: Any) -> dict[str, Any]:
    """Return a finding about a member, with the action that expires it."""
    return {
        "kind": "gone",
        "sentence": f"{client_id} is disconnected",
        "blocks": True,
        "members": [f"{client_id}-1"],
        "topics": [],
        "hint": None,
        "action": {
            "operation": operation,
            "label": f"Expire {client_id}",
            "arguments": {"group": group_id, "member": client_id},
        },
    } | fields


def offsets(group_id: str = "billing") -> dict[str, Any]:
    one = {
        "topic": "orders",
        "partition": 3,
        "offset": 41,
        "metadata": "",
        "log_start_offset": 0,
        "end_offset": 50,
        "lag": 9,
        "member_id": "bob-1",
    }
    never = one | {"partition": 5, "offset": None, "lag": None, "member_id": None}
    return {"group_id": group_id, "state": "Stable", "lag": 9, "offsets": [one, never]}


def summary(group_id: str, state: str = "Stable") -> dict[str, Any]:
    return {
        "group_id": group_id,
        "type": "classic",
        "state": state,
        "protocol_type": "consumer",
        "generation_id": 4,
        "members": 2,
    }
