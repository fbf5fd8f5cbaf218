"""The fenced code of README.md and of docs/: the prose before it, and the use that a reader makes of it."""

import re
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
FIRST_SCREEN: Final = "Try it"
CLIENTS: Final = "Clients"

PASTED: Final = "sh"
"""The language of terminal input."""

SHOWN: Final = ""
"""The language of terminal output."""

SAVED: Final = ("python", "js", "java", "go")
"""The languages of files."""

COMPOSE: Final = ("yaml", "diff")
"""The languages of a compose file and of a change of one."""

_NEEDS_AN_ENGINE: Final = "needs a container engine; `make check` checks the files that it reads"
NOT_PLAYED: Final = {
    "for jar in": "downloads; test_packages_are_those_that_the_tests_install reads what",
    "docker build": _NEEDS_AN_ENGINE,
    "docker tag": _NEEDS_AN_ENGINE,
    "docker run": _NEEDS_AN_ENGINE,
    "docker compose": _NEEDS_AN_ENGINE,
    "make pipeline": "takes minutes; tests/pipeline runs its steps",
    ".venv/bin/groupd-pipeline run": "starts Spark; tests/pipeline runs the command",
}
"""How a snippet begins that no test plays, and why not."""

_HEADING_OR_CODE: Final = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Role(Enum):
    """What a reader does with a snippet."""

    SERVE = auto()
    """Paste it, and groupd runs in that terminal until Ctrl-C."""
    COMMAND = auto()
    """Paste it into another terminal, where it soon ends."""
    CLIENT = auto()
    """Save it, start it, and it consumes until Ctrl-C; a command that does that is only pasted."""
    COMPOSE = auto()
    """Start the service of this compose file, or of the file after this change."""
    NOT_PLAYED = auto()


@dataclass(frozen=True)
class Snippet:
    """One fenced code block that a reader uses, with its expected output."""

    section: str
    line: int
    before: str
    """The prose between this block and the previous heading or snippet."""
    language: str
    text: str
    shown: tuple[str, ...] = ()
    """The following blocks with its output, in the terminal or in groupd's log."""

    def __str__(self) -> str:
        """Return its name in a test: the name of the client, else its first line."""
        named = re.match(r"\*\*([\w-]+)\*\*", self.before.strip().split("\n\n")[-1])
        return named[1] if named else self.text.splitlines()[0]

    @property
    def prints(self) -> list[str]:
        """The expected output in the prose; `…` matches any text."""
        return re.findall(r"\bprints\s+`([^`]+)`", self.before)

    @property
    def log_says(self) -> list[str]:
        """The expected lines of groupd's log in the prose."""
        return re.findall(r"\blog\s+says\s+`([^`]+)`", self.before)

    @property
    def command(self) -> str:
        """The command that starts a client: the snippet itself, or the command in the prose, with the file at
        its end."""
        if self.language == PASTED:
            return self.text
        (command,) = re.findall(r"`([^`]+)`\s+prints\b", self.before)
        return str(command)

    @property
    def role(self) -> Role:
        """Return how a test plays the snippet. Raises ValueError for an unknown kind."""
        if any(self.text.startswith(beginning) for beginning in NOT_PLAYED):
            return Role.NOT_PLAYED
        if self.section == CLIENTS and (self.language in SAVED or self.text.startswith("kcat ")):
            return Role.CLIENT
        if self.language in COMPOSE:
            return Role.COMPOSE
        if self.language == PASTED:
            return Role.SERVE if re.match(r"make run\b|\S*groupd serve\b", self.text) else Role.COMMAND
        raise ValueError(
            f"line {self.line}: no test plays this, and NOT_PLAYED does not say why:\n{self.text}"
        )


def snippets(text: str) -> list[Snippet]:
    """Return the snippets of a page in order. Raises ValueError for a malformed page."""
    found: list[Snippet] = []
    section, end = "", 0
    for token in _HEADING_OR_CODE.finditer(text):
        line = text.count("\n", 0, token.start()) + 2
        if token["heading"] is not None:
            section = token["heading"]
        elif token["language"] != SHOWN:
            found.append(Snippet(section, line, text[end : token.start()], token["language"], token["code"]))
        elif found and found[-1].section == section:
            found[-1] = replace(found[-1], shown=(*found[-1].shown, token["code"]))
        else:
            raise ValueError(f"line {line}: nothing before it prints this")
        end = token.end()
    if re.search(r"^```", _HEADING_OR_CODE.sub("", text), re.MULTILINE):
        raise ValueError("the code of the page does not end")
    return found


def read_snippets(page: str) -> list[Snippet]:
    """Return the snippets of a page of the repository."""
    return snippets((REPOSITORY / page).read_text())


README: Final = read_snippets("README.md")
GETTING_STARTED: Final = read_snippets("docs/getting-started.md")
CLIENT_PAGE: Final = read_snippets("docs/clients.md")
DOCKER: Final = read_snippets("docs/docker.md")
SNIPPETS: Final = (*README, *GETTING_STARTED, *CLIENT_PAGE, *DOCKER)

_NAME: Final = r"\b(?:alice|bob|carol)\b"
_DURATION: Final = r"\b\d+(?:\.\d+)? m?s\b"
_TIME_TAKEN: Final = rf"{_DURATION}(?: \([^)]*\))?:"
_VARIES: Final = (
    (r"…", r".*"),
    (r"^\d\d:\d\d:\d\d ", r"\d\d:\d\d:\d\d.*\] "),
    (r"(?<=-)[0-9a-f]{8}\b", r"[0-9a-f-]+"),
    (_NAME, _NAME),
    (_TIME_TAKEN, _TIME_TAKEN),
    (_DURATION, _DURATION),
    (r"\d+", r"\d+"),
)
"""What is not the same each time: as the page shows it, and as a screen may have it.

The page leaves out the date, level and source of the log's lines, and the ends of member ids. Where the time of a
rebalance went is only said of a long one.
"""
_VARYING: Final = re.compile("|".join(f"({shown})" for shown, _ in _VARIES))


def pattern_of(shown: str) -> re.Pattern[str]:
    """Return a pattern for an output line of the page that accepts other names, numbers and times."""
    pattern, end = "", 0
    for varying in _VARYING.finditer(shown):
        assert varying.lastindex is not None
        pattern += re.escape(shown[end : varying.start()]) + _VARIES[varying.lastindex - 1][1]
        end = varying.end()
    return re.compile(pattern + re.escape(shown[end:]))
