"""Kafka's configs of share groups and streams groups, which groupd does not support.

groupd checks, stores and describes them for tools that set them on any group; they have no effect. It ignores the
broker properties of such groups, so defaults and bounds are those of a Kafka broker without these properties.
Source: Kafka's `GroupConfig`.
"""

import re
from collections.abc import Mapping
from typing import Final

from coordinator.config.config_def import (
    ANY_VALUE,
    EMPTY_WORD_ERROR,
    LIMITS,
    ConfigKey,
    ConfigType,
    ConfigValue,
    CustomBounds,
    InvalidConfig,
    ValueBounds,
    at_least,
    one_of,
)
from coordinator.config.topic_config_keys import NO_EFFECT

RACK_TAGS: Final = "streams.rack.aware.assignment.tags"
_ASSIGNOR: Final = "streams.assignor.name"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_ASSIGNORS: Final = ("sticky",)
_BY_DURATION: Final = "by_duration:"
_COUNT: Final = r"([-+]?\d{1,40})"
_DURATION: Final = re.compile(
    rf"([-+]?)P(?:{_COUNT}D)?(?:T(?=[-+\d])(?:{_COUNT}H)?(?:{_COUNT}M)?(?:{_COUNT}(?:[.,](\d{{0,9}}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""The durations that Java's `Duration.parse` accepts. `_SECONDS` has the seconds of each of its units."""
_SECONDS: Final = (86_400, 3600, 60, 1)


def _is_offset_reset(value: ConfigValue) -> bool:
    text = str(value)
    if not text.startswith(_BY_DURATION):
        return text in ("latest", "earliest")
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION))
    if found is None:
        return False
    sign, *parts, fraction = found.groups()
    if not any(parts):
        return False
    counts = [int(part or "0") for part in parts]
    seconds = sum(count * each for count, each in zip(counts, _SECONDS, strict=True))
    nanoseconds = int((fraction or "").ljust(9, "0"))
    total = seconds * 10**9 + (-nanoseconds if (parts[-1] or "").startswith("-") else nanoseconds)
    most = LIMITS[ConfigType.LONG][1]
    return total * (-1 if sign == "-" else 1) >= 0 and max(map(abs, (*counts, seconds))) <= most


_OFFSET_RESET: Final = CustomBounds(
    "earliest, latest or by_duration:PnDTnHnMn.nS",
    _is_offset_reset,
    "Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. "
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)
_NONEMPTY_WORDS: Final = CustomBounds(
    "a list of words", lambda value: not isinstance(value, list) or all(value), EMPTY_WORD_ERROR
)

_DEFINITIONS: Final = """
consumer.assignor.offload.enable BOOLEAN true - internal
    Whether the target assignment of a consumer group is computed outside of its requests.
share.session.timeout.ms INT 45000 >=1
    The session timeout of members of a share group.
share.heartbeat.interval.ms INT 5000 >=1
    The heartbeat interval of members of a share group.
share.record.lock.duration.ms INT 30000 >=1000
    The time that a member of a share group locks a record.
share.delivery.count.limit INT 5 >=2
    The maximum number of deliveries of a record to a share group.
share.partition.max.record.locks INT 2000 >=100
    The maximum number of locked records of a partition in a share group.
share.auto.offset.reset STRING latest offset_reset
    Where a share group begins to read a partition: earliest, latest, or by_duration: and an age.
share.isolation.level STRING read_uncommitted read_committed,read_uncommitted
    Whether a share group reads only committed records of transactions.
share.renew.acknowledge.enable BOOLEAN true -
    Whether members of a share group may extend the lock of a record.
share.assignment.interval.ms INT 1000 >=0
    The minimum time between two target assignments of a share group.
share.assignor.offload.enable BOOLEAN true - internal
    Whether the target assignment of a share group is computed outside of its requests.
streams.session.timeout.ms INT 45000 >=1
    The session timeout of members of a streams group.
streams.heartbeat.interval.ms INT 5000 >=1
    The heartbeat interval of members of a streams group.
streams.num.standby.replicas INT 0 >=0
    The number of standby replicas of each task of a streams group.
streams.initial.rebalance.delay.ms INT 3000 >=0
    The time that the first target assignment of a streams group waits for more members.
streams.assignment.interval.ms INT 1000 >=0
    The minimum time between two target assignments of a streams group.
streams.assignor.offload.enable BOOLEAN true - internal
    Whether the target assignment of a streams group is computed outside of its requests.
streams.task.offset.interval.ms INT 60000 >=1 internal
    The interval at which members of a streams group report the offsets of their tasks.
streams.num.warmup.replicas INT 2 >=0 internal
    The number of warm-up replicas of a streams group.
streams.rack.aware.assignment.tags LIST "" words
    The client tags across which the standby replicas of a streams group are distributed.
streams.acceptable.recovery.lag LONG 10000 >=0 internal
    The maximum lag of a task of a streams group that counts as caught up.
streams.assignor.name STRING sticky -
    The assignor of the tasks of a streams group.
errors.deadletterqueue.topic.name STRING "" -
    The dead-letter topic of a share group.
errors.deadletterqueue.copy.record.enable BOOLEAN false -
    Whether the dead-letter topic gets whole records.
"""
"""Each config in the order in which Kafka defines them: a line with name, type, default and bounds, then its
documentation."""
_INTERNAL: Final = "internal"
"""Marks a config that Kafka describes only for groups that have one."""
_BOUNDS: Final[Mapping[str, ValueBounds]] = {
    "-": ANY_VALUE,
    "offset_reset": _OFFSET_RESET,
    "words": _NONEMPTY_WORDS,
    "read_committed,read_uncommitted": one_of("read_committed", "read_uncommitted"),
}


def _parse_definition(heading: str, documentation: str) -> ConfigKey:
    name, kind, default, bounds, *_ = heading.split()
    return ConfigKey(
        name,
        ConfigType[kind],
        default.strip('"'),
        documentation.strip() + NO_EFFECT,
        at_least(int(bounds.removeprefix(">="))) if bounds.startswith(">=") else _BOUNDS[bounds],
    )


_LINES: Final = _DEFINITIONS.strip().splitlines()
UNSUPPORTED_GROUP_CONFIG_KEYS: Final = tuple(map(_parse_definition, _LINES[::2], _LINES[1::2]))
SHOWN_WHEN_SET: Final = frozenset(line.split()[0] for line in _LINES[::2] if line.endswith(_INTERNAL))

UNSUPPORTED_SYNONYMS: Final[Mapping[str, str]] = {
    _ASSIGNOR: "group.streams.assignors",
    **{
        name: name
        for name in (
            "share.auto.offset.reset",
            "share.isolation.level",
            "share.renew.acknowledge.enable",
            _DEAD_LETTERS,
            "errors.deadletterqueue.copy.record.enable",
        )
    },
}
"""The broker synonyms of configs without a broker property of the form `group.<name>`."""

_RANGES: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "share.heartbeat.interval.ms": (5000, 15_000),
    "share.session.timeout.ms": (45_000, 60_000),
    "share.record.lock.duration.ms": (15_000, 60_000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4000),
    "share.assignment.interval.ms": (0, 15_000),
    "streams.heartbeat.interval.ms": (5000, 15_000),
    "streams.session.timeout.ms": (45_000, 60_000),
    "streams.num.standby.replicas": (None, 2),
    "streams.assignment.interval.ms": (0, 15_000),
    "streams.task.offset.interval.ms": (15_000, None),
    "streams.num.warmup.replicas": (None, 20),
}
"""The minimum and the maximum on a Kafka broker with default properties, in the order in which Kafka checks them.
"""


def check_unsupported_configs(values: Mapping[str, ConfigValue]) -> None:
    """Check parsed values, by name, against the bounds of a Kafka broker. Raises InvalidConfig with Kafka's
    message.
    """
    for name, (least, most) in _RANGES.items():
        value = values.get(name)
        if value is None:
            continue
        assert isinstance(value, int), name
        if (least is None or value >= least) and (most is None or value <= most):
            continue
        if least is None:
            allowed = f"less than or equal to {most}"
        elif most is None:
            allowed = f"greater than or equal to {least}"
        else:
            allowed = f"in the range {least} to {most} inclusive."
        raise InvalidConfig(f"{name} must be {allowed}", name)
    assignor = values.get(_ASSIGNOR, _ASSIGNORS[0])
    if assignor not in _ASSIGNORS:
        known = ", ".join(_ASSIGNORS)
        raise InvalidConfig(
            f"{_ASSIGNOR} '{assignor}' is not a registered task assignor. Registered assignors are: [{known}].",
            _ASSIGNOR,
        )
    if str(values.get(_DEAD_LETTERS, "")).startswith("__"):
        raise InvalidConfig(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'", _DEAD_LETTERS)
