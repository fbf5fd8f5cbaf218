"""`groupd groups describe`: one group, its members, its offsets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from coordinator.cli.control.answers import description_of, offsets_of
from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.spans import span
from coordinator.cli.control.table import NOTHING, Column, cell, print_fields, print_table
from coordinator.cli.output import Output
from coordinator.cli.times import iso_time
from coordinator.control.groups.description import GroupDescription, MemberDescription
from coordinator.control.groups.offset_description import GroupOffsets
from coordinator.net.peer import printable

EPILOG: Final = """A committed offset is the next record to read; the lag is what is left to the end. Examples:

\b
groupd groups describe billing
groupd groups describe billing --json | jq .offsets.lag"""

_MOST_RANGES: Final = 12
_SHORTEST_END: Final = 4


def _gone_style(text: str) -> str:
    return "" if text == "yes" else "red"


def _lag_style(text: str) -> str:
    return "" if text in ("0", NOTHING) else "yellow"


_MEMBERS: Final = (
    Column("client", folds=True, style=lambda _: "bold"),
    Column("member id", folds=True, may_go=True, style=lambda _: "magenta"),
    Column("host", folds=True, may_go=True),
    Column("connected", may_go=True, style=_gone_style),
    Column("silent", is_figure=True, may_go=True),
    Column("session left", is_figure=True, may_go=True),
    Column("awaits", may_go=True),
    Column("assigned", folds=True),
)
_OFFSETS: Final = (
    Column("topic", folds=True),
    Column("partition", is_figure=True),
    Column("committed", is_figure=True),
    Column("start", is_figure=True, may_go=True),
    Column("end", is_figure=True, may_go=True),
    Column("lag", is_figure=True, style=_lag_style),
    Column("owner", folds=True, may_go=True),
)


@daemon_command(epilog=EPILOG)
@group_argument()
def command(asking: Asking, group: str) -> int:
    """Show GROUP: its state, what it waits for, its members and what they have, its offsets and its lag."""
    described = asking.client.get("groups", group)
    committed = asking.client.get("groups", group, "offsets")
    if asking.is_json:
        print_json({"group": described, "offsets": committed}, asking.output)
    else:
        _show(description_of(described), offsets_of(committed), asking.output)
    return YES


def _show(group: GroupDescription, offsets: GroupOffsets, output: Output) -> None:
    labels = _labels(group.members)
    print_fields(_fields(group, offsets, labels), output)
    if group.members:
        print()
        rows = [_member_row(member, labels[member.member_id]) for member in group.members]
        print_table(_MEMBERS, rows, output)
    if offsets.offsets:
        rows = [
            [
                cell(one.topic),
                cell(one.partition),
                cell(one.offset),
                cell(one.log_start_offset),
                cell(one.end_offset),
                cell(one.lag),
                cell(labels.get(one.member_id or "", one.member_id)),
            ]
            for one in offsets.offsets
        ]
        print()
        print_table(_OFFSETS, rows, output)


def _fields(
    group: GroupDescription, offsets: GroupOffsets, labels: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield "group", printable(group.group_id)
    since = "" if group.state_since_ms is None else f" since {iso_time(group.state_since_ms)}"
    yield "state", f"{group.state}{since}"
    if group.assignment_epoch is None:
        yield "generation", str(group.generation_id)
    else:
        yield "type", group.type
        yield "epoch", f"{group.generation_id}, target assignment of epoch {group.assignment_epoch}"
    if group.protocol_type is not None:
        yield "protocol", printable(" ".join(filter(None, (group.protocol_type, group.protocol_name))))
    if group.leader is not None:
        yield "leader", printable(group.leader)
    yield "kept in", f"__consumer_offsets-{group.offsets_partition}"
    if group.rebalance is not None:
        rebalance = group.rebalance
        actor = "" if rebalance.actor is None else f", by {printable(rebalance.actor)}"
        yield "rebalance", f"open for {span(rebalance.open_ms)}: {printable(rebalance.cause)}{actor}"
        for one in rebalance.awaited:
            heard = f"last heard {span(one.silent_ms)} ago{'' if one.is_connected else ', not connected'}"
            whom = f"{one.request} of {printable(labels.get(one.member_id, one.client_id))}"
            yield "awaits", f"{whom}, {heard}; {span(one.left_ms)} at most"
    for member in group.members:
        if member.consumer is not None and member.consumer.revoking:
            revoking = "; ".join(
                f"{printable(topic)}: {ranges(numbers)}"
                for topic, numbers in member.consumer.revoking.items()
            )
            left_ms = member.consumer.revokes_left_ms
            at_most = "" if left_ms is None else f", {span(left_ms)} at most"
            yield "awaits", f"{printable(labels[member.member_id])} to give up {revoking}{at_most}"
    for pending in group.pending:
        client = printable(pending.client_id)
        yield "pending", f"{client} got a member id {span(pending.since_ms)} ago and has not joined with it"
    unowned = [f"{printable(topic)}: {ranges(numbers)}" for topic, numbers in group.unowned.items()]
    if unowned:
        yield "no owner", "; ".join(unowned)
    if offsets.lag is not None:
        unknown = sum(one.offset is not None and one.lag is None for one in offsets.offsets)
        partitions = "partition" if unknown == 1 else "partitions"
        lacking = f", without {unknown} {partitions} whose end is not known here" if unknown else ""
        yield "lag", f"{offsets.lag}{lacking}"


def _labels(members: Sequence[MemberDescription]) -> dict[str, str]:
    """Return a distinct label for each member, by member id.

    The label is the instance id or the client id; members that share one get the end of their member ids as well:
    `worker-…4f2a`.
    """
    shared = Counter(map(_name, members))
    ends = shortest_ends(member.member_id for member in members)
    return {
        member.member_id: name if shared[name] == 1 else f"{name}-…{ends[member.member_id]}"
        for member, name in zip(members, map(_name, members), strict=True)
    }


def _name(member: MemberDescription) -> str:
    return member.group_instance_id or member.client_id or member.member_id


def shortest_ends(member_ids: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each id, of at least 4 characters, that no other id has.

    A member id is a client id and a UUID, so the ends differ. An id that is the end of another one stays whole.
    """
    backwards = sorted({member_id[::-1] for member_id in member_ids})
    ends = {}
    for before, each, after in zip(["", *backwards], backwards, [*backwards[1:], ""], strict=False):
        common = max(_common_length(each, before), _common_length(each, after))
        ends[each[::-1]] = each[: max(common + 1, _SHORTEST_END)][::-1]
    return ends


def _common_length(one: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    different = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(different, min(len(one), len(other)))


def _member_row(member: MemberDescription, label: str) -> list[str]:
    assigned = [f"{topic}: {ranges(numbers)}" for topic, numbers in (member.assignment or {}).items()]
    closed_ms = member.connection_closed_ms_ago
    gone = "no" if closed_ms is None else f"closed {span(closed_ms)} ago"
    return [
        cell(label),
        cell(member.member_id),
        cell(member.client_host.removeprefix("/")),
        "yes" if member.is_connected else gone,
        span(member.silent_ms),
        span(member.session_left_ms),
        cell(member.awaits),
        cell("; ".join(assigned)),
    ]


def ranges(numbers: list[int]) -> str:
    """Partitions in few words: `0-5 7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in found[:_MOST_RANGES]]
    return " ".join(texts) + (f" and {len(found) - _MOST_RANGES} more" if len(found) > _MOST_RANGES else "")
