"""The current leader of a partition and its address, in responses to Produce and Fetch (KIP-951)."""

from protocol.schema import Int32, NullableString, String, since, struct


@struct
class LeaderIdAndEpoch:
    """The current leader of the partition and its epoch."""

    leader_id: Int32 = since(default=-1)
    leader_epoch: Int32 = since(default=-1)


@struct
class NodeEndpoint:
    """The address of a broker that leads a partition."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = since(default=None)
