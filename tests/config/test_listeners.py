from typing import Any

import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import (
    Address,
    Listener,
    parse_address,
    parse_http_listener,
    parse_listeners,
)
from coordinator.config.properties import Config
from coordinator.core.shared_types import SecurityProtocol


def listeners(listener_security_protocol_map: str | None = None, **values: str) -> list[Listener]:
    """Return the listeners of properties that are lists, as text. The protocol map defaults to Kafka's."""
    properties: dict[str, Any] = {name: tuple(text.split(",")) for name, text in values.items()}
    if listener_security_protocol_map is not None:
        properties["listener_security_protocol_map"] = listener_security_protocol_map
    return parse_listeners(Config(**properties))[0]


def test_the_default_is_the_loopback() -> None:
    assert listeners() == [Listener("PLAINTEXT", Address("127.0.0.1", 9092), None)]


def test_several_listeners_each_advertise_their_own_address() -> None:
    found = listeners(
        listeners="INSIDE://:9092,OUTSIDE://0.0.0.0:9094",
        advertised_listeners="INSIDE://groupd:9092,OUTSIDE://localhost:19094",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert found == [
        Listener("INSIDE", Address("", 9092), Address("groupd", 9092)),
        Listener("OUTSIDE", Address("0.0.0.0", 9094), Address("localhost", 19094)),
    ]


def test_the_official_images_controller_listener_is_not_opened() -> None:
    config = Config(
        listeners=("PLAINTEXT://:9092", "CONTROLLER://:9093"),
        controller_listener_names=("CONTROLLER",),
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    found, closed = parse_listeners(config)
    assert [listener.name for listener in found] == ["PLAINTEXT"]
    assert closed == ["CONTROLLER"]


def test_a_listener_that_advertises_only_its_port_is_as_one_that_advertises_nothing() -> None:
    found = listeners(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://:9092")
    assert found == [Listener("PLAINTEXT", Address("", 9092), None)]


def test_the_protocol_map_is_the_whole_one() -> None:
    with pytest.raises(ConfigError, match=r"PLAINTEXT has no protocol in listener\.security\.protocol\.map"):
        listeners(listeners="PLAINTEXT://:1", listener_security_protocol_map="A:PLAINTEXT")


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_a_listener_has_the_protocol_of_the_map(protocol: SecurityProtocol) -> None:
    (found,) = listeners(
        listeners="A://:1", listener_security_protocol_map=f"b:PLAINTEXT, a:{protocol.lower()}"
    )
    assert found == Listener("A", Address("", 1), None, protocol)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        (":9092", Address("", 9092)),
        ("kafka.example:65535", Address("kafka.example", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text, "test") == address
    assert parse_address(str(address), "test") == address


def test_a_wildcard_may_be_written_in_any_way() -> None:
    for host in ("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::0"):
        assert Address(host, 1).is_wildcard, host
    for host in ("127.0.0.1", "::1", "0.0.0.1", "localhost", "0"):
        assert not Address(host, 1).is_wildcard, host


def test_the_http_listener_is_an_address_or_off() -> None:
    assert parse_http_listener(Config()) == Address("127.0.0.1", 9080)
    assert parse_http_listener(Config(http_listener="[::]:0")) == Address("::", 0)
    assert parse_http_listener(Config(http_listener=" Off ")) is None
    with pytest.raises(ConfigError, match=r"http\.listener: of"):
        parse_http_listener(Config(http_listener="of"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", "host:port", "host:65536", "host:-1", "::1:9092", "h:٣"),
        *("a b:1", "a..b:1", ".a:1", f"{'a' * 64}:1", "é:1", "a\0:1", f"a:{'9' * 5000}"),
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="the flag"):
        parse_address(text, "the flag")


@pytest.mark.parametrize(
    "values",
    [
        {"listeners": ""},
        {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"},
        {"listeners": "OTHER://:9093"},
        {"listeners": "PLAINTEXT://:1", "advertised_listeners": "OTHER://a:1"},
        {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://0.0.0.0:1"},
        {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://:2"},
        {"listeners": "A://:1", "listener_security_protocol_map": "A:NONSENSE"},
        {"listeners": "C://:1", "controller_listener_names": "C"},
    ],
)
def test_listeners_that_cannot_be(values: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="listener"):
        listeners(**values)
