"""What a group is to be, for waits and checks."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from groupd_client.operation import Span


class Conditions(TypedDict, total=False):
    """All that is named must be so at once.

    `members` is a number or {"min": 2, "max": 4}; `clients` and `absent` are client, instance or member ids;
    `owned` are topics of which each partition has exactly one owner, `owner` says who has one ({"orders-3":
    "alice"}); `committed` are offsets at least; `lag_max` is for each partition of `topics`; "
    "`generation` is {"min": 3}; `rebalanced` an entry of the
    ledger that ended after the event `after`; `quiet` how long there was no rebalance.
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
