"""The checked settings of a listener that is not PLAINTEXT.
`coordinator/config/listener_security.py` creates them.

A field with the name of a property has its value for this listener; "" if it is not set. Secrets are not in a
`repr`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.shared_types import SecurityProtocol
from coordinator.security.core.sasl_login import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Keys, certificates and versions of TLS.

    The key is in a keystore file or is PEM text. The same holds for the trusted certificates, which are optional.
    """

    ssl_keystore_location: str
    ssl_keystore_type: str
    """JKS, PKCS12 or PEM."""
    ssl_keystore_password: str = field(repr=False)
    ssl_key_password: str = field(repr=False)
    ssl_keystore_key: str = field(repr=False)
    ssl_keystore_certificate_chain: str = field(repr=False)
    ssl_truststore_location: str
    ssl_truststore_type: str
    """JKS, PKCS12 or PEM."""
    ssl_truststore_password: str = field(repr=False)
    ssl_truststore_certificates: str = field(repr=False)
    ssl_client_auth: str
    """none, requested or required."""
    ssl_enabled_protocols: tuple[str, ...]
    """TLSv1.2, TLSv1.3, or both."""
    ssl_cipher_suites: tuple[str, ...]
    """Keys of `cipher_suites.OPENSSL_NAMES`. Empty leaves the choice to OpenSSL."""
    ssl_principal_mapping_rules: str
    ssl_allow_dn_changes: bool
    ssl_allow_san_changes: bool
    ssl_endpoint_identification_algorithm: str
    """How a client verifies the host of the broker; "" disables the verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """The validation of OAUTHBEARER tokens."""

    is_secured: bool
    """Whether tokens must be signed."""
    sasl_oauthbearer_jwks_endpoint_url: str
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    sasl_oauthbearer_expected_audience: tuple[str, ...]
    """Accepted audiences. Empty accepts every audience."""
    sasl_oauthbearer_expected_issuer: str
    """The accepted issuer. "" accepts every issuer."""
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """The settings of one listener. `tls` is set for protocols with TLS, `mechanisms` for protocols with SASL."""

    name: str
    protocol: SecurityProtocol
    tls: TlsSettings | None
    mechanisms: tuple[str, ...]
    """The SASL names of the mechanisms, in the order of the property; each once."""
    jaas_options: Mapping[str, Mapping[str, str]] = field(repr=False)
    """The options of the login module by mechanism. Empty for a mechanism without a login module."""
    connections_max_reauth_ms: Mapping[str, int]
    """`connections.max.reauth.ms` by mechanism. A value of 0 or less disables re-authentication."""
    oauth: OauthSettings | None
    """The settings of OAUTHBEARER, if it is a mechanism."""
    sasl_server_max_receive_size: int
    connection_failed_authentication_delay_ms: int
    authentication_timeout_ms: int
    is_inter_broker: bool
    """Whether the brokers of a cluster connect to each other by this listener."""
    login: Login | None
    """The login of this broker at other brokers, for an inter-broker listener with SASL."""
