"""Play docs/security.md from top to bottom; a container there is a process here."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from coordinator.config.properties import PROPERTIES
from tests.docs.test_troubleshooting import METRIC
from tests.free_ports import free_ports
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_log.artifacts import tools
from tests.readme.compose_service import DOCKER, ComposeService
from tests.readme.newcomer import OF_THE_TESTS, PORTS
from tests.readme.page import Snippet, pattern_of, snippets

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
TEXT: Final = PAGE.read_text()
GUIDE: Final = snippets(TEXT)
TIMEOUT_S: Final = 90
NEEDS: Final = ("bash", "openssl")
JAVA_TOOLS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}
UP: Final = "docker compose up\n"
HANG_UP: Final = "docker compose kill --signal HUP groupd\n"


class Reader:
    """A reader with a directory and at most one running cluster."""

    def __init__(self, directory: Path) -> None:
        for program in NEEDS:
            if shutil.which(program) is None:
                lacking(f"{program} is not installed")
        self._directory = directory
        self._ports = dict(zip(PORTS, map(str, free_ports(2)), strict=True))
        scripts = directory / "scripts"
        scripts.mkdir()
        _make_tools(scripts)
        path = os.pathsep.join((str(scripts), str(Path(sys.executable).parent), os.environ["PATH"]))
        inherited = {name: value for name, value in os.environ.items() if not OF_THE_TESTS.match(name)}
        self._environment = {**inherited, "PATH": path}
        self._at = self._moved("127.0.0.1:9092")
        self._compose = Path()
        self._service: ComposeService | None = None

    def do(self, snippet: Snippet) -> None:
        """Play a snippet of the page, and check its documented output."""
        match snippet.language:
            case "yaml":
                self._compose = _compose_file(snippet)
            case "properties" | "python":
                name = re.findall(r"\b[Aa]s\s+`([\w.]+)`", snippet.before)[-1]
                (self._directory / name).write_text(self._moved(snippet.text))
            case "log":
                assert self._service is not None
                for line in snippet.text.splitlines():
                    level, _, rest = line.partition(" ")
                    self._service.await_line(re.compile(rf"{level}.*{pattern_of(rest).pattern}"))
            case "sh" if snippet.text == UP:
                self._start(snippet)
            case "sh" if snippet.text == HANG_UP:
                assert self._service is not None
                self._service.send(signal.SIGHUP)
            case "sh":
                self._run(snippet)
            case language:
                raise ValueError(f"line {snippet.line}: nobody plays {language}")

    def _start(self, snippet: Snippet) -> None:
        self.stop()
        self._service = ComposeService(self._compose, self._directory, self._ports, self._environment)
        (line,) = snippet.prints
        self._service.await_line(re.compile(re.escape(self._moved(line))))
        assert self._service.is_healthy()

    def _run(self, snippet: Snippet) -> None:
        done = subprocess.run(
            ["bash", "-e", "-c", self._moved(snippet.text)],
            cwd=self._directory,
            env={**self._environment, "GROUPD_BOOTSTRAP": self._at},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        failures = re.findall(r"\bfails\s+with\s+`([^`]+)`", snippet.before)
        assert bool(done.returncode) is bool(failures), f"line {snippet.line}: {done.stdout}"
        for line in (*failures, *snippet.prints):
            assert re.search(re.sub(r"(\\ )+", r"\\s+", re.escape(self._moved(line))), done.stdout), (
                done.stdout
            )

    def stop(self) -> None:
        """Ends the cluster that is up, if any."""
        service, self._service = self._service, None
        if service is not None:
            assert service.stop() == 0, service.log
            assert "Traceback" not in service.log
            assert not re.search(r"\w+-secret|PRIVATE", service.log)

    def _moved(self, text: str) -> str:
        return re.sub(rf"(?<=:)({'|'.join(PORTS)})\b", lambda port: self._ports[port[0]], text)


def _compose_file(snippet: Snippet) -> Path:
    (name,) = re.findall(r"\.\./docker/(secured/[\w-]+\.yml)", snippet.before)
    return DOCKER / str(name)


def _make_tools(scripts: Path) -> None:
    """Kafka's shell scripts that the page calls."""
    try:
        java = tools()
    except CannotBuild as reason:
        lacking(str(reason))
    for name, class_name in JAVA_TOOLS.items():
        script = scripts / name
        script.write_text(f"#!/bin/sh\nexec '{java[0]}' {' '.join(java[1:])} {class_name} \"$@\"\n")
        script.chmod(stat.S_IRWXU)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop()


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_guide_comes_as_it_is_shown(reader: Reader) -> None:
    """In one directory: a section may use the certificates of the one before."""
    for snippet in GUIDE:
        reader.do(snippet)


@pytest.mark.parametrize(
    "snippet", [each for each in GUIDE if each.language == "yaml"], ids=lambda s: s.section
)
def test_a_compose_file_is_that_of_the_repository(snippet: Snippet) -> None:
    assert snippet.text == _compose_file(snippet).read_text()


def test_every_compose_file_is_on_the_page() -> None:
    shown = {_compose_file(each) for each in GUIDE if each.language == "yaml"}
    assert shown == set((DOCKER / "secured").glob("*.yml"))


def test_every_section_with_a_cluster_starts_it_and_asks_it() -> None:
    for section, those in groupby(GUIDE, lambda each: each.section):
        languages = [each.language for each in those]
        if "yaml" in languages:
            assert languages.count("sh") > 1, section


def test_every_property_exists() -> None:
    table = TEXT.partition("\n## Properties\n")[2].partition("\n### ")[0]
    named = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    assert len(named) > 20
    assert {
        re.sub(r"^listener\.name\.NAME\.plain\.", "", name) for name in named
    } - PROPERTIES.keys() == set()


def test_every_metric_is_on_the_page_of_metrics() -> None:
    metrics = (PAGE.parent / "metrics.md").read_text()
    named = {name for name, _, _ in METRIC.findall(TEXT)}
    assert len(named) > 4
    assert [name for name in named if f"`{name}" not in metrics] == []


def test_every_line_of_the_table_is_in_the_source() -> None:
    """The log lines of the troubleshooting table occur in some source file."""
    rows = TEXT.partition("| the log says |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) > 10
    root = PAGE.parents[1] / "coordinator"
    source = "\n".join(path.read_text() for path in root.rglob("*.py"))
    source = re.sub(r'"\s+(?:f?")', "", source)
    for row in rows:
        said = row.split("|")[1].strip().strip("`")
        fixed = re.split(r"METADATA|…", said)
        assert all(part.strip() in re.sub(r"\{[^}]*\}|%s", "", source) for part in fixed), said
