"""Test values of each property: at, inside and outside its bounds, and of a wrong type.

They derive from the declarations. Only values of free-form text, whose bounds a program cannot enumerate, are
listed here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from coordinator.config.config_def import LIMITS, ConfigKey, ConfigType, InvalidConfig, NumberRange, OneOf
from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.config.setting_sources import read_settings
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults

KEYS: Final[Mapping[str, Mapping[str, ConfigKey]]] = {
    "broker": {**PROPERTIES, **TOPIC_PROPERTIES},
    "topic": {**TOPIC_CONFIG_KEYS, INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES},
}
"""Every declaration by owner and name."""

_LISTENERS: Final = (
    "",
    ",",
    "nonsense",
    "PLAINTEXT://127.0.0.1:0",
    "PLAINTEXT://127.0.0.1:65536",
    "PLAINTEXT://a b:1",
)
_REPLICAS: Final = (
    "",
    "*",
    "0:1",
    "0:1, 1:1",
    "0:1,0:1",
    "*,0:1",
    "0:1,1",
    "-1:1",
    "\u0663:1",
    "0 : 1",
    "x",
    "0:1,,1:1",
)
_PASSWORDS: Final = ("pass\u0007word", "", "pass word", "caf\u00e9")
_PEMS: Final = ("not PEM", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
_FILES: Final = ("secrets/", "", "server.pem", "ser\0ver.pem")
_STORE_TYPES: Final = ("", "JKS", "jks", "PKCS12", "pkcs12", "PEM", "BKS")
_CLAIMS: Final = ("", "scp", "s\u0007p")
_FREE_FORM: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.keystore.location": _FILES,
    "ssl.keystore.type": _STORE_TYPES,
    "ssl.keystore.password": _PASSWORDS,
    "ssl.key.password": _PASSWORDS,
    "ssl.keystore.key": _PEMS,
    "ssl.keystore.certificate.chain": _PEMS,
    "ssl.truststore.location": _FILES,
    "ssl.truststore.type": _STORE_TYPES,
    "ssl.truststore.password": _PASSWORDS,
    "ssl.truststore.certificates": _PEMS,
    "ssl.cipher.suites": (
        *("", ",", "TLS_AES_128_GCM_SHA256", "TLS_NONSENSE", "AES256-SHA"),
        "TLS_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    "ssl.principal.mapping.rules": ("", "DEFAULT", "RULE:^CN=(.*?),.*$/$1/L, DEFAULT", "CN=(.*)", "DEFAULTS"),
    "http.tls.certificate": ("secrets/", "", "server.pem"),
    "http.tls.key": ("secrets/", "", "key.pem"),
    "sasl.enabled.mechanisms": ("", ",", "PLAIN", "GSSAPI", "SCRAM-SHA-256, PLAIN", "PLAIN,,OAUTHBEARER"),
    "sasl.jaas.config": ("", "nonsense", 'PlainLoginModule required user_alice="secret";'),
    "sasl.oauthbearer.jwks.endpoint.url": (
        *(
            "",
            "nonsense",
            "file:///keys.json",
            "https://id.example/keys",
            "http://[::1",
            "ftp://id.example/keys",
        ),
        *("https://", "file:"),
    ),
    "sasl.oauthbearer.expected.audience": ("", ",", "groupd", "groupd,kafka"),
    "sasl.oauthbearer.expected.issuer": ("is\u0007suer", "", "https://id.example"),
    "sasl.oauthbearer.scope.claim.name": _CLAIMS,
    "sasl.oauthbearer.sub.claim.name": _CLAIMS,
    "super.users": ("", "alice", "User:alice", "User:alice; User:CN=bob,O=example;", ":alice"),
    "listeners": (*_LISTENERS, "PLAINTEXT://127.0.0.1:8,PLAINTEXT://127.0.0.1:9", "OTHER://127.0.0.1:0"),
    "advertised.listeners": (
        *_LISTENERS,
        "PLAINTEXT://localhost:9092",
        "PLAINTEXT://:9092",
        "PLAINTEXT://0.0.0.0:9092",
        "OTHER://a:1",
    ),
    "namespace.ports": ("", "9100-9131", "9100-9100", "9131-9100", "0-9100", "9100-70000", "9100", "9100-"),
    "ledger.file": ("", "ledger.jsonl", "/var/log/ledger.jsonl", "/var/log/", "led\0ger"),
    "listener.security.protocol.map": (
        "",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "OTHER:PLAINTEXT",
        "PLAINTEXT",
        "PLAINTEXT:TCP",
    ),
    "controller.listener.names": ("", ",", "CONTROLLER", "CONTROLLER,OTHER"),
    "cluster.etcd.endpoints": (
        "",
        ",",
        "etcd1:2379,etcd2:2379",
        "[::1]:2379",
        "etcd1",
        "a b:1",
        "http://a:1",
    ),
    "broker.rack": ("", "r1", "r1,r2", " r 1 ", "r\u0007x"),
    "cluster.etcd.prefix": ("", "/groupd", "/a/b", "groupd", "/a/", "/a b"),
    "cluster.etcd.username": _CLAIMS,
    "cluster.etcd.password": _PASSWORDS,
    "cluster.etcd.ca": _FILES,
    "cluster.etcd.cert": _FILES,
    "cluster.etcd.key": _FILES,
    "inter.broker.listener.name": ("", "PLAINTEXT", "s\u0007p"),
    "sasl.mechanism.inter.broker.protocol": ("", "PLAIN", "GSSAPI", "s\u0007p"),
    "ssl.endpoint.identification.algorithm": ("", "https", "HTTPS", "LDAPS", "s\u0007p"),
    "control.hosts": ("", ",", "groupd", "groupd,groupd.example"),
    "control.token": ("", "sec ret", "caf\u00e9", "s3cret-t0ken", "x" * 1001),
    "control.token.file": ("token/", "", "token", "to\0ken"),
    "group.consumer.assignors": (
        *("", ",", "uniform", "range", "range, uniform", "uniform,uniform", "Uniform", "simple", "uniform,"),
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor,uniform",
    ),
    "group.coordinator.rebalance.protocols": (
        *("", ",", "classic", "classic,consumer", "consumer, classic", "consumer", "classic,share,streams"),
        *("CLASSIC", "classic,classic", "classic,nonsense", "classic,"),
    ),
    "http.listener": ("127.0.0.1:0", "", "nonsense", "127.0.0.1:65536"),
    "log.dirs": ("", ",", "data", "data,more", "da\0ta"),
    "max.connections.per.ip.overrides": (
        *("", "127.0.0.1:5", "127.0.0.1:0,::1:2,", "127.0.0.1:-1", "127.0.0.1:2147483647"),
        *("127.0.0.1", "127.0.0.1:2147483648", "127.0.0.1:many", "127.0.0.1:1,,::1:1"),
    ),
    "leader.replication.throttled.replicas": _REPLICAS,
    "follower.replication.throttled.replicas": _REPLICAS,
}


def is_taken(of: str, texts: Mapping[str, str]) -> bool:
    """Whether groupd takes these values: a start, or a topic that is created or configured."""
    try:
        if of == "broker":
            read_settings(options=tuple(f"{name}={value}" for name, value in texts.items())).parse()
        else:
            TopicDefaults({}).validate(texts)
    except (ConfigError, InvalidConfig):
        return False
    return True


def distinct(of: str, key: ConfigKey) -> list[str]:
    """Values that are taken, one of each meaning."""
    taken = [value for value in candidates(key) if is_taken(of, {key.name: value})]
    return list({repr(key.parse(value)): value for value in reversed(taken)}.values())


def candidates(key: ConfigKey) -> list[str]:
    """The values to try a property with. Raises KeyError for one of a free form that is not written down."""
    if key.kind in LIMITS:
        found = list(_whole_numbers(key))
    elif key.kind is ConfigType.DOUBLE:
        found = list(_numbers(key))
    elif key.kind is ConfigType.BOOLEAN:
        found = ["true", "false", "TRUE", " False ", "", "yes", "1"]
    elif isinstance(key.bounds, OneOf):
        found = list(_words(key, key.bounds.words))
    else:
        found = list(_FREE_FORM[key.name])
    return list(dict.fromkeys(found))


def _whole_numbers(key: ConfigKey) -> Iterator[str]:
    edges = set(LIMITS[key.kind])
    if isinstance(key.bounds, NumberRange):
        bounds = (key.bounds.minimum, key.bounds.maximum, *key.bounds.others)
        edges |= {edge for edge in bounds if edge is not None}
    for edge in sorted(edges | {0, -1}):
        yield from map(str, (edge - 1, edge, edge + 1))
    usual = key.default or "5"
    yield from (f" {usual} ", f"{usual.removeprefix('-')}.0", "+5", "\u0665", "000000000000000000000005")
    yield from ("", " ", "x", "5_0", "0x10", "1e3", "--5", "9" * 30)


def _numbers(key: ConfigKey) -> Iterator[str]:
    bounds = key.bounds
    assert isinstance(bounds, NumberRange), key
    assert bounds.minimum is not None, key
    assert bounds.maximum is not None, key
    yield from (
        f"{bounds.minimum - 0.001}",
        f"{bounds.minimum}",
        f"{bounds.maximum}",
        f"{bounds.maximum + 0.001}",
    )
    yield from (".25", "1e-1", "+0.5", " 0.5 ", "0.", "-0")
    yield from ("", "x", "NaN", "nan", "inf", "Infinity", "0.2_5", "0,5", "\u0660.\u0665", "1e999")


def _words(key: ConfigKey, words: tuple[str, ...]) -> Iterator[str]:
    yield from words
    yield from ("", "no-such-word", words[-1].swapcase(), f"{words[-1]}{words[-1]}")
    if key.kind is ConfigType.LIST:
        yield from (
            ",".join(words),
            ", ".join(words),
            f"{words[0]},{words[0]}",
            f"{words[0]},,{words[-1]}",
            ",",
        )
