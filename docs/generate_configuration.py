"""Writes docs/configuration.md, the properties that act here, from their declarations.

python -m docs.generate_configuration
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from coordinator.config.config_key import ConfigKey, OneOf, Within
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.config.sources import PROFILES
from tests.config.explained import EXPLAINED, OWN
from tests.kafka_log.artifacts import NEWEST

PAGE: Final = Path(__file__).with_name("configuration.md")
_INTRODUCTION: Final = """# Configuration

Generated from `coordinator/config/properties.py` and `coordinator/config/topic_config_keys.py` by
`python -m docs.generate_configuration`; a test fails when it is stale.

Names, types, defaults and bounds are those of Apache Kafka {kafka}, but for
[some](#where-it-differs-from-kafka). Where the same property is set twice, the later of these wins:

1. the default; an image may have its own, as a variable like `GROUPD_DEFAULT_GROUP_MAX_SIZE`
2. `--profile test`
3. the properties file of `--config FILE`
4. the environment, in the form of Kafka's official image: `group.max.size` is `KAFKA_GROUP_MAX_SIZE`; `.`
   becomes `_`, `_` becomes `__`, `-` becomes `___`. The form of Bitnami's image, `KAFKA_CFG_GROUP_MAX_SIZE`, means
   the same; where both are there, the former wins
5. `-o name=value`
6. the named flags (`--listen`, `--advertise`, `--http`, `--data-dir`)

A bad value stops the start with exit code 2 and one line that names where it came from, the value and what is
allowed; so do values that contradict each other, and an unknown name in a file or a flag.

What Kafka or its images know and groupd has no use for is ignored: one warning for each source names all of it.
Variables `KAFKA_…` that nobody knows are one line more, with what they may be meant for.

Where the environment has `advertised.listeners` and nothing says `listeners`, their names and ports are opened on
every address, as Kafka's images do: with `KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:29092` groupd listens on
`0.0.0.0:29092`. From a file or a flag, `advertised.listeners` opens nothing.

"""


def page() -> str:
    """The page as it should be."""
    profiles = "".join(
        f"| `{name}` | {', '.join(f'`{property_}={value}`' for property_, value in values.items())} |\n"
        for name, values in PROFILES.items()
    )
    return (
        _INTRODUCTION.format(kafka=NEWEST)
        + _table("The broker", PROPERTIES.values())
        + _table("Defaults of topics", TOPIC_PROPERTIES.values())
        + f"## Profiles\n\n| profile | sets exactly |\n|---|---|\n{profiles}\n"
        + _differences()
    )


def _table(title: str, keys: Iterable[ConfigKey]) -> str:
    rows = "".join(
        f"| `{key.name}` | {f'`{key.default}`' if key.default else ''} | {_values(key)} "
        f"| {_cell(key.documentation)} |\n"
        for key in keys
    )
    return f"## {title}\n\n| property | default | values | meaning |\n|---|---|---|---|\n{rows}\n"


def _differences() -> str:
    own = "".join(f"| `{name}` | not there | a property | groupd's own. |\n" for name in OWN)
    rows = "".join(
        f"| {', '.join(f'`{name}`' for name in known.names)} | {known.kafka} | {known.here} | {known.why} |\n"
        for known in EXPLAINED
    )
    return (
        "## Where it differs from Kafka\n\n"
        "What Kafka's own classes say of every property is recorded: its type, its default, and which values at, "
        "inside and outside its bounds they take. A test finds no other difference than these.\n\n"
        f"| property | Kafka {NEWEST} | here | why |\n|---|---|---|---|\n{rows}{own}"
    )


def _values(key: ConfigKey) -> str:
    """Type and bounds, shorter than an error says them."""
    bounds = key.bounds
    if isinstance(bounds, OneOf):
        return f"{key.kind.name}: {', '.join(f'`{word}`' for word in bounds.words if word)}"
    if not isinstance(bounds, Within):
        return key.kind.name
    if bounds.maximum is None:
        words = f"{key.kind.name} from {bounds.minimum}"
    else:
        words = f"{key.kind.name} from {bounds.minimum} to {bounds.maximum}"
    words += " or below 0" if bounds.takes_negative else ""
    return words + "".join(f" or {other}" for other in bounds.others)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(page())
