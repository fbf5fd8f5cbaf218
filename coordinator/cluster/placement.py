"""Which node should own which partition: a proposal that every node computes alike. The claim decides.

Rendezvous hashing: each partition has an order of preference among the nodes, which hangs on nothing but their
ids, so that a node that comes or goes moves few partitions. A cap keeps shares even where there are few
partitions: who has its share already is passed over. A pin moves nothing but what is pinned.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import xxhash


def place(
    topic: str, partitions: Collection[int], live: Iterable[int], pins: Mapping[int, int]
) -> dict[int, int]:
    """Partition -> node id, for each of `partitions`; empty when no node is live.

    In: the ids of live nodes; `pins`, partition -> the node that somebody wants. A pin to a node that is not live
    counts for nothing, one to a node that lives counts whatever share it has.
    """
    nodes = sorted(set(live))
    if not nodes:
        return {}
    placed = {}
    room = dict.fromkeys(nodes, -(-len(partitions) // len(nodes)))
    for partition in sorted(partitions):
        free = [node for node in nodes if room[node] > 0]
        node = max(free, key=lambda node: (_weight(topic, partition, node), node))
        placed[partition] = node
        room[node] -= 1
    for partition in placed:
        if pins.get(partition) in room:
            placed[partition] = pins[partition]
    return placed


def place_replicas(
    replicas: Sequence[Sequence[int]], live: Container[int], pins: Mapping[int, int]
) -> dict[int, int]:
    """The same for partitions that not every node may own. In: by partition who may, the one first that should.

    The first that is live, unless a live one of them is pinned; none where none is live.
    """
    placed = {}
    for partition, may in enumerate(replicas):
        pinned = [node for node in may if node == pins.get(partition)]
        for node in (*pinned, *may):
            if node in live:
                placed[partition] = node
                break
    return placed


def _weight(topic: str, partition: int, node: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{topic}/{partition}/{node}".encode())
