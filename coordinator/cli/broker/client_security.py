"""Reads TLS and SASL settings of a client from a properties file, as the option --command-config of
kafka-acls.sh and similar tools names it. Other properties in the file are ignored. Source: Kafka's
`CommonClientConfigs`, `SslConfigs`, `SaslConfigs`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from coordinator.config.properties_file import parse_properties
from coordinator.core.message_text import printable
from coordinator.core.shared_types import SecurityProtocol
from storage.files import read_input_file
from storage.storage_errors import format_error_reason

if TYPE_CHECKING:
    from coordinator.config.listener_settings import TlsSettings
    from coordinator.security.core.sasl_login import Login


_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_ENABLED_PROTOCOLS: Final = "ssl.enabled.protocols"
_KEYSTORE_KEY: Final = "ssl.keystore.key"
_CERTIFICATE_CHAIN: Final = "ssl.keystore.certificate.chain"
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security settings of a connection to a broker."""

    tls: "TlsSettings | None" = None
    """The TLS settings; None without TLS."""
    login: "Login | None" = None
    """The SASL login; None without SASL."""


def command_config_parameter() -> click.Option:
    """Create the option --command-config, which is passed as `security`."""
    return click.Option(
        ["--command-config", "security"],
        envvar="GROUPD_COMMAND_CONFIG",
        metavar="FILE",
        callback=_read_option,
        help="A client's properties (security.protocol, sasl.jaas.config, ssl.truststore.location, ...), as "
        "Kafka's own commands take them. [env: GROUPD_COMMAND_CONFIG]",
    )


def _read_option(_: click.Context, __: click.Parameter, path: str | None) -> ClientSecurity:
    return ClientSecurity() if path is None else read_client_security(path)


def read_client_security(path: str) -> ClientSecurity:
    """Read Kafka's client properties from a file. Without a password in the file, ask for it on the terminal.

    Raises BadParameter for an invalid file.
    """
    try:
        security = parse_client_security(read_input_file(path).decode())
    except OSError as error:
        raise click.BadParameter(f"{path}: {format_error_reason(error, path)}") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path}: is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from error
    login = security.login
    if login is None or login.password is not None:
        return security
    return replace(security, login=replace(login, password=_prompt_password(path, login.user)))


def _prompt_password(path: str, user: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.BadParameter(
            f"{path}: sasl.jaas.config has no password. Add it, or run the command in a terminal"
        )
    password: str = click.prompt(f"Password of the login user {user}", hide_input=True, err=True)
    return password


def parse_client_security(text: str) -> ClientSecurity:
    """Parse the text of a properties file. Raises ValueError with the invalid property, without secrets."""
    return parse_security_properties(parse_properties(text))


def parse_security_properties(values: Mapping[str, str]) -> ClientSecurity:
    """Return the security settings among a client's properties. Raises ValueError as `parse_client_security`
    does."""
    given = values.get(_PROTOCOL, SecurityProtocol.PLAINTEXT).strip().upper()
    try:
        protocol = SecurityProtocol(given)
    except ValueError:
        raise ValueError(
            f"{_PROTOCOL}={printable(given)} must be one of {', '.join(SecurityProtocol)}"
        ) from None
    return ClientSecurity(
        _parse_tls(values) if protocol.has_tls else None,
        _parse_login(values, protocol) if protocol.has_sasl else None,
    )


def _parse_tls(values: Mapping[str, str]) -> "TlsSettings":
    from coordinator.config.listener_settings import TlsSettings
    from coordinator.config.security_properties import SecurityProperties

    def value(name: str) -> str:
        return values.get(name, "").strip()

    for store in ("keystore", "truststore"):
        type_ = f"ssl.{store}.type"
        if value(type_).upper() not in ("", *_STORE_TYPES):
            raise ValueError(f"{type_}={printable(value(type_))} must be one of {', '.join(_STORE_TYPES)}")
    if bool(value(_KEYSTORE_KEY)) != bool(value(_CERTIFICATE_CHAIN)):
        raise ValueError(f"set both {_KEYSTORE_KEY} and {_CERTIFICATE_CHAIN}, or neither")
    defaults = SecurityProperties()
    versions = tuple(each.strip() for each in value(_ENABLED_PROTOCOLS).split(",") if each.strip())
    if not set(versions) <= set(defaults.ssl_enabled_protocols):
        raise ValueError(
            f"{_ENABLED_PROTOCOLS} must be a list of {', '.join(defaults.ssl_enabled_protocols)}"
        )
    return TlsSettings(
        ssl_keystore_location=value("ssl.keystore.location"),
        ssl_keystore_type=value("ssl.keystore.type").upper() or defaults.ssl_keystore_type,
        ssl_keystore_password=value("ssl.keystore.password"),
        ssl_key_password=value("ssl.key.password"),
        ssl_keystore_key=value(_KEYSTORE_KEY),
        ssl_keystore_certificate_chain=value(_CERTIFICATE_CHAIN),
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


def _parse_login(values: Mapping[str, str], protocol: SecurityProtocol) -> "Login":
    from coordinator.security.core.jaas import JaasError, parse_jaas_property
    from coordinator.security.core.sasl_login import LOGIN_MECHANISMS, Login

    mechanism = values.get(_MECHANISM, "GSSAPI").strip()
    if mechanism not in LOGIN_MECHANISMS:
        accepted = ", ".join(LOGIN_MECHANISMS)
        raise ValueError(
            f"{_PROTOCOL}={protocol} needs a {_MECHANISM} of {accepted}, not {printable(mechanism)}"
        )
    try:
        modules = parse_jaas_property(values.get(_JAAS, ""))
    except JaasError as error:
        raise ValueError(f"{_JAAS}: {error}") from None
    options = modules[0].options
    if len(modules) != 1 or not options.get("username"):
        raise ValueError(f'{_JAAS} needs one login module with username="NAME" and password="…"')
    return Login(mechanism, options["username"], options.get("password"))
