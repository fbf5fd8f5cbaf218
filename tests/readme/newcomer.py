"""A reader that follows README.md in a clone in which `make run` has built .venv."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.free_ports import free_ports
from tests.interop.build import MORE_PLACES, CannotBuild, tool
from tests.interop.requirement import lacking
from tests.readme.page import SAVED, Role, Snippet, pattern_of
from tests.readme.terminal import Terminal

CHECKOUT: Final = Path(__file__).parents[2]
PORTS: Final = ("9092", "9080")
"""Kafka's and HTTP's, as the pages have them."""

PROGRAMS: Final = re.compile(r"\b(?:make|kcat|curl|node|java|go)\b(?= )")
MAKE_NEEDS: Final = ("Makefile", "pyproject.toml", "constraints.txt")
OF_THE_TESTS: Final = re.compile(r"KAFKA_|PYTHON|MAKE|MFLAGS|ARGS$")
"""Names of variables that no newcomer has set."""

TIMEOUT_S: Final = 90
"""How long groupd, a command or a group may take. A first group takes 3 s for each member that comes late."""

STOPPED: Final = (0, 130)
"""The exit statuses of groupd and of make after Ctrl-C."""

CLIENT_TIMEOUT_S: Final = 90
"""How long a client may take to print its record; some are compiled first."""


class Newcomer:
    """A directory and three terminals in it: one for groupd, one for the page's commands, and a spare one."""

    def __init__(self, directory: Path) -> None:
        """Prepare the directory; skip the test if there is no groupd command beside this Python."""
        scripts = Path(sys.executable).parent
        if not (scripts / "groupd").exists():
            lacking(f"groupd is not installed beside {sys.executable}")
        self.directory = directory
        (directory / ".venv").mkdir()
        (directory / ".venv" / "bin").symlink_to(scripts)
        for name in MAKE_NEEDS:
            (directory / name).symlink_to(CHECKOUT / name)
        (directory / ".venv" / ".run").touch()  # newer than the files that make compares it with
        self._ports = free_ports(2)
        kafka, http = self._ports
        environment = {
            **{name: value for name, value in os.environ.items() if not OF_THE_TESTS.match(name)},
            "PATH": os.pathsep.join((str(scripts), os.environ["PATH"], *MORE_PLACES)),
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{kafka}",
            "KAFKA_HTTP_LISTENER": f"127.0.0.1:{http}",
            "GROUPD_URL": f"http://127.0.0.1:{http}",
        }
        self._log, self._shell, self._other = (Terminal(directory, environment) for _ in range(3))
        self._log_mark = self._shell_mark = 0
        self._served_at: int | None = None

    def play(self, snippet: Snippet) -> None:
        """Follow a snippet and check the expected output."""
        snippet = self._at_free_ports(snippet)
        _need(snippet.text)
        match snippet.role:
            case Role.SERVE:
                self._serve(snippet)
            case Role.COMMAND:
                self._command(snippet)
                for block in snippet.shown:
                    in_log = re.match(r"\d\d:\d\d:\d\d ", block)
                    self._read(self._log if in_log else self._shell, block)
            case role:
                raise ValueError(f"{role}: {snippet.text}")

    def _serve(self, snippet: Snippet) -> None:
        self.stop_groupd()
        self._served_at = self._log_mark = self._log.mark()
        self._log.paste(snippet.text)
        for line in snippet.prints:
            self._log.wait(_exactly(line), self._served_at, TIMEOUT_S)
        for block in snippet.shown:
            self._read(self._log, block)

    def _command(self, snippet: Snippet) -> None:
        self._log_mark, self._shell_mark = self._log.mark(), self._shell.mark()
        self._shell.paste(snippet.text)
        status = self._shell.prompt(TIMEOUT_S)
        assert status == 0, self._shell.since(self._shell_mark)
        for line in snippet.prints:
            self._shell.wait(_exactly(line), self._shell_mark, TIMEOUT_S)
        for line in snippet.log_says:
            self._log.wait(pattern_of(line), self._log_mark, TIMEOUT_S)

    def _read(self, terminal: Terminal, block: str) -> None:
        mark = self._log_mark if terminal is self._log else self._shell_mark
        for line in block.splitlines():
            mark = terminal.wait(pattern_of(line), mark, TIMEOUT_S).end()

    def consume(self, client: Snippet, producer: Snippet) -> None:
        """Start a client, write something for it, see it printed once, and end the client with Ctrl-C."""
        client, producer = self._at_free_ports(client), self._at_free_ports(producer)
        _need(client.command)
        _need(producer.text)
        mark = self._shell.mark()
        self._shell.paste(client.command)
        self._other.paste(producer.text)
        assert self._other.prompt(TIMEOUT_S) == 0
        (printed,) = client.prints
        # With its end: the echo of Ctrl-C must not come between the text and the end of the line.
        line = re.compile(f"^{re.escape(printed)}\r?\n", re.MULTILINE)
        self._shell.wait(line, mark, CLIENT_TIMEOUT_S)
        self._shell.interrupt(mark)
        assert len(line.findall(self._shell.since(mark))) == 1, self._shell.since(mark)

    def save(self, client: Snippet) -> None:
        """Save a client under the name that its command has at the end; a command is not to be saved."""
        if client.language in SAVED:
            (self.directory / client.command.split()[-1]).write_text(self._at_free_ports(client).text)

    def stop_groupd(self) -> None:
        """Press Ctrl-C in groupd's terminal, if it runs."""
        if self._served_at is not None:
            status = self._log.interrupt(self._served_at)
            assert status in STOPPED, self._log.since(self._served_at)
            self._served_at = None

    def close(self) -> None:
        """Close the terminals."""
        for terminal in (self._shell, self._other, self._log):
            terminal.close()

    def _at_free_ports(self, snippet: Snippet) -> Snippet:
        """The snippet with the page's ports replaced by this newcomer's, wherever they stand."""

        def moved(text: str) -> str:
            for port, free in zip(PORTS, self._ports, strict=True):
                text = re.sub(rf"(?<=:){port}\b", str(free), text)
            assert not re.search(rf"\b(?:{'|'.join(PORTS)})\b", text), text
            return text

        shown = tuple(moved(block) for block in snippet.shown)
        return replace(snippet, before=moved(snippet.before), text=moved(snippet.text), shown=shown)


def _need(text: str) -> None:
    for program in PROGRAMS.findall(text):
        try:
            tool(program)
        except CannotBuild as reason:
            lacking(str(reason))


def _exactly(printed: str) -> re.Pattern[str]:
    return re.compile(re.escape(printed).replace("…", ".*"))
