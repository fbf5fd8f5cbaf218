"""Which inputs of a shard are about one group, and what of their outcome is.

Most requests name one group, and theirs is the whole outcome. Those that name several are written as if they had
named this one alone; what every group is told (the topics, the end of a transaction, the timer of retention) is
written as it came. What only looks over all groups changes none, and its answer is not about one: ListGroups is
left out.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace as replaced
from hashlib import sha256
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from coordinator.control.recording.cut import has_pending
from coordinator.control.recording.forms import Json, Writer
from coordinator.group.consumer.regular_expressions import RegexWork
from coordinator.group.requests import EndTransaction, FetchOffsets, MoveTimes, TopicsChanged
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Outcome, Work, WorkDone
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest

_DIGITS: Final = 16
"""Of a digest, in hexadecimal."""


def _only(request: Any, field: str, group_id: str) -> Any:
    named = [one for one in getattr(request, field) if one == group_id]
    return replace(request, **{field: named}) if named else None


_OF_MANY: Final[dict[type[object], Callable[[Shard, Any, str], Any]]] = {
    ListGroupsRequest: lambda _, __, ___: None,
    DescribeGroupsRequest: lambda _, request, group_id: _only(request, "groups", group_id),
    DeleteGroupsRequest: lambda _, request, group_id: _only(request, "groups_names", group_id),
    ConsumerGroupDescribeRequest: lambda _, request, group_id: _only(request, "group_ids", group_id),
    MoveTimes: lambda _, request, group_id: (
        replaced(request, group_ids=[group_id]) if group_id in request.group_ids else None
    ),
    EndTransaction: lambda shard, request, group_id: (
        request if has_pending(shard, group_id, request.producer_id) else None
    ),
    TopicsChanged: lambda _, request, __: request,
    WorkDone: lambda _, request, group_id: request if request.work.argument.group_id == group_id else None,
    FetchOffsets: lambda _, request, group_id: request if request.group.group_id == group_id else None,
}
"""Requests that do not name one group as the others do."""

_ANSWERS: Final = {
    DescribeGroupsRequest: ("groups", "group_id"),
    DeleteGroupsRequest: ("results", "group_id"),
    ConsumerGroupDescribeRequest: ("groups", "group_id"),
}
"""Where the answer to a request for several groups has what is about each."""


def about(shard: Shard, request: Any, group_id: str) -> Any:
    """A request as far as it is about a group; None where it is not."""
    of_many = _OF_MANY.get(type(request))
    if of_many is not None:
        return of_many(shard, request, group_id)
    return request if request.group_id == group_id else None


def outcome_form(outcome: Outcome, request: object, group_id: str, written: Writer) -> Json:
    """What of an outcome is about a group, without what there is none of. Work is told by its digest: what came of
    it is an input."""
    said: dict[str, Json] = {
        "records": [written.form(fact) for fact in outcome.records if _group_of(fact.key) == group_id],
        "replies": [
            [waiter, written.form(_about(reply, request, group_id))] for waiter, reply in outcome.replies
        ],
        "timers": [
            [key.kind.name.lower(), key.member_id, deadline_ms]
            for key, deadline_ms in outcome.timers.items()
            if key.group_id in ("", group_id)
        ],
        "events": [written.form(event) for event in outcome.events if event.group_id == group_id],
        "work": [[work.name, digest_of(work)] for work in works_about(outcome.work, group_id)],
        "messages": [written.form(message) for message in outcome.messages],
    }
    for name in ("in_transaction", "marker"):
        said[name] = written.form(getattr(outcome, name))
    return {name: value for name, value in said.items() if value}


def works_about(works: Iterable[Work], group_id: str) -> list[Work]:
    """Those of a group."""
    return [work for work in works if work.argument.group_id == group_id]  # type: ignore[attr-defined]


def digest_of(work: Work) -> str:
    """What work is, in short: equal for equal work, whoever it is that asked for it."""
    argument: Any = work.argument
    if isinstance(argument, RegexWork):
        argument = argument._replace(asked_by=None)
    return sha256(json.encode(Writer().form(argument))).hexdigest()[:_DIGITS]


def _group_of(key: Any) -> str:
    named: str = key.group if hasattr(key, "group") else key.group_id
    return named


def _about(reply: Any, request: object, group_id: str) -> Any:
    field, name = _ANSWERS.get(type(request), (None, ""))
    if field is None:
        return reply
    kept = [one for one in getattr(reply, field) if getattr(one, name) == group_id]
    return replace(reply, **{field: kept})
