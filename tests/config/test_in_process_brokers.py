import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.in_process_brokers import create_broker_listeners, find_port_step
from coordinator.config.listeners import Listener, parse_listeners
from coordinator.config.properties import parse_config


def listeners(*texts: str, advertised: str = "") -> list[Listener]:
    properties = {
        "listeners": ",".join(texts),
        "advertised.listeners": advertised,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
    }
    found, _ = parse_listeners(parse_config({name: text for name, text in properties.items() if text}))
    return found


def test_each_broker_is_a_port_above_the_one_before() -> None:
    found = listeners("PLAINTEXT://127.0.0.1:9092", advertised="PLAINTEXT://kafka:19092")
    step = find_port_step(found, 3)
    for number in range(3):
        [listener] = create_broker_listeners(found, number, step)
        assert listener.address == ("127.0.0.1", 9092 + number)
        assert listener.advertised == ("kafka", 19092 + number)


def test_any_free_port_stays_any_free_port() -> None:
    found = listeners("PLAINTEXT://127.0.0.1:0")
    step = find_port_step(found, 3)
    assert [
        listener.address.port
        for number in range(3)
        for listener in create_broker_listeners(found, number, step)
    ] == [0] * 3


@pytest.mark.parametrize(
    ("texts", "advertised", "brokers", "names"),
    [
        (["PLAINTEXT://127.0.0.1:9092"], "", 0, "--brokers"),
        (["PLAINTEXT://127.0.0.1:9092"], "", 17, "--brokers"),
        (["PLAINTEXT://127.0.0.1:65534"], "", 3, "65534"),
        (["PLAINTEXT://127.0.0.1:9092"], "PLAINTEXT://kafka:65534", 3, "advertised.listeners"),
        (["PLAINTEXT://127.0.0.1:65531", "SSL://127.0.0.1:65532"], "", 3, "65532"),
        (["PLAINTEXT://127.0.0.1:9092", "SSL://0.0.0.0:9092"], "", 1, "PLAINTEXT and SSL"),
    ],
)
def test_what_cannot_work_is_named(texts: list[str], advertised: str, brokers: int, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        find_port_step(listeners(*texts, advertised=advertised), brokers)


@pytest.mark.parametrize(
    ("texts", "advertised", "step"),
    [
        (["PLAINTEXT://127.0.0.1:9092", "SSL://127.0.0.1:9095"], "", 1),
        (["PLAINTEXT://127.0.0.1:9092", "SSL://127.0.0.1:9094"], "", 3),
        (["PLAINTEXT://127.0.0.1:9092", "SSL://0.0.0.0:9091"], "", 2),
        (["A://:9092", "B://:9093", "C://:9094"], "", 3),
        (["A://:9092", "B://:19092"], "A://kafka:9092,B://kafka:9093", 2),
        (["A://:9092", "B://:19092"], "A://kafka:9092,B://localhost:9093", 1),
    ],
)
def test_the_ports_of_brokers_are_as_close_as_listeners_allow(
    texts: list[str], advertised: str, step: int
) -> None:
    found = listeners(*texts, advertised=advertised)
    assert find_port_step(found, 3) == step
    ports = [
        (each.host, each.port)
        for number in range(3)
        for listener in create_broker_listeners(found, number, step)
        for each in (listener.advertised or listener.address,)
    ]
    assert len(set(ports)) == len(ports)


def test_two_listeners_may_advertise_one_address() -> None:
    found = listeners("A://:9092", "B://:9093", advertised="A://kafka:9092,B://kafka:9092")
    assert find_port_step(found, 1) == 1
