"""`cub`, the health checks of Confluent's images: `cub kafka-ready -b ADDRESSES NUMBER TIMEOUT`, `cub zk-ready`."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final, NoReturn

from coordinator.cli.kafka_tools.client_settings import make_settings, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure
from coordinator.cli.kafka_tools.tool_options import OptionTable
from coordinator.cli.kafka_tools.zookeeper_option import NoBrokerInContainer, find_bootstrap

OPTIONS: Final[OptionTable | None] = None
UNRECOGNIZED_PREFIX: Final = ""
_USAGE: Final = (
    "usage: cub kafka-ready -b HOST:PORT[,HOST:PORT...] [-c FILE] [-s PROTOCOL] NUMBER_OF_BROKERS TIMEOUT_SECONDS\n"
    "       cub zk-ready ADDRESSES TIMEOUT_SECONDS"
)
_PAUSE_S: Final = 0.2
_VALUES: Final = {
    "-b": "bootstrap",
    "--bootstrap_broker_list": "bootstrap",
    "-c": "config",
    "--config": "config",
    "-s": "protocol",
    "--security-protocol": "protocol",
    "-z": "zookeeper",
    "--zookeeper_connect": "zookeeper",
}


def run(arguments: Sequence[str]) -> int:
    """Run the tool. Returns 0 where the brokers are ready in time."""
    if not arguments:
        _fail("a command is missing")
    command, *rest = arguments
    if command == "zk-ready":
        print("groupd needs no ZooKeeper: nothing to wait for.")
        return 0
    if command != "kafka-ready":
        _fail(f"{command} is not supported. Use kafka-ready or zk-ready")
    return _wait_for_brokers(rest)


def _wait_for_brokers(arguments: Sequence[str]) -> int:
    found, words = _parse(arguments)
    if "bootstrap" not in found and not ("zookeeper" in found and _is_in_image()):
        _fail("-b HOST:PORT is missing (-z is ignored: groupd needs no ZooKeeper)")
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        _fail("the number of brokers and the timeout in seconds are missing")
    wanted, timeout_s = map(int, words)
    properties = read_properties(found.get("config"))
    if "protocol" in found:
        properties.setdefault("security.protocol", found["protocol"])
    deadline = Deadline(timeout_s)
    bootstrap = found.get("bootstrap") or _find_broker(found["zookeeper"], properties, deadline)
    settings = make_settings(bootstrap, {**properties, "default.api.timeout.ms": "1"})
    reason = "no broker answers"
    with closing(ClusterClient(settings)) as client:
        while True:
            try:
                count = len(client.fetch_metadata([]).brokers)
                if count >= wanted:
                    return 0
                reason = f"Expected {wanted} brokers but found only {count}"
            except KafkaError as error:
                reason = str(error)
            if not deadline.pause(_PAUSE_S):
                print(f"cub: not ready after {timeout_s} s: {reason}", file=sys.stderr)
                return 1


def _is_in_image() -> bool:
    from coordinator.config.image_variables import is_in_image  # slow to load

    return is_in_image(os.environ)


def _find_broker(zookeeper: str, properties: Mapping[str, str], deadline: Deadline) -> str:
    """Return the address of the broker of this container. Raises ToolFailure if none answers in time."""
    while True:
        try:
            return find_bootstrap(f"-z {zookeeper}", properties, successor="-b")
        except NoBrokerInContainer:
            if not deadline.pause(_PAUSE_S):
                raise


def _parse(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of options by meaning, and the positional arguments."""
    found: dict[str, str] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if not word.startswith("-"):
            words.append(word)
            continue
        meaning = _VALUES.get(word)
        if meaning is None:
            _fail(f"{word} is not supported")
        if not equals and not rest:
            _fail(f"{word} needs a value")
        found[meaning] = text if equals else rest.pop(0)
    return found, words


def _fail(problem: str) -> NoReturn:
    raise ToolFailure(f"cub: {problem}\n{_USAGE}")
