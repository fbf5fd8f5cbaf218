"""How many connections some addresses may have: the text of `max.connections.per.ip.overrides`. Source: KIP-402."""

from coordinator.config.config_key import LIMITS, ConfigType


def parse_counts(text: str) -> dict[str, int]:
    """HOST:COUNT, … by host, as it is written. Raises ValueError."""
    lowest, highest = LIMITS[ConfigType.INT]
    counts: dict[str, int] = {}
    listed = text.strip().rstrip(",")  # as Java's split, which drops what is empty at the end
    for part in listed.split(",") if listed else []:
        host, _, count = part.strip().rpartition(":")
        if not host.strip() or "\0" in host or not lowest <= int(count) <= highest:
            raise ValueError(f"{part} is not HOST:COUNT")
        counts[host] = int(count)
    return counts
