"""Playing a story: the calls one after the other, and the members of groups that some of them look at."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer
from groupd_client import Groupd

from tests.interop.daemon import Daemon
from tests.kafka_tools.story import Step

RECORDED: Final = Path(__file__).parent / "recorded"
STORIES: Final = tuple(sorted(path.stem for path in RECORDED.glob("*.txt")))
PROPERTIES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "control.enable": "open",
    "node.id": "1",
}
"""Of the groupd that stories are played against."""
OF_THE_DAEMON: Final = ("acls", "users")
"""Stories about ACLs and users, which a namespace does not have. Others have a namespace of their own."""
_FILES: Final = Path(__file__).parent / "files"
_ATTEMPTS: Final = 600


class Result(NamedTuple):
    """What a call printed, and its exit code."""

    out: str
    err: str
    status: int


Run = Callable[[str, Sequence[str], str], Result]
"""Runs a tool by its name. In: name, arguments, standard input."""


class StoryBrokers:
    """One groupd that has a broker for each story."""

    def __init__(self, directory: str) -> None:
        """Start groupd with its data in `directory`."""
        options = [word for name, value in PROPERTIES.items() for word in ("-o", f"{name}={value}")]
        self._daemon = Daemon(directory, *options)
        self._client = Groupd(f"http://{self._daemon.http}")

    def bootstrap(self, story: str) -> str:
        """Return the address of the broker for a story; it is empty."""
        if story in OF_THE_DAEMON:
            return self._daemon.bootstrap
        return str(self._client.namespace().bootstrap)

    def is_alive(self) -> bool:
        """Whether it answers."""
        return self._daemon.is_alive()

    def stop(self) -> None:
        """End the daemon."""
        self._client.close()
        self._daemon.stop()


def play(steps: Sequence[Step], bootstrap: str, run: Run) -> Iterator[tuple[Step, Result]]:
    """Play a story. Yields each call with its result."""
    with contextlib.ExitStack() as members:
        for step in steps:
            if step.directive:
                _obey(step.directive, bootstrap, members)
            elif step.tool:
                arguments = [_replace_placeholders(word, bootstrap) for word in step.arguments]
                yield step, run(step.tool, arguments, "".join(f"{line}\n" for line in step.stdin))


def _replace_placeholders(word: str, bootstrap: str) -> str:
    return re.sub(r"\bFILES\b", str(_FILES), re.sub(r"\bBROKER\b", bootstrap, word))


def _obey(directive: Sequence[str], bootstrap: str, members: contextlib.ExitStack) -> None:
    match directive:
        case ["member", group, *topics]:
            members.callback(_member(bootstrap, group, topics).close)
        case ["leave"]:
            members.close()
        case _:
            raise ValueError(f"unknown directive: {' '.join(directive)}")


def _member(bootstrap: str, group: str, topics: Sequence[str]) -> Consumer:
    """Return a member of a group that has its assignment."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(list(topics))
    for _ in range(_ATTEMPTS):
        consumer.poll(0.1)
        if consumer.assignment():
            return consumer
    raise AssertionError(f"{group} got no assignment of {', '.join(topics)}")
