"""A finding about a group, with the operation that acts on it as a value.

The API, the page, the commands and the test report show the same findings. Each of them renders the operation in
its own form: as a request, as a button, as a groupd command or as a line of a test.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from coordinator.core.wire_name import wire_name


@wire_name("FindingOperation")
class FindingOperation(StrEnum):
    """The operations that findings suggest."""

    EXPIRE_MEMBER = "expire_member"
    STEP_CLOCK = "step_clock"
    RELEASE_FAULT = "release_fault"
    REMOVE_FAULT = "remove_fault"
    CREATE_TOPIC = "create_topic"


@wire_name("FindingAction")
class FindingAction(Struct, frozen=True, kw_only=True):
    """An operation that acts on a finding. `label` is the text of a button. `arguments` by name are `group`,
    `member` (a client id, instance id or member id that names one member), `fault` or `topic`."""

    operation: FindingOperation
    label: str
    arguments: dict[str, str]


@wire_name("Finding")
class GroupFinding(Struct, frozen=True, kw_only=True):
    """An observation about a group. `kind` is a word for programs. `sentence` describes the finding and names the
    responsible client. `members` are member ids. `blocks`: the group, or a part of it, cannot work. `hint` is the
    remedy, and `action` the operation that acts on the finding, null without one."""

    kind: str
    sentence: str
    blocks: bool
    members: list[str] = []
    topics: list[str] = []
    hint: str | None = None
    action: FindingAction | None = None


_REQUESTS: Final[Mapping[FindingOperation, str]] = MappingProxyType(
    {
        FindingOperation.EXPIRE_MEMBER: "POST /v1/groups/{group}/members/{member}/expire",
        FindingOperation.STEP_CLOCK: "POST /v1/groups/{group}/clock/step",
        FindingOperation.RELEASE_FAULT: "POST /v1/faults/{fault}/release",
        FindingOperation.REMOVE_FAULT: "DELETE /v1/faults/{fault}",
        FindingOperation.CREATE_TOPIC: 'POST /v1/topics {{"name": "{topic}"}}',
    }
)


def format_request(action: FindingAction) -> str:
    """Return the request of an action: `POST /v1/groups/billing/members/bob/expire`."""
    return _REQUESTS[action.operation].format(
        **{name: quote(value, safe="") for name, value in action.arguments.items()}
    )


def list_actions(findings: Sequence[GroupFinding]) -> list[dict[str, Any]]:
    """Return the distinct actions of findings as JSON values, for the fields of a Problem."""
    actions: list[dict[str, Any]] = []
    for finding in findings:
        if finding.action is not None:
            value = {name: getattr(finding.action, name) for name in finding.action.__struct_fields__}
            if value not in actions:
                actions.append(value)
    return actions
