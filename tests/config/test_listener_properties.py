"""Properties of one listener, by every name that people give them, and the names that mean nothing."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

from coordinator.broker.server_settings import list_broker_configs
from coordinator.config import listener_security, listener_settings
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, Listener, create_access_notices, parse_listeners
from coordinator.config.properties import Config
from coordinator.config.setting_sources import read_settings
from coordinator.config.settings import Settings
from coordinator.core.shared_types import SecurityProtocol
from coordinator.security.core import principal
from coordinator.security.server import secured_listener
from protocol.messages import create_acls, sasl_authenticate, sasl_handshake

LISTENER = {
    "listeners": "INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,C:SSL",
}
SUITES = "ssl.cipher.suites"


def read(**more: object) -> Settings:
    options = tuple(f"{name}={text}" for name, text in LISTENER.items())
    return read_settings(options=options, **more)  # type: ignore[arg-type]


# Names


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        (
            "KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION",
            "listener.name.internal.ssl.keystore.location",
        ),
        ("KAFKA_CFG_LISTENER_NAME_INTERNAL_SSL_KEY_PASSWORD", "listener.name.internal.ssl.key.password"),
        (
            "KAFKA_LISTENER_NAME_INTERNAL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.internal.scram-sha-256.sasl.jaas.config",
        ),
        (
            "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
    ],
)
def test_a_variable_sets_a_listeners_property(variable: str, name: str) -> None:
    settings = read_settings(environment={variable: " a; "})
    assert settings.texts == {name: "a;"}
    assert settings.start_notices() == []


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("listener.name.internal.ssl.keystore.locaton", "listener.name.internal.ssl.keystore.location"),
        ("listener.name.internal.nonsense", ""),
        ("listener.name.internal.kerberos.sasl.jaas.config", ""),
        ("listener.name.internal", ""),
        ("listener.name..ssl.client.auth", ""),
        ("listener.name.internal.plain.ssl.client.auth.more", ""),
    ],
)
def test_a_misspelt_name_stops_the_start(name: str, suggested: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(file_path="server.properties", file_text=f"{name}=1")
    assert f"server.properties: {name} is not a property" in str(refused.value)
    assert suggested in str(refused.value)


def test_a_misspelt_variable_is_warned_about() -> None:
    settings = read(environment={"KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATON": "a"})
    ((line, _),) = settings.start_notices()
    assert "did you mean KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION?" in line


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.max.connections",
        "listener.name.internal.max.connection.creation.rate",
        "listener.name.internal.plain.sasl.login.callback.handler.class",
        "listener.name.internal.gssapi.sasl.kerberos.service.name",
        "listener.name.internal.plain.ssl.client.auth",
        "sasl.mechanism.controller.protocol",
        "ssl.protocol",
    ],
)
def test_what_does_nothing_here_is_named_for_information(name: str) -> None:
    settings = read(file_path="server.properties", file_text=f"{name}=SASL_SSL")
    settings.parse()
    ((line, is_warning),) = settings.start_notices()
    assert line.endswith(f": {name}")
    assert not is_warning


@pytest.mark.parametrize("name", ["internal", "c", "k"])
def test_a_listener_that_is_closed_may_have_properties(name: str) -> None:
    settings = read(file_text=f"listener.name.{name}.ssl.client.auth=required\ncontroller.listener.names=K")
    settings.parse()
    assert settings.start_notices() == []


def test_a_listener_that_is_not_there_stops_the_start() -> None:
    settings = read(file_path="server.properties", file_text="listener.name.internl.ssl.client.auth=required")
    with pytest.raises(ConfigError, match=r"^server.properties: .*\binternl\b.* c, internal$"):
        settings.parse()


@pytest.mark.parametrize("text", ["TLS_NONSENSE", ",", "a\nb\x1b[31m"])
def test_a_bad_value_stops_the_start_under_the_name_that_was_given(text: str) -> None:
    name = f"listener.name.internal.{SUITES}"
    settings = read(environment={"KAFKA_LISTENER_NAME_INTERNAL_SSL_CIPHER_SUITES": text})
    with pytest.raises(ConfigError) as refused:
        settings.parse()
    assert str(refused.value).startswith("KAFKA_LISTENER_NAME_INTERNAL_SSL_CIPHER_SUITES: Invalid value")
    assert name in str(refused.value)
    assert str(refused.value).isprintable()


# Described


def test_passwords_are_never_described() -> None:
    jaas = "listener.name.internal.plain.sasl.jaas.config"
    texts = {
        jaas: 'a required user_b="hunter2";',
        "ssl.keystore.password": "hunter2",
        "listener.name.internal.ssl.key.password": "hunter2",
        "listener.name.internal.ssl.client.auth": "none",
        "ssl.truststore.certificates": "hunter2",
    }
    described = {each.key.name: each for each in list_broker_configs(texts)}
    for name in texts.keys() - {"listener.name.internal.ssl.client.auth"}:
        assert described[name].is_sensitive
        assert described[name].value is None
        assert "hunter2" not in str(described[name].synonyms())
    assert described["listener.name.internal.ssl.client.auth"].value == "none"


def test_a_config_shows_no_password() -> None:
    given = dict.fromkeys(("ssl_keystore_password", "ssl_key_password", "sasl_jaas_config"), "hunter2")
    assert "hunter2" not in repr(Config(**given))  # type: ignore[arg-type]


# What lets in more than was meant


EVERYWHERE, HERE = Address("", 9092), Address("127.0.0.1", 9092)
AUTHORIZER = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.parametrize(
    ("address", "protocol", "properties", "words"),
    [
        (EVERYWHERE, "PLAINTEXT", {}, ["INTERNAL"]),
        (HERE, "PLAINTEXT", {}, []),
        (EVERYWHERE, "SASL_PLAINTEXT", {}, []),
        (EVERYWHERE, "PLAINTEXT", AUTHORIZER, []),
        (EVERYWHERE, "PLAINTEXT", {"super_users": "User:ANONYMOUS"}, ["INTERNAL"]),
        (HERE, "SSL", AUTHORIZER | {"super_users": "User:a; User:ANONYMOUS"}, ["User:ANONYMOUS"]),
    ],
)
def test_what_is_open_to_everybody_is_warned_about(
    address: Address, protocol: str, properties: Mapping[str, str], words: list[str]
) -> None:
    listener = Listener("INTERNAL", address, None, SecurityProtocol(protocol))
    notices = create_access_notices(Config(**properties), [listener])  # type: ignore[arg-type]
    assert len(notices) == len(words)
    assert all(word in notice.text for word, notice in zip(words, notices, strict=True))
    assert all(notice.is_warning for notice in notices)


def test_open_access_is_for_information_in_the_image() -> None:
    listener = Listener("INTERNAL", EVERYWHERE, None, SecurityProtocol.PLAINTEXT)
    (notice,) = create_access_notices(Config(), [listener], in_image=True)
    assert not notice.is_warning
    open_to_all = Config(**AUTHORIZER, super_users="User:ANONYMOUS")  # type: ignore[arg-type]
    (notice,) = create_access_notices(open_to_all, [listener], in_image=True)
    assert notice.is_warning


def test_nothing_of_security_is_loaded_where_nothing_is_configured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.config.plain_start"], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.splitlines())
    assert [name for name in modules if name.startswith(f"{principal.__package__}.")] == [principal.__name__]
    security_modules = (
        listener_security,
        listener_settings,
        secured_listener,
        sasl_authenticate,
        sasl_handshake,
        create_acls,
    )
    assert modules.isdisjoint(module.__name__ for module in security_modules)
    assert modules.isdisjoint(("shlex", "tempfile", "cryptography"))
    assert parse_listeners(Config())[0][0].protocol is SecurityProtocol.PLAINTEXT
