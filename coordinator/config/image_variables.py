"""Variables by which the images of Kafka are told of TLS and of users in their own way, as what their start scripts
make of them.

`apache/kafka` and Confluent's: names of files in one directory. Bitnami's: certificates of fixed names, and the
users of PLAIN. Besides, `KAFKA_OPTS` may name a JAAS file for Java.

Source: the script `configure` of `apache/kafka`, the documentation of `bitnami/kafka`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from coordinator.config.errors import ConfigError

_SECRETS: Final = "/etc/kafka/secrets/"
_LOCATIONS: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_CREDENTIALS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
_BITNAMI_SECRETS: Final = "/opt/bitnami/kafka/config/certs/kafka."
_BITNAMI_TYPE: Final = "KAFKA_TLS_TYPE"
_BITNAMI_PASSWORD: Final = "KAFKA_CERTIFICATE_PASSWORD"
_BITNAMI_CLIENT_AUTH: Final = "KAFKA_TLS_CLIENT_AUTH"
_BITNAMI_STORES: Final = {
    "ssl.keystore.location": "keystore.jks",
    "ssl.truststore.location": "truststore.jks",
}
_BITNAMI_PEMS: Final = {
    "ssl.keystore.certificate.chain": "keystore.pem",
    "ssl.keystore.key": "keystore.key",
    "ssl.truststore.certificates": "truststore.pem",
}
_USERS: Final = "KAFKA_CLIENT_USERS"
_PASSWORDS: Final = "KAFKA_CLIENT_PASSWORDS"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENERS: Final = ("LISTENERS", "ADVERTISED_LISTENERS", "LISTENER_SECURITY_PROTOCOL_MAP")
_OPTIONS: Final = "KAFKA_OPTS"
_LOGIN_CONFIG: Final = "-Djava.security.auth.login.config="
JAAS_VARIABLES: Final = frozenset({_OPTIONS, _USERS, _PASSWORDS})
"""Those that `jaas_file` reads."""

ReadFile = Callable[[str], str]
"""The text of the file at a path. Raises ConfigError beginning with the path."""


class Told(NamedTuple):
    """A property, and the variable that tells it."""

    name: str
    text: str
    variable: str


def told_properties(environment: Mapping[str, str], read: ReadFile) -> list[Told]:
    """The properties that the images' own variables stand for. Files are read where a listener has TLS. Raises
    ConfigError beginning with the variable."""
    found: list[Told] = []
    if _value(environment, _USERS):
        found.append(Told("sasl.enabled.mechanisms", "PLAIN", _USERS))
    if any("SSL" in environment.get(f"KAFKA_{cfg}{name}", "") for cfg in ("", "CFG_") for name in _LISTENERS):
        found += _of_bitnami(environment, read)
        for variable, name in _LOCATIONS.items():
            if file := _value(environment, variable):
                found.append(Told(name, _SECRETS + file, variable))
        for variable, name in _CREDENTIALS.items():
            if file := _value(environment, variable):
                found.append(_told_by_file(name, _SECRETS + file, variable, read))
    return found


def _of_bitnami(environment: Mapping[str, str], read: ReadFile) -> Iterator[Told]:
    variable = next((each for each in (_BITNAMI_TYPE, _BITNAMI_PASSWORD) if _value(environment, each)), None)
    if variable is None:
        return
    password = _value(environment, _BITNAMI_PASSWORD)
    is_pem = _value(environment, _BITNAMI_TYPE).upper() == "PEM"
    for store in ("keystore", "truststore"):
        yield Told(f"ssl.{store}.type", "PEM" if is_pem else "JKS", variable)
    if is_pem:
        for name, file in _BITNAMI_PEMS.items():
            yield _told_by_file(name, _BITNAMI_SECRETS + file, variable, read)
    else:
        for name, file in _BITNAMI_STORES.items():
            yield Told(name, _BITNAMI_SECRETS + file, variable)
            yield Told(name.replace("location", "password"), password, _BITNAMI_PASSWORD)
    yield Told("ssl.key.password", password, _BITNAMI_PASSWORD)
    auth = _value(environment, _BITNAMI_CLIENT_AUTH) or "required"
    yield Told("ssl.client.auth", auth, _BITNAMI_CLIENT_AUTH)


def _told_by_file(name: str, path: str, variable: str, read: ReadFile) -> Told:
    try:
        return Told(name, read(path).strip("\r\n"), variable)
    except ConfigError as error:
        raise ConfigError(f"{variable}: {error}") from error


def _value(environment: Mapping[str, str], variable: str) -> str:
    return environment.get(variable, "").strip()


def jaas_file(environment: Mapping[str, str], read: ReadFile) -> Callable[[], tuple[str, str]] | None:
    """What reads the JAAS file of the process, where the environment tells of one: what to call it, and its text.
    Raises ConfigError."""
    path = _jaas_path(environment)
    if path is not None:
        return lambda: (f"{_OPTIONS}: {path}", _read_jaas(path, read))
    if _value(environment, _USERS):
        return lambda: (_USERS, _jaas_of_users(environment))
    return None


def _jaas_path(environment: Mapping[str, str]) -> str | None:
    if _LOGIN_CONFIG not in environment.get(_OPTIONS, ""):
        return None
    import shlex  # for whoever has such a file

    try:
        options = shlex.split(environment[_OPTIONS])
    except ValueError as error:
        raise ConfigError(f"{_OPTIONS}: {error}") from error
    found = [option.removeprefix(_LOGIN_CONFIG) for option in options if option.startswith(_LOGIN_CONFIG)]
    return found[-1].removeprefix("=").removeprefix("file:") if found else None


def _read_jaas(path: str, read: ReadFile) -> str:
    try:
        return read(path)
    except ConfigError as error:
        raise ConfigError(f"{_OPTIONS}: {error}") from error


def _jaas_of_users(environment: Mapping[str, str]) -> str:
    users, passwords = (_list(environment, variable) for variable in (_USERS, _PASSWORDS))
    if len(users) != len(passwords):
        raise ConfigError(
            f"{_USERS} names {len(users)} users, and {_PASSWORDS} has {len(passwords)} passwords"
        )
    options = (
        f"{_quoted(f'user_{user}')}={_quoted(password)}"
        for user, password in zip(users, passwords, strict=True)
    )
    return f"KafkaServer {{ {_PLAIN} required {' '.join(options)}; }};"


def _list(environment: Mapping[str, str], variable: str) -> list[str]:
    return _value(environment, variable).replace(";", ",").split(",")


def _quoted(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'
