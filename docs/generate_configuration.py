"""Generate docs/configuration.md, the properties with an effect in groupd, from their declarations.

python -m docs.generate_configuration
"""

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Final

from coordinator.config.config_def import ConfigKey, NumberRange, OneOf
from coordinator.config.image_variables import DATA_VOLUMES
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.config.setting_sources import PROFILES
from coordinator.config.unsupported_settings import (
    UNSUPPORTED_IMAGE_VARIABLES,
    UNSUPPORTED_PROPERTIES,
    UNSUPPORTED_VARIABLES,
)
from docs.image_variable_meanings import IMAGE_VARIABLES
from tests.config.explained import EXPLAINED, OWN
from tests.kafka_log.artifacts import NEWEST

PAGE: Final = Path(__file__).with_name("configuration.md")
_INTRODUCTION: Final = """# Configuration

This page lists every property that has an effect in groupd. It is generated from
`coordinator/config/*_properties.py` and `coordinator/config/topic_config_keys.py` by
`python -m docs.generate_configuration`; a test fails if it is stale.

Names, types, defaults and bounds are those of Apache Kafka {kafka}, with
[exceptions](#where-it-differs-from-kafka). If a property is set several times, the last of these takes
precedence:

1. the default; an image may set its own, with a variable such as `GROUPD_DEFAULT_GROUP_MAX_SIZE`
2. `--profile test`
3. the properties file of `--config FILE`
4. the environment, in the form of Kafka's official image: `group.max.size` is `KAFKA_GROUP_MAX_SIZE`; write `_`
   for `.`, `__` for `_`, and `___` for `-`. The form of Bitnami's image, `KAFKA_CFG_GROUP_MAX_SIZE`, is
   accepted too, with lower precedence
5. `-o name=value`
6. the flags `--listen`, `--advertise`, `--http`, `--data-dir`

groupd refuses to start with an invalid value, with values that contradict each other, and with an unknown name
in a file or a flag. It exits with code 2 and one line that has the source, the value and the accepted form.

Kafka and its images know names that have no effect in groupd; groupd logs them in one line for each source. A
name of a function that groupd lacks is [a warning](#what-groupd-lacks). An unknown variable `KAFKA_…` is
a warning with the most similar property.

If the environment has `advertised.listeners` but no source has `listeners`, groupd opens their names and ports on
every address, as Kafka's images do: with `KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:29092` it listens on
`0.0.0.0:29092`. `advertised.listeners` in a file or a flag does not open ports.

## Properties of one listener

A value for one listener takes precedence over the general one. Its name begins with the name of the listener in
lower case: `listener.name.internal.ssl.keystore.location`. An unknown listener is an error at the start.

| properties | prefix |
|---|---|
| `ssl.…`, `sasl.enabled.mechanisms`, `sasl.server.max.receive.size` | none, or a listener |
| `connections.max.reauth.ms`, `sasl.oauthbearer.…` | none, a listener, or a listener and a mechanism |
| `sasl.jaas.config`, `sasl.server.callback.handler.class` | a listener and a mechanism |

An example of the last row is `listener.name.internal.plain.sasl.jaas.config`. As an environment variable it is
`KAFKA_LISTENER_NAME_INTERNAL_PLAIN_SASL_JAAS_CONFIG`; write the mechanism SCRAM-SHA-256 as `SCRAM___SHA___256`.

- PLAIN: a JAAS configuration contains the users. Without this property groupd reads the file that `KAFKA_OPTS`
  names (`-Djava.security.auth.login.config=FILE`), in its section `internal.KafkaServer` or else `KafkaServer`.
- SCRAM needs no JAAS configuration.
- OAUTHBEARER needs none either. By default groupd accepts unsigned tokens, for tests. Set
  `listener.name.internal.oauthbearer.sasl.server.callback.handler.class` to Kafka's
  `OAuthBearerValidatorCallbackHandler` for signed tokens; `sasl.oauthbearer.jwks.endpoint.url` then has the keys.

groupd never shows passwords and JAAS configurations: not in the log, not in DescribeConfigs, not in errors.

"""


_IMAGES: Final = """## Variables of other images

groupd also reads these variables of other images; properties take precedence. It reads those marked *image*
only with `GROUPD_IMAGE=true`, which groupd's image sets, because elsewhere another program may use the same
name.

| variable | image | meaning |
|---|---|---|
{variables}
A listener CONTROLLER in the environment, without a protocol in `listener.security.protocol.map`, is a controller
listener, which groupd does not open. `controller.listener.names` replaces this rule.

### Volumes of other images

groupd's image stores its data in the first mounted volume of this table, unless `log.dirs` is set. A log line
names the directory. If groupd cannot write to the volume, it logs a warning and uses the default directory.

| volume | data directory |
|---|---|
{volumes}
### What groupd lacks

Each of these names causes a warning at the start, with an alternative. Values that disable the function cause
none.

{unsupported}

"""


def page() -> str:
    """Return the text of the page."""
    profiles = "".join(
        f"| `{name}` | {', '.join(f'`{property_}={value}`' for property_, value in values.items())} |\n"
        for name, values in PROFILES.items()
    )
    return (
        _INTRODUCTION.format(kafka=NEWEST)
        + _table("The broker", PROPERTIES.values())
        + _table("Defaults of topics", TOPIC_PROPERTIES.values())
        + f"## Profiles\n\n| profile | sets exactly |\n|---|---|\n{profiles}\n"
        + _images()
        + _differences()
    )


def _images() -> str:
    variables = ""
    for row in IMAGE_VARIABLES:
        names, mark = ", ".join(f"`{name}`" for name in row.names), " (*image*)" if row.in_image_only else ""
        variables += f"| {names} | {row.images}{mark} | {_cell(row.meaning)} |\n"
    volumes = "".join(
        f"| `{path}` | `{directory.format(node='<node.id>')}` |\n" for path, directory in DATA_VOLUMES.items()
    )
    unsupported = sorted((*UNSUPPORTED_PROPERTIES, *UNSUPPORTED_VARIABLES))
    in_image = [f"`{name}` (*image*)" for name in sorted(UNSUPPORTED_IMAGE_VARIABLES)]
    names = ", ".join((*(f"`{name}`" for name in unsupported), *in_image))
    return _IMAGES.format(
        variables=variables, volumes=volumes, unsupported=fill(names, 125, break_on_hyphens=False)
    )


def _table(title: str, keys: Iterable[ConfigKey]) -> str:
    rows = "".join(
        f"| `{key.name}` | {f'`{key.default}`' if key.default else ''} | {_values(key)} "
        f"| {_cell(key.documentation)} |\n"
        for key in keys
    )
    return f"## {title}\n\n| property | default | values | meaning |\n|---|---|---|---|\n{rows}\n"


def _differences() -> str:
    own = "".join(f"| `{name}` | does not exist | a property | groupd's own. |\n" for name in OWN)
    rows = "".join(
        f"| {', '.join(f'`{name}`' for name in known.names)} | {known.kafka} | {known.here} | {known.why} |\n"
        for known in EXPLAINED
    )
    return (
        "## Where it differs from Kafka\n\n"
        "The type, default and bounds of every property are recorded from Kafka's own classes. A test compares "
        "them, and values at, inside and outside the bounds, and finds only these differences.\n\n"
        f"| property | Kafka {NEWEST} | groupd | reason |\n|---|---|---|---|\n{rows}{own}"
    )


def _values(key: ConfigKey) -> str:
    """Return type and bounds, in a shorter form than in errors."""
    bounds = key.bounds
    if isinstance(bounds, OneOf):
        return f"{key.kind.name}: {', '.join(f'`{word}`' for word in bounds.words if word)}"
    if not isinstance(bounds, NumberRange):
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
