"""Topics that variables of other images create at the start: NAME:PARTITIONS:REPLICAS[:CLEANUP POLICY], ...

Source: `create-topics.sh` of the image wurstmeister/kafka, which hands the last field to the shell, so that people
put options of kafka-topics.sh there as well; the entry point of debezium/kafka, which strips blanks and quotes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

KAFKA_CREATE_TOPICS: Final = "KAFKA_CREATE_TOPICS"
CREATE_TOPICS: Final = "CREATE_TOPICS"
SEPARATOR: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
_SEPARATOR: Final = ","
_QUOTES: Final = ("'", '"')
_CONFIG: Final = "--config"
_DEFAULT: Final = -1
_MAX_INT: Final = 2**31 - 1
_FORM: Final = "NAME:PARTITIONS:REPLICAS, or NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY"


class InitialTopic(Struct, frozen=True):
    """A topic to create unless it exists. -1 stands for the broker's default. `variable` requests it."""

    variable: str
    name: str
    partitions: int = _DEFAULT
    replicas: int = _DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class InvalidTopicText(ValueError):
    """An entry does not have the accepted form. The message names the variable, the entry and the form."""


def parse_initial_topics(
    environment: Mapping[str, str], *, in_image: bool
) -> tuple[list[InitialTopic], list[str]]:
    """Return the topics that the environment requests, each name once, and a sentence for each invalid entry.

    Without `in_image` the variable CREATE_TOPICS is not read: another program may use it outside of the image.
    """
    topics: dict[str, InitialTopic] = {}
    problems = []
    for variable, entry in _entries(environment, in_image=in_image):
        try:
            topic = _parse_entry(variable, entry)
        except InvalidTopicText as error:
            problems.append(str(error))
        else:
            topics.setdefault(topic.name, topic)
    return list(topics.values()), problems


def _entries(environment: Mapping[str, str], *, in_image: bool) -> Iterator[tuple[str, str]]:
    separators = _unquote(environment.get(SEPARATOR, "")) or _SEPARATOR
    for variable, characters in ((KAFKA_CREATE_TOPICS, separators), (CREATE_TOPICS, _SEPARATOR)):
        if variable == CREATE_TOPICS and not in_image:
            continue
        text = _strip(environment.get(variable, ""))
        for character in characters[1:]:
            text = text.replace(character, characters[0])
        for entry in text.split(characters[0]):
            if stripped := _strip(entry):
                yield variable, stripped


def _strip(text: str) -> str:
    """Remove surrounding blanks and quotes: in a list of a compose file, a value keeps its quotes."""
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return _strip(text[1:-1]) if is_quoted else text


def _unquote(text: str) -> str:
    """Return the characters of bash's $'...'; any other text unchanged."""
    if not (text.startswith("$'") and text.endswith("'") and len(text) > 2):
        return text
    return text[2:-1].replace(r"\n", "\n").replace(r"\t", "\t")


def _parse_entry(variable: str, entry: str) -> InitialTopic:
    name, *rest = (part.strip() for part in entry.split(":", 3))
    counts = [_parse_count(variable, entry, text) for text in rest[:2]]
    configs = _parse_options(variable, entry, rest[2]) if len(rest) == 3 else {}
    partitions, replicas = (*counts, _DEFAULT, _DEFAULT)[:2]
    return InitialTopic(variable, name, partitions, replicas, configs)


def _parse_count(variable: str, entry: str, text: str) -> int:
    if not text:
        return _DEFAULT
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_INT):
        raise _invalid(variable, entry)
    return int(text)


def _parse_options(variable: str, entry: str, text: str) -> dict[str, str]:
    """Parse the configs of CLEANUP_POLICY [--config NAME=VALUE ...]."""
    import shlex  # for topics with options

    try:
        words = shlex.split(text)
    except ValueError:
        raise _invalid(variable, entry) from None
    configs: dict[str, str] = {}
    if words and not words[0].startswith("--"):
        configs["cleanup.policy"] = words.pop(0)
    while words:
        option, equals, setting = words.pop(0).partition("=")
        if not equals and words:
            setting = words.pop(0)
        name, equals, value = setting.partition("=")
        if option != _CONFIG or not (name and equals):
            raise _invalid(variable, entry)
        configs[name.strip()] = value
    return configs


def _invalid(variable: str, entry: str) -> InvalidTopicText:
    return InvalidTopicText(
        f"{variable}: {entry} is not {_FORM} (optionally followed by --config=NAME=VALUE), so the topic is not "
        "created: correct the entry"
    )
