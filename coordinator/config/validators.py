"""Shapes that texts of properties have to have, beside bounds on numbers."""

import re
from typing import Final

from coordinator.config.cipher_suites import OPENSSL_NAMES
from coordinator.config.config_key import ConfigValue, OneOf, Shaped
from coordinator.config.connection_counts import parse_counts
from coordinator.names import CONSUMER_ASSIGNORS

_PROTOCOLS: Final = {"classic", "consumer", "share", "streams"}
_STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_FORMER_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_KEY_STORES: Final = ("JKS", "PKCS12")  # in any case for Java, where PEM is Kafka's own
_MAPPING_RULE: Final = re.compile(r"DEFAULT\b|RULE:")
_PORTS: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_ENDPOINT: Final = re.compile(r"([0-9a-zA-Z._-]+|\[[0-9a-fA-F:.%]+\]):[0-9]{1,5}")
_KEY_PREFIX: Final = re.compile(r"(/[!-.0-~]+)+")
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


def _are_super_users(value: ConfigValue) -> bool:
    principals = [part.strip() for part in str(value).split(";")]
    return all(part.find(":") > 0 for part in principals if part)


def _is_printable(value: ConfigValue) -> bool:
    return str(value).isprintable()


def _is_word(value: ConfigValue) -> bool:
    return bool(value) and _is_printable(value)


def _has_no_blanks(value: ConfigValue) -> bool:
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
    from urllib.parse import urlsplit  # for whoever sets one

    if value == "":
        return True
    try:
        parts = urlsplit(str(value))
    except ValueError:
        return False
    if parts.scheme == "file":
        return bool(parts.path)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def ports_of(text: str) -> range | None:
    """What FIRST-LAST stands for; empty for nothing, None for what is not that."""
    if not text:
        return range(0)
    found = _PORTS.fullmatch(text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return range(first, last + 1) if 0 < first <= last < 1 << 16 else None


def _are_endpoints(value: ConfigValue) -> bool:
    return isinstance(value, list) and all(_ENDPOINT.fullmatch(each) for each in value)


def _is_key_prefix(value: ConfigValue) -> bool:
    return _KEY_PREFIX.fullmatch(str(value)) is not None


def _are_ports(value: ConfigValue) -> bool:
    return ports_of(str(value)) is not None


ENDPOINTS: Final = Shaped("a list of HOST:PORT, or nothing", _are_endpoints)
KEY_PREFIX: Final = Shaped("/NAME, or several of them", _is_key_prefix)
LISTENERS: Final = Shaped("a list of NAME://HOST:PORT", _are_some)
NAMES: Final = Shaped("a list of names", _are_some)
DIRECTORY: Final = Shaped("one directory", _is_one_path)
FILE: Final = Shaped("the path of a file", _is_file)
COUNTS: Final = Shaped("HOST:COUNT, …", _are_counts)
TOKEN: Final = Shaped("1 to 1000 visible characters of ASCII, without a blank", _is_token)
ASSIGNORS: Final = Shaped("a list of uniform and range, or of Kafka's classes of these", _are_assignors)
PROTOCOLS: Final = Shaped("a list of classic, and of consumer, share, streams", _are_protocols)
AUTHORIZER: Final = OneOf(("", _STANDARD_AUTHORIZER, *_FORMER_AUTHORIZERS))
SUPER_USERS: Final = Shaped("a list of TYPE:NAME with semicolons between them", _are_super_users)
PRINTABLE: Final = Shaped("printable text", _is_printable)
WORD: Final = Shaped("printable text, and some", _is_word)
NO_BLANK_NAMES: Final = Shaped("a list of names, or nothing", _has_no_blanks)
STORE_TYPE: Final = Shaped("JKS, PKCS12 or PEM", _is_store_type)
PEM: Final = Shaped("PEM, with its line BEGIN", _is_pem)
JAAS: Final = Shaped('a login module: CLASS required NAME="VALUE" …;', _is_jaas)
MAPPING_RULES: Final = Shaped("DEFAULT, RULE:PATTERN/REPLACEMENT/[LU], …", _are_mapping_rules)
CIPHER_SUITES: Final = Shaped("a list of cipher suites by their names in TLS", _are_cipher_suites)
PORTS: Final = Shaped("FIRST-LAST, two ports", _are_ports)
URL: Final = Shaped("the URL of a file, or of a host by https or http", _is_url)
