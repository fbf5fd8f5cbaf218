"""A client's properties file, as kafka-acls.sh and its like take it by --command-config: how a broker is reached
that wants TLS, or to know who asks. What such a file says of other things means nothing here.

Source: Kafka's `CommonClientConfigs`, `SslConfigs`, `SaslConfigs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from coordinator.config.properties_file import parse_properties
from coordinator.names import SecurityProtocol
from coordinator.net.peer import printable

if TYPE_CHECKING:  # imported where a broker wants TLS or SASL: most calls do without
    from coordinator.config.listener_settings import TlsSettings
    from coordinator.security.sasl_login import Login

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_ENABLED: Final = "ssl.enabled.protocols"
_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a broker is reached."""

    tls: "TlsSettings | None" = None
    """None: without TLS."""
    login: "Login | None" = None
    """None: without SASL."""


def parse_client(text: str) -> ClientSecurity:
    """In: the text of a file. Raises ValueError naming the property that makes no sense, and no secret."""
    return security_from_properties(parse_properties(text))


def security_from_properties(values: Mapping[str, str]) -> ClientSecurity:
    """Return the security settings among a client's properties. Raises ValueError as `parse_client` does."""
    said = values.get(_PROTOCOL, SecurityProtocol.PLAINTEXT).strip().upper()
    try:
        protocol = SecurityProtocol(said)
    except ValueError:
        raise ValueError(f"{_PROTOCOL}={printable(said)} is none of {', '.join(SecurityProtocol)}") from None
    return ClientSecurity(
        _tls(values) if protocol.has_tls else None,
        _login(values, protocol) if protocol.has_sasl else None,
    )


def _tls(values: Mapping[str, str]) -> "TlsSettings":
    from coordinator.config.listener_settings import TlsSettings
    from coordinator.config.security_properties import SecurityProperties

    def value(name: str) -> str:
        return values.get(name, "").strip()

    for store in ("keystore", "truststore"):
        type_ = f"ssl.{store}.type"
        if value(type_).upper() not in ("", *_STORE_TYPES):
            raise ValueError(f"{type_}={printable(value(type_))} is none of {', '.join(_STORE_TYPES)}")
    if bool(value(_KEY)) != bool(value(_CHAIN)):
        raise ValueError(f"{_KEY} and {_CHAIN} need each other")
    defaults = SecurityProperties()
    versions = tuple(each.strip() for each in value(_ENABLED).split(",") if each.strip())
    if not set(versions) <= set(defaults.ssl_enabled_protocols):
        raise ValueError(f"{_ENABLED}: there is {', '.join(defaults.ssl_enabled_protocols)}")
    return TlsSettings(
        ssl_keystore_location=value("ssl.keystore.location"),
        ssl_keystore_type=value("ssl.keystore.type").upper() or defaults.ssl_keystore_type,
        ssl_keystore_password=value("ssl.keystore.password"),
        ssl_key_password=value("ssl.key.password"),
        ssl_keystore_key=value(_KEY),
        ssl_keystore_certificate_chain=value(_CHAIN),
        ssl_truststore_location=value("ssl.truststore.location"),
        ssl_truststore_type=value("ssl.truststore.type").upper() or defaults.ssl_truststore_type,
        ssl_truststore_password=value("ssl.truststore.password"),
        ssl_truststore_certificates=value("ssl.truststore.certificates"),
        ssl_client_auth=defaults.ssl_client_auth,
        ssl_enabled_protocols=versions or defaults.ssl_enabled_protocols,
        ssl_cipher_suites=(),
        ssl_principal_mapping_rules=defaults.ssl_principal_mapping_rules,
        ssl_allow_dn_changes=True,
        ssl_allow_san_changes=True,
        ssl_endpoint_identification_algorithm=values.get(
            _HOST_CHECK, defaults.ssl_endpoint_identification_algorithm
        ).strip(),
    )


def _login(values: Mapping[str, str], protocol: SecurityProtocol) -> "Login":
    from coordinator.security.jaas import JaasError, parse_property
    from coordinator.security.sasl_login import LOGIN_MECHANISMS, Login

    mechanism = values.get(_MECHANISM, "GSSAPI").strip()
    if mechanism not in LOGIN_MECHANISMS:
        there = ", ".join(LOGIN_MECHANISMS)
        raise ValueError(
            f"{_PROTOCOL}={protocol} needs a {_MECHANISM} of {there}, not {printable(mechanism)}"
        )
    try:
        modules = parse_property(values.get(_JAAS, ""))
    except JaasError as error:
        raise ValueError(f"{_JAAS}: {error}") from None
    options = modules[0].options
    if len(modules) != 1 or not options.get("username"):
        raise ValueError(f'{_JAAS} needs one login module with username="NAME" and password="…"')
    return Login(mechanism, options["username"], options.get("password"))
