"""A response as Prometheus parses it."""

from dataclasses import dataclass
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.http.api.api_port import Api


@dataclass(frozen=True)
class Scraped:
    """The metrics of one answer."""

    families: tuple[Metric, ...]

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {sample.name for family in self.families for sample in family.samples}

    def get(self, name: str, **labels: str) -> float | None:
        """Return the value of the sample with exactly these labels, or None."""
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if (sample.name, sample.labels) == (name, labels)
        ]
        assert len(found) < 2, (name, labels)
        return found[0] if found else None

    def labels(self, name: str, label: str) -> list[str]:
        """What the samples of a name have there."""
        return [
            sample.labels[label]
            for family in self.families
            for sample in family.samples
            if sample.name == name
        ]


ACCEPT: Final = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""As Prometheus asks."""


async def scrape(api: Api, path: str = "/metrics", accept: str = ACCEPT) -> Scraped:
    """Asks once."""
    answer = await api.call("GET", path, headers={"Accept": accept})
    assert (answer.status, answer.content_type) == (200, "text/plain"), answer
    return Scraped(tuple(text_string_to_metric_families(answer.body.decode())))
