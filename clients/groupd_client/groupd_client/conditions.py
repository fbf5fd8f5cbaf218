"""Conditions on a group, for waits and checks."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from groupd_client.operation import Span


class Conditions(TypedDict, total=False):
    """Conditions on a group, all of which must hold at once.

    - `members`: a number, or {"min": 2, "max": 4}.
    - `clients`, `absent`: client, instance or member ids.
    - `owned`: topics; each of their partitions has exactly one owner.
    - `owner`: the owners of partitions, {"orders-3": "alice"}.
    - `committed`: minimum committed offsets, by partition.
    - `lag_max`: the maximum lag of each partition of `topics`.
    - `generation`: {"min": 3}.
    - `rebalanced`: a ledger entry that ended after the event `after`.
    - `quiet`: the time without a rebalance.
    """

    state: str
    members: int | Mapping[str, int]
    clients: Sequence[str]
    absent: Sequence[str]
    owned: Sequence[str]
    owner: Mapping[str, str]
    committed: Mapping[str, int]
    lag_max: int
    topics: Sequence[str]
    generation: Mapping[str, int]
    rebalanced: Mapping[str, Any]
    after: int | str
    quiet: Span
