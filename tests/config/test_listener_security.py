"""The security settings of a listener, and the errors of a start with invalid ones: one line that names the
property and no secret."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.listener_settings import ListenerSettings
from coordinator.config.listeners import parse_listeners
from coordinator.config.security_properties import OAUTH_VALIDATORS, UNSECURED_OAUTH_VALIDATOR
from coordinator.config.setting_sources import read_settings
from coordinator.config.settings import Settings
from coordinator.core.shared_types import SecurityProtocol

SECRET: Final = "hunter2"
PREFIX: Final = "listener.name.internal."
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
USERS: Final = f'{PLAIN} required username="admin" password="{SECRET}" user_alice="{SECRET}";'
PEM: Final = f"-----BEGIN CERTIFICATE-----{SECRET}-----END CERTIFICATE-----"
KEYSTORE: Final = {"ssl.keystore.location": "server.jks", "ssl.keystore.password": SECRET}
PEM_KEY: Final = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": PEM,
    "ssl.keystore.certificate.chain": PEM,
}
VALIDATOR: Final = {f"{PREFIX}oauthbearer.sasl.server.callback.handler.class": OAUTH_VALIDATORS[0]}
URL: Final = {"sasl.oauthbearer.jwks.endpoint.url": "https://id.example/keys"}
EXPECTED: Final = {
    "sasl.oauthbearer.expected.audience": "groupd",
    "sasl.oauthbearer.expected.issuer": "https://id.example",
}


def read(protocol: str, *given: Mapping[str, str], **more: Any) -> Settings:
    """Return the settings with one listener, INTERNAL, of this protocol and these properties. `more` are other
    sources.
    """
    properties = {
        "listeners": "INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": f"INTERNAL:{protocol},CONTROLLER:PLAINTEXT",
    }
    for each in given:
        properties |= each
    return read_settings(options=tuple(f"{name}={text}" for name, text in properties.items()), **more)


def security(protocol: str, *given: Mapping[str, str], **more: Any) -> ListenerSettings:
    """What the listener is set to."""
    settings = read(protocol, *given, **more)
    config = settings.parse()
    found = settings.create_listener_settings(config, parse_listeners(config)[0])["INTERNAL"]
    assert SECRET not in repr(found)
    return found


def refusal(protocol: str, *given: Mapping[str, str], **more: Any) -> str:
    """Why the listener cannot be."""
    with pytest.raises(ConfigError) as refused:
        read(protocol, *given, **more).parse()
    error: BaseException | None = refused.value
    line = str(error)
    assert "INTERNAL" in line or "listener.name.internal." in line or more
    assert line.isprintable()
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__
    return line


def sasl(mechanisms: str = "PLAIN", *given: Mapping[str, str]) -> ListenerSettings:
    users = {f"{PREFIX}plain.sasl.jaas.config": USERS} if "PLAIN" in mechanisms else {}
    return security("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": mechanisms}, users, *given)


# TLS


def test_a_listener_with_tls_has_its_stores() -> None:
    found = security("SSL", KEYSTORE, {"ssl.key.password": SECRET, "ssl.truststore.location": "trust.jks"})
    assert found.protocol is SecurityProtocol.SSL
    assert found.mechanisms == ()
    tls = found.tls
    assert tls is not None
    assert (tls.ssl_keystore_location, tls.ssl_keystore_type) == ("server.jks", "JKS")
    assert tls.ssl_keystore_password == tls.ssl_key_password == SECRET
    assert (tls.ssl_truststore_location, tls.ssl_truststore_password) == ("trust.jks", "")
    assert tls.ssl_enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert tls.ssl_client_auth == "none"


def test_a_type_of_store_is_in_capitals() -> None:
    tls = security("SSL", KEYSTORE, {"ssl.keystore.type": "pkcs12"}).tls
    assert tls is not None
    assert tls.ssl_keystore_type == "PKCS12"


def test_a_key_may_be_text() -> None:
    tls = security("SSL", PEM_KEY, {"ssl.key.password": SECRET}).tls
    assert tls is not None
    assert tls.ssl_keystore_key == tls.ssl_keystore_certificate_chain == PEM


@pytest.mark.parametrize("name", ["ssl.principal.mapping.rules", f"{PREFIX}ssl.principal.mapping.rules"])
def test_rules_for_principals_that_cannot_be_read_stop_the_start(name: str) -> None:
    line = refusal("SSL", KEYSTORE, {name: "RULE:(CN/x/"})
    assert f"{name}: " in line
    assert "the pattern (CN cannot be read" in line
    # A listener with SASL does not use certificate names.
    sasl_users = {"sasl.enabled.mechanisms": "PLAIN", f"{PREFIX}plain.sasl.jaas.config": USERS}
    assert security("SASL_SSL", KEYSTORE, sasl_users, {name: "RULE:(CN/x/"}).tls is not None


def test_a_listeners_own_value_wins() -> None:
    tls = security("SSL", KEYSTORE, {f"{PREFIX}ssl.keystore.location": "own.jks"}).tls
    assert tls is not None
    assert (tls.ssl_keystore_location, tls.ssl_keystore_password) == ("own.jks", SECRET)


@pytest.mark.parametrize(
    ("own", "plain", "protocol", "expected"),
    [
        (None, "required", "SSL", "required"),
        (None, "required", "SASL_SSL", "none"),
        ("requested", "none", "SASL_SSL", "requested"),
        ("none", "required", "SSL", "none"),
    ],
)
def test_with_sasl_a_certificate_is_asked_for_by_the_listeners_own_property(
    own: str | None, plain: str, protocol: str, expected: str
) -> None:
    given = {
        "ssl.client.auth": plain,
        "ssl.truststore.location": "trust.jks",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    if own is not None:
        given[f"{PREFIX}ssl.client.auth"] = own
    tls = security(protocol, KEYSTORE, given).tls
    assert tls is not None
    assert tls.ssl_client_auth == expected


def without(properties: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name not in names}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ["ssl.keystore.location"]),
        (without(KEYSTORE, "ssl.keystore.password"), ["ssl.keystore.location", "ssl.keystore.password"]),
        (without(KEYSTORE, "ssl.keystore.location"), ["ssl.keystore.password", "ssl.keystore.location"]),
        (without(PEM_KEY, "ssl.keystore.type"), ["ssl.keystore.key", "ssl.keystore.type", "PEM"]),
        (
            without(PEM_KEY, "ssl.keystore.certificate.chain"),
            ["ssl.keystore.key", "ssl.keystore.certificate.chain"],
        ),
        (without(PEM_KEY, "ssl.keystore.key"), ["ssl.keystore.certificate.chain", "ssl.keystore.key"]),
        (PEM_KEY | {"ssl.keystore.location": "server.pem"}, ["ssl.keystore.key", "ssl.keystore.location"]),
        (PEM_KEY | {"ssl.keystore.password": SECRET}, ["ssl.keystore.password", "ssl.key.password"]),
        (KEYSTORE | {"ssl.keystore.type": "PEM"}, ["ssl.keystore.password", "ssl.key.password"]),
        (
            KEYSTORE | {"ssl.truststore.certificates": PEM},
            ["ssl.truststore.certificates", "ssl.truststore.type"],
        ),
        (
            KEYSTORE
            | {
                "ssl.truststore.certificates": PEM,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "trust.pem",
            },
            ["ssl.truststore.certificates", "ssl.truststore.location"],
        ),
        (
            KEYSTORE
            | {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "trust.pem",
                "ssl.truststore.password": SECRET,
            },
            ["ssl.truststore.password"],
        ),
        (KEYSTORE | {"ssl.truststore.password": SECRET}, ["ssl.truststore.password", "location"]),
        (KEYSTORE | {"ssl.client.auth": "required"}, ["ssl.client.auth", "ssl.truststore.location"]),
        (
            KEYSTORE | {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
            ["ssl.cipher.suites", "TLSv1.2"],
        ),
        (KEYSTORE | {f"{PREFIX}ssl.enabled.protocols": "TLSv1.1"}, [f"{PREFIX}ssl.enabled.protocols"]),
        (KEYSTORE | {f"{PREFIX}ssl.cipher.suites": "TLS_NONSENSE"}, [f"{PREFIX}ssl.cipher.suites"]),
        (KEYSTORE | {f"{PREFIX}ssl.keystore.type": "BKS"}, [f"{PREFIX}ssl.keystore.type"]),
        (KEYSTORE | {f"{PREFIX}principal.builder.class": "Mine"}, [f"{PREFIX}principal.builder.class"]),
    ],
)
def test_tls_that_cannot_be(given: Mapping[str, str], named: list[str]) -> None:
    line = refusal("SSL", given)
    for name in named:
        assert name in line


# SASL


def test_plain_has_its_users() -> None:
    found = sasl()
    assert found.mechanisms == ("PLAIN",)
    assert found.jaas_options["PLAIN"]["user_alice"] == SECRET
    assert found.tls is None
    assert found.sasl_server_max_receive_size == 524_288
    assert found.connection_failed_authentication_delay_ms == 100


def test_a_mechanism_of_a_listener_has_its_own_lifetime() -> None:
    name = "connections.max.reauth.ms"
    found = sasl(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        {
            name: "1",
            PREFIX + name: "2",
            f"{PREFIX}scram-sha-512.{name}": "3",
            "sasl.server.max.receive.size": "9",
        },
    )
    assert found.connections_max_reauth_ms == {"PLAIN": 2, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 3}
    assert found.sasl_server_max_receive_size == 9


def test_scram_needs_no_login_module() -> None:
    assert sasl("SCRAM-SHA-256").jaas_options == {"SCRAM-SHA-256": {}}
    found = sasl("SCRAM-SHA-256", {f"{PREFIX}scram-sha-256.sasl.jaas.config": f"{SCRAM} required;"})
    assert found.mechanisms == ("SCRAM-SHA-256",)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ["sasl.enabled.mechanisms is not set", "GSSAPI", "SCRAM-SHA-512"]),
        ({"sasl.enabled.mechanisms": ""}, ["sasl.enabled.mechanisms", "PLAIN"]),
        ({f"{PREFIX}sasl.enabled.mechanisms": "GSSAPI"}, [f"{PREFIX}sasl.enabled.mechanisms", "Kerberos"]),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, ["DIGEST-MD5"]),
        ({"sasl.enabled.mechanisms": "plain"}, ["sasl.enabled.mechanisms", "plain"]),
    ],
)
def test_mechanisms_that_cannot_be(given: Mapping[str, str], named: list[str]) -> None:
    users = {f"{PREFIX}plain.sasl.jaas.config": USERS}
    line = refusal("SASL_PLAINTEXT", users, given)
    for name in named:
        assert name in line


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, [f"{PREFIX}plain.sasl.jaas.config", "no users of PLAIN"]),
        ({f"{PREFIX}plain.sasl.jaas.config": f"{PLAIN} required;"}, ["no users of PLAIN"]),
        (
            {f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN} required username="a" password="{SECRET}";'},
            ["no users of PLAIN"],
        ),
        ({"sasl.jaas.config": USERS}, [f"{PREFIX}plain.sasl.jaas.config", "sasl.jaas.config has no effect"]),
        ({f"{PREFIX}sasl.jaas.config": USERS}, [f"{PREFIX}sasl.jaas.config has no effect"]),
        ({f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN} required a="{SECRET}'}, ["it must be a login module"]),
        (
            {f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN} required user_a "{SECRET}";'},
            [f"{PREFIX}plain.sasl.jaas.config", "line 1, column 73", "="],
        ),
        ({f"{PREFIX}plain.sasl.jaas.config": USERS * 2}, ["login module is allowed, not 2"]),
        ({f"{PREFIX}plain.sasl.jaas.config": USERS.replace("Plain", "Mine")}, [PLAIN]),
        (
            {f"{PREFIX}plain.sasl.server.callback.handler.class": UNSECURED_OAUTH_VALIDATOR},
            [f"{PREFIX}plain.sasl.server.callback.handler.class"],
        ),
    ],
)
def test_plain_that_cannot_be(given: Mapping[str, str], named: list[str]) -> None:
    line = refusal("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "PLAIN"}, given)
    for name in named:
        assert name in line


# The JAAS file of the process

FILE: Final = f"""
internal.KafkaServer {{ {PLAIN} required user_internal="{SECRET}"; {SCRAM} required; }};
KafkaServer {{ {PLAIN} required user_all="{SECRET}"; }};
"""
OPTIONS: Final = {"KAFKA_OPTS": "-Xmx1g -Djava.security.auth.login.config=/etc/kafka/jaas.conf"}


def from_file(text: str, *given: Mapping[str, str]) -> ListenerSettings:
    return security(
        "SASL_PLAINTEXT",
        {"sasl.enabled.mechanisms": "PLAIN"},
        *given,
        environment=OPTIONS,
        read={"/etc/kafka/jaas.conf": text}.__getitem__,
    )


def test_a_file_has_a_section_for_the_listener_or_for_all() -> None:
    assert from_file(FILE).jaas_options == {"PLAIN": {"user_internal": SECRET}}
    assert from_file(FILE.replace("internal.", "other.")).jaas_options == {"PLAIN": {"user_all": SECRET}}


def test_a_property_wins_over_the_file() -> None:
    found = from_file(FILE, {f"{PREFIX}plain.sasl.jaas.config": USERS})
    assert "user_alice" in found.jaas_options["PLAIN"]
    assert "user_internal" not in found.jaas_options["PLAIN"]


def test_a_file_that_is_none_stops_the_start_with_the_place() -> None:
    options = {"sasl.enabled.mechanisms": "PLAIN"}
    line = refusal(
        "SASL_PLAINTEXT", options, environment=OPTIONS, read=lambda _: f'KafkaServer {{ "{SECRET}"; }};'
    )
    assert "KAFKA_OPTS: /etc/kafka/jaas.conf: line 1, column 24: " in line

    def missing(path: str) -> str:
        raise ConfigError(f"{path}: there is no such file")

    line = refusal("SASL_PLAINTEXT", options, environment=OPTIONS, read=missing)
    assert line == "KAFKA_OPTS: /etc/kafka/jaas.conf: there is no such file"


def test_kerberos_beside_another_mechanism_is_a_warning() -> None:
    """The listener accepts the other mechanism, also where the login modules of a file have that of Kerberos."""
    given = {"sasl.enabled.mechanisms": "GSSAPI, SCRAM-SHA-256"}
    settings = read("SASL_PLAINTEXT", given)
    config = settings.parse()
    listeners, _ = parse_listeners(config)
    (found,) = settings.create_listener_settings(config, listeners).values()
    assert found.mechanisms == ("SCRAM-SHA-256",)
    (notice,) = settings.start_notices()
    assert notice.is_warning
    assert "SCRAM-SHA-256" in notice.text


def test_nobody_reads_the_file_where_nobody_authenticates() -> None:
    def fail(_: str) -> str:
        raise AssertionError

    settings = read("PLAINTEXT", environment=OPTIONS, read=fail)
    settings.parse()
    assert settings.start_notices() == []


# OAUTHBEARER


def test_without_a_validator_tokens_are_not_signed() -> None:
    found = sasl("OAUTHBEARER", {f"{PREFIX}oauthbearer.sasl.jaas.config": f'{OAUTH} required a="b";'})
    assert found.oauth is not None
    assert not found.oauth.is_secured
    assert found.jaas_options == {"OAUTHBEARER": {"a": "b"}}


@pytest.mark.parametrize("name", OAUTH_VALIDATORS)
def test_with_kafkas_validator_they_are(name: str) -> None:
    found = sasl(
        "OAUTHBEARER",
        dict.fromkeys(VALIDATOR, name),
        URL,
        EXPECTED,
        {f"{PREFIX}oauthbearer.sasl.oauthbearer.clock.skew.seconds": "5"},
    )
    assert found.oauth is not None
    assert found.oauth.is_secured
    assert found.oauth.sasl_oauthbearer_expected_audience == ("groupd",)
    assert found.oauth.sasl_oauthbearer_clock_skew_seconds == 5


def test_whom_a_token_is_for_can_be_left_open_on_purpose() -> None:
    allowed = {f"sasl.oauthbearer.allow.unverified.{what}": "true" for what in ("audience", "issuer")}
    found = sasl("OAUTHBEARER", VALIDATOR, URL, allowed)
    assert found.oauth is not None
    assert found.oauth.sasl_oauthbearer_expected_issuer == ""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (VALIDATOR | EXPECTED, "sasl.oauthbearer.jwks.endpoint.url is missing"),
        (URL, "sasl.oauthbearer.jwks.endpoint.url"),
        (VALIDATOR | URL, "sasl.oauthbearer.expected.audience is missing"),
        (
            without(VALIDATOR | URL | EXPECTED, "sasl.oauthbearer.expected.issuer"),
            "sasl.oauthbearer.allow.unverified.issuer=true",
        ),
        (dict.fromkeys(VALIDATOR, "mine.Handler"), next(iter(VALIDATOR))),
        ({f"{PREFIX}oauthbearer.sasl.jaas.config": f"{SCRAM} required;"}, OAUTH),
    ],
)
def test_oauth_that_cannot_be(given: Mapping[str, str], named: str) -> None:
    line = refusal("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "OAUTHBEARER"}, given)
    assert named in line
