"""`cub`, the checks of Confluent's images: `cub kafka-ready -b ADDRESSES NUMBER TIMEOUT`, `cub sr-ready HOST PORT
TIMEOUT` and others.

Source: `cub.py` of confluent-docker-utils.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final, NoReturn

from coordinator.cli.kafka_tools.client_settings import make_settings, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline
from coordinator.cli.kafka_tools.ready_broker import ReadyBroker
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure
from coordinator.cli.kafka_tools.tool_options import OptionTable
from coordinator.cli.kafka_tools.zookeeper_option import NoBrokerInContainer, find_bootstrap

OPTIONS: Final[OptionTable | None] = None
UNRECOGNIZED_PREFIX: Final = ""
_USAGE: Final = (
    "usage: cub kafka-ready -b HOST:PORT[,HOST:PORT...] [-c FILE] [-s PROTOCOL] NUMBER_OF_BROKERS TIMEOUT_SECONDS\n"
    "       cub zk-ready ADDRESSES TIMEOUT_SECONDS\n"
    "       cub sr-ready|kr-ready|connect-ready|ksql-server-ready|control-center-ready HOST PORT TIMEOUT_SECONDS\n"
    "           [--secure] [--ignore_cert] [--username NAME --password PASSWORD]"
)
_PAUSE_S: Final = 0.2
_KAFKA_OPTIONS: Final = {
    "-b": "bootstrap",
    "--bootstrap_broker_list": "bootstrap",
    "-c": "config",
    "--config": "config",
    "-s": "protocol",
    "--security-protocol": "protocol",
    "-z": "zookeeper",
    "--zookeeper_connect": "zookeeper",
}
_HTTP_OPTIONS: Final = {"--username": "username", "--password": "password"}
_HTTP_FLAGS: Final = {"--secure": "secure", "--ignore_cert": "ignore_cert"}
_HTTP_SERVICES: Final = {
    "sr-ready": ("config", "compatibilityLevel"),
    "kr-ready": ("topics", ""),
    "connect-ready": ("", "version"),
    "ksql-server-ready": ("info", "Ksql"),
    "control-center-ready": ("", "Control Center"),
}
"""The path that a ready service answers, and a part of its response, by command."""


def run(arguments: Sequence[str]) -> int:
    """Run the tool. Return 0 if the brokers or the service are ready in time."""
    if not arguments:
        _fail("a command is missing")
    command, *rest = arguments
    if command == "zk-ready":
        print("groupd needs no ZooKeeper: nothing to wait for.")
        return 0
    if command == "kafka-ready":
        return _wait_for_brokers(rest)
    if command not in _HTTP_SERVICES:
        _fail(f"{command} is not supported. Use one of: kafka-ready, zk-ready, {', '.join(_HTTP_SERVICES)}")
    return _wait_for_http(command, rest)


def _wait_for_brokers(arguments: Sequence[str]) -> int:
    found, words = _parse(arguments, _KAFKA_OPTIONS)
    in_image = _is_in_image()
    if "bootstrap" not in found and not ("zookeeper" in found and in_image):
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
                    if in_image and "bootstrap" in found:
                        ReadyBroker.from_properties(bootstrap, properties).save()
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


def _wait_for_http(command: str, arguments: Sequence[str]) -> int:
    """Wait until a service responds as a ready one does. Confluent's `cub` sends only one request."""
    from coordinator.cli.kafka_tools.http_check import HttpCheck  # slow to load

    found, words = _parse(arguments, _HTTP_OPTIONS, _HTTP_FLAGS)
    if len(words) != 3 or not all(word.isdecimal() for word in words[1:]):
        _fail("the host, the port and the timeout in seconds are missing")
    path, part = _HTTP_SERVICES[command]
    check = HttpCheck(
        f"{'https' if 'secure' in found else 'http'}://{words[0]}:{words[1]}/{path}",
        part,
        credentials=(found.get("username", ""), found.get("password", "")),
        verifies_certificate="ignore_cert" not in found,
    )
    deadline = Deadline(int(words[2]))
    while reason := check.find_problem():
        if not deadline.pause(_PAUSE_S):
            print(f"cub: {check.url} is not ready after {words[2]} s: {reason}", file=sys.stderr)
            return 1
    return 0


def _parse(
    arguments: Sequence[str], options: Mapping[str, str], flags: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the values of options by meaning ("" for a flag), and the positional arguments."""
    found: dict[str, str] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if not word.startswith("-"):
            words.append(word)
            continue
        if flags and word in flags and not equals:
            found[flags[word]] = ""
            continue
        meaning = options.get(word)
        if meaning is None:
            _fail(f"{word} is not supported")
        if not equals and not rest:
            _fail(f"{word} needs a value")
        found[meaning] = text if equals else rest.pop(0)
    return found, words


def _fail(problem: str) -> NoReturn:
    raise ToolFailure(f"cub: {problem}\n{_USAGE}")
