"""Security settings of listeners that are not PLAINTEXT, and the inter-broker listener with its login.

Every reason why a setting cannot work is a ConfigError, without secrets. Source: Kafka's `ChannelBuilders`,
`DefaultSslEngineFactory`, `SaslChannelBuilder`, `JaasContext`, `BrokerJwtValidator`,
`AbstractKafkaConfig.interBrokerListenerNameAndSecurityProtocol`, `KafkaConfig.validateValues`; KIP-684.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from coordinator.config.cipher_suites import TLS_1_3
from coordinator.config.config_errors import ConfigError
from coordinator.config.listener_properties import GSSAPI, LISTENER_PREFIX, SASL_MECHANISMS, ListenerValues
from coordinator.config.listener_settings import ListenerSettings, OauthSettings, TlsSettings
from coordinator.config.listeners import Listener
from coordinator.config.properties import Config
from coordinator.config.security_properties import OAUTH_VALIDATORS
from coordinator.core.shared_types import SecurityProtocol
from coordinator.security.core.jaas import JaasError, LoginModule, parse_jaas_file, parse_jaas_property
from coordinator.security.core.principal_mapping import MappingError, PrincipalMapping
from coordinator.security.core.sasl_login import LOGIN_MECHANISMS, Login

_NAME: Final = "inter.broker.listener.name"
_PROTOCOL: Final = "security.inter.broker.protocol"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_HTTPS: Final = "https"


def find_inter_broker_name(config: Config, properties: Mapping[str, str]) -> str:
    """Return the upper-case name of the configured inter-broker listener, or "" without one.

    Args:
        config: The configuration of the broker.
        properties: The values that were set, by Kafka's property names.

    Raises:
        ConfigError: both properties are set.
    """
    name = config.inter_broker_listener_name.upper()
    if name and _PROTOCOL in properties:
        raise ConfigError(f"{_NAME} and {_PROTOCOL} are both set: set only one", _NAME, _PROTOCOL)
    return name or (config.security_inter_broker_protocol if _PROTOCOL in properties else "")


def find_inter_broker_listener(
    config: Config, properties: Mapping[str, str], listeners: Sequence[Listener]
) -> Listener | None:
    """Return the inter-broker listener: the configured one, or the first PLAINTEXT listener, or None.

    Raises ConfigError if the configured listener does not exist.
    """
    name = find_inter_broker_name(config, properties)
    if not name:
        return next((each for each in listeners if each.protocol is SecurityProtocol.PLAINTEXT), None)
    found = next((each for each in listeners if each.name == name), None)
    property_name = _NAME if config.inter_broker_listener_name else _PROTOCOL
    if found is None:
        names = ", ".join(each.name for each in listeners)
        raise ConfigError(
            f"{property_name}: listener {name} does not exist. The listeners are: {names}", property_name
        )
    if property_name == _PROTOCOL and found.protocol != name:
        raise ConfigError(
            f"{property_name}: the listener {name} is {found.protocol} (listener.security.protocol.map)",
            property_name,
        )
    return found


def is_inter_broker_listener(config: Config, properties: Mapping[str, str], listener: Listener) -> bool:
    """Return whether brokers of a cluster connect to each other by this listener, which is not PLAINTEXT. Raises
    ConfigError."""
    return config.is_cluster and find_inter_broker_name(config, properties) == listener.name


def check_endpoint_identification(values: ListenerValues, listener: Listener) -> None:
    """Check the algorithm of hostname verification. Raises ConfigError."""
    algorithm = values.get(_ENDPOINT_IDENTIFICATION)
    if algorithm.lower() not in ("", _HTTPS):
        name = values.find_name(_ENDPOINT_IDENTIFICATION)
        raise ConfigError(
            f"{name}: the listener {listener.name} accepts {_HTTPS} or an empty value, not {algorithm}",
            name,
        )


def create_inter_broker_login(
    config: Config, listener: Listener, jaas_options: Mapping[str, Mapping[str, str]]
) -> Login:
    """Create the login of this broker at other brokers, for an inter-broker listener with SASL.

    Args:
        config: The configuration of the broker.
        listener: The inter-broker listener.
        jaas_options: The options of the login modules, by mechanism.

    Raises:
        ConfigError: the listener does not offer the mechanism.
    """
    mechanism = config.sasl_mechanism_inter_broker_protocol
    where = f"{listener.name} is the listener between brokers and is {listener.protocol}"
    usable = [each for each in jaas_options if each in LOGIN_MECHANISMS]
    if mechanism not in usable:
        mechanisms = ", ".join(usable) or "nothing"
        raise ConfigError(
            f"{_MECHANISM}={mechanism}: {where}, where sasl.enabled.mechanisms has {mechanisms}: use one of them",
            _MECHANISM,
            "sasl.enabled.mechanisms",
        )
    options = jaas_options[mechanism]
    missing = [each for each in ("username", "password") if not options.get(each)]
    if missing:
        name = f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(f"{name}: {' and '.join(missing)} missing, and {where}", name)
    return Login(mechanism, options["username"], options["password"])


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
JaasFileReader = Callable[[], tuple[str, str]]
"""Reads the JAAS file of the process. Returns its path and its text. Raises ConfigError."""


def create_listener_settings(
    config: Config, properties: Mapping[str, str], listener: Listener, jaas_file: JaasFileReader | None = None
) -> ListenerSettings:
    """Create the security settings of a listener.

    Args:
        config: The configuration of the broker.
        properties: The values that were set, by Kafka's property names. Each is valid by itself.
        listener: The listener.
        jaas_file: Reads the JAAS file of the process.

    Raises:
        ConfigError: settings contradict each other or are missing. The message contains no secrets.
    """
    values = ListenerValues(config, properties, listener.name)
    has_sasl = listener.protocol.has_sasl
    mechanisms = _parse_mechanisms(values, listener) if has_sasl else ()
    jaas_options = _read_jaas_options(values, listener, mechanisms, jaas_file)
    is_between = is_inter_broker_listener(config, properties, listener)
    if is_between and listener.protocol.has_tls:
        check_endpoint_identification(values, listener)
    return ListenerSettings(
        name=listener.name,
        protocol=listener.protocol,
        tls=_create_tls_settings(values, listener) if listener.protocol.has_tls else None,
        mechanisms=mechanisms,
        jaas_options=jaas_options,
        connections_max_reauth_ms={
            each: values.get("connections.max.reauth.ms", each) for each in mechanisms
        },
        oauth=_create_oauth_settings(values, listener) if "OAUTHBEARER" in mechanisms else None,
        sasl_server_max_receive_size=values.get("sasl.server.max.receive.size"),
        connection_failed_authentication_delay_ms=config.connection_failed_authentication_delay_ms,
        authentication_timeout_ms=config.authentication_timeout_ms,
        is_inter_broker=is_between,
        login=create_inter_broker_login(config, listener, jaas_options) if is_between and has_sasl else None,
    )


# TLS


def _create_tls_settings(values: ListenerValues, listener: Listener) -> TlsSettings:
    for store in ("keystore", "truststore"):
        _check_store(values, listener, store)
    if not (values.get("ssl.keystore.location") or values.get("ssl.keystore.key")):
        name = "ssl.keystore.location"
        where = f"the listener {listener.name} is {listener.protocol}"
        raise ConfigError(f"{name} is not set, and {where}", name, "listeners")
    client_auth = _find_client_auth(values, listener)
    if client_auth != "none" and not (
        values.get("ssl.truststore.location") or values.get("ssl.truststore.certificates")
    ):
        name = values.find_name(_CLIENT_AUTH)
        raise ConfigError(
            f"{name}={client_auth}: listener {listener.name} needs ssl.truststore.location or "
            "ssl.truststore.certificates to verify the certificates of clients",
            name,
        )
    _check_cipher_suites(values, listener)
    if not listener.protocol.has_sasl:
        _check_mapping_rules(values, listener)
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
    """Check the properties of the keystore or truststore (`store`) as `DefaultSslEngineFactory` does. Raises
    ConfigError."""
    location, type_, password = (f"ssl.{store}.{part}" for part in ("location", "type", "password"))
    is_keystore = store == "keystore"
    texts = "ssl.keystore.key" if is_keystore else "ssl.truststore.certificates"
    chain = "ssl.keystore.certificate.chain"
    is_pem = values.get(type_) == _PEM

    def refuse(what: str, *names: str) -> None:
        property_names = [values.find_name(name) for name in names]
        raise ConfigError(f"{property_names[0]}: for the listener {listener.name} {what}", *property_names)

    if is_keystore and values.get(chain) and not values.get(texts):
        refuse(f"{texts} is missing", chain)
    if values.get(texts):
        if not is_pem:
            refuse(f"{type_} must be {_PEM}", texts, type_)
        if is_keystore and not values.get(chain):
            refuse(f"{chain} is missing", texts)
        if values.get(location):
            refuse(f"{location} must not be set as well", texts, location)
    if is_pem and values.get(password):
        instead = "; the key's is ssl.key.password" if is_keystore else ""
        refuse(f"{_PEM} takes no such password{instead}", password, type_)
    if values.get(password) and not values.get(location):
        refuse(f"{location} is missing", password)
    if is_keystore and not is_pem and values.get(location) and not values.get(password):
        refuse(f"{password} is missing", location)


def _find_client_auth(values: ListenerValues, listener: Listener) -> str:
    """Return `ssl.client.auth` of a listener. With SASL only the property of the listener counts (KIP-684)."""
    if listener.protocol.has_sasl and values.find_text(_CLIENT_AUTH) is None:
        return "none"
    found: str = values.get(_CLIENT_AUTH)
    return found


def _check_cipher_suites(values: ListenerValues, listener: Listener) -> None:
    """Check that the enabled TLS versions can use at least one of the configured suites. Raises ConfigError."""
    name, suites = "ssl.cipher.suites", set(values.get("ssl.cipher.suites"))
    versions = values.get("ssl.enabled.protocols")
    if not suites or not versions:
        return
    usable = (suites & TLS_1_3 if "TLSv1.3" in versions else set()) | (
        suites - TLS_1_3 if "TLSv1.2" in versions else set()
    )
    if not usable:
        property_name = values.find_name(name)
        raise ConfigError(
            f"{property_name}: none of them is usable on the listener {listener.name} with {', '.join(versions)}",
            property_name,
        )


def _check_mapping_rules(values: ListenerValues, listener: Listener) -> None:
    """Check that the rules for principals can be parsed. Raises ConfigError."""
    try:
        PrincipalMapping(values.get(_RULES))
    except MappingError as error:
        name = values.find_name(_RULES)
        raise ConfigError(f"{name}: for the listener {listener.name} {error}", name) from None


# SASL


def _parse_mechanisms(values: ListenerValues, listener: Listener) -> tuple[str, ...]:
    name = values.find_name(_ENABLED)
    where = f"the listener {listener.name} is {listener.protocol}"
    accepted = ", ".join(SASL_MECHANISMS)
    if not values.is_set(_ENABLED):
        raise ConfigError(
            f"{_ENABLED} is not set, and {where}: its default is GSSAPI, which groupd does not support. Use "
            f"one of: {accepted}",
            _ENABLED,
            "listeners",
        )
    mechanisms: tuple[str, ...] = tuple(dict.fromkeys(values.get(_ENABLED)))
    if not mechanisms:
        raise ConfigError(f"{name} is empty, and {where}. Use one of: {accepted}", name)
    if mechanisms == (GSSAPI,):
        raise ConfigError(
            f"{name}: groupd does not support GSSAPI (Kerberos), and {where}. Use one of: {accepted}", name
        )
    mechanisms = tuple(mechanism for mechanism in mechanisms if mechanism != GSSAPI)
    for mechanism in mechanisms:
        if mechanism not in SASL_MECHANISMS:
            raise ConfigError(
                f"{name}: mechanism {mechanism} is unknown, and {where}. Accepted: {accepted}", name
            )
        _check_handler(values, listener, mechanism)
    return mechanisms


def _check_handler(values: ListenerValues, listener: Listener, mechanism: str) -> None:
    name = f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.{_HANDLER}"
    if mechanism != "OAUTHBEARER" and values.find_name(_HANDLER, mechanism) == name:
        raise ConfigError(f"{name}: groupd supports no callback handler for {mechanism}. Remove it", name)


def _read_jaas_options(
    values: ListenerValues, listener: Listener, mechanisms: tuple[str, ...], jaas_file: JaasFileReader | None
) -> dict[str, Mapping[str, str]]:
    options: dict[str, Mapping[str, str]] = {}
    of_file: list[LoginModule] | None = None
    for mechanism in mechanisms:
        name = f"{mechanism.lower()}.{_JAAS}"
        text = values.find_text(name)
        if text:
            options[mechanism] = _parse_jaas_property(
                f"{LISTENER_PREFIX}{listener.name.lower()}.{name}", text, mechanism
            )
            continue
        if of_file is None:
            of_file = _parse_jaas_file(listener, jaas_file) if jaas_file is not None else []
        options[mechanism] = {
            option: value
            for module in of_file
            if module.name == _LOGIN_MODULES[mechanism]
            for option, value in module.options.items()
        }
    if "PLAIN" in mechanisms and not any(option.startswith(_USER) for option in options["PLAIN"]):
        raise _create_no_users_error(values, listener)
    return options


def _parse_jaas_property(name: str, text: str, mechanism: str) -> Mapping[str, str]:
    try:
        modules = parse_jaas_property(text)
    except JaasError as error:
        raise ConfigError(f"{name}: {error}", name) from None
    if len(modules) != 1:
        raise ConfigError(f"{name}: exactly one login module is allowed, not {len(modules)}", name)
    if modules[0].name != _LOGIN_MODULES[mechanism]:
        raise ConfigError(
            f"{name}: the login module of {mechanism} must be {_LOGIN_MODULES[mechanism]}", name
        )
    return modules[0].options


def _parse_jaas_file(listener: Listener, read: JaasFileReader) -> list[LoginModule]:
    path, text = read()
    try:
        sections = parse_jaas_file(text)
    except JaasError as error:
        raise ConfigError(f"{path}: {error}") from None
    return sections.get(f"{listener.name.lower()}.{_SECTION}", sections.get(_SECTION, []))


def _create_no_users_error(values: ListenerValues, listener: Listener) -> ConfigError:
    name = f"{LISTENER_PREFIX}{listener.name.lower()}.plain.{_JAAS}"
    text = f'{name} has no users of PLAIN ({_USER}NAME="PASSWORD")'
    if values.is_set(_JAAS):
        text += f"; {values.find_name(_JAAS)} has no effect here: prefix it with a listener and a mechanism"
    return ConfigError(text, name, values.find_name(_JAAS), values.find_name(_ENABLED))


def _create_oauth_settings(values: ListenerValues, listener: Listener) -> OauthSettings:
    mechanism = "OAUTHBEARER"
    prefixed = f"{LISTENER_PREFIX}{listener.name.lower()}.oauthbearer.{_HANDLER}"
    # As in Kafka, only the property with the prefix of listener and mechanism selects the validator.
    is_secured = (
        values.find_name(_HANDLER, mechanism) == prefixed
        and values.get(_HANDLER, mechanism) in OAUTH_VALIDATORS
    )
    url = values.find_name(_JWKS_URL, mechanism)
    if not is_secured and values.get(_JWKS_URL, mechanism):
        raise ConfigError(f"{url} has no effect: set {prefixed}={OAUTH_VALIDATORS[0]} as well", url)
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
