"""The advertised address where a host and a port have variables of their own, as in images and Kafka before 3.0.

Source: `KafkaConfig.advertisedListeners` of Kafka 2.8; the start scripts of wurstmeister/kafka, debezium/kafka,
spotify/kafka and lensesio/fast-data-dev.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.config.listeners import DEFAULT_NAME, address_of_listener

_HOSTS: Final = ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_CFG_ADVERTISED_HOST_NAME")
_PORTS: Final = ("KAFKA_ADVERTISED_PORT", "KAFKA_CFG_ADVERTISED_PORT")
_IMAGE_HOSTS: Final = (*_HOSTS, "ADVERTISED_HOST_NAME", "ADVERTISED_HOST", "ADV_HOST")
_IMAGE_PORTS: Final = (*_PORTS, "ADVERTISED_PORT")
_LISTEN_PORTS: Final = ("KAFKA_PORT",)
_DEFAULT_PORT: Final = "9092"


@dataclass(frozen=True, slots=True)
class AdvertisedHost:
    """Values for properties, "" for a property that stays as it is.

    `variable` is the one to name for them; `read` are all that count. `problem` is a sentence where the variable
    cannot be followed, else "".
    """

    variable: str
    read: frozenset[str]
    listeners: str = ""
    advertised_listeners: str = ""
    problem: str = ""


def find_advertised_host(
    environment: Mapping[str, str], listeners: Iterable[str] | None, *, in_image: bool
) -> AdvertisedHost | None:
    """Return what the variables ask for, None where they ask for nothing.

    `listeners` is None where the default listeners are in force. Without `in_image` only Kafka's own variables are
    read. Call it where advertised.listeners is not set. Raises ConfigError.
    """
    host_variable, host = _first(environment, _IMAGE_HOSTS if in_image else _HOSTS)
    port_variable, port = _first(environment, _IMAGE_PORTS if in_image else _PORTS)
    listen_variable, listen_port = _first(environment, _LISTEN_PORTS if in_image else ())
    if not (host or port or listen_port):
        return None
    read = frozenset({host_variable, port_variable, listen_variable})
    if listeners is None:
        bound_port, new_listeners = listen_port or _DEFAULT_PORT, ""
        if host or listen_port:
            new_listeners = f"{DEFAULT_NAME}://0.0.0.0:{bound_port}"
    else:
        bound, new_listeners = address_of_listener(listeners, DEFAULT_NAME), ""
        if bound is None and host:
            return AdvertisedHost(host_variable, read, problem=_no_listener(host_variable))
        bound_port = "" if bound is None else str(bound.port)
    if not host and port not in ("", bound_port):
        return AdvertisedHost(port_variable, read, new_listeners, problem=_no_host(port_variable))
    if not host:
        return AdvertisedHost(listen_variable, read, new_listeners)
    advertised = f"{DEFAULT_NAME}://{_bracketed(host)}:{port or bound_port}"
    return AdvertisedHost(host_variable, read, new_listeners, advertised)


def _first(environment: Mapping[str, str], variables: Iterable[str]) -> tuple[str, str]:
    """The first of these variables that has a value, and the value; two empty texts where none has.

    Kubernetes puts a URL into variables that are named like a service: it counts as no value.
    """
    for variable in variables:
        value = environment.get(variable, "").strip()
        if value and "://" not in value:
            return variable, value
    return "", ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _no_listener(variable: str) -> str:
    return (
        f"{variable} has no effect, because no listener has the name {DEFAULT_NAME}: set "
        "KAFKA_ADVERTISED_LISTENERS to NAME://HOST:PORT for each listener"
    )


def _no_host(variable: str) -> str:
    return f"{variable} has no effect without a host: set KAFKA_ADVERTISED_HOST_NAME as well"
