"""Writes docs/configuration.md, the properties that act here, from their declarations.

python -m docs.generate_configuration
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.config.sources import PROFILES
from coordinator.topics.config_key import ConfigKey

PAGE: Final = Path(__file__).with_name("configuration.md")
_INTRODUCTION: Final = """# Configuration

Generated from `coordinator/config/properties.py` and `coordinator/topics/config_keys.py` by
`python -m docs.generate_configuration`; a test fails when it is stale.

Names, defaults and bounds are Kafka's unless the text says otherwise. Where the same property is set twice,
the later of these wins:

1. the default
2. `--profile test`
3. the properties file of `--config FILE`
4. the environment, in the form of Kafka's official image: `group.max.size` is `KAFKA_GROUP_MAX_SIZE`; `.`
   becomes `_`, `_` becomes `__`, `-` becomes `___`
5. `-o name=value`
6. the named flags (`--listen`, `--advertise`, `--http`, `--data-dir`)

A bad value stops the start with exit code 2 and one line that names it; so does an unknown name in a file or
a flag. A property of Kafka's that means nothing here, and an unknown `KAFKA_…` variable, is one warning each.

"""


def page() -> str:
    """The page as it should be."""
    profiles = "".join(
        f"| `{name}` | {', '.join(f'`{property_}={value}`' for property_, value in values.items())} |\n"
        for name, values in PROFILES.items()
    )
    return (
        _INTRODUCTION
        + _table("The broker", PROPERTIES.values())
        + _table("Defaults of topics", TOPIC_PROPERTIES.values())
        + f"## Profiles\n\n| profile | sets exactly |\n|---|---|\n{profiles}"
    )


def _table(title: str, keys: Iterable[ConfigKey]) -> str:
    rows = "".join(
        f"| `{key.name}` | {f'`{key.default}`' if key.default else ''} | {_cell(key.documentation)} |\n"
        for key in keys
    )
    return f"## {title}\n\n| property | default | meaning |\n|---|---|---|\n{rows}\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(page())
