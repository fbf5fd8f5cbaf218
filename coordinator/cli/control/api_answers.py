"""Responses of a daemon as values. Unknown fields are ignored, because the daemon may have a newer version."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coordinator.cli.command_errors import ServerUnreachable
from coordinator.control.admin.group_models import GroupDescription, GroupOffsets, GroupSummary, OffsetChanges

Value = TypeVar("Value")


def parse_groups(answer: Any) -> list[GroupSummary]:
    """Parse the response to GET /groups. These functions raise ServerUnreachable for another response."""
    return _convert_answer(_convert_answer(answer, dict[str, Any]).get("groups"), list[GroupSummary])


def parse_group_description(answer: Any) -> GroupDescription:
    """Parse the response to GET /groups/{group}."""
    return _convert_answer(answer, GroupDescription)


def parse_group_offsets(answer: Any) -> GroupOffsets:
    """Parse the response to GET /groups/{group}/offsets."""
    return _convert_answer(answer, GroupOffsets)


def parse_offset_changes(answer: Any) -> OffsetChanges:
    """Parse the response to PUT /groups/{group}/offsets."""
    return _convert_answer(answer, OffsetChanges)


class SuggestedAction(Struct, frozen=True):
    """An operation that acts on a finding, described by `label`. `operation` may be one of a newer daemon."""

    operation: str
    label: str
    arguments: dict[str, str]


class ExplainedFinding(Struct, frozen=True):
    """A finding of an explanation."""

    sentence: str
    blocks: bool = False
    hint: str | None = None
    action: SuggestedAction | None = None


class ExplainedGroup(Struct, frozen=True):
    """An explanation of a group: its state and its findings, the ones that block it first."""

    detail: str
    findings: list[ExplainedFinding] = []


def parse_explanation(answer: Any) -> ExplainedGroup:
    """Parse the response to GET /groups/{group}/explain."""
    return _convert_answer(answer, ExplainedGroup)


class BoardRow(Struct, frozen=True):
    """A group on the board. `worst` is the finding that blocks the group most."""

    group_id: str
    lag: int | None = None
    violations: int = 0
    worst: ExplainedFinding | None = None


class BoardAnswer(Struct, frozen=True):
    """The board of a broker. `bootstrap` is the address for clients."""

    bootstrap: str = ""
    groups: list[BoardRow] = []


def parse_board(answer: Any) -> BoardAnswer:
    """Parse the response to GET /board."""
    return _convert_answer(answer, BoardAnswer)


class ListedNamespace(Struct, frozen=True):
    """A broker of the daemon; `created_ms` is None for its own."""

    name: str
    created_ms: int | None


def parse_removable_namespaces(answer: Any) -> list[str]:
    """Return the names of the removable namespaces of GET /namespaces."""
    found = _convert_answer(_convert_answer(answer, dict[str, Any]).get("namespaces"), list[ListedNamespace])
    return [namespace.name for namespace in found if namespace.created_ms is not None]


class LedgerPage(Struct, frozen=True):
    """Ledger entries, open ones last. `next` is the event number that the next request sends as `after`."""

    entries: list[dict[str, Any]]
    next: int


def parse_ledger(answer: Any) -> LedgerPage:
    """Parse the response to GET /ledger or GET /groups/{group}/ledger."""
    return _convert_answer(answer, LedgerPage)


def _convert_answer(answer: Any, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        why = f"this groupd does not understand the daemon's answer ({error}): are both the same version?"
        raise ServerUnreachable(why) from error
