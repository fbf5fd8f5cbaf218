"""The properties of TLS, authentication and authorization, as part of `Config`.

Most can be set for one listener by `listener.name.<name>.<property>`, and some for one of its mechanisms by
`listener.name.<name>.<mechanism>.<property>`. The most specific name takes precedence (`listener_properties.py`).

Source: Kafka's `SslConfigs`, `SaslConfigs`, `BrokerSecurityConfigs`, `StandardAuthorizer`.
"""

from typing import Final

from coordinator.config.config_def import ConfigType, Properties, at_least, kafka_property, one_of
from coordinator.config.config_errors import ConfigError, create_contradiction
from coordinator.config.validators import (
    AUTHORIZER,
    CIPHER_SUITES,
    FILE,
    JAAS,
    MAPPING_RULES,
    NAMES_OR_NOTHING,
    NONEMPTY_TEXT,
    PEM,
    PRINTABLE,
    STORE_TYPE,
    SUPER_USERS,
    URL,
)
from coordinator.core.shared_types import SecurityProtocol

_INT, _LONG, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_BOOLEAN, _LIST = ConfigType.BOOLEAN, ConfigType.LIST
_CLASS, _PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD

_FAILED_AUTHENTICATION_DELAY_MS: Final = 100
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
PRINCIPAL_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
OAUTH_VALIDATORS: Final = (
    f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
)
"""The class names of Kafka's validator of signed tokens: the current one, and the one of releases before 4."""
UNSECURED_OAUTH_VALIDATOR: Final = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
JWT_VALIDATORS: Final = (f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator")


class SecurityProperties(Properties):
    """Properties of security. The end of a name is the unit of a time; sizes are in bytes."""

    # TLS
    ssl_keystore_location: str = kafka_property(
        _STRING, "", "The file with the certificate and the key of this server.", FILE
    )
    ssl_keystore_type: str = kafka_property(_STRING, "JKS", "JKS, PKCS12 or PEM.", STORE_TYPE)
    ssl_keystore_password: str = kafka_property(
        _PASSWORD, "", "The password of ssl.keystore.location; not for PEM.", PRINTABLE
    )
    ssl_key_password: str = kafka_property(
        _PASSWORD,
        "",
        "The password of the key if it differs from the store's; the only password for PEM.",
        PRINTABLE,
    )
    ssl_keystore_key: str = kafka_property(
        _PASSWORD,
        "",
        "The key as PEM text, instead of ssl.keystore.location; with ssl.keystore.type=PEM.",
        PEM,
    )
    ssl_keystore_certificate_chain: str = kafka_property(
        _PASSWORD, "", "The certificate chain of ssl.keystore.key, as PEM text.", PEM
    )
    ssl_truststore_location: str = kafka_property(
        _STRING,
        "",
        "The file with the certificates of the authorities that may sign certificates of clients.",
        FILE,
    )
    ssl_truststore_type: str = kafka_property(_STRING, "JKS", "JKS, PKCS12 or PEM.", STORE_TYPE)
    ssl_truststore_password: str = kafka_property(
        _PASSWORD, "", "The password of ssl.truststore.location; not for PEM.", PRINTABLE
    )
    ssl_truststore_certificates: str = kafka_property(
        _PASSWORD,
        "",
        "The certificates as PEM text, instead of ssl.truststore.location; with ssl.truststore.type=PEM.",
        PEM,
    )
    ssl_client_auth: str = kafka_property(
        _STRING,
        "none",
        "Client certificates: `required`; `requested`, optional but verified; `none`. A SASL_SSL listener "
        "requests a certificate only if this is set for the listener.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = kafka_property(
        _LIST, ("TLSv1.2", "TLSv1.3"), "The enabled versions of TLS.", one_of("TLSv1.2", "TLSv1.3")
    )
    ssl_cipher_suites: tuple[str, ...] = kafka_property(
        _LIST, (), "The enabled cipher suites, by their TLS names; default: those of OpenSSL.", CIPHER_SUITES
    )
    ssl_principal_mapping_rules: str = kafka_property(
        _STRING,
        "DEFAULT",
        "Rules that map the subject of a client certificate to the name of its principal: DEFAULT, "
        "RULE:PATTERN/REPLACEMENT/[LU], …; the first match applies.",
        MAPPING_RULES,
    )
    ssl_allow_dn_changes: bool = kafka_property(
        _BOOLEAN, False, "Whether a reloaded certificate may have another subject."
    )
    ssl_allow_san_changes: bool = kafka_property(
        _BOOLEAN, False, "Whether a reloaded certificate may lack an alternative name of the previous one."
    )
    ssl_endpoint_identification_algorithm: str = kafka_property(
        _STRING,
        "https",
        "How brokers of a cluster verify each other's host names: `https`, or empty for no verification. It "
        "has no effect without a cluster.",
        PRINTABLE,
    )
    http_tls_certificate: str = kafka_property(
        _STRING,
        "",
        "A PEM file with the certificate of the HTTP port, which then uses https. groupd's own.",
        FILE,
    )
    http_tls_key: str = kafka_property(
        _STRING, "", "A PEM file with the key for http.tls.certificate. groupd's own.", FILE
    )
    # SASL
    sasl_enabled_mechanisms: tuple[str, ...] = kafka_property(
        _LIST,
        ("GSSAPI",),
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A listener with SASL needs one of them: GSSAPI has no "
        "effect.",
        NAMES_OR_NOTHING,
    )
    sasl_jaas_config: str = kafka_property(
        _PASSWORD,
        "",
        'The login module of a mechanism. For PLAIN it contains the users (user_NAME="PASSWORD"); for a '
        'broker of a cluster, its own login (username="NAME" password="PASSWORD"). It has an effect only as '
        "`listener.name.<name>.<mechanism>.sasl.jaas.config`.",
        JAAS,
    )
    sasl_mechanism_inter_broker_protocol: str = kafka_property(
        _STRING,
        "GSSAPI",
        "The mechanism between the brokers of a cluster, if their listener has SASL: PLAIN, SCRAM-SHA-256 or "
        "SCRAM-SHA-512. It has no effect without a cluster.",
        PRINTABLE,
    )
    sasl_server_callback_handler_class: str = kafka_property(
        _CLASS,
        "",
        "The validator of OAUTHBEARER tokens: Kafka's own classes for signed and for unsecured tokens.",
        one_of(UNSECURED_OAUTH_VALIDATOR, *OAUTH_VALIDATORS),
    )
    sasl_server_max_receive_size: int = kafka_property(
        _INT, 524_288, "The largest request of an unauthenticated client, in bytes.", at_least(1)
    )
    connections_max_reauth_ms: int = kafka_property(
        _LONG,
        0,
        "The lifetime of a SASL session, which a client extends by reauthentication; 0 or less: as long as "
        "its credential.",
    )
    connection_failed_authentication_delay_ms: int = kafka_property(
        _INT,
        _FAILED_AUTHENTICATION_DELAY_MS,
        "The delay before the response to a failed authentication.",
        at_least(0),
    )
    authentication_timeout_ms: int = kafka_property(
        _INT,
        30_000,
        "The time for authentication, TLS included; groupd then disconnects the client. groupd's own.",
        at_least(1),
    )
    sasl_oauthbearer_jwks_endpoint_url: str = kafka_property(
        _STRING,
        "",
        "The URL of the keys that sign tokens: https:, file:, or http: for this machine.",
        URL,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = kafka_property(
        _LONG, 3_600_000, "The interval between reads of these keys.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = kafka_property(
        _LONG, 100, "The first delay before a retry of a failed read of the keys.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = kafka_property(
        _LONG, 10_000, "The longest delay before such a retry.", at_least(1)
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = kafka_property(
        _LIST, (), "The accepted audiences of a token, one of which it must have.", NAMES_OR_NOTHING
    )
    sasl_oauthbearer_expected_issuer: str = kafka_property(
        _STRING, "", "The required issuer of a token.", PRINTABLE
    )
    sasl_oauthbearer_allow_unverified_audience: bool = kafka_property(
        _BOOLEAN, False, "Whether sasl.oauthbearer.expected.audience may be unset with signed tokens."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = kafka_property(
        _BOOLEAN, False, "Whether sasl.oauthbearer.expected.issuer may be unset with signed tokens."
    )
    sasl_oauthbearer_clock_skew_seconds: int = kafka_property(
        _INT, 30, "The tolerated clock difference for times in a token.", at_least(0)
    )
    sasl_oauthbearer_scope_claim_name: str = kafka_property(
        _STRING, "scope", "The claim with the scopes of a token.", NONEMPTY_TEXT
    )
    sasl_oauthbearer_sub_claim_name: str = kafka_property(
        _STRING, "sub", "The claim with the name of the principal.", NONEMPTY_TEXT
    )
    sasl_oauthbearer_jwt_validator_class: str = kafka_property(
        _CLASS, JWT_VALIDATORS[0], "Only Kafka's own classes are accepted.", one_of(*JWT_VALIDATORS)
    )
    security_inter_broker_protocol: str = kafka_property(
        _STRING,
        "PLAINTEXT",
        "The listener between the brokers of a cluster, by the name of its protocol, unless "
        "inter.broker.listener.name is set. It has no effect without a cluster.",
        one_of(*SecurityProtocol),
    )
    principal_builder_class: str = kafka_property(
        _CLASS, PRINCIPAL_BUILDER, "Only Kafka's own class is accepted.", one_of(PRINCIPAL_BUILDER)
    )
    # Authorization
    authorizer_class_name: str = kafka_property(
        _STRING,
        "",
        "The authorizer: Kafka's StandardAuthorizer (AclAuthorizer and SimpleAclAuthorizer of older releases "
        "mean the same). Default: every operation is allowed.",
        AUTHORIZER,
    )
    super_users: str = kafka_property(
        _STRING,
        "",
        "Principals with all permissions: User:NAME;User:NAME. It needs authorizer.class.name.",
        SUPER_USERS,
    )
    allow_everyone_if_no_acl_found: bool = kafka_property(
        _BOOLEAN, False, "Whether everyone may use a resource that has no ACL."
    )

    def check_security(self, idle_ms: int) -> None:
        """Check that the values do not contradict each other. `idle_ms` is connections.max.idle.ms. Raises
        ConfigError.
        """
        delay_ms = self.connection_failed_authentication_delay_ms
        if 0 < idle_ms <= delay_ms != _FAILED_AUTHENTICATION_DELAY_MS:
            names = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
            raise create_contradiction(names[0], delay_ms, "must be less than", names[1], idle_ms)
        if bool(self.http_tls_certificate) is not bool(self.http_tls_key):
            names = "http.tls.certificate", "http.tls.key"
            given, missing = names if self.http_tls_certificate else names[::-1]
            raise ConfigError(f"{given} also needs {missing}", given)
