"""Regular expressions of members: syntax check in the heartbeat, matching against topics in background work.

The result of the work comes back as an operation. Only a heartbeat checks whether matching is due.

Source: Kafka's GroupMetadataManager, maybeUpdateRegularExpressions and handleRegularExpressionsResult, and
`TopicRegexResolver`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator.core.outcome import Context, Fact, Now, OutcomeBuilder, Work, WorkDone
from coordinator.core.wire_name import wire_name
from coordinator.group.consumer.consumer_group import NEVER, ConsumerGroup
from coordinator.group.consumer.consumer_member import (
    ConsumerMember,
    ResolvedRegex,
    epoch_record,
    regex_record,
    regex_tombstone,
)
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup, add_to_counts
from coordinator.group.consumer.group_subscription import compute_topics_hash
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import EpochBumped, EpochCause, RegexesResolved, RegexesUnresolved
from coordinator.group.group_record_codec import compute_batch_size
from coordinator.group.shard_groups import ShardGroups
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode

REGEX_WORK: Final = "consumer group regular expressions"
REFRESH_HOLD_MS: Final = 10_000
"""Minimum interval between two resolutions of a group."""
NO_VERSION: Final = 0
"""The version of the topics in records of groupd. In Kafka it is a metadata offset. A broker that loads the log
finds an older version than its own, and resolves the expressions again.
"""


class RegexWork(NamedTuple):
    """The work of matching a group's expressions against all topics of an image.

    `timestamp_ms` is the wall time at the start of the work. The matches must fit into `most_bytes` of the log.
    `asked_by` is the member with the new expression, None for a refresh. `may_describe` returns whether the sender
    of the request may describe a topic; others are left out. None: all topics are visible.
    """

    group_id: str
    regexes: tuple[str, ...]
    image: TopicsImage
    timestamp_ms: int
    most_bytes: int
    asked_by: MemberName | None = None
    may_describe: Callable[[str], bool] | None = None


@wire_name("MatchesTooMuch")
class MatchesTooMuch(Exception):
    """Raised when the matches of a group's expressions exceed the limit of the log."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the records would be larger than message.max.bytes={most_bytes}")


def resolve_regexes(work: RegexWork) -> Generator[None, None, Mapping[str, Sequence[str]]]:
    """Resolve the expressions in steps, on any thread. Pure.

    A step takes a second at most; all of them may take hours.

    Returns:
        Topic names by expression.

    Raises:
        MatchesTooMuch: as soon as the limit is certain to be exceeded.
    """
    from coordinator.group.modern.topic_regex import match_in_steps

    found: dict[str, list[str]] = {}
    texts = sum(map(len, work.regexes))
    for characters in match_in_steps(work.regexes, work.image.by_name.keys(), found):
        if texts + characters > work.most_bytes:
            raise MatchesTooMuch(work.most_bytes)
        yield
    return found


class RegexChange(Struct, frozen=True):
    """The effect of a heartbeat on its member's expression. `is_changed`: the member has a new expression or
    dropped it. `is_resolved`: its topics change at once, because the matches of the new expression are known or it
    has none any more. `is_new`: no other member has the new expression.
    """

    is_changed: bool = False
    is_resolved: bool = False
    is_new: bool = False
    facts: tuple[Fact, ...] = ()


NO_REGEX_CHANGE: Final = RegexChange()


def compute_regex_change(
    group: DurableConsumerGroup, old: ConsumerMember, new: ConsumerMember
) -> RegexChange:
    """Compare a member's expression before and after a heartbeat.

    Raises:
        GroupApiError: INVALID_REGULAR_EXPRESSION.
    """
    before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
    if before == after:
        return NO_REGEX_CHANGE
    facts: tuple[Fact, ...] = ()
    if before and group.regex_members.get(before) == 1:
        facts = (regex_tombstone(group.group_id, before),)
    if not after:
        return RegexChange(is_changed=True, is_resolved=True, facts=facts)
    if after in group.regex_members:
        return RegexChange(is_changed=True, is_resolved=after in group.regexes, facts=facts)
    from coordinator.group.modern.topic_regex import find_pattern_error

    problem = find_pattern_error(after)
    if problem is not None:
        message = f"SubscribedTopicRegex `{after}` is not a valid regular expression: {problem}."
        raise GroupApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    return RegexChange(is_changed=True, is_new=True, facts=facts)


def find_due_resolution(
    groups: ShardGroups,
    durable: DurableConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    change: RegexChange,
    now: Now,
) -> RegexWork | None:
    """Return the work of resolving a group's expressions if it is due, else None.

    As in Kafka, the check uses the group before this request, including the expressions that the request drops.

    Args:
        old: the member before the request.
        new: the member after it.
        change: the effect on its expression.
    """
    if not change.is_new and not durable.regex_members:
        return None
    group = groups.find_typed_group(ConsumerGroup, durable.group_id)
    last = next(iter(durable.regexes.values()), None)
    if group is not None and group.resolving is not None:
        return None
    unresolved_ms = NEVER if group is None else group.unresolved_ms
    last_ms = unresolved_ms if last is None else max(unresolved_ms, last.timestamp_ms)
    if now.wall_ms <= last_ms + REFRESH_HOLD_MS:
        return None
    regexes = dict(durable.regex_members)
    add_to_counts(regexes, filter(None, (old.subscribed_topic_regex,)), -1)
    add_to_counts(regexes, filter(None, (new.subscribed_topic_regex,)), 1)
    refresh_ms = groups.consumer_config.group_consumer_regex_refresh_interval_ms
    is_due = (
        change.is_new
        or last is None
        or len(regexes) != len(durable.regexes)
        or (0 if group is None else group.resolved_version) < groups.new_topics_version
        or now.wall_ms > last.timestamp_ms + refresh_ms
    )
    if not is_due or not regexes:
        return None
    most_bytes = groups.config.message_max_bytes
    asked_by = new.name if change.is_new else None
    return RegexWork(durable.group_id, tuple(regexes), groups.topics, now.wall_ms, most_bytes, asked_by)


def start_resolution(
    group: ConsumerGroup, work: RegexWork | None, context: Context, builder: OutcomeBuilder
) -> None:
    """Start the resolution of regular expressions, if one is due. `context` belongs to the request that causes
    it.
    """
    if work is not None:
        work = work._replace(may_describe=context.may_describe)
        group.resolving = work
        builder.add_work(Work(REGEX_WORK, work))


def on_regexes_resolved(groups: ShardGroups, done: WorkDone, builder: OutcomeBuilder) -> None:
    """Store the matches of expressions; skip expressions without members. No reply."""
    work: RegexWork = done.work.argument  # type: ignore[assignment]
    group = groups.find_typed_group(ConsumerGroup, work.group_id)
    if group is None or group.resolving is not work:
        return
    group.resolving = None
    if done.error is not None:
        _on_regexes_unresolved(group, work, done.error, builder)
        return
    durable, facts, changed = group.durable, list[Fact](), 0
    found: Mapping[str, Sequence[str]] = done.result  # type: ignore[assignment]
    regex_topics = dict(durable.regex_topics)
    for regex, topics in found.items():
        if regex not in durable.regex_members:
            continue
        resolved = ResolvedRegex(frozenset(topics), NO_VERSION, work.timestamp_ms)
        old = durable.regexes.get(regex)
        old_topics = frozenset[str]() if old is None else old.topics
        if old_topics != resolved.topics:
            changed += 1
            add_to_counts(regex_topics, old_topics, -1)
            add_to_counts(regex_topics, resolved.topics, 1)
        facts.append(regex_record(group.group_id, regex, resolved))
    metadata_hash = compute_topics_hash(groups.topics, durable.names.keys(), regex_topics.keys())
    epoch, is_bumped = durable.epoch, bool(changed) or metadata_hash != durable.metadata_hash
    if is_bumped:
        epoch += 1
        facts.append(epoch_record(group.group_id, epoch, metadata_hash))
    if facts and compute_batch_size(facts) > work.most_bytes:
        # Kafka fails to write it too, and logs the failure.
        _on_regexes_unresolved(group, work, str(MatchesTooMuch(work.most_bytes)), builder)
        return
    group.resolved_version, state = work.image.version, group.state_name
    if is_bumped:
        group.mark_topics_checked(builder.now.monotonic_ms)
    for fact in facts:
        builder.write_fact(fact)
    topics_seen = len(work.image.by_name)
    builder.add_event(
        RegexesResolved(group.group_id, epoch, regexes=len(found), topics=topics_seen, changed=changed)
    )
    if is_bumped:
        builder.add_event(
            EpochBumped(
                group.group_id,
                epoch,
                member=work.asked_by,
                cause=EpochCause.REGEX_RESOLVED,
                metadata_hash=metadata_hash,
                state=state,
                members=len(durable.members),
            )
        )


def _on_regexes_unresolved(
    group: ConsumerGroup, work: RegexWork, reason: str, builder: OutcomeBuilder
) -> None:
    """Keep the previous matches; the next resolution follows after the usual interval."""
    group.unresolved_ms = builder.now.wall_ms
    epoch, regexes = group.durable.epoch, len(work.regexes)
    builder.add_event(RegexesUnresolved(group.group_id, epoch, regexes=regexes, reason=reason))
