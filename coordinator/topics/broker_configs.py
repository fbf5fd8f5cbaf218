"""The broker's own properties, as the server hands them over to be described."""

from dataclasses import dataclass

from coordinator.config.config_key import ConfigSource, ConfigType


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker property. `value` None hides a sensitive one; `default` None means it has none."""

    name: str
    value: str | None
    default: str | None
    kind: ConfigType
    documentation: str = ""
    is_sensitive: bool = False

    def synonyms(self, *, is_set: bool) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """Where the value comes from, best first: what was set at the start, then the default."""
        found: list[tuple[str, str | None, ConfigSource]] = []
        if is_set:
            found.append((self.name, self.value, ConfigSource.STATIC_BROKER_CONFIG))
        if self.default is not None:
            found.append((self.name, self.default, ConfigSource.DEFAULT_CONFIG))
        return tuple(found)
