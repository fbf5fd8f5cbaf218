"""Validators for properties that are text or lists.

The text of `max.connections.per.ip.overrides` follows KIP-402.
"""

import re
from typing import Final

from coordinator.config.cipher_suites import OPENSSL_NAMES
from coordinator.config.config_def import LIMITS, ConfigType, ConfigValue, CustomBounds, OneOf
from coordinator.core.shared_types import CONSUMER_ASSIGNORS


def parse_connection_counts(text: str) -> dict[str, int]:
    """Parse HOST:COUNT, … and return the counts by host; hosts are unchanged. Raises ValueError."""
    lowest, highest = LIMITS[ConfigType.INT]
    counts: dict[str, int] = {}
    listed = text.strip().rstrip(",")  # Java's split drops empty strings at the end
    for part in listed.split(",") if listed else []:
        host, _, count = part.strip().rpartition(":")
        if not host.strip() or "\0" in host or not lowest <= int(count) <= highest:
            raise ValueError(f"{part} is not HOST:COUNT")
        counts[host] = int(count)
    return counts


_REBALANCE_PROTOCOLS: Final = {"classic", "consumer", "share", "streams"}
_STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_FORMER_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_KEY_STORES: Final = ("JKS", "PKCS12")  # Java ignores their case; PEM is Kafka's own type
_MAPPING_RULE: Final = re.compile(r"DEFAULT\b|RULE:")
_PORT_RANGE: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_ENDPOINT: Final = re.compile(r"([0-9a-zA-Z._-]+|\[[0-9a-fA-F:.%]+\]):[0-9]{1,5}")
_KEY_PREFIX: Final = re.compile(r"(/[!-.0-~]+)+")
_VISIBLE_ASCII: Final = re.compile(r"[!-~]{1,1000}")  # the characters that an HTTP header can carry


def _is_nonempty_list(value: ConfigValue) -> bool:
    return isinstance(value, list) and bool(value) and all(value)


def _is_one_path(value: ConfigValue) -> bool:
    return isinstance(value, list) and len(value) == 1 and bool(value[0]) and "\0" not in value[0]


def _is_file(value: ConfigValue) -> bool:
    return isinstance(value, str) and "\0" not in value and not value.endswith("/")


def _are_connection_counts(value: ConfigValue) -> bool:
    try:
        parse_connection_counts(str(value))
    except ValueError:
        return False
    return True


def _is_token(value: ConfigValue) -> bool:
    return value == "" or (isinstance(value, str) and bool(_VISIBLE_ASCII.fullmatch(value)))


def _are_assignors(value: ConfigValue) -> bool:
    assert isinstance(value, list)
    names = [CONSUMER_ASSIGNORS.get(name) for name in dict.fromkeys(value)]
    return bool(names) and None not in names and len(set(names)) == len(names)


def _are_protocols(value: ConfigValue) -> bool:
    assert isinstance(value, list)
    return "classic" in value and set(value) <= _REBALANCE_PROTOCOLS


def _are_super_users(value: ConfigValue) -> bool:
    principals = [part.strip() for part in str(value).split(";")]
    return all(part.find(":") > 0 for part in principals if part)


def _is_printable(value: ConfigValue) -> bool:
    return str(value).isprintable()


def _is_nonempty_text(value: ConfigValue) -> bool:
    return bool(value) and _is_printable(value)


def _has_no_empty_names(value: ConfigValue) -> bool:
    return isinstance(value, list) and all(value)


def _is_store_type(value: ConfigValue) -> bool:
    return value == "PEM" or str(value).upper() in _KEY_STORES


def _is_pem(value: ConfigValue) -> bool:
    return value == "" or "-BEGIN " in str(value)


def _is_jaas(value: ConfigValue) -> bool:
    return value == "" or ";" in str(value)


def _are_mapping_rules(value: ConfigValue) -> bool:
    return value == "" or _MAPPING_RULE.match(str(value)) is not None


def _are_cipher_suites(value: ConfigValue) -> bool:
    assert isinstance(value, list)
    return all(name in OPENSSL_NAMES for name in value)


def _is_url(value: ConfigValue) -> bool:
    from urllib.parse import urlsplit  # only configurations with a URL need it

    if value == "":
        return True
    try:
        parts = urlsplit(str(value))
    except ValueError:
        return False
    if parts.scheme == "file":
        return bool(parts.path)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def parse_port_range(text: str) -> range | None:
    """Parse FIRST-LAST. Return an empty range for an empty text, and None for an invalid one."""
    if not text:
        return range(0)
    found = _PORT_RANGE.fullmatch(text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return range(first, last + 1) if 0 < first <= last < 1 << 16 else None


def _are_endpoints(value: ConfigValue) -> bool:
    return isinstance(value, list) and all(_ENDPOINT.fullmatch(each) for each in value)


def _is_key_prefix(value: ConfigValue) -> bool:
    return _KEY_PREFIX.fullmatch(str(value)) is not None


def _is_port_range(value: ConfigValue) -> bool:
    return parse_port_range(str(value)) is not None


ENDPOINTS: Final = CustomBounds("a list of HOST:PORT, or empty", _are_endpoints)
KEY_PREFIX: Final = CustomBounds("/NAME, or several such parts", _is_key_prefix)
LISTENERS: Final = CustomBounds("a list of NAME://HOST:PORT", _is_nonempty_list)
NAME_LIST: Final = CustomBounds("a list of names", _is_nonempty_list)
DIRECTORY: Final = CustomBounds("one directory", _is_one_path)
FILE: Final = CustomBounds("the path of a file", _is_file)
CONNECTION_COUNTS: Final = CustomBounds("HOST:COUNT, …", _are_connection_counts)
TOKEN: Final = CustomBounds("1 to 1000 visible ASCII characters without spaces", _is_token)
ASSIGNORS: Final = CustomBounds("a list of uniform and range, or of Kafka's classes of these", _are_assignors)
PROTOCOLS: Final = CustomBounds("a list of classic, and of consumer, share, streams", _are_protocols)
AUTHORIZER: Final = OneOf(("", _STANDARD_AUTHORIZER, *_FORMER_AUTHORIZERS))
SUPER_USERS: Final = CustomBounds("a list of TYPE:NAME with semicolons between them", _are_super_users)
PRINTABLE: Final = CustomBounds("printable text", _is_printable)
NONEMPTY_TEXT: Final = CustomBounds("printable text of at least one character", _is_nonempty_text)
NAMES_OR_NOTHING: Final = CustomBounds("a list of names, or empty", _has_no_empty_names)
STORE_TYPE: Final = CustomBounds("JKS, PKCS12 or PEM", _is_store_type)
PEM: Final = CustomBounds("PEM text with its BEGIN line", _is_pem)
JAAS: Final = CustomBounds('a login module: CLASS required NAME="VALUE" …;', _is_jaas)
MAPPING_RULES: Final = CustomBounds("DEFAULT, RULE:PATTERN/REPLACEMENT/[LU], …", _are_mapping_rules)
CIPHER_SUITES: Final = CustomBounds("a list of cipher suites by their TLS names", _are_cipher_suites)
PORT_RANGE: Final = CustomBounds("FIRST-LAST, two ports", _is_port_range)
URL: Final = CustomBounds("the URL of a file, or of a host by https or http", _is_url)
