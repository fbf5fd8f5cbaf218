"""Texts of the report of a failed test: the explanation of a group, its offsets and its last commits."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from groupd_client import GroupdError, Namespace
from groupd_client.suggested_calls import format_call

MAX_OFFSETS: Final = 50
MAX_COMMITS: Final = 20


def format_explanation(broker: Namespace, group_id: str) -> str:
    """Return the state of a group, its findings, and each remedy with the call that a test makes.

    The text of a remedy is the hint of a finding, or the label of the action of a finding without a hint.
    Raises GroupdError.
    """
    explained = broker.call("GET", "groups", group_id, "explain")
    lines = [explained.detail, *(f"- {finding.sentence}." for finding in explained.findings)]
    lines += dict.fromkeys(filter(None, map(_format_remedy, explained.findings)))
    return "\n".join(map(escape, lines))


def _format_remedy(finding: Any) -> str | None:
    """Return the remedy of a finding, or None without a hint and a call."""
    action = finding.get("action")
    call = format_call(action)
    hint = finding.hint
    if call is None:
        return None if hint is None else f"? {hint}"
    return f"? {action.label if hint is None else hint}: {call}"


def format_offsets(broker: Namespace, group_id: str) -> str:
    """Return a line for each partition of a group and for each of its last commits, "" for a group without both.

    Raises GroupdError.
    """
    try:
        offsets = broker.call("GET", "groups", group_id, "offsets")
        members = {member.member_id: member.client_id for member in broker.group(group_id).members}
    except GroupdError as error:
        if getattr(error, "status", None) == _NOT_FOUND:
            return ""  # the explanation says that the group does not exist
        raise
    lines = list(_list_offsets(offsets, members))
    commits = broker.call("GET", "groups", group_id, "commits").commits
    if commits:
        lines += ["last commits:", *map(_format_commit, commits[-MAX_COMMITS:])]
    elif lines:
        lines.append("no commits are known")
    return "\n".join(map(escape, lines))


_NOT_FOUND: Final = 404


def _list_offsets(offsets: Any, members: dict[str, str]) -> Iterator[str]:
    if not offsets.offsets:
        return
    yield f"offsets, lag {'unknown' if offsets.lag is None else offsets.lag}:"
    for one in offsets.offsets[:MAX_OFFSETS]:
        log = (
            "the log is not available"
            if one.end_offset is None
            else f"log {one.log_start_offset} to {one.end_offset}"
        )
        owner = "no owner" if one.member_id is None else f"owner {members.get(one.member_id, one.member_id)}"
        progress = (
            "no committed offset"
            if one.offset is None
            else f"committed {one.offset}, lag {_unknown(one.lag)}"
        )
        yield f"  {one.topic}-{one.partition}: {progress}, {log}, {owner}"
    if len(offsets.offsets) > MAX_OFFSETS:
        yield f"  {len(offsets.offsets) - MAX_OFFSETS} more partitions"


def _unknown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _format_commit(commit: Any) -> str:
    at = datetime.fromtimestamp(commit.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    before = "" if commit.before is None else f", before {commit.before}"
    return (
        f"  {at}Z {commit.client_id or 'a client without a name'} in generation {commit.generation_id}: "
        f"{commit.topic}-{commit.partition} to {commit.offset}{before}"
    )


def escape(line: str) -> str:
    """Escape control and bidirectional characters of a line, because a terminal would interpret them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)
