"""Conditions on how far a group has come: what it has committed, as durable, and how much is left."""

from collections.abc import Mapping

from coordinator.control.waits.condition import BaseCondition, Unmet
from coordinator.control.waits.labels import named, some
from coordinator.control.waits.sight import GroupSight, Lag

MOST_LISTED = 1_000
_MOST_SAID = 5
_UNREAD = "What it has committed is not known: the disk has not confirmed it"


class Committed(BaseCondition):
    """Partitions have at least these offsets committed."""

    reads_offsets = True

    def __init__(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._offsets = offsets

    def _short(self, sight: GroupSight) -> dict[tuple[str, int], int | None]:
        committed = sight.offsets or {}
        return {
            partition: committed.get(partition)
            for partition, least in self._offsets.items()
            if (found := committed.get(partition)) is None or found < least
        }

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.offsets is not None and not self._short(sight)

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        wanted = {f"{topic}-{partition}": least for (topic, partition), least in self._offsets.items()}
        is_ = {f"{topic}-{partition}": offset for (topic, partition), offset in self._short(sight).items()}
        return Unmet(condition="committed", wanted=wanted, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.unavailable is not None:
            return ""
        if sight.offsets is None:
            return _UNREAD
        said = []
        for (topic, partition), offset in list(self._short(sight).items())[:_MOST_SAID]:
            where, least = f"{named(topic)}-{partition}", self._offsets[topic, partition]
            owners = [sight.labels.of(member.name) for member in sight.owners.get((topic, partition), [])]
            whose = f" (its owner is {some(owners)})" if owners else " (nobody has it)"
            is_at = "has no commit" if offset is None else f"is committed at {offset}"
            said.append(f"{where} {is_at}, {least} wanted{whose}")
        return "; ".join(said)

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        committed = sight.offsets or {}
        return "committed " + some(
            [f"{named(topic)}-{part}={committed[topic, part]}" for topic, part in self._offsets], _MOST_SAID
        )

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """See `Condition`."""
        return frozenset(topic for topic, _ in self._offsets)


class LagAtMost(BaseCondition):
    """No partition of some topics is further behind its end than so many offsets. One without a commit counts from
    its log start. Without topics: those that its members subscribe to, or, where there are none, those that it has
    committed offsets of."""

    reads_offsets = True

    def __init__(self, lag_max: int, topics: list[str] | None) -> None:
        self._lag_max = lag_max
        self._topics = topics

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """See `Condition`."""
        if self._topics is not None:
            return frozenset(self._topics)
        return sight.subscribed or frozenset(topic for topic, _ in sight.offsets or {})

    def _lags(self, sight: GroupSight) -> dict[tuple[str, int], Lag]:
        topics = sorted(self.topics(sight))
        return {(topic, number): lag for topic in topics for number, lag in enumerate(sight.lags(topic))}

    def _is_behind(self, lag: int | None) -> bool:
        return lag is None or lag > self._lag_max

    def _unknown(self, sight: GroupSight) -> list[str]:
        return [topic for topic in sorted(self.topics(sight)) if sight.around.partitions_of(topic) is None]

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        if sight.offsets is None or not self.topics(sight) or self._unknown(sight):
            return False
        return not any(self._is_behind(one.lag) for topic in self.topics(sight) for one in sight.lags(topic))

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        lags = self._lags(sight)
        behind = {
            f"{topic}-{number}": lag for (topic, number), (lag, _) in lags.items() if self._is_behind(lag)
        }
        is_: dict[str, object] = {
            "lag": dict(list(behind.items())[:MOST_LISTED]),
            "without_commit": _without_commit(lags)[:MOST_LISTED],
        }
        if unknown := self._unknown(sight):
            is_["no_such_topic"] = unknown
        return Unmet(condition="lag_max", wanted=self._lag_max, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.unavailable is not None:
            return ""
        if sight.offsets is None:
            return _UNREAD
        if not self.topics(sight):
            return "It has no lag to speak of: nobody is subscribed to anything, and nothing is committed"
        unknown = self._unknown(sight)
        said = [f"There is no topic {named(topic)}" for topic in unknown]
        for (topic, number), (lag, has_commit) in self._lags(sight).items():
            if self._is_behind(lag) and len(said) < _MOST_SAID:
                where = f"{named(topic)}-{number}"
                owners = [sight.labels.of(member.name) for member in sight.owners.get((topic, number), [])]
                whose = some(owners) if owners else "nobody's"
                counts = "" if has_commit else "; it has no commit and counts from its log start"
                lags = (
                    "ends nobody here knows where"
                    if lag is None
                    else f"lags {lag} behind, {self._lag_max} wanted"
                )
                said.append(f"{where} ({whose}) {lags}{counts}")
        return "; ".join(said)

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        lags = self._lags(sight)
        without = _without_commit(lags)
        note = f" ({some(without, _MOST_SAID)} without a commit, from the log start)" if without else ""
        return f"lag at most {max((lag or 0 for lag, _ in lags.values()), default=0)}{note}"


def _without_commit(lags: Mapping[tuple[str, int], Lag]) -> list[str]:
    return [f"{named(topic)}-{number}" for (topic, number), (_, has_commit) in lags.items() if not has_commit]
