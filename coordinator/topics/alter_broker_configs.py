"""IncrementalAlterConfigs and AlterConfigs for this broker. Its properties are set at its start here, so none of
them can be changed while it runs. But setting a store of a listener to what it is has the stores read again, as in
Kafka: so certificates are renewed. That is answered before they are read, and whether they could be is for the log.

Source: KIP-226, Kafka's `DynamicBrokerConfig`, `SslConfigs.RECONFIGURABLE_CONFIGS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from coordinator.config.listener_properties import parse_name
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import AlterableConfig

STORES: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
"""What listeners have that can be read again."""


def check_broker_configs(
    configs: Sequence[AlterableConfig], of_broker: Iterable[BrokerConfig], *, is_default: bool
) -> None:
    """In: what is set, in a form that makes sense; the broker's properties; whether all brokers are meant. Raises
    Refusal."""
    names = {config.name for config in configs}
    stores = {name for name in names if _store_of(name) is not None}
    _refuse(names - stores - STORES, "Cannot update these configs dynamically")
    _refuse(
        names - stores,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    if is_default:
        _refuse(stores, "Cannot update these configs at default cluster level, broker id must be specified")
    found = {each.key.name: each for each in of_broker}
    _refuse(
        {config.name for config in configs if config.value != _text_of(config.name, found)},
        "Cannot update these configs dynamically, to other values than they have",
    )


def _refuse(names: set[str], why: str) -> None:
    if names:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(sorted(names))}]")


def _store_of(name: str) -> str | None:
    """The plain name of a listener's store; None for every other name."""
    found = parse_name(name)
    return found.name if found is not None and not found.mechanism and found.name in STORES else None


def _text_of(name: str, found: Mapping[str, BrokerConfig]) -> str | None:
    """What a listener's store is set to, for it or for all of them."""
    of_listener = found.get(name)
    if of_listener is not None and of_listener.text is not None:
        return of_listener.text
    store = _store_of(name)
    assert store is not None
    of_all = found.get(store)
    return None if of_all is None else of_all.text
