"""How an answer of Produce or Fetch tells who leads a partition now, and where to reach it (KIP-951)."""

from protocol.schema import Int32, NullableString, String, since, struct


@struct
class LeaderIdAndEpoch:
    """Who leads the partition now."""

    leader_id: Int32 = since(default=-1)
    leader_epoch: Int32 = since(default=-1)


@struct
class NodeEndpoint:
    """The address of a broker that is named as a leader."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = since(default=None)
