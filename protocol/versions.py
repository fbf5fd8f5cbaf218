"""Which versions of a message: a range, in Kafka's notation."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions `first` to `last`, both included; empty when last < first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @staticmethod
    def parse(text: str) -> "VersionRange":
        """Read Kafka's notation: "3" one version, "0-9" a span, "6+" from there on, "none" nothing."""
        if text == "none":
            return VersionRange(0, -1)
        if text.endswith("+"):
            return VersionRange(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return VersionRange(int(first), int(last or first))


ALL_VERSIONS: Final = VersionRange(0, 32767)
