"""How a property is declared: as a field of a class."""

from dataclasses import field
from typing import Any

from coordinator.config.config_key import Bounds, ConfigType, anything


def declared(kind: ConfigType, default: Any, documentation: str, bounds: Bounds = anything) -> Any:
    """A field that is a property; its default is what the text of the default means."""
    if isinstance(default, bool):
        text = str(default).lower()
    elif isinstance(default, tuple):
        text = ",".join(default)
    else:
        text = str(default)
    return field(
        default=default,
        repr=kind is not ConfigType.PASSWORD,
        metadata={"declared": (kind, text, documentation, bounds)},
    )


def declared_names(*classes: type[Any]) -> frozenset[str]:
    """Return the names of the properties that these classes declare themselves, without those of their bases."""
    return frozenset(name.replace("_", ".") for each in classes for name in each.__annotations__)
