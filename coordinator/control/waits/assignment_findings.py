"""What is odd about who reads what: members that the assignor left out, partitions without an owner, different
subscriptions in one group, members that have nothing to do.
"""

from collections.abc import Iterator

from coordinator.control.waits.finding import Finding
from coordinator.control.waits.labels import named, ranges, some
from coordinator.control.waits.sight import GroupSight

_MOST = 5


def left_out(sight: GroupSight) -> Iterator[Finding]:
    """Members that the leader's assignment does not name."""
    view = sight.view
    if view is None or not sight.is_stable:
        return
    members = [member for member in sight.members if not member.assignment and member.consumer is None]
    if members:
        leader = "the leader" if view.leader_id is None else sight.labels.of_id(view.leader_id)
        labels = sight.labels.all(member.name for member in members)
        yield Finding(
            kind="left_out",
            sentence=(
                f"{labels} {'was' if len(members) == 1 else 'were'} left out of the assignment that {leader} "
                f"handed in ({named(view.protocol_name or 'no protocol')})"
            ),
            blocks=True,
            members=[member.name.member_id for member in members[:100]],
            hint=f"The assignor of {leader} names not all members: is it a custom one?",
        )


def strangers(sight: GroupSight) -> Iterator[Finding]:
    """Ids that the assignment names and that are no member's."""
    view, remembered = sight.view, sight.remembered
    if view is None or not remembered.strangers or remembered.assigned_generation != view.generation_id:
        return
    leader = "the leader" if view.leader_id is None else sight.labels.of_id(view.leader_id)
    ids, is_ = some(remembered.strangers), "is" if len(remembered.strangers) == 1 else "are"
    yield Finding(
        kind="strangers",
        sentence=(
            f"The assignment that {leader} handed in names {ids}, who {is_} no member: what was given there has no "
            f"owner"
        ),
        blocks=True,
        hint=f"{leader} assigned partitions to members of an earlier generation: its assignor keeps old ids",
    )


def no_such_topics(sight: GroupSight) -> Iterator[Finding]:
    """Topics that members subscribe to, and that there are not."""
    unknown = [topic for topic in sorted(sight.subscribed) if sight.around.partitions_of(topic) is None]
    for topic in unknown[:_MOST]:
        similar = sight.around.similar_topics(topic)
        like = f" Is {some([named(one) for one in similar])} meant?" if similar else ""
        yield Finding(
            kind="no_such_topic",
            sentence=f"{_readers(sight, topic)} to {named(topic)}, and there is no such topic",
            blocks=True,
            topics=[topic],
            hint=f"There is no topic {named(topic)}.{like}",
        )


def unowned(sight: GroupSight) -> Iterator[Finding]:
    """Partitions of subscribed topics that nobody has, or several have, in a group at rest."""
    if not sight.is_settled or not sight.are_assignments_read:
        return
    topics = sorted(sight.subscribed)
    for topic in [topic for topic in topics if sight.unowned(topic)][:_MOST]:
        partitions = sight.unowned(topic)
        has = "has" if len(partitions) == 1 else "have"
        yield Finding(
            kind="unowned",
            sentence=(
                f"{ranges(topic, partitions)} {has} no owner, though {_readers(sight, topic)} to {named(topic)}"
            ),
            blocks=True,
            topics=[topic],
        )
    twice = [(topic, partition) for topic in topics for partition in sight.owned_twice(topic)]
    for topic, partition in twice[:_MOST]:
        owners = sight.labels.all(member.name for member in sight.owners[topic, partition])
        yield Finding(
            kind="owned_twice",
            sentence=f"{named(topic)}-{partition} was assigned to several members at once: {owners}",
            blocks=True,
            topics=[topic],
        )


def _readers(sight: GroupSight, topic: str) -> str:
    """`alice, bob subscribe`."""
    readers = [
        member.name
        for member in sight.all_members
        if topic in sight.subscriptions.get(member.name.member_id, ())
    ]
    return f"{sight.labels.all(readers)} {'subscribes' if len(readers) == 1 else 'subscribe'}"


def subscriptions(sight: GroupSight) -> Iterator[Finding]:
    """Different subscriptions in one group: two services with one group id by mistake, often."""
    by_topics: dict[frozenset[str], list[str]] = {}
    for member_id, topics in sight.subscriptions.items():
        by_topics.setdefault(topics, []).append(member_id)
    if len(by_topics) < 2:
        return
    parts = []
    for topics, member_ids in list(by_topics.items())[:_MOST]:
        who = sight.labels.all(sight.by_id[member_id].name for member_id in member_ids)
        parts.append(
            f"{{{some([named(topic) for topic in sorted(topics)])}}} by {who}{_alone(sight, topics, member_ids)}"
        )
    more = f"; and {len(by_topics) - _MOST} more" if len(by_topics) > _MOST else ""
    yield Finding(
        kind="different_subscriptions",
        sentence=f"{len(by_topics)} subscriptions in one group: {'; '.join(parts)}{more}",
        blocks=False,
        members=[member_id for member_ids in by_topics.values() for member_id in member_ids][:100],
        topics=sorted(sight.subscribed)[:100],
        hint="Two services that read different topics need a group id each",
    )


def _alone(sight: GroupSight, topics: frozenset[str], member_ids: list[str]) -> str:
    """What a single member reads that nobody else subscribes to."""
    if len(member_ids) != 1:
        return ""
    others = [found for member_id, found in sight.subscriptions.items() if member_id != member_ids[0]]
    partitions = sight.assignments.get(member_ids[0], {})
    owned = [
        ranges(topic, partitions[topic])
        for topic in sorted(topics)
        if partitions.get(topic) and not any(topic in found for found in others)
    ]
    return f", who alone owns {', '.join(owned)}" if owned else ""


def idle(sight: GroupSight) -> Iterator[Finding]:
    """Members that were assigned nothing, in words that the leader chose."""
    if not sight.is_settled or not sight.are_consumers:
        return
    members = [
        member
        for member in sight.members
        if (member.assignment or member.consumer is not None)
        and not any(sight.assignments.get(member.name.member_id, {"": [0]}).values())
    ]
    subscribed: frozenset[str] = frozenset().union(
        *(sight.subscriptions.get(member.name.member_id, frozenset()) for member in members)
    )
    topics = [topic for topic in sorted(subscribed) if sight.around.partitions_of(topic) is not None]
    if not topics:
        return
    labels = sight.labels.all(member.name for member in members)
    idles, them = ("idles", "it") if len(members) == 1 else ("idle", "them")
    partitions, readers = sum(sight.around.partitions_of(topic) or 0 for topic in topics), len(sight.members)
    of = some([named(topic) for topic in topics])
    why = f"nothing of {of} was assigned to {them}"
    if partitions < readers:
        why = f"{readers} members share the {partitions} partition{'' if partitions == 1 else 's'} of {of}"
    yield Finding(
        kind="idle",
        sentence=f"{labels} {idles}: {why}",
        blocks=False,
        members=[member.name.member_id for member in members[:100]],
        topics=topics[:100],
    )
