import pytest

from coordinator.config.broker_listeners import check_brokers, listeners_of_broker
from coordinator.config.errors import ConfigError
from coordinator.config.listeners import Listener, parse_listeners
from coordinator.config.properties import parse_config


def listeners(*texts: str, advertised: str = "") -> list[Listener]:
    properties = {"listeners": ",".join(texts), "advertised.listeners": advertised}
    found, _ = parse_listeners(parse_config({name: text for name, text in properties.items() if text}))
    return found


def test_each_broker_is_a_port_above_the_one_before() -> None:
    found = listeners("PLAINTEXT://127.0.0.1:9092", advertised="PLAINTEXT://kafka:19092")
    check_brokers(found, 3)
    for number in range(3):
        [listener] = listeners_of_broker(found, number)
        assert listener.address == ("127.0.0.1", 9092 + number)
        assert listener.advertised == ("kafka", 19092 + number)


def test_any_free_port_stays_any_free_port() -> None:
    found = listeners("PLAINTEXT://127.0.0.1:0")
    check_brokers(found, 3)
    assert [
        listener.address.port for number in range(3) for listener in listeners_of_broker(found, number)
    ] == [0] * 3


@pytest.mark.parametrize(
    ("texts", "advertised", "brokers", "names"),
    [
        (["PLAINTEXT://127.0.0.1:9092"], "", 0, "--brokers"),
        (["PLAINTEXT://127.0.0.1:9092"], "", 17, "--brokers"),
        (["PLAINTEXT://127.0.0.1:65534"], "", 3, "65534"),
        (["PLAINTEXT://127.0.0.1:9092"], "PLAINTEXT://kafka:65534", 3, "advertised.listeners"),
        (["PLAINTEXT://127.0.0.1:9092", "SSL://127.0.0.1:9094"], "", 3, "PLAINTEXT and SSL overlap"),
        (["PLAINTEXT://127.0.0.1:9092", "SSL://0.0.0.0:9090"], "", 3, "PLAINTEXT and SSL overlap"),
    ],
)
def test_what_cannot_work_is_named(texts: list[str], advertised: str, brokers: int, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        check_brokers(listeners(*texts, advertised=advertised), brokers)


def test_listeners_with_room_between_them_are_fine() -> None:
    check_brokers(listeners("PLAINTEXT://127.0.0.1:9092", "SSL://127.0.0.1:9095"), 3)
