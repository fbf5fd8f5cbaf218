"""The words in which each client reports a refusal to its user, and its behaviour when its session ends.

Each client reports the same text with Apache Kafka. About a certificate, groupd (with OpenSSL) reports the
error more precisely than Java: it is the first of two words. groupd does not list its trusted authorities, so
no client withholds a foreign certificate. Kafka then misses a certificate (bad certificate).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class Way(Enum):
    """The reaction of a client to the end of its session."""

    AUTHENTICATES_ANEW = auto()
    RECONNECTS = auto()
    """Its connection is closed at its next request, which it sends again on another."""


WAYS_ON: Final = {
    "librdkafka": Way.AUTHENTICATES_ANEW,
    "kafka_python": Way.AUTHENTICATES_ANEW,
    "aiokafka": Way.RECONNECTS,
    "kafkajs": Way.AUTHENTICATES_ANEW,
    "java": Way.AUTHENTICATES_ANEW,
    "franz_go": Way.AUTHENTICATES_ANEW,
}

_CREDENTIALS: Final = (
    "Authentication failed(: Invalid username or password| during .* due to invalid credentials)"
)
"""What the broker says."""
REFUSALS: Final[Mapping[str, Mapping[str, str]]] = {
    "librdkafka": {
        "credentials": f"_AUTHENTICATION.*{_CREDENTIALS}",
        "mechanism": "_AUTHENTICATION.*broker's supported mechanisms: SCRAM-SHA-512",
        "no certificate": "_TRANSPORT.*alert (certificate required|bad certificate)",
        "foreign certificate": "_TRANSPORT.*alert (unknown ca|bad certificate)",
        "expired certificate": "_TRANSPORT.*alert certificate (expired|unknown)",
        "topic": "TOPIC_AUTHORIZATION_FAILED",
        "group": "GROUP_AUTHORIZATION_FAILED",
    },
    "kafka_python": {
        "credentials": f"SaslAuthenticationFailedError.*{_CREDENTIALS}",
        "mechanism": "UnsupportedSaslMechanismError",
        "no certificate": "ALERT_(CERTIFICATE_REQUIRED|BAD_CERTIFICATE)",
        "foreign certificate": "ALERT_(UNKNOWN_CA|CERTIFICATE_UNKNOWN)",
        "expired certificate": "ALERT_CERTIFICATE_(EXPIRED|UNKNOWN)",
        "topic": "TopicAuthorizationFailedError",
        "group": "GroupAuthorizationFailedError",
    },
    "aiokafka": {
        "credentials": f"SaslAuthenticationFailed.*{_CREDENTIALS}",
        "mechanism": "UnsupportedSaslMechanismError",
        "no certificate": "KafkaConnectionError: Connection at .* closed",
        "foreign certificate": "KafkaConnectionError: Connection at .* closed",
        "expired certificate": "KafkaConnectionError: Connection at .* closed",
        "topic": "TopicAuthorizationFailedError",
        "group": "GroupAuthorizationFailedError",
    },
    "kafkajs": {
        "credentials": f"KafkaJSSASLAuthenticationError.*{_CREDENTIALS}",
        "mechanism": "UNSUPPORTED_SASL_MECHANISM",
        "no certificate": "alert (certificate required|bad certificate)",
        "foreign certificate": "alert (unknown ca|certificate unknown)",
        "expired certificate": "alert certificate (expired|unknown)",
        "topic": "Topic authorization failed",
        "group": "KafkaJSGroupCoordinatorNotFound",
    },
    "java": {
        "credentials": f"SaslAuthenticationException: {_CREDENTIALS}",
        "mechanism": r"UnsupportedSaslMechanismException: .*enabled mechanisms are \[SCRAM-SHA-512\]",
        "no certificate": "SslAuthenticationException.*(certificate_required|bad_certificate)",
        "foreign certificate": "SslAuthenticationException.*(unknown_ca|bad_certificate)",
        "expired certificate": "SslAuthenticationException.*certificate_(expired|unknown)",
        "topic": "TopicAuthorizationException",
        "group": "GroupAuthorizationException",
    },
    "franz_go": {
        "credentials": f"SASL_AUTHENTICATION_FAILED.*{_CREDENTIALS}",
        "mechanism": "UNSUPPORTED_SASL_MECHANISM",
        "no certificate": "tls: (certificate required|bad certificate)",
        "foreign certificate": "tls: unknown certificate",
        "expired certificate": "tls: (expired|unknown) certificate",
        "topic": "TOPIC_AUTHORIZATION_FAILED",
        "group": "GROUP_AUTHORIZATION_FAILED",
    },
}
"""A regular expression for each refusal."""
