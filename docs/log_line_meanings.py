"""Meanings of log lines for operators. The lines themselves come from the code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.group.group_event_types import (
    AssignmentReceived,
    CommitRefused,
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupLoaded,
    GroupStabilized,
    HeartbeatRefused,
    JoinRefused,
    LeaderReplaced,
    MemberExpired,
    MemberFenced,
    MemberIdRequired,
    MemberJoined,
    MemberLeft,
    MembersEvicted,
    MixedCommits,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsSkipped,
    RebalanceAvoided,
    RebalanceCompleted,
    RebalanceDelayed,
    RebalanceStalled,
    RebalanceStarted,
    RebalanceWaits,
    SimpleGroupCreated,
    StaticMemberReplaced,
    SubscriptionUnreadable,
    SyncRefused,
    TransactionEnded,
)


@dataclass(frozen=True)
class Entry:
    """The meaning of an event's line. `having` selects the lines of an event that contain this text."""

    event: type[GroupEvent]
    meaning: str
    having: str = ""


GROUPS: Final = (
    Entry(
        RebalanceCompleted,
        "The end of a rebalance: its cause, the members that left, and the new assignment. If it took a "
        "second or more, the line also has the longest wait and the last member. `It took 3 attempts` "
        "means that members joined or left in between. Of more than ten members the line lists ten and "
        "counts the others.",
        "the session of",
    ),
    Entry(
        RebalanceWaits,
        "groupd logs this line after ten seconds, again each time the duration has doubled, and at least "
        "every five minutes. The group waits until these members rejoin, leave, or are removed: at the "
        "end of their session, and at the latest at the end of the longest rebalance timeout "
        "(`max.poll.interval.ms` of most clients). The brackets contain the cause of the rebalance, and "
        "the time since each member's last request. A member with a recent request is alive but does not "
        "rejoin: its application is busy, in `poll` or in a callback. A member without one is dead or "
        "stopped.",
        "It waits for the JoinGroup of",
    ),
    Entry(
        RebalanceWaits,
        "All members have joined. The leader has not sent the assignment, or members have not requested "
        "theirs with SyncGroup.",
        "It waits for the SyncGroup of",
    ),
    Entry(
        RebalanceWaits,
        "This is normal: `group.initial.rebalance.delay.ms` is long.",
        "It waits for others to join",
    ),
    Entry(
        RebalanceWaits,
        "No member reads the partitions of these members until they send SyncGroup or are removed.",
        "did not request the assignment",
    ),
    Entry(MemberExpired, "The member sent no request for its session timeout.", "its session timeout"),
    Entry(
        MemberLeft,
        "The member left with LeaveGroup; the line has the client's reason. `request of …` means that an "
        "admin client removed the member.",
    ),
    Entry(
        MembersEvicted, "The members did not rejoin within the rebalance timeout.", "removed dynamic members"
    ),
    Entry(MembersEvicted, "The members joined and did not send SyncGroup in time.", "sync requests"),
    Entry(LeaderReplaced, "The leader was removed, and another member computes the assignment."),
    Entry(
        RebalanceStalled,
        "Only static members are left, and none has rejoined. The group waits until one rejoins or their "
        "sessions expire.",
    ),
    Entry(
        StaticMemberReplaced,
        "A static member restarted (KIP-345). If the next line follows, the restart had no other effect.",
    ),
    Entry(
        RebalanceAvoided,
        "The restarted member got the assignment of its predecessor, without a rebalance for the other "
        "members.",
    ),
    Entry(MemberFenced, "Two processes use one `group.instance.id`; groupd fences the older one."),
    Entry(
        JoinRefused,
        "groupd refused a JoinGroup. The line has the client, and its request compared with the group's "
        "state or the limit of a property.",
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    Entry(SyncRefused, "groupd refused a SyncGroup."),
    Entry(
        HeartbeatRefused,
        "UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION come from a member that was removed or missed a "
        "rebalance, and does not know it yet.",
        "ILLEGAL_GENERATION",
    ),
    Entry(
        CommitRefused,
        "groupd did not store these offsets. The partitions may have a new owner, which then reads the "
        "records again. For a commit in a transaction the line has `TxnOffsetCommit`.",
        "refused OffsetCommit",
    ),
    Entry(
        SimpleGroupCreated,
        "A consumer that assigns partitions to itself committed for a group that did not exist.",
    ),
    Entry(
        SubscriptionUnreadable,
        "The group works normally. While it has members, none of its offsets expires, because groupd "
        "cannot read its subscription.",
    ),
    Entry(
        OffsetsSkipped,
        "A transaction committed, but these offsets of it have no effect, because plain commits or "
        "another transaction wrote later offsets. Two processes may use one group, or one process "
        "commits in both ways.",
    ),
    Entry(
        MixedCommits,
        "groupd logs this line once for each group, for the first such partition since the load of the "
        "offsets partition. Commits without membership, such as resets by "
        "`kafka-streams-application-reset`, do not count. A consumer beside a transactional producer "
        "must leave its commits to the producer: `enable.auto.commit=false`.",
    ),
    Entry(OffsetsDeleted, "A client deleted the offsets (OffsetDelete) or the topic."),
    Entry(OffsetsExpired, "The offsets expired after `offsets.retention.minutes`."),
    Entry(
        GroupDeleted, "A client deleted the group (DeleteGroups), or it had no offsets left (`retention`)."
    ),
    Entry(
        GroupLoaded, "groupd read the group from the log, at the start or after an unload of its partition."
    ),
)
"""Lines at INFO and above."""

STEPS: Final = (
    Entry(
        MemberIdRequired,
        "A new client sent JoinGroup. It got a member id and has to send JoinGroup again with it (KIP-394).",
    ),
    Entry(
        MemberJoined, "The client sent its second JoinGroup and is now a member.", "Pending dynamic member"
    ),
    Entry(
        MemberJoined,
        "An older client, which becomes a member with its first JoinGroup.",
        "Dynamic member with unknown",
    ),
    Entry(MemberJoined, "A new static member.", "Static member with"),
    Entry(RebalanceStarted, "A rebalance starts or restarts."),
    Entry(
        RebalanceDelayed,
        "The group waits for another `group.initial.rebalance.delay.ms`, because new members joined.",
    ),
    Entry(GroupStabilized, "All members joined; the leader got the list of members."),
    Entry(AssignmentReceived, "The group is Stable."),
    Entry(
        TransactionEnded,
        "groupd wrote the marker of a producer's transaction. `Committed`: the offsets of the "
        "transaction are now the group's committed offsets. `Aborted`: groupd discards them.",
        "Committed",
    ),
    Entry(GroupEmptied, "The last member left; the offsets stay until they expire."),
)
"""Lines at DEBUG."""

FORMATS: Final[Mapping[str, str]] = {
    "Session %x of broker %d began": "This broker of a cluster is registered in etcd and can own partitions",
    "The session of broker %d ended: %s": (
        "This broker gave up all its partitions, because etcd did not answer in time or the process was "
        "paused for too long. It begins a new session as soon as possible "
        "([cluster.md](cluster.md#when-something-fails))"
    ),
    "Owner of %s, leader epoch %d: %s": (
        "This broker coordinates the partition as soon as it has read it from etcd; the line has the "
        "reason of the move"
    ),
    "No longer owner of %s: %s": (
        "Another broker coordinates the partition, now or soon. Pending requests get NOT_COORDINATOR"
    ),
    "Another session of this node.id is active; waiting until it ends": (
        "This broker was killed and restarted before other brokers took over; it continues within "
        "`broker.session.timeout.ms`. If the line persists, two brokers of the cluster have the same "
        "`node.id`: the second waits until the first ends"
    ),
    (
        "etcd no longer has the identity of the cluster: this broker owns no partitions, and keeps the "
        "data on its disk. Stop all brokers, and import their directories"
    ): (
        "The data of etcd was destroyed, or another etcd answers; [cluster.md](cluster.md#import) explains the "
        "recovery"
    ),
    "etcd rejects commits: %s": (
        "Commits wait. `it is full` means that etcd has reached its quota and needs compaction, "
        "defragmentation and `etcdctl alarm disarm`"
    ),
    "etcd is full (alarm NOSPACE, %d bytes) and rejects commits: compact and defragment it, and disarm the alarm": (
        "Clients wait for the length of a session and then get NOT_COORDINATOR. No data is lost, and the "
        "cluster continues when etcd has space ([cluster.md](cluster.md#monitoring))"
    ),
    "The database of etcd has %d bytes of its quota of %d: set --auto-compaction-retention, and defragment it": (
        "etcd uses 70 % of its quota (cluster.etcd.quota.bytes, or the quota that etcd reports). A full "
        "etcd accepts no commits"
    ),
    "etcd at %s does not answer: %s": (
        "The cluster continues with a quorum of the other nodes, and may lose the quorum with the next node"
    ),
    "etcd rejects a request of this broker's session: %s": (
        "Logged once for each kind of error. If it lasts until the end of the session, this broker gives "
        "up all its partitions"
    ),
    "Client %s requested %s %s (%s): %s": (
        "The topic does not exist. If the request could create it, the line has the reason why it was "
        "not created"
    ),
    "Taken over from another broker: %s": (
        "The data directory belongs to a Kafka broker "
        "([data-directory.md](data-directory.md#a-brokers-directory))"
    ),
    "Taken over from another broker: %d ACLs, %d credentials of SCRAM": (
        "From the directory of a Kafka broker, at the first start without a security.json"
    ),
    "%s the %s credential of %s, by %s": "A SCRAM credential was set or removed",
    "%s %d more credentials, by %s": "The request changed this many further credentials",
    "Failed authentication with %s (%s%s): %s": (
        "A client failed to authenticate by SASL or TLS. The line has its address, the listener, the "
        "mechanism or `TLS handshake`, and the reason ([what to do](security.md#when-it-does-not-work)). "
        "groupd logs a few lines for each address in ten seconds, then a count"
    ),
    "Listener %s keeps its certificate and truststore: %s": (
        "After SIGHUP the new files are invalid, or clients would not accept the new certificate; the "
        "line has the reason"
    ),
    "Listener %s reloaded its stores; the subject of its certificate is %s": (
        "After SIGHUP new connections get this certificate"
    ),
    "Listener %s keeps its previous token keys (%s): %s": (
        "groupd cannot fetch or parse the keys of the identity provider. It retries, and logs this line once"
    ),
    "Failed to change ACLs or credentials: %s%s": (
        "The disk refuses writes. The existing ACLs and credentials stay in effect, and the request got "
        "an error"
    ),
    "Added ACL %s, by %s": "One line for each ACL, up to a hundred for a request; one more line counts the others",
    "Principal = %s is Denied operation = %s from host = %s on resource = %s for request = %s with "
    "resourceRefCount = 1 based on rule %s%s": (
        "An authorizer is configured, and no ACL allows the operation or an ACL denies it. Logged once a "
        "minute for each client, resource and API"
    ),
    "Serving only reads of %s until the disk accepts writes: %s%s": (
        "The disk still refuses writes: groupd answers reads of offsets and heartbeats, and refuses "
        "commits and joins"
    ),
    "Skipped a write at the start that can be made later: %s%s": (
        "A start on a full disk: groupd writes indexes, the catalogue and similar files later"
    ),
    "Loading %s without files that can be written later: %s%s": "A start on a full disk, for one offsets partition",
    "%s is unavailable until its log is opened again: %s": (
        "A sync failed, and groupd cannot read the data of earlier syncs either: the groups of the "
        "partition are out of service"
    ),
    "The copy of the cluster's topics could not be written; the next start writes it again: %s%s": (
        "The disk refused topics.json. etcd has the change, so it is in effect and not lost"
    ),
    "Deleted topics still have files, which the next start removes: %s": (
        "Their remaining files take space, but have no other effect"
    ),
    "Unloading %s of %s: %s%s": (
        "The disk refused a write or flush; groupd loads the partition again from the disk. Logged once "
        "while this lasts"
    ),
    "%s recovered after %.1f s and %d failures": "A write succeeded again",
    "Failed to load metadata from %s: %s. %s": (
        "groupd cannot read an offsets partition; the line has file and position. Its groups stay out of "
        "service (NOT_COORDINATOR) until you repair the log"
    ),
    "Failed to load metadata from %s: %s; trying again%s": "The disk failed; groupd retries every second",
    "[%s] Removed %d expired offsets in %d milliseconds.": (
        "One expiry check of all groups of a partition; a line for each group precedes it"
    ),
    "A message to %s without a receiver: %r": "A bug in groupd: please report it",
    "Failed to handle a message to %s": "A bug in groupd: please report it",
    "Initialized transactionalId %s with producerId %d and producer epoch %d on partition %s": (
        "A producer with this transactional id has started; an older one with the same id is fenced"
    ),
    "Completed rollback of ongoing transaction for transactionalId %s due to timeout: it was open for "
    "%d ms, transaction.timeout.ms=%d, in %d partitions; producer %d of epoch %d is fenced": (
        "The producer did not end the transaction within its timeout. groupd aborted the transaction, "
        "and the producer must start again ([what to do](troubleshooting.md#a-producer-was-fenced))"
    ),
    "TransactionalId %s: aborting an open transaction of %d partitions, because a producer with this id "
    "has started; producer %d of epoch %d is fenced": (
        "The producer restarted during a transaction, or two processes use one `transactional.id`"
    ),
    "TransactionalId %s has expired: no request named it for %d ms": (
        "The id expired after `transactional.id.expiration.ms`. A returning producer gets another producer id"
    ),
    "Sending txn markers for %s to %d partitions after loading partition %s": (
        "The transaction was committed or aborted before the daemon stopped. groupd writes its markers "
        "to the partitions again"
    ),
    "TransactionalId %s: %d partitions reject the marker of producer %d of epoch %d (%s); the "
    "transaction cannot end until %s is loaded again": (
        "These partitions have a newer epoch of the producer, which gets CONCURRENT_TRANSACTIONS; the "
        "previous line names the partition"
    ),
    "%s: the marker for %s is dropped, because the partition has a newer epoch of the producer (%s)": (
        "An earlier broker or a tool has written a marker or records with a higher epoch to that partition"
    ),
    "%s: no marker is needed for %s, because the partition was deleted (%s)": (
        "The topic was deleted. The transaction ends without it"
    ),
    "Unknown value version %d while loading transaction metadata from %s: %d records are ignored": (
        "A newer broker wrote these records. Their transactional ids are unknown until their producers "
        "start again"
    ),
    "%s cannot be created: %s": (
        "A producer requested its coordinator; it gets COORDINATOR_NOT_AVAILABLE until the disk has space"
    ),
    "Aborted a hanging transaction of producer %d (epoch %d) in %s, open since offset %d: no "
    "coordinator knows it": (
        "A hanging transaction from the log of a broker. Consumers with `read_committed` continue past "
        "it ([more](troubleshooting.md#consumers-of-committed-records-stand-still))"
    ),
    "Failed to abort a hanging transaction of producer %d in %s, open since offset %d, which no coordinator "
    "knows: %s": "groupd retries at the next start; you can try `kafka-transactions.sh abort` now",
    "%d open transactions cannot be resolved while %s is unavailable: they stay open": (
        "Repair that partition and start again, or end the transactions with `kafka-transactions.sh abort`"
    ),
    "%d coordinator partitions could not be read": (
        "Partitions of `__consumer_offsets`, `__transaction_state` or both; earlier lines name them"
    ),
    "Violation in group %s, %s: %s%s": (
        "An invariant check found an error; the word before the sentence is the name of the check. "
        "Logged once a minute for each group and check"
    ),
    "Notice for group %s, %s: %s": (
        "An invariant check found something unusual that can be intended "
        "([more](control.md#invariant-checks)). Logged once for each check, group and member"
    ),
    "Oracle %s failed for group %s": "A bug in groupd: please report it",
    "The commit oracles failed for group %s": "A bug in groupd: please report it",
    "Closing connection from %s: a request could not be answered": "A bug in groupd: please report it",
    "Unexpected: %s": "A bug in groupd: please report it",
    "Unloading %s of %s after an internal error": "A bug in groupd: please report it",
}
"""Meanings by the format string of the log statement. A line without one explains itself."""


@dataclass(frozen=True)
class Composed:
    """A line that several statements compose. The file `place` contains its words."""

    place: str
    level: str
    logger: str
    line: str
    meaning: str


COMPOSED: Final = (
    Composed(
        "coordinator/broker/transaction_log_lines.py",
        "INFO or WARNING",
        "TransactionCoordinator",
        "TransactionalId … refused … of producer … of epoch …: …",
        "groupd refused a request of a producer: the request, and the state or limit that forbids it. "
        "One line a minute for each transactional id, request and error; WARNING if the state forbids "
        "the request, or no producer id is available",
    ),
    Composed(
        "coordinator/network/endpoint.py",
        "WARNING",
        "SocketServer",
        "Closing connection from …: …",
        "The client sent invalid bytes; the line has the reason",
    ),
    Composed(
        "coordinator/network/endpoint.py",
        "WARNING",
        "SocketServer",
        "Rejected connection from …: …",
        "The address already has as many connections as `max.connections.per.ip` allows",
    ),
    Composed(
        "coordinator/runtime/partition_loader.py",
        "WARNING",
        "GroupCoordinator",
        "Ignored a state file: …",
        "A state file was damaged or did not belong to the log. The start took longer, without other effects",
    ),
    Composed(
        "coordinator/config/settings.py",
        "INFO",
        "KafkaServer",
        "Ignored from …, because they have no effect in groupd: …",
        "Names of Kafka or its images without an effect in groupd; one line for each source",
    ),
    Composed(
        "coordinator/config/setting_sources.py",
        "WARNING",
        "KafkaServer",
        "… is not a property and has no effect: …",
        "An unknown variable `KAFKA_…`, with the most similar known name",
    ),
    Composed(
        "coordinator/config/unsupported_settings.py",
        "WARNING",
        "KafkaServer",
        "… has no effect, because …",
        "A property of an unsupported function, with an alternative",
    ),
    Composed(
        "coordinator/config/settings.py",
        "WARNING",
        "KafkaServer",
        "… names … controllers, but this groupd is a single broker …",
        "Each service of a compose file for several brokers started a separate groupd",
    ),
    Composed(
        "coordinator/config/image_variables.py",
        "INFO",
        "KafkaServer",
        "The data directory is …, because … is a volume and log.dirs is not set",
        "In the image: groupd uses the data volume of another Kafka image",
    ),
    Composed(
        "coordinator/config/image_variables.py",
        "WARNING",
        "KafkaServer",
        "… is a volume that groupd cannot write to, …",
        "In the image: the volume belongs to another user",
    ),
)
