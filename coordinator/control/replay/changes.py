"""What is to be otherwise: properties, and inputs that are left out."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from enum import Enum
from typing import Any, Final

from coordinator.config.errors import ConfigError
from coordinator.config.properties import parse_config
from coordinator.control.replay.recorded import Line, Recorded
from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.net.peer import printable
from coordinator.suggestions import suggest

_NAMES: Final = frozenset(
    one.name.replace("_", ".") for kind in (GroupConfig, ConsumerGroupConfig) for one in fields(kind)
)


class BadChange(Exception):
    """It cannot be otherwise in that way: one sentence."""


def changed_properties(recorded: Recorded, options: Iterable[str]) -> Mapping[str, Any]:
    """The properties that are to be other ones. In: texts such as "group.max.size=2". Raises BadChange."""
    asked: dict[str, str] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise BadChange(f"{printable(option)}: it should be NAME=VALUE, such as group.max.size=2")
        if name not in _NAMES:
            hint = suggest(name, sorted(_NAMES))
            raise BadChange(f"{printable(name)} is not a property of groups {hint}")
        asked[name] = text
    texts = {name: _text(value) for name, value in recorded.header["config"].items()}
    try:
        config = parse_config(texts | asked)
    except ConfigError as error:
        raise BadChange(str(error)) from error
    values = asdict(config.view(GroupConfig)) | asdict(config.view(ConsumerGroupConfig))
    return {name: values[name.replace(".", "_")] for name in asked}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value.value if isinstance(value, Enum) else value)


class Dropped:
    """Which inputs are left out: those of which every word of a text says something, such as "fire bob",
    "LeaveGroup bob", "fire heartbeat" or "12", the number of an input. Words are kinds of inputs and timers,
    requests, client ids, member ids and instance ids."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._wanted = {text: frozenset(text.split()) for text in texts}
        for text, words in self._wanted.items():
            if not words:
                raise BadChange(f"{text!r} says nothing of what is to be left out")
        self.met: set[str] = set()
        self._names: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def learn(self, member_id: str, *names: str | None) -> None:
        """What else a member is called."""
        self._names[member_id] = tuple(name for name in names if name)

    def has(self, line: Line) -> bool:
        """Whether a line is left out."""
        words = self._words(line)
        found = [text for text, wanted in self._wanted.items() if wanted <= words]
        self.met.update(found)
        return bool(found)

    def check(self) -> None:
        """Raises BadChange where a text says something of no input."""
        for text in self._wanted.keys() - self.met:
            raise BadChange(f"no input is {printable(text)!r}: nothing was left out")

    def _words(self, line: Line) -> set[str]:
        said = line.said
        words = {str(number) for number in range(line.number, line.number + line.count)} | {line.kind}
        if line.kind == "fire":
            words |= {said["fire"], said["member_id"], *self._names.get(said["member_id"], ())}
        elif line.kind in ("request", "beat"):
            body, context = said.get("body"), said.get("context")
            words |= {said[line.kind], said[line.kind].removesuffix("Request")}
            words.add(context.get("client_id", "") if isinstance(context, dict) else "")
            if isinstance(body, dict):
                named = [body.get(field) for field in ("member_id", "group_instance_id")]
                words |= {name for name in named if type(name) is str}
        return words
