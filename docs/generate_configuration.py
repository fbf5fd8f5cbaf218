"""Writes docs/configuration.md, the properties that act here, from their declarations.

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

Generated from `coordinator/config/*_properties.py` and `coordinator/config/topic_config_keys.py` by
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

Names that Kafka or its images know and that have no effect in groupd are one line of the log for each source. A
name that asks for a function which groupd lacks is [a warning](#what-groupd-lacks) of its own, and so is a variable
`KAFKA_…` that is not a property, with the property that it may be meant for.

Where the environment has `advertised.listeners` and nothing says `listeners`, their names and ports are opened on
every address, as Kafka's images do: with `KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:29092` groupd listens on
`0.0.0.0:29092`. From a file or a flag, `advertised.listeners` opens nothing.

## One listener's own

A value for one listener wins over the plain one: `listener.name.internal.ssl.keystore.location`, the name in
lower case. So with `ssl.…`, `sasl.enabled.mechanisms`, `sasl.server.max.receive.size`,
`connections.max.reauth.ms` and `sasl.oauthbearer.…`, of which the last two may be a mechanism's as well;
`sasl.jaas.config` and `sasl.server.callback.handler.class` have to be:
`listener.name.internal.plain.sasl.jaas.config`. In the environment that is
`KAFKA_LISTENER_NAME_INTERNAL_PLAIN_SASL_JAAS_CONFIG`, and a mechanism `SCRAM___SHA___256`. The name of a
listener that is not there stops the start.

PLAIN has its users in a JAAS configuration. Where that is no property, it is the file that `KAFKA_OPTS` names
(`-Djava.security.auth.login.config=FILE`), its section `internal.KafkaServer` or else `KafkaServer`. SCRAM and
OAUTHBEARER need none. Tokens of OAUTHBEARER are taken without a signature, for tests, unless
`listener.name.internal.oauthbearer.sasl.server.callback.handler.class` is Kafka's
`OAuthBearerValidatorCallbackHandler`; then `sasl.oauthbearer.jwks.endpoint.url` has the keys.

Passwords and JAAS configurations are shown nowhere: not in the log, not by DescribeConfigs, not in errors.

"""


_IMAGES: Final = """## Variables of other images

groupd reads these variables beside the properties. A property that is set as such wins. Those marked *image* count
where `GROUPD_IMAGE=true`, which groupd's image sets: elsewhere another program may use such a name.

| variable | of | meaning |
|---|---|---|
{variables}
In the environment, a listener CONTROLLER without a protocol in `listener.security.protocol.map` is that of a
controller and stays closed, unless `controller.listener.names` is set.

### Volumes of other images

In groupd's image, the data is in the first of these volumes that is mounted, unless `log.dirs` is set. A line of
the log names the directory. A volume that groupd cannot write to is a warning, and the data is in the default
directory.

| volume | data directory |
|---|---|
{volumes}
### What groupd lacks

Each of these is a warning at the start, which says what to do instead. Values that leave the function off are
harmless.

{unsupported}

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
        variables=variables, volumes=volumes, unsupported=fill(names, 118, break_on_hyphens=False)
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
