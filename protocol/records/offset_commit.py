"""What a group committed for one partition (key type 1; type 0 is the same from before 0.9)."""

from protocol.kinds import ZERO_UUID, Int32, Int64, String, Uuid
from protocol.schema import data, since, tagged


@data(versions="0-1")
class OffsetCommitKey:
    """Whose offset, of which partition."""

    group: String
    topic: String
    partition: Int32


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """v1 commit and expire timestamps (a retention time that the client chose) · v2 no expire timestamp ·
    v3 leader epoch · v4 flexible, topic id in a tag"""

    offset: Int64
    leader_epoch: Int32 = since("3+", default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = since("1", default=-1)
    topic_id: Uuid = tagged(0, "4+", default=ZERO_UUID)
