"""What a listener that is not PLAINTEXT asks of a client, from the properties, and every reason why it cannot.

Source: Kafka's `ChannelBuilders`, `DefaultSslEngineFactory`, `SaslChannelBuilder`, `JaasContext`,
`BrokerJwtValidator`; KIP-684.
"""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.config.between_brokers import (
    check_host_check,
    is_between_brokers,
    login_between_brokers,
)
from coordinator.config.cipher_suites import TLS_1_3
from coordinator.config.errors import ConfigError
from coordinator.config.listener_properties import MECHANISMS, PREFIX, ListenerValues
from coordinator.config.listener_settings import ListenerSettings, OauthSettings, TlsSettings
from coordinator.config.listeners import Listener
from coordinator.config.properties import Config
from coordinator.config.security_properties import OAUTH_VALIDATORS
from coordinator.security.jaas import JaasError, LoginModule, parse_file, parse_property
from coordinator.security.principal_mapping import MappingError, PrincipalMapping

_PEM: Final = "PEM"
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
_CLIENT_AUTH: Final = "ssl.client.auth"
_RULES: Final = "ssl.principal.mapping.rules"
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_SECTION: Final = "KafkaServer"
_USER: Final = "user_"
_PACKAGE: Final = "org.apache.kafka.common.security."
_SCRAM: Final = f"{_PACKAGE}scram.ScramLoginModule"
_LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
}
JaasFile = Callable[[], tuple[str, str]]
"""Reads the file that the process was started with: its path and its text. Raises ConfigError."""


def listener_security(
    config: Config, properties: Mapping[str, str], listener: Listener, jaas_file: JaasFile | None = None
) -> ListenerSettings:
    """What is asked of clients of a listener. In: also all that was set, by Kafka's names, each value being one of
    its property. Raises ConfigError naming what is wrong, and none of the secrets."""
    values = ListenerValues(config, properties, listener.name)
    has_sasl = listener.protocol.has_sasl
    mechanisms = _mechanisms(values, listener) if has_sasl else ()
    jaas_options = _jaas_options(values, listener, mechanisms, jaas_file)
    is_between = is_between_brokers(config, properties, listener)
    if is_between and listener.protocol.has_tls:
        check_host_check(values, listener)
    return ListenerSettings(
        name=listener.name,
        protocol=listener.protocol,
        tls=_tls(values, listener) if listener.protocol.has_tls else None,
        mechanisms=mechanisms,
        jaas_options=jaas_options,
        connections_max_reauth_ms={
            each: values.get("connections.max.reauth.ms", each) for each in mechanisms
        },
        oauth=_oauth(values, listener) if "OAUTHBEARER" in mechanisms else None,
        sasl_server_max_receive_size=values.get("sasl.server.max.receive.size"),
        connection_failed_authentication_delay_ms=config.connection_failed_authentication_delay_ms,
        authentication_timeout_ms=config.authentication_timeout_ms,
        is_between_brokers=is_between,
        login=login_between_brokers(config, listener, jaas_options) if is_between and has_sasl else None,
    )


# TLS


def _tls(values: ListenerValues, listener: Listener) -> TlsSettings:
    for store in ("keystore", "truststore"):
        _check_store(values, listener, store)
    if not (values.get("ssl.keystore.location") or values.get("ssl.keystore.key")):
        name = "ssl.keystore.location"
        where = f"the listener {listener.name} is {listener.protocol}"
        raise ConfigError(f"{name} is not set, and {where}", name, "listeners")
    client_auth = _client_auth(values, listener)
    if client_auth != "none" and not (
        values.get("ssl.truststore.location") or values.get("ssl.truststore.certificates")
    ):
        name = values.name_of(_CLIENT_AUTH)
        raise ConfigError(
            f"{name}={client_auth}: the listener {listener.name} needs ssl.truststore.location, or "
            "ssl.truststore.certificates, to know whose clients' certificates are good",
            name,
        )
    _check_suites(values, listener)
    if not listener.protocol.has_sasl:
        _check_rules(values, listener)
    settings: TlsSettings = values.view(
        TlsSettings,
        ssl_client_auth=client_auth,
        ssl_keystore_type=values.get("ssl.keystore.type").upper(),
        ssl_truststore_type=values.get("ssl.truststore.type").upper(),
        ssl_enabled_protocols=tuple(dict.fromkeys(values.get("ssl.enabled.protocols")))
        or Config().ssl_enabled_protocols,
    )
    return settings


def _check_store(values: ListenerValues, listener: Listener, store: str) -> None:
    """Raises ConfigError for what `DefaultSslEngineFactory` refuses of a store."""
    location, type_, password = (f"ssl.{store}.{part}" for part in ("location", "type", "password"))
    is_keystore = store == "keystore"
    texts = "ssl.keystore.key" if is_keystore else "ssl.truststore.certificates"
    chain = "ssl.keystore.certificate.chain"
    is_pem = values.get(type_) == _PEM

    def refuse(what: str, *names: str) -> None:
        said = [values.name_of(name) for name in names]
        raise ConfigError(f"{said[0]}: for the listener {listener.name} {what}", *said)

    if is_keystore and values.get(chain) and not values.get(texts):
        refuse(f"{texts} is missing", chain)
    if values.get(texts):
        if not is_pem:
            refuse(f"{type_} has to be {_PEM}", texts, type_)
        if is_keystore and not values.get(chain):
            refuse(f"{chain} is missing", texts)
        if values.get(location):
            refuse(f"{location} is there as well", texts, location)
    if is_pem and values.get(password):
        instead = "; the key's is ssl.key.password" if is_keystore else ""
        refuse(f"{_PEM} has no such password{instead}", password, type_)
    if values.get(password) and not values.get(location):
        refuse(f"{location} is missing", password)
    if is_keystore and not is_pem and values.get(location) and not values.get(password):
        refuse(f"{password} is missing", location)


def _client_auth(values: ListenerValues, listener: Listener) -> str:
    """Whose certificate is asked for. With SASL the property counts that is this listener's own (KIP-684)."""
    if listener.protocol.has_sasl and values.text(_CLIENT_AUTH) is None:
        return "none"
    found: str = values.get(_CLIENT_AUTH)
    return found


def _check_suites(values: ListenerValues, listener: Listener) -> None:
    """Raises ConfigError where no suite is left for one of the versions."""
    name, suites = "ssl.cipher.suites", set(values.get("ssl.cipher.suites"))
    versions = values.get("ssl.enabled.protocols")
    if not suites or not versions:
        return
    usable = (suites & TLS_1_3 if "TLSv1.3" in versions else set()) | (
        suites - TLS_1_3 if "TLSv1.2" in versions else set()
    )
    if not usable:
        said = values.name_of(name)
        raise ConfigError(
            f"{said}: the listener {listener.name} has none of them for {', '.join(versions)}", said
        )


def _check_rules(values: ListenerValues, listener: Listener) -> None:
    """Raises ConfigError for rules that cannot be followed."""
    try:
        PrincipalMapping(values.get(_RULES))
    except MappingError as error:
        name = values.name_of(_RULES)
        raise ConfigError(f"{name}: for the listener {listener.name} {error}", name) from None


# SASL


def _mechanisms(values: ListenerValues, listener: Listener) -> tuple[str, ...]:
    name = values.name_of(_ENABLED)
    where = f"the listener {listener.name} is {listener.protocol}"
    there = ", ".join(MECHANISMS)
    if not values.is_set(_ENABLED):
        raise ConfigError(
            f"{_ENABLED} is not set, and {where}: its default is GSSAPI, which is not served here; there is: "
            f"{there}",
            _ENABLED,
            "listeners",
        )
    mechanisms: tuple[str, ...] = tuple(dict.fromkeys(values.get(_ENABLED)))
    if not mechanisms:
        raise ConfigError(f"{name} names no mechanism, and {where}; there is: {there}", name)
    for mechanism in mechanisms:
        if mechanism == "GSSAPI":
            raise ConfigError(
                f"{name}: GSSAPI (Kerberos) is not served here, and {where}; there is: {there}", name
            )
        if mechanism not in MECHANISMS:
            raise ConfigError(f"{name}: {mechanism} is no mechanism, and {where}; there is: {there}", name)
        _check_handler(values, listener, mechanism)
    return mechanisms


def _check_handler(values: ListenerValues, listener: Listener, mechanism: str) -> None:
    name = f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.{_HANDLER}"
    if mechanism != "OAUTHBEARER" and values.name_of(_HANDLER, mechanism) == name:
        raise ConfigError(f"{name}: {mechanism} has no callback handler here", name)


def _jaas_options(
    values: ListenerValues, listener: Listener, mechanisms: tuple[str, ...], jaas_file: JaasFile | None
) -> dict[str, Mapping[str, str]]:
    options: dict[str, Mapping[str, str]] = {}
    of_file: list[LoginModule] | None = None
    for mechanism in mechanisms:
        name = f"{mechanism.lower()}.{_JAAS}"
        text = values.text(name)
        if text:
            options[mechanism] = _of_property(f"{PREFIX}{listener.name.lower()}.{name}", text, mechanism)
            continue
        if of_file is None:
            of_file = _of_file(listener, jaas_file) if jaas_file is not None else []
        options[mechanism] = {
            option: value
            for module in of_file
            if module.name == _LOGIN_MODULES[mechanism]
            for option, value in module.options.items()
        }
    if "PLAIN" in mechanisms and not any(option.startswith(_USER) for option in options["PLAIN"]):
        raise _no_users(values, listener)
    return options


def _of_property(name: str, text: str, mechanism: str) -> Mapping[str, str]:
    try:
        modules = parse_property(text)
    except JaasError as error:
        raise ConfigError(f"{name}: {error}", name) from None
    if len(modules) != 1:
        raise ConfigError(f"{name}: there are {len(modules)} login modules, and only one can be", name)
    if modules[0].name != _LOGIN_MODULES[mechanism]:
        raise ConfigError(f"{name}: the login module of {mechanism} is {_LOGIN_MODULES[mechanism]}", name)
    return modules[0].options


def _of_file(listener: Listener, read: JaasFile) -> list[LoginModule]:
    path, text = read()
    try:
        sections = parse_file(text)
    except JaasError as error:
        raise ConfigError(f"{path}: {error}") from None
    return sections.get(f"{listener.name.lower()}.{_SECTION}", sections.get(_SECTION, []))


def _no_users(values: ListenerValues, listener: Listener) -> ConfigError:
    name = f"{PREFIX}{listener.name.lower()}.plain.{_JAAS}"
    text = f'{name} has no users of PLAIN ({_USER}NAME="PASSWORD")'
    if values.is_set(_JAAS):
        text += f"; {values.name_of(_JAAS)} is not that: it has to be of a listener and a mechanism"
    return ConfigError(text, name, values.name_of(_JAAS), values.name_of(_ENABLED))


def _oauth(values: ListenerValues, listener: Listener) -> OauthSettings:
    mechanism = "OAUTHBEARER"
    prefixed = f"{PREFIX}{listener.name.lower()}.oauthbearer.{_HANDLER}"
    # As in Kafka, the validator is that of the mechanism: the plain property says nothing.
    is_secured = (
        values.name_of(_HANDLER, mechanism) == prefixed
        and values.get(_HANDLER, mechanism) in OAUTH_VALIDATORS
    )
    url = values.name_of(_JWKS_URL, mechanism)
    if not is_secured and values.get(_JWKS_URL, mechanism):
        raise ConfigError(
            f"{url}: nobody validates tokens by it; {prefixed}={OAUTH_VALIDATORS[0]} is missing", url
        )
    if is_secured and not values.get(_JWKS_URL, mechanism):
        raise ConfigError(f"{prefixed}: {_JWKS_URL} is missing", prefixed)
    for what in ("audience", "issuer"):
        expected, unverified = (
            f"sasl.oauthbearer.expected.{what}",
            f"sasl.oauthbearer.allow.unverified.{what}",
        )
        if is_secured and not (values.get(expected, mechanism) or values.get(unverified, mechanism)):
            raise ConfigError(f"{prefixed}: {expected} is missing ({unverified}=true does without)", prefixed)
    settings: OauthSettings = values.view(OauthSettings, mechanism, is_secured=is_secured)
    return settings
