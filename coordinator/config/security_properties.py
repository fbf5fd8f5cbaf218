"""The properties of TLS, authentication and authorization, as part of `Config`.

Most act for a listener: there `listener.name.<name>.<property>` wins, and for some of them
`listener.name.<name>.<mechanism>.<property>` (see `listener_properties.py`).

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
"""Kafka's validator of signed tokens, by its name and by that of releases before 4."""
UNSECURED_OAUTH_VALIDATOR: Final = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
JWT_VALIDATORS: Final = (f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator")


class SecurityProperties(Properties):
    """Times in the unit that the name ends with, sizes in bytes."""

    # TLS
    ssl_keystore_location: str = kafka_property(
        _STRING, "", "The file that has the certificate of this server, and its key.", FILE
    )
    ssl_keystore_type: str = kafka_property(_STRING, "JKS", "JKS, PKCS12 or PEM.", STORE_TYPE)
    ssl_keystore_password: str = kafka_property(
        _PASSWORD, "", "The password of ssl.keystore.location; not for PEM.", PRINTABLE
    )
    ssl_key_password: str = kafka_property(
        _PASSWORD, "", "The password of the key, where it has its own; the only one for PEM.", PRINTABLE
    )
    ssl_keystore_key: str = kafka_property(
        _PASSWORD, "", "The key as PEM, in place of ssl.keystore.location; with ssl.keystore.type=PEM.", PEM
    )
    ssl_keystore_certificate_chain: str = kafka_property(
        _PASSWORD, "", "The certificate for ssl.keystore.key, and those above it, as PEM.", PEM
    )
    ssl_truststore_location: str = kafka_property(
        _STRING, "", "The file that has the certificates of those who may sign that of a client.", FILE
    )
    ssl_truststore_type: str = kafka_property(_STRING, "JKS", "JKS, PKCS12 or PEM.", STORE_TYPE)
    ssl_truststore_password: str = kafka_property(
        _PASSWORD, "", "The password of ssl.truststore.location; not for PEM.", PRINTABLE
    )
    ssl_truststore_certificates: str = kafka_property(
        _PASSWORD,
        "",
        "The certificates as PEM, in place of ssl.truststore.location; with ssl.truststore.type=PEM.",
        PEM,
    )
    ssl_client_auth: str = kafka_property(
        _STRING,
        "none",
        "Whether a client needs a certificate of its own: `required`; `requested`, one that it shows has to be "
        "good; `none`. A listener SASL_SSL asks for none unless it has this as its own.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = kafka_property(
        _LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS.", one_of("TLSv1.2", "TLSv1.3")
    )
    ssl_cipher_suites: tuple[str, ...] = kafka_property(
        _LIST, (), "The cipher suites, by their names in TLS; default: those of OpenSSL.", CIPHER_SUITES
    )
    ssl_principal_mapping_rules: str = kafka_property(
        _STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes the name of its principal: DEFAULT, "
        "RULE:PATTERN/REPLACEMENT/[LU], …; the first that matches.",
        MAPPING_RULES,
    )
    ssl_allow_dn_changes: bool = kafka_property(
        _BOOLEAN, False, "Whether a certificate that is read anew may have another subject."
    )
    ssl_allow_san_changes: bool = kafka_property(
        _BOOLEAN, False, "Whether a certificate that is read anew may lack an alternative name that it had."
    )
    ssl_endpoint_identification_algorithm: str = kafka_property(
        _STRING,
        "https",
        "How the brokers of a cluster make sure that the certificate of another one is of the host that it "
        "advertises: `https`; nothing: not at all. Without a cluster it does nothing.",
        PRINTABLE,
    )
    http_tls_certificate: str = kafka_property(
        _STRING,
        "",
        "A PEM file with the certificate of the HTTP port, which is then reached by https. groupd's own.",
        FILE,
    )
    http_tls_key: str = kafka_property(
        _STRING, "", "A PEM file with the key for http.tls.certificate. groupd's own.", FILE
    )
    # SASL
    sasl_enabled_mechanisms: tuple[str, ...] = kafka_property(
        _LIST,
        ("GSSAPI",),
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A listener with SASL needs it: there is no GSSAPI.",
        NAMES_OR_NOTHING,
    )
    sasl_jaas_config: str = kafka_property(
        _PASSWORD,
        "",
        'The login module of a mechanism; PLAIN has its users there (user_NAME="PASSWORD"), and a broker of a '
        'cluster who it is to others (username="NAME" password="PASSWORD"). It acts as '
        "`listener.name.<name>.<mechanism>.sasl.jaas.config` only.",
        JAAS,
    )
    sasl_mechanism_inter_broker_protocol: str = kafka_property(
        _STRING,
        "GSSAPI",
        "By which mechanism the brokers of a cluster log in at each other, where the listener between them has "
        "SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Without a cluster it does nothing.",
        PRINTABLE,
    )
    sasl_server_callback_handler_class: str = kafka_property(
        _CLASS,
        "",
        "Who validates the tokens of OAUTHBEARER: Kafka's own classes for signed and for unsecured ones.",
        one_of(UNSECURED_OAUTH_VALIDATOR, *OAUTH_VALIDATORS),
    )
    sasl_server_max_receive_size: int = kafka_property(
        _INT, 524_288, "The largest request before a client is authenticated.", at_least(1)
    )
    connections_max_reauth_ms: int = kafka_property(
        _LONG,
        0,
        "How long an authentication by SASL is good for, unless the client authenticates anew; not above 0: as "
        "long as its credential.",
    )
    connection_failed_authentication_delay_ms: int = kafka_property(
        _INT,
        _FAILED_AUTHENTICATION_DELAY_MS,
        "How long a client waits to be told that it is not who it says.",
        at_least(0),
    )
    authentication_timeout_ms: int = kafka_property(
        _INT,
        30_000,
        "How long a client may take to authenticate, TLS included, before it is disconnected. groupd's own.",
        at_least(1),
    )
    sasl_oauthbearer_jwks_endpoint_url: str = kafka_property(
        _STRING,
        "",
        "Where the keys are that tokens are signed with: https:, file:, or on this machine http:.",
        URL,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = kafka_property(
        _LONG, 3_600_000, "How often these keys are read anew.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = kafka_property(
        _LONG, 100, "How long it is waited before the keys are asked for again, at first.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = kafka_property(
        _LONG, 10_000, "How long it is waited at most.", at_least(1)
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = kafka_property(
        _LIST, (), "Whom a token has to be for: one of these.", NAMES_OR_NOTHING
    )
    sasl_oauthbearer_expected_issuer: str = kafka_property(
        _STRING, "", "Who has to have issued a token.", PRINTABLE
    )
    sasl_oauthbearer_allow_unverified_audience: bool = kafka_property(
        _BOOLEAN, False, "Whether sasl.oauthbearer.expected.audience may be unset where tokens are signed."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = kafka_property(
        _BOOLEAN, False, "Whether sasl.oauthbearer.expected.issuer may be unset where tokens are signed."
    )
    sasl_oauthbearer_clock_skew_seconds: int = kafka_property(
        _INT, 30, "How far clocks may differ where times in a token are looked at.", at_least(0)
    )
    sasl_oauthbearer_scope_claim_name: str = kafka_property(
        _STRING, "scope", "The claim of a token that has its scopes.", NONEMPTY_TEXT
    )
    sasl_oauthbearer_sub_claim_name: str = kafka_property(
        _STRING, "sub", "The claim of a token that names the principal.", NONEMPTY_TEXT
    )
    sasl_oauthbearer_jwt_validator_class: str = kafka_property(
        _CLASS, JWT_VALIDATORS[0], "Kafka's own classes alone.", one_of(*JWT_VALIDATORS)
    )
    security_inter_broker_protocol: str = kafka_property(
        _STRING,
        "PLAINTEXT",
        "By which listener the brokers of a cluster reach each other: the one that has the name of this protocol, "
        "in place of inter.broker.listener.name. Without a cluster it does nothing.",
        one_of(*SecurityProtocol),
    )
    principal_builder_class: str = kafka_property(
        _CLASS, PRINCIPAL_BUILDER, "Kafka's own class alone.", one_of(PRINCIPAL_BUILDER)
    )
    # Authorization
    authorizer_class_name: str = kafka_property(
        _STRING,
        "",
        "Who decides what a client may do: Kafka's StandardAuthorizer (AclAuthorizer and SimpleAclAuthorizer of "
        "older releases mean the same); default: everybody may do everything.",
        AUTHORIZER,
    )
    super_users: str = kafka_property(
        _STRING, "", "Who may do everything: User:NAME;User:NAME, with authorizer.class.name.", SUPER_USERS
    )
    allow_everyone_if_no_acl_found: bool = kafka_property(
        _BOOLEAN, False, "Whether everybody may do everything with a resource that no ACL is about."
    )

    def check_security(self, idle_ms: int) -> None:
        """Raises ConfigError for values that contradict each other. In: connections.max.idle.ms."""
        delay_ms = self.connection_failed_authentication_delay_ms
        if 0 < idle_ms <= delay_ms != _FAILED_AUTHENTICATION_DELAY_MS:
            names = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
            raise create_contradiction(names[0], delay_ms, "is no less than", names[1], idle_ms)
        if bool(self.http_tls_certificate) is not bool(self.http_tls_key):
            names = "http.tls.certificate", "http.tls.key"
            given, missing = names if self.http_tls_certificate else names[::-1]
            raise ConfigError(f"{given} needs {missing} as well", given)
