"""What lines of the log mean to who reads them. The lines themselves come from the code."""

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
    """The meaning of an event's line; where an event has several, of those that have this text in them."""

    event: type[GroupEvent]
    meaning: str
    having: str = ""


GROUPS: Final = (
    Entry(
        RebalanceCompleted,
        "A rebalance is over: what began it, where the time went if it took a second or more and who came last, "
        "who else is gone, and who got what. `It took 3 attempts` when others joined or left meanwhile. Of more "
        "than ten members the rest is counted.",
        "the session of",
    ),
    Entry(
        RebalanceWaits,
        "Said after ten seconds, whenever that has doubled, and at least every five minutes. The group can do "
        "nothing until these members rejoin, leave, or are given up: "
        "when their session ends, at the latest when the longest rebalance timeout (`max.poll.interval.ms` of most "
        "clients) is over. In brackets: what began the rebalance, and when each was last heard. One that was heard "
        "a moment ago lives and does not rejoin: its application is busy, in `poll` or in a callback. One that was "
        "not is dead or stopped.",
        "It waits for the JoinGroup of",
    ),
    Entry(
        RebalanceWaits,
        "All have joined; the leader has not handed in the assignment, or members have not asked for it.",
        "It waits for the SyncGroup of",
    ),
    Entry(
        RebalanceWaits,
        "Nothing is wrong: `group.initial.rebalance.delay.ms` is long.",
        "It waits for others to join",
    ),
    Entry(
        RebalanceWaits,
        "Their partitions are read by nobody until they ask, or are given up.",
        "did not ask for the assignment",
    ),
    Entry(MemberExpired, "Nothing was heard from it for its session timeout.", "its session timeout"),
    Entry(
        MemberLeft,
        "A clean goodbye, with the client's reason; `request of …` where somebody else sent it away.",
    ),
    Entry(MembersEvicted, "They did not rejoin within the rebalance timeout.", "removed dynamic members"),
    Entry(MembersEvicted, "They joined and never asked for their assignment.", "sync requests"),
    Entry(LeaderReplaced, "The leader was among those given up, and another member assigns."),
    Entry(
        RebalanceStalled,
        "Only static members are left, and none has come back; the group waits on until one does or their sessions "
        "end.",
    ),
    Entry(
        StaticMemberReplaced,
        "A static member was restarted (KIP-345). With the next line after it, that was all.",
    ),
    Entry(RebalanceAvoided, "It got the assignment of its predecessor, and the others notice nothing."),
    Entry(MemberFenced, "Two processes use one `group.instance.id`; it belongs to the one that came last."),
    Entry(
        JoinRefused,
        "A client was told an error: its name, and what it asked for against what the group has or a property "
        "allows.",
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    Entry(SyncRefused, "The same of a SyncGroup."),
    Entry(
        HeartbeatRefused,
        "UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION come from a member that was given up, or missed a rebalance, and "
        "does not know it yet.",
        "ILLEGAL_GENERATION",
    ),
    Entry(
        CommitRefused,
        "These offsets are not stored: the partitions may be another's by now, who reads those records again. Of a "
        "transaction it says `TxnOffsetCommit`.",
        "refused OffsetCommit",
    ),
    Entry(
        SimpleGroupCreated,
        "A consumer that assigns itself its partitions commits for a group that was not there.",
    ),
    Entry(
        SubscriptionUnreadable,
        "The group is served as any other. While it has members none of its offsets expires, as it may read them.",
    ),
    Entry(
        OffsetsSkipped,
        "A transaction was committed, and these of its offsets do not count: plain commits, or those of another "
        "transaction, were written later. Two processes may work for one group, or one commits in both ways.",
    ),
    Entry(
        MixedCommits,
        "Said once for each group, at the first such partition since the partition was loaded. Commits without "
        "membership, such as resets by `kafka-streams-application-reset`, do not count. A consumer beside a "
        "transactional producer must leave its commits to that: `enable.auto.commit=false`.",
    ),
    Entry(OffsetsDeleted, "Somebody asked for it (OffsetDelete), or deleted the topic."),
    Entry(OffsetsExpired, "They outlived `offsets.retention.minutes`."),
    Entry(GroupDeleted, "Somebody asked for it (DeleteGroups), or nothing of it was left (`retention`)."),
    Entry(GroupLoaded, "It was found in the log, at the start or after its partition was unloaded."),
)
"""At the level INFO, or worse."""

STEPS: Final = (
    Entry(
        MemberIdRequired,
        "A client asked to join; it was given an id and asked to come back with it (KIP-394).",
    ),
    Entry(MemberJoined, "It came back and was added.", "Pending dynamic member"),
    Entry(MemberJoined, "An older client, which is added at once.", "Dynamic member with unknown"),
    Entry(MemberJoined, "A static member is new.", "Static member with"),
    Entry(RebalanceStarted, "A rebalance starts, or starts over."),
    Entry(RebalanceDelayed, "It waits `group.initial.rebalance.delay.ms` once more, as new members came."),
    Entry(GroupStabilized, "Everybody joined; the leader has been told the members."),
    Entry(AssignmentReceived, "The group is Stable."),
    Entry(
        TransactionEnded,
        "The marker of a producer's transaction was written: what was committed in it for this group counts from "
        "now on, or, with `Aborted`, never will.",
        "Committed",
    ),
    Entry(GroupEmptied, "The last member is gone; the offsets stay until they expire."),
)
"""At the level DEBUG."""

FORMATS: Final[Mapping[str, str]] = {
    "Session %x of broker %d began": "This broker of a cluster is registered in etcd, and may own partitions",
    "The session of broker %d ended: %s": (
        "This broker has let go of all that it owned: etcd did not answer in time, or it was paused for too long. "
        "It begins a new session as soon as it can ([cluster.md](cluster.md#when-something-fails))"
    ),
    "Owner of %s, leader epoch %d: %s": (
        "This broker coordinates the partition from now on, as soon as it has read it from etcd; why"
    ),
    "No longer owner of %s: %s": "Another broker does, or will; whoever waited was told NOT_COORDINATOR",
    "The session of this node.id that was there before goes on; waiting until it ends": (
        "This broker was killed, and is back before others took over: it goes on in less than "
        "`broker.session.timeout.ms`. Where it stays so two brokers of the cluster have one `node.id`: the second "
        "serves nothing until the first is gone"
    ),
    (
        "etcd does not have any more what the cluster was made with: this broker owns nothing, and keeps "
        "what is on its disk. Stop all brokers, and import their directories"
    ): "etcd's data was destroyed, or another etcd answers: docs/cluster.md#import says how it is brought back",
    "etcd takes no commits: %s": (
        "Commits wait. With `it is full` etcd has reached its quota: it needs compaction, defragmentation and "
        "`etcdctl alarm disarm`"
    ),
    "etcd is full (alarm NOSPACE, %d bytes): it takes no commits until it is compacted and defragmented, and the "
    "alarm is disarmed": (
        "Clients wait for as long as a session lasts, then are told NOT_COORDINATOR. Nothing is lost: all goes on "
        "when there is room ([cluster.md](cluster.md#monitoring))"
    ),
    "The database of etcd has %d bytes of the %d that it may have: it forgets old revisions with "
    "--auto-compaction-retention, and gives back room when it is defragmented": (
        "70 % of its quota: cluster.etcd.quota.bytes, or what etcd says. When it is full no commit is taken"
    ),
    "etcd at %s does not answer: %s": (
        "With a quorum of the others all goes on; the next one that is lost may be one too many"
    ),
    "etcd does not do what the session of this broker needs: %s": (
        "Told once for each kind of trouble. If it lasts until the end of the session, this broker lets go of all"
    ),
    "Client %s asks for %s %s (%s): %s": (
        "The topic is not there. The line says what keeps it from being created, if asking could"
    ),
    "Taken over from another broker: %s": (
        "The data directory is that of a Kafka broker ([data-directory.md](data-directory.md#a-brokers-directory))"
    ),
    "Taken over from another broker: %d ACLs, %d credentials of SCRAM": (
        "The same, for the first start that finds no security.json"
    ),
    "%s the %s credential of %s, by %s": "A user was given a password for SCRAM, or it was taken away",
    "%s %d more credentials, by %s": "The same request changed so many besides those in the lines before",
    "Failed authentication with %s (%s%s): %s": (
        "A client could not show by SASL or TLS who it is: its address, the listener, the mechanism or "
        "`TLS handshake`, and why ([what to do](security.md#when-it-does-not-work)). A few lines for each address "
        "in ten seconds, then a count"
    ),
    "Listener %s keeps its certificate and truststore: %s": (
        "SIGHUP came, and what is there now cannot be used, or clients would not know it; the line says why"
    ),
    "Listener %s has read its stores again; its certificate is that of %s": "SIGHUP came; new connections see it",
    "Listener %s keeps the keys of tokens that it has (%s): %s": (
        "What the identity provider publishes cannot be had or read; it is asked again and again, and has one line"
    ),
    "ACLs and credentials cannot be changed: %s%s": (
        "The disk refuses; those that there are go on acting, and whoever wanted the change was told"
    ),
    "Added ACL %s, by %s": "Said of each, up to a hundred of a request; then one line counts the others",
    "Principal = %s is Denied operation = %s from host = %s on resource = %s for request = %s with "
    "resourceRefCount = 1 based on rule %s%s": (
        "An authorizer is configured, and no ACL allows this, or one denies it. Once a minute for each client, "
        "resource and API"
    ),
    "Only reading %s until it can be written: %s%s": (
        "The disk was tried and still refuses: offsets are read, heartbeats answered, commits and joins refused"
    ),
    "Not written at the start, and not needed: %s%s": (
        "A start on a full disk: indexes, the catalogue and the like are made again later"
    ),
    "Reading %s without what can wait: %s%s": "The same, of one offsets partition",
    "%s cannot be read until its log is opened anew: %s": (
        "A sync has failed, and what was synced before cannot be read either: its groups are out of service"
    ),
    "The copy of the cluster's topics could not be written, and is made anew at the next start: %s%s": (
        "The disk refuses topics.json. etcd has the change, so it is in force; nothing is lost"
    ),
    "Deleted topics are not removed whole, which the next start tries again: %s": (
        "What is left of them takes space and is seen by nobody"
    ),
    "Unloading %s of %s: %s%s": (
        "The disk refused a write or flush; the partition loads again from what the disk has. Said once while it "
        "lasts"
    ),
    "%s is in order again after %.1f s and %d failures": "A write went through again",
    "Failed to load metadata from %s: %s. %s": (
        "An offsets partition cannot be read; the line names file and position. Its groups stay out of service "
        "(NOT_COORDINATOR) until the log is repaired"
    ),
    "Failed to load metadata from %s: %s; trying again%s": "The disk failed; it is tried each second",
    "[%s] Removed %d expired offsets in %d milliseconds.": (
        "One look at all groups of a partition; a line before it for each group"
    ),
    "A message to %s, which nobody receives: %r": "A defect of groupd: please report it",
    "A message to %s was not taken": "A defect of groupd: please report it",
    "Initialized transactionalId %s with producerId %d and producer epoch %d on partition %s": (
        "A producer with this transactional id has begun; an older one with the same id is fenced"
    ),
    "Completed rollback of ongoing transaction for transactionalId %s due to timeout: it was open for "
    "%d ms, transaction.timeout.ms=%d, in %d partitions; producer %d of epoch %d is fenced": (
        "Its producer did not end it in the time that it had asked for: what it wrote is aborted, and it has to "
        "begin anew ([what to do](troubleshooting.md#a-producer-was-fenced))"
    ),
    "TransactionalId %s: aborts a transaction that is open in %d partitions, since a producer with "
    "that id begins anew; producer %d of epoch %d is fenced": (
        "It was restarted in the middle of a transaction, or two processes use one `transactional.id`"
    ),
    "TransactionalId %s has expired: nothing was heard of it for %d ms": (
        "`transactional.id.expiration.ms` is over. A producer that comes back gets another producer id"
    ),
    "Sending txn markers for %s to %d partitions after loading partition %s": (
        "The outcome was settled before the daemon stopped. The markers that bring it to the partitions are "
        "written again"
    ),
    "TransactionalId %s: %d partitions do not take the marker of producer %d of epoch %d (%s); it "
    "stays as it is until %s is loaded again": (
        "These partitions know a newer epoch of that producer. Its producer is told CONCURRENT_TRANSACTIONS "
        "meanwhile; the line before names the partition"
    ),
    "%s: its transaction is not ended in %s, which knows a newer epoch (%s); no further marker is written": (
        "Somebody else has written a marker, or records, with a higher epoch there: a broker before, or a tool"
    ),
    "%s: no marker for %s, which is not there any more (%s)": (
        "The topic was deleted meanwhile. The transaction ends without it"
    ),
    "Unknown value version %d while loading transaction metadata from %s: %d records are ignored": (
        "A newer broker wrote them. Those transactional ids are unknown until their producers begin anew"
    ),
    "%s cannot be made: %s": (
        "A producer has asked for its coordinator; it is told COORDINATOR_NOT_AVAILABLE until there is room"
    ),
    "Aborted a transaction of producer %d (epoch %d) that was open in %s from offset %d on, and that no "
    "coordinator knows": (
        "A hanging transaction, which a broker has left. Consumers of committed records read on past it "
        "([more](troubleshooting.md#consumers-of-committed-records-stand-still))"
    ),
    "A transaction of producer %d is open in %s from offset %d on, no coordinator knows it, and it could "
    "not be aborted: %s": "The next start tries again; `kafka-transactions.sh abort` may do it now",
    "%d transactions are open, and whose they are is not known while %s cannot be used: they stay open": (
        "Repair that partition and start again, or end them with `kafka-transactions.sh abort`"
    ),
    "%d partitions of coordinators could not be read": (
        "Of `__consumer_offsets`, `__transaction_state` or both; lines before it name them"
    ),
    "Violation in group %s, %s: %s%s": (
        "An oracle has found what must not happen; the word before the sentence is its name. Once a minute for "
        "each group and oracle"
    ),
    "Notice for group %s, %s: %s": (
        "An oracle has found something unusual that some applications do on purpose "
        "([more](control.md#invariant-checks)). Once for each oracle, group and member"
    ),
    "Oracle %s failed at group %s": "A defect of groupd: please report it",
    "The oracles of commits failed at group %s": "A defect of groupd: please report it",
    "Closing connection from %s: a request could not be answered": "A defect of groupd: please report it",
    "Unexpected: %s": "A defect of groupd: please report it",
    "Unloading %s of %s after an internal error": "A defect of groupd: please report it",
}
"""By what the statement hands its logger. Lines that say it all have none."""


@dataclass(frozen=True)
class Composed:
    """A line that no single statement has as a whole; the file `place` has its words."""

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
        "A producer was told an error: what it asked for, and what stands against it. A line a minute for each "
        "transactional id, request and error; WARNING where the state forbids it, or no producer id can be had",
    ),
    Composed(
        "coordinator/network/endpoint.py",
        "WARNING",
        "SocketServer",
        "Closing connection from …: …",
        "The peer sent what is no request; the line says what",
    ),
    Composed(
        "coordinator/network/endpoint.py",
        "WARNING",
        "SocketServer",
        "Rejected connection from …: …",
        "Its address has as many as `max.connections.per.ip` allows",
    ),
    Composed(
        "coordinator/runtime/partition_loader.py",
        "WARNING",
        "GroupCoordinator",
        "The log is read without a state that is of no use: …",
        "A state file was damaged or did not belong to the log; the start took longer, nothing else",
    ),
    Composed(
        "coordinator/config/settings.py",
        "INFO",
        "KafkaServer",
        "Ignored from …, as groupd has no use for it: …",
        "Names that Kafka or its images know; one line for each source",
    ),
    Composed(
        "coordinator/config/setting_sources.py",
        "WARNING",
        "KafkaServer",
        "… is not a property and has no effect: …",
        "A variable `KAFKA_…` that neither Kafka nor its images know, with the one that it may be meant for",
    ),
    Composed(
        "coordinator/config/unsupported_settings.py",
        "WARNING",
        "KafkaServer",
        "… has no effect, because …",
        "A name that asks for a function which groupd lacks, with what to do instead",
    ),
    Composed(
        "coordinator/config/settings.py",
        "WARNING",
        "KafkaServer",
        "… names … controllers, but this groupd knows no other broker, …",
        "Each service of a file for several brokers started a groupd by itself",
    ),
    Composed(
        "coordinator/config/image_variables.py",
        "INFO",
        "KafkaServer",
        "The data directory is …, because … is a volume and log.dirs is not set",
        "In the image: the data is where another image of Kafka has it",
    ),
    Composed(
        "coordinator/config/image_variables.py",
        "WARNING",
        "KafkaServer",
        "… is a volume that groupd cannot write to, …",
        "In the image: the volume belongs to another user",
    ),
)
