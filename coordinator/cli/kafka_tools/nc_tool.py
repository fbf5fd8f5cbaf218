"""`nc -z HOST PORT`: test whether a TCP port accepts connections. Other modes of netcat are not supported."""

import socket
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.cli.kafka_tools.tool_options import OptionTable
from storage.storage_errors import format_error_reason

OPTIONS: Final[OptionTable | None] = None
UNRECOGNIZED_PREFIX: Final = ""
_USAGE: Final = "usage: nc -z [-v] [-n] [-4|-6] [-w SECONDS] HOST PORT[-PORT]..."
_FLAGS: Final = "zvn46"
_DEFAULT_TIMEOUT_S: Final = 10.0
_MAX_PORT: Final = 65535


def run(arguments: Sequence[str]) -> int:
    """Run the tool. Return 0 if each port accepts a connection."""
    flags, timeout_s, words = _parse(arguments)
    if "z" not in flags:
        _fail("only the port scan, -z, is supported. Add -z")
    if len(words) < 2:
        _fail("HOST and PORT are missing")
    host, *ports = words
    family = socket.AF_INET if "4" in flags else socket.AF_INET6 if "6" in flags else socket.AF_UNSPEC
    failures = 0
    for word in ports:
        for port in _parse_ports(word):
            failures += not _is_open(host, port, family, timeout_s, is_verbose="v" in flags)
    return 1 if failures else 0


def _parse(arguments: Sequence[str]) -> tuple[set[str], float, list[str]]:
    """Return flags, the timeout in seconds, and the positional arguments."""
    flags: set[str] = set()
    words: list[str] = []
    timeout_s = _DEFAULT_TIMEOUT_S
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter == "w":
                text = letters or (rest.pop(0) if rest else "")
                timeout_s, letters = _parse_timeout(text), ""
            elif letter in _FLAGS:
                flags.add(letter)
            else:
                _fail(f"-{letter} is not supported")
    return flags, timeout_s, words


def _parse_timeout(text: str) -> float:
    if not text.isdecimal() or not int(text):
        _fail(f"-w {text}: is not a number of seconds above 0")
    return float(text)


def _parse_ports(word: str) -> range:
    first, _, last = word.partition("-")
    bounds = [first, last or first]
    if not all(bound.isdecimal() and 0 < int(bound) <= _MAX_PORT for bound in bounds):
        _fail(f"{word} is not a port. Use a number from 1 to {_MAX_PORT}, or two with a hyphen between them")
    return range(int(bounds[0]), int(bounds[1]) + 1)


def _is_open(host: str, port: int, family: int, timeout_s: float, *, is_verbose: bool) -> bool:
    """Return whether one of the host's addresses accepts a connection."""
    try:
        addresses = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        print(f"nc: {host}: {format_error_reason(error)}", file=sys.stderr)
        return False
    reason = ""
    for kind, type_, protocol, _, address in addresses:
        with socket.socket(kind, type_, protocol) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect(address)
            except OSError as error:
                reason = format_error_reason(error)
                continue
        if is_verbose:
            print(f"Connection to {host} {port} port [tcp/*] succeeded!", file=sys.stderr)
        return True
    if is_verbose:
        print(f"nc: connect to {host} port {port} (tcp) failed: {reason}", file=sys.stderr)
    return False


def _fail(problem: str) -> NoReturn:
    raise ToolFailure(f"nc: {problem}\n{_USAGE}")
