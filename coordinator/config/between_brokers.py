"""By which listener the brokers of a cluster reach each other, and as whom, from the properties.

Source: Kafka's `AbstractKafkaConfig.interBrokerListenerNameAndSecurityProtocol`, `KafkaConfig.validateValues`,
`SaslChannelBuilder`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.config.errors import ConfigError
from coordinator.config.listener_properties import PREFIX, ListenerValues
from coordinator.config.listeners import Listener
from coordinator.config.properties import Config
from coordinator.names import SecurityProtocol
from coordinator.security.sasl_login import LOGIN_MECHANISMS, Login

_NAME: Final = "inter.broker.listener.name"
_PROTOCOL: Final = "security.inter.broker.protocol"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_HTTPS: Final = "https"


def name_between_brokers(config: Config, properties: Mapping[str, str]) -> str:
    """The name of the listener that was asked for, in capitals; "" where none was. In: also what was set, by
    Kafka's names. Raises ConfigError."""
    name = config.inter_broker_listener_name.upper()
    if name and _PROTOCOL in properties:
        raise ConfigError(
            f"{_NAME} and {_PROTOCOL} are two ways to say the same: one is enough", _NAME, _PROTOCOL
        )
    return name or (config.security_inter_broker_protocol if _PROTOCOL in properties else "")


def listener_between_brokers(
    config: Config, properties: Mapping[str, str], listeners: Sequence[Listener]
) -> Listener | None:
    """That listener, or the first that is PLAINTEXT where none was asked for; None: there is none. Raises
    ConfigError."""
    name = name_between_brokers(config, properties)
    if not name:
        return next((each for each in listeners if each.protocol is SecurityProtocol.PLAINTEXT), None)
    found = next((each for each in listeners if each.name == name), None)
    said = _NAME if config.inter_broker_listener_name else _PROTOCOL
    if found is None:
        there = ", ".join(each.name for each in listeners)
        raise ConfigError(f"{said}: there is no listener {name}; there is: {there}", said)
    if said == _PROTOCOL and found.protocol != name:
        raise ConfigError(
            f"{said}: the listener {name} is {found.protocol} (listener.security.protocol.map)", said
        )
    return found


def is_between_brokers(config: Config, properties: Mapping[str, str], listener: Listener) -> bool:
    """Whether a listener that is not PLAINTEXT is that of the brokers of a cluster. Raises ConfigError."""
    return config.is_cluster and name_between_brokers(config, properties) == listener.name


def check_host_check(values: ListenerValues, listener: Listener) -> None:
    """Raises ConfigError for a way of making sure of a host that there is not."""
    algorithm = values.get(_HOST_CHECK)
    if algorithm.lower() not in ("", _HTTPS):
        name = values.name_of(_HOST_CHECK)
        raise ConfigError(
            f"{name}: for the listener {listener.name} there is {_HTTPS}, or nothing, and not {algorithm}",
            name,
        )


def login_between_brokers(
    config: Config, listener: Listener, jaas_options: Mapping[str, Mapping[str, str]]
) -> Login:
    """As whom this broker logs in at others by a listener with SASL. In: the options of its login modules, by
    mechanism. Raises ConfigError."""
    mechanism = config.sasl_mechanism_inter_broker_protocol
    where = f"the brokers reach each other by the listener {listener.name}, which is {listener.protocol}"
    usable = [each for each in jaas_options if each in LOGIN_MECHANISMS]
    if mechanism not in usable:
        there = ", ".join(usable) or "nothing"
        raise ConfigError(
            f"{_MECHANISM}={mechanism}: {where}, and for that it has {there} (sasl.enabled.mechanisms)",
            _MECHANISM,
            "sasl.enabled.mechanisms",
        )
    options = jaas_options[mechanism]
    missing = [each for each in ("username", "password") if not options.get(each)]
    if missing:
        name = f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(f"{name}: {' and '.join(missing)} missing, and {where}", name)
    return Login(mechanism, options["username"], options["password"])
