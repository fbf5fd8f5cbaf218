"""Refusals told to people: who asked, what for, and what stood against it. In: events whose texts are printable."""

from typing import Final

from coordinator.group.events import CommitRefused, HeartbeatRefused, JoinRefused, Refused, SyncRefused
from coordinator.group.refusal_facts import (
    GenerationDiffers,
    GroupFull,
    MemberIdTooLong,
    MetadataTooLong,
    ProtocolsDiffer,
    RecordsTooLarge,
    RefusalDetail,
    SessionTimeoutOutOfRange,
)
from coordinator.group.state import EMPTY
from coordinator.server.log_words import client_of, count, listed, member_at, printable_name
from protocol.errors import ErrorCode

_REQUESTS: Final[dict[type[Refused], str]] = {
    JoinRefused: "JoinGroup",
    SyncRefused: "SyncGroup",
    HeartbeatRefused: "Heartbeat",
    CommitRefused: "OffsetCommit",
}
_MAX_LISTED: Final = 10


def refused(event: Refused) -> str:
    """One request, and why not."""
    request = _REQUESTS[type(event)]
    if isinstance(event, CommitRefused) and event.is_transactional:
        request = "TxnOffsetCommit"
    if event.partitions is not None:
        request += f" of {count(event.partitions, 'partition')}"
    state = f" ({event.state})" if event.state else ""
    why = reason_of(event)
    because = f": {why}" if why else ""
    return (
        f"Group {event.group_id}{state} refused {request} from {_sender(event)}: {event.error.name}{because}."
    )


def reason_of(event: Refused) -> str:
    """What stood against it, beside the name of the error; "" where there is no more to say."""
    return _error(event) if event.detail is None else _detail(event.detail)


def _sender(event: Refused) -> str:
    if not event.member.member_id:
        kind = "new" if isinstance(event, JoinRefused) else "no member id"
        return f"{client_of(event.member)} ({kind})"
    return member_at(printable_name(event.member))


def _error(event: Refused) -> str:
    match event.error:
        case ErrorCode.UNKNOWN_MEMBER_ID if not event.state:
            return "there is no such group"
        case ErrorCode.UNKNOWN_MEMBER_ID if event.state == EMPTY.value:
            return "the group has no members"
        case ErrorCode.UNKNOWN_MEMBER_ID if event.member.group_instance_id is not None:
            return f"no member has the group.instance.id {event.member.group_instance_id}"
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return (
                "no member has this id"
                if event.member.member_id
                else "the group has members, and this one is none"
            )
        case ErrorCode.ILLEGAL_GENERATION | ErrorCode.GROUP_ID_NOT_FOUND if not event.state:
            return "there is no such group"
        case ErrorCode.REBALANCE_IN_PROGRESS:
            return "the assignment of the new generation is still awaited"
    return ""


def _detail(detail: RefusalDetail) -> str:
    match detail:
        case SessionTimeoutOutOfRange(asked, shortest, longest):
            return (
                f"session.timeout.ms={asked} is not between group.min.session.timeout.ms={shortest} and "
                f"group.max.session.timeout.ms={longest}"
            )
        case GroupFull(members, max_size):
            return f"the group has {count(members, 'member')}, group.max.size={max_size}"
        case ProtocolsDiffer(protocol_type, names, group_type, group_names):
            has = _protocols(group_type, group_names)
            return f"it offers {_protocols(protocol_type, names)}; the group has {has}"
        case GenerationDiffers(sent, current):
            return f"it is in generation {sent}, the group in {current}"
        case MetadataTooLong(length, max_length):
            return f"metadata of {length} characters, offset.metadata.max.bytes={max_length}"
        case RecordsTooLarge(max_bytes):
            return f"the records would be larger than message.max.bytes={max_bytes}"
        case MemberIdTooLong(max_bytes):
            return f"its member id would be longer than {max_bytes} bytes"


def _protocols(protocol_type: str | None, names: tuple[str, ...]) -> str:
    """`consumer: range, roundrobin`."""
    return f"{protocol_type or 'no type'}: {listed(names[:_MAX_LISTED], len(names)) or 'no protocol'}"
