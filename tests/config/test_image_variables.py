"""The variables of Kafka's images for TLS and users, and the resulting configuration."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.listener_settings import ListenerSettings
from coordinator.config.listeners import parse_listeners
from coordinator.config.setting_sources import read_settings

FILES: Final = {
    "/etc/kafka/secrets/keystore_creds": "store-secret\n",
    "/etc/kafka/secrets/key_creds": "key-secret",
    "/etc/kafka/secrets/truststore_creds": "trust-secret\r\n",
    "/opt/bitnami/kafka/config/certs/kafka.keystore.pem": "-----BEGIN CERTIFICATE-----",
    "/opt/bitnami/kafka/config/certs/kafka.keystore.key": "-----BEGIN PRIVATE KEY-----",
    "/opt/bitnami/kafka/config/certs/kafka.truststore.pem": "-----BEGIN CERTIFICATE-----",
}
APACHE: Final = {
    "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093",
    "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.keystore.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "keystore_creds",
    "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "truststore_creds",
    "KAFKA_SSL_CLIENT_AUTH": "required",
}
BITNAMI: Final = {
    "KAFKA_CFG_LISTENERS": "SSL://:9093",
    "KAFKA_CERTIFICATE_PASSWORD": "store-secret",
}
USERS: Final = {
    "KAFKA_CFG_LISTENERS": "CLIENT://:9092",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT",
    "KAFKA_CLIENT_USERS": "alice,bob@example",
    "KAFKA_CLIENT_PASSWORDS": 'a"b\\c,secret',
}


def read(path: str) -> str:
    try:
        return FILES[path]
    except KeyError as missing:
        raise ConfigError(f"{path}: there is no such file") from missing


def started(
    environment: Mapping[str, str], reads: Callable[[str], str] = read
) -> tuple[ListenerSettings | None, list[str]]:
    """Return the setting of the only listener, and the lines of the start."""
    settings = read_settings(environment=environment, read=reads)
    config = settings.parse()
    (listener,), closed = parse_listeners(config)
    return settings.create_listener_settings(config, [listener]).get(listener.name), [
        notice.text for notice in settings.start_notices(closed)
    ]


def test_the_official_images_files_are_stores_and_their_passwords() -> None:
    found, warnings = started(APACHE)
    assert warnings == []
    assert found is not None
    assert found.tls is not None
    assert found.tls.ssl_keystore_location == "/etc/kafka/secrets/kafka.keystore.jks"
    assert found.tls.ssl_truststore_location == "/etc/kafka/secrets/kafka.truststore.jks"
    assert found.tls.ssl_keystore_password == "store-secret"
    assert found.tls.ssl_key_password == "key-secret"
    assert found.tls.ssl_truststore_password == "trust-secret"
    assert found.tls.ssl_client_auth == "required"


def test_what_is_set_as_a_property_wins() -> None:
    found, _ = started(APACHE | {"KAFKA_SSL_KEYSTORE_LOCATION": "/own.jks"})
    assert found is not None
    assert found.tls is not None
    assert found.tls.ssl_keystore_location == "/own.jks"


def test_a_file_that_is_missing_stops_the_start() -> None:
    with pytest.raises(ConfigError) as refused:
        started(APACHE | {"KAFKA_SSL_KEY_CREDENTIALS": "elsewhere"})
    assert str(refused.value) == (
        "KAFKA_SSL_KEY_CREDENTIALS: /etc/kafka/secrets/elsewhere: there is no such file"
    )


def test_without_tls_no_file_is_read_and_the_variables_are_ignored() -> None:
    def fail(_: str) -> str:
        raise AssertionError

    found, (warning,) = started(APACHE | {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}, fail)
    assert found is None
    assert "KAFKA_SSL_KEYSTORE_FILENAME" in warning


def test_bitnamis_stores_have_fixed_names() -> None:
    found, warnings = started(BITNAMI)
    assert warnings == []
    assert found is not None
    assert found.tls is not None
    assert found.tls.ssl_keystore_location == "/opt/bitnami/kafka/config/certs/kafka.keystore.jks"
    assert found.tls.ssl_truststore_password == "store-secret"
    assert found.tls.ssl_client_auth == "required"


def test_bitnamis_pem_files_are_read() -> None:
    found, _ = started(BITNAMI | {"KAFKA_TLS_TYPE": "PEM", "KAFKA_TLS_CLIENT_AUTH": "none"})
    assert found is not None
    assert found.tls is not None
    assert found.tls.ssl_keystore_type == "PEM"
    assert found.tls.ssl_keystore_key == "-----BEGIN PRIVATE KEY-----"
    assert found.tls.ssl_client_auth == "none"


def test_bitnamis_users_are_those_of_plain() -> None:
    found, warnings = started(USERS)
    assert warnings == []
    assert found is not None
    assert found.mechanisms == ("PLAIN",)
    assert found.jaas_options == {"PLAIN": {"user_alice": 'a"b\\c', "user_bob@example": "secret"}}


def test_each_user_has_a_password() -> None:
    with pytest.raises(ConfigError) as refused:
        started(USERS | {"KAFKA_CLIENT_PASSWORDS": "secret"})
    assert "KAFKA_CLIENT_USERS names 2 users" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("-Djava.security.auth.login.config=/a.conf", "/a.conf"),
        ("-Xmx1g -Djava.security.auth.login.config==/a.conf -Db=c", "/a.conf"),
        ('-Djava.security.auth.login.config="/a b.conf"', "/a b.conf"),
        ("-Djava.security.auth.login.config=file:/a.conf", "/a.conf"),
        ("-Djava.security.auth.login.config=/b -Djava.security.auth.login.config=/a.conf", "/a.conf"),
    ],
)
def test_the_jaas_file_is_found_among_javas_options(options: str, path: str) -> None:
    asked: list[str] = []

    def note(at: str) -> str:
        asked.append(at)
        return 'KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b"; };'

    environment = {
        "KAFKA_LISTENERS": "SASL_PLAINTEXT://:1",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": options,
    }
    found, warnings = started(environment, note)
    assert set(asked) == {path}
    assert warnings == []
    assert found is not None
    assert found.jaas_options == {"PLAIN": {"user_a": "b"}}


def test_options_that_are_no_shells_stop_the_start() -> None:
    with pytest.raises(ConfigError, match=r"^KAFKA_OPTS: "):
        started({"KAFKA_OPTS": '-Djava.security.auth.login.config="/a.conf'})
