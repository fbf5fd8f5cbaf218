"""The racks of several brokers in one process: one for all, or a list of one for each."""

from typing import Final

from coordinator.config.errors import ConfigError

NAME: Final = "broker.rack"


def racks_of(text: str, brokers: int) -> list[str | None]:
    """Of each broker in order, None for one without. With one broker a comma is a part of its rack. Raises
    ConfigError for a list that is not of so many."""
    if not text:
        return [None] * brokers
    parts = [part.strip() for part in text.split(",")]
    if brokers == 1 or len(parts) == 1:
        return [text] * brokers
    if len(parts) != brokers:
        raise ConfigError(f"{NAME}: {len(parts)} racks are listed, and there are {brokers} brokers", NAME)
    return [part or None for part in parts]
