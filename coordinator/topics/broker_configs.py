"""The broker's own properties, as the server hands them over to be described."""

from dataclasses import dataclass

from coordinator.config.config_key import ConfigKey, ConfigSource, ConfigType


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker property; `text` is what was set explicitly, None where nothing was."""

    key: ConfigKey
    text: str | None

    @property
    def default(self) -> str | None:
        """None means it has none; the empty text is one for words and lists alone."""
        may_be_empty = self.key.kind in (ConfigType.STRING, ConfigType.LIST)
        return self.key.default if self.key.default or may_be_empty else None

    @property
    def is_sensitive(self) -> bool:
        """Whether nobody may be told its value."""
        return self.key.kind is ConfigType.PASSWORD

    @property
    def value(self) -> str | None:
        """What it is, None where it is nothing or hidden."""
        if self.is_sensitive:
            return None
        return self.default if self.text is None else self.text

    def synonyms(self) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """Where the value comes from, best first: what was set at the start, then the default."""
        found: list[tuple[str, str | None, ConfigSource]] = []
        if self.text is not None:
            found.append((self.key.name, self.value, ConfigSource.STATIC_BROKER_CONFIG))
        if self.default is not None:
            found.append((self.key.name, self.default, ConfigSource.DEFAULT_CONFIG))
        return tuple(found)
