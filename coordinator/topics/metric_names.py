"""Names of topics that metrics could not tell apart: two of them are not there at one time. Source: Kafka's
`Topic.hasCollision`."""

from coordinator.topics.topic_name import metric_name


class MetricNames:
    """Of all topics that there are, or that are being made."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, name: str) -> None:
        """A topic is there."""
        self._names.setdefault(metric_name(name), set()).add(name)

    def forget(self, name: str) -> None:
        """It is gone."""
        alike = self._names[metric_name(name)]
        alike.discard(name)
        if not alike:
            del self._names[metric_name(name)]

    def collides(self, name: str) -> str | None:
        """A topic, other than the one of that name, that metrics could not tell from it; None when there is
        none."""
        return next((other for other in self._names.get(metric_name(name), ()) if other != name), None)
