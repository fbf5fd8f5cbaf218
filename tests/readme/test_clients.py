"""Each client of docs/clients.md by itself: saved, started, fed, ended with Ctrl-C, and started again."""

import re
import shutil
from pathlib import Path

import pytest

from tests.interop import build
from tests.interop.driver import DRIVERS
from tests.interop.requirement import lacking
from tests.readme.newcomer import CHECKOUT, Newcomer
from tests.readme.page import CLIENT_PAGE, Role, Snippet

CLIENT_SNIPPETS = [snippet for snippet in CLIENT_PAGE if snippet.role is Role.CLIENT]
MAKE_RUN = next(snippet for snippet in CLIENT_PAGE if snippet.role is Role.SERVE)
PRODUCER = next(snippet for snippet in CLIENT_PAGE if snippet.role is Role.COMMAND)
DRIVER_NAMES = {
    "confluent-kafka": "confluent",
    "kafka-python": "kafka_python",
    "Java": "java",
    "franz-go": "franz_go",
}
"""Driver names that differ from the client's name on the page."""

INSTALLED = {"pip": "pyproject.toml", "npm": "tests/interop/clients/kafkajs/package.json"}
"""The files with the tested versions of clients, by installer."""


def _install(client: Snippet, directory: Path) -> None:
    """Put the client's packages into the directory, from those built for the interop tests."""
    name = DRIVER_NAMES.get(str(client), str(client))
    (driver,) = (driver for driver in DRIVERS if driver.name == name)
    try:
        driver.prepare()
        match name:
            case "kafkajs":
                (directory / "node_modules").symlink_to(Path(build.kafkajs_build(), "node_modules"))
            case "java":
                (directory / "jars").symlink_to(Path(build.java_build(), "jars"))
            case "franz_go":
                for file in ("go.mod", "go.sum"):
                    shutil.copy(Path(build.CLIENTS, "franz_go", file), directory)
    except build.CannotBuild as reason:
        lacking(f"{name}: {reason}")


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", CLIENT_SNIPPETS, ids=str)
def test_client_prints_what_comes_and_ends_with_ctrl_c(newcomer: Newcomer, client: Snippet) -> None:
    """Run the client twice.

    the second run gets no old record, so the first run has committed and left the group.
    """
    _install(client, newcomer.directory)
    newcomer.play(MAKE_RUN)
    newcomer.save(client)
    for _ in range(2):
        newcomer.consume(client, PRODUCER)


def test_every_client_of_the_tests_is_shown() -> None:
    """A client that the interop tests drive has a snippet, and each snippet a driver."""
    shown = {DRIVER_NAMES.get(str(client), str(client)) for client in CLIENT_SNIPPETS}
    assert shown == {driver.name for driver in DRIVERS}


def test_packages_are_those_that_the_tests_install() -> None:
    """The tests play the clients with the packages that the page names."""
    prose = "".join(snippet.before for snippet in CLIENT_PAGE)
    packages = re.findall(r"`(pip|npm) install ([\w-]+)`", prose)
    assert len(packages) == 4
    for program, package in packages:
        assert f'"{package}' in (CHECKOUT / INSTALLED[program]).read_text()
    (module,) = re.findall(r"go get (\S+)/pkg/kgo`", prose)
    assert f"{module} v" in Path(build.CLIENTS, "franz_go", "go.mod").read_text()
    (jars,) = (snippet.text for snippet in CLIENT_PAGE if snippet.text.startswith("for jar in"))
    pom = Path(build.CLIENTS, "java", "pom.xml").read_text()
    for version in re.findall(r":([\d.]+)", jars):
        assert f"<version>{version}</version>" in pom
