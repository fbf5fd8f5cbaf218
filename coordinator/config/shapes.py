"""Shapes that texts of properties have to have, beside bounds on numbers."""

import re
from typing import Final

from coordinator.config.config_key import ConfigValue, Shaped
from coordinator.config.connection_counts import parse_counts
from coordinator.names import CONSUMER_ASSIGNORS

_PROTOCOLS: Final = {"classic", "consumer", "share", "streams"}
_VISIBLE: Final = re.compile(r"[!-~]{1,1000}")  # what a header can carry


def _are_some(value: ConfigValue) -> bool:
    return isinstance(value, list) and bool(value) and all(value)


def _is_one_path(value: ConfigValue) -> bool:
    return isinstance(value, list) and len(value) == 1 and bool(value[0]) and "\0" not in value[0]


def _is_file(value: ConfigValue) -> bool:
    return isinstance(value, str) and "\0" not in value and not value.endswith("/")


def _are_counts(value: ConfigValue) -> bool:
    try:
        parse_counts(str(value))
    except ValueError:
        return False
    return True


def _is_token(value: ConfigValue) -> bool:
    return value == "" or (isinstance(value, str) and bool(_VISIBLE.fullmatch(value)))


def _are_assignors(value: ConfigValue) -> bool:
    assert isinstance(value, list)
    names = [CONSUMER_ASSIGNORS.get(name) for name in dict.fromkeys(value)]
    return bool(names) and None not in names and len(set(names)) == len(names)


def _are_protocols(value: ConfigValue) -> bool:
    assert isinstance(value, list)
    return "classic" in value and set(value) <= _PROTOCOLS


LISTENERS: Final = Shaped("a list of NAME://HOST:PORT", _are_some)
NAMES: Final = Shaped("a list of names", _are_some)
DIRECTORY: Final = Shaped("one directory", _is_one_path)
FILE: Final = Shaped("the path of a file", _is_file)
COUNTS: Final = Shaped("HOST:COUNT, …", _are_counts)
TOKEN: Final = Shaped("1 to 1000 visible characters of ASCII, without a blank", _is_token)
ASSIGNORS: Final = Shaped("a list of uniform and range, or of Kafka's classes of these", _are_assignors)
PROTOCOLS: Final = Shaped("a list of classic, and of consumer, share, streams", _are_protocols)
