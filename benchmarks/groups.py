"""Groups of one member, and connections that speak for them."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final

from benchmarks.connection import Connection
from benchmarks.flood import Repeated
from benchmarks.member import Member
from benchmarks.process import Server
from protocol.partitioner import partition_for

CONNECTIONS: Final = 50
SHARES: Final = (1, 4)
"""For how many members a connection may speak."""
GROUPS: Final = CONNECTIONS * max(SHARES)
OFFSETS_PARTITIONS: Final = 50


def group_names(number: int = GROUPS) -> list[str]:
    """As many names, all equally long: the partitions of the offsets topic have them in turn."""
    names: list[str] = []
    candidates: list[list[str]] = [[] for _ in range(OFFSETS_PARTITIONS)]
    for candidate in count():
        name = f"group-{candidate:06d}"
        candidates[partition_for(name, OFFSETS_PARTITIONS)].append(name)
        while candidates[len(names) % OFFSETS_PARTITIONS]:
            names.append(candidates[len(names) % OFFSETS_PARTITIONS].pop(0))
            if len(names) == number:
                return names
    raise AssertionError("there is always another candidate")


async def join_all(server: Server, names: Sequence[str]) -> list[Member]:
    """The only member of each group. All join at once: the mock lets every group wait for its first rebalance."""
    members = [Member(await Connection.open(server), name) for name in names]
    await asyncio.gather(*(member.join() for member in members))
    return members


async def speaking(server: Server, frames: Sequence[bytes], share: int) -> list[Repeated]:
    """Connections that each repeat `share` frames in turn, or fewer where the frames run out."""
    shares = [
        frames[first : first + share] for first in range(0, min(len(frames), CONNECTIONS * share), share)
    ]
    connections = [await Connection.open(server) for _ in shares]
    return await asyncio.gather(*map(Repeated.prepare, connections, shares))
