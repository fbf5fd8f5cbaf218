"""Facts worth telling of consumer groups, beside those of any group (`coordinator/group/events.py`).

`generation_id` is the group's epoch. Kafka's log says the same of the first five, the last two and of a change of
type.
"""

from enum import StrEnum
from typing import NamedTuple

from coordinator.group.consumer.member import NO_TARGET, Target
from coordinator.group.events import GenerationEvent, MemberEvent, Refused
from coordinator.group.member_name import MemberName


class ConsumerMemberJoined(MemberEvent):
    """A member came to a group that did not know it; `uses_classic_protocol` says with which requests."""

    uses_classic_protocol: bool = False


class ConsumerMemberReplaced(MemberEvent):
    """A static member came back, as `member`, and has what `old_member_id` had."""

    old_member_id: str
    uses_classic_protocol: bool = False


class ConsumerMemberLeft(MemberEvent):
    """A member said that it leaves, or somebody for it. One that `returns` is static, and keeps its partitions for
    a session. `reason` is what a client of the classic protocol said, "" where there is no place for that."""

    returns: bool
    reason: str = ""


class FenceCause(StrEnum):
    """Why a member was removed that did not leave."""

    SESSION_EXPIRED = "the member session expired"
    NOT_REVOKED = "it did not give up its partitions in time"
    NOT_REJOINED = "it did not join again in time"
    NOT_SYNCED = "it did not ask for its assignment in time"
    ASKED = "somebody asked for it"


class ConsumerMemberFenced(MemberEvent):
    """A member was removed. It was last heard of `silent_ms` ago, and had `timeout_ms` for what it did not do;
    `partitions` is how many it held. `connection_id` is that over which it was heard last, 0 where that was before
    a restart."""

    cause: FenceCause
    silent_ms: int
    timeout_ms: int
    partitions: int
    connection_id: int = 0


class EpochCause(StrEnum):
    """Why a group has another epoch."""

    MEMBER_JOINED = "a member joined"
    SUBSCRIPTION_CHANGED = "a member subscribed to other topics"
    ASSIGNOR_CHANGED = "members prefer another assignor"
    TOPICS_CHANGED = "topics changed"
    REGEX_RESOLVED = "a regular expression matches other topics"
    MEMBER_LEFT = "a member left"
    MEMBER_FENCED = "a member was fenced"


class TopicChange(StrEnum):
    """What happened to a topic that a group reads."""

    CREATED = "created"
    GREW = "grew"
    DELETED = "deleted"


class Targeted(NamedTuple):
    """What a member is to have, and what it was to have before."""

    member: MemberName
    before: Target
    target: Target = NO_TARGET


class EpochBumped(GenerationEvent):
    """The group has a new epoch, `generation_id`; `member` is whose doing it is, None where it is nobody's. `state`
    is what it was in, and so many `members` it has now; `gone` are those that it had, and what they were to have.
    Where topics changed, these are `topics`, and `change` is what happened to all of them; None: several things, or
    that is not known."""

    cause: EpochCause
    metadata_hash: int
    state: str
    members: int
    gone: tuple[Targeted, ...] = ()
    topics: tuple[str, ...] = ()
    change: TopicChange | None = None


class TargetComputed(GenerationEvent):
    """Who is to have what was computed, for the epoch `generation_id`. `partitions` counts all of them, `moved`
    those that another member was to have before, or nobody; `targets` has every member."""

    assignor: str
    members: int
    partitions: int
    moved: int
    targets: tuple[Targeted, ...] = ()


class MemberReconciled(MemberEvent):
    """A member was told something new of its assignment, or confirmed it. `member_epoch` is its own; it has so many
    partitions, has to give up `pending`, and is to have `missing` more, which others have not given up."""

    member_epoch: int
    state: str
    assigned: int
    pending: int
    missing: int


class RegexesResolved(GenerationEvent):
    """Regular expressions were held against so many topics; `changed` of them match others than before."""

    regexes: int
    topics: int
    changed: int


class RegexesUnresolved(GenerationEvent):
    """What so many regular expressions match is not known, or not any more, because of `reason`."""

    regexes: int
    reason: str


class ConsumerHeartbeatRefused(Refused, kw_only=True):
    """A ConsumerGroupHeartbeat was; `generation_id` is the epoch that it was sent in, `reason` what it was told."""

    reason: str


class GroupConverted(GenerationEvent):
    """A group is one of another type now, "classic" or "consumer". `members` came along."""

    from_type: str
    to_type: str
    members: int
