"""The pytest plugin: one daemon for all tests of a process, and in it a separate broker for each test.

The report of a failed test has the waits and the rebalances of each group, with their causes, and the findings of
the oracles. A violation fails a test that has passed otherwise. Notices do not fail a test.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import pytest
from groupd_client import GroupdError, Namespace

from pytest_groupd.daemon import CannotStart, Daemon, DaemonChoice, create_daemon
from pytest_groupd.failure_report import create_sections, find_unaccepted, violations_text, write_artifacts
from pytest_groupd.marks import read_marks

if TYPE_CHECKING:
    from groupd_client.asynchronous import AsyncNamespace

_MARK: Final = (
    "groupd(topics={'orders': 6}, config={'group.max.size': 3}, allow=['flapping'], errors=['commit_went_back'], "
    "record=['billing']): the broker of a test: its topics and properties, the accepted violations, the notices "
    "that fail the test, and the recorded groups"
)
_BROKER: Final = pytest.StashKey[Namespace]()
_DAEMON: Final = pytest.StashKey[Daemon]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the settings of the configuration file."""
    group = parser.getgroup("groupd", "a Kafka group coordinator for tests")
    group.addoption(
        "--groupd",
        metavar="URL",
        help="use the daemon that runs at URL [env: GROUPD_URL; its token: GROUPD_TOKEN]; otherwise one is started",
    )
    group.addoption(
        "--groupd-command",
        metavar="COMMAND",
        help="start a daemon with this program or command [env: GROUPD]; default: groupd beside this Python, then "
        "groupd on PATH, then python -m groupd",
    )
    group.addoption(
        "--groupd-container",
        metavar="IMAGE",
        help="start a daemon in a container of this image, with docker or podman, on the host's network "
        "[env: GROUPD_CONTAINER]",
    )
    group.addoption(
        "--groupd-artifacts",
        metavar="DIR",
        help="where ledger, violations, metrics and the recordings of all groups of each failed test are written",
    )
    parser.addini(
        "groupd_command",
        "the command that starts a daemon, unless an option or the environment names one",
        default="",
    )
    parser.addini(
        "groupd_container",
        "the image of the daemon, unless an option or the environment names one",
        default="",
    )
    parser.addini(
        "groupd_properties", "properties of the daemon, NAME=VALUE each", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark with pytest."""
    config.addinivalue_line("markers", _MARK)


def _fail(reason: str) -> NoReturn:
    """Fail the test with one sentence, without the exception that is being handled."""
    raise pytest.fail.Exception(reason, pytrace=False) from None


@pytest.fixture(scope="session")
def groupd(pytestconfig: pytest.Config) -> Iterator[Daemon]:
    """The daemon, as `groupd_client.Groupd`: one for each process of tests, or the running one that --groupd
    selects.

    Options take precedence over the environment, and the environment over the configuration file.
    """
    option, setting, environment = pytestconfig.getoption, pytestconfig.getini, os.environ.get
    choices = (
        DaemonChoice(option("--groupd"), option("--groupd-command"), option("--groupd-container")),
        DaemonChoice(environment("GROUPD_URL"), environment("GROUPD"), environment("GROUPD_CONTAINER")),
        DaemonChoice(command=setting("groupd_command"), container=setting("groupd_container")),
    )
    try:
        daemon = create_daemon(choices, environment("GROUPD_TOKEN"), setting("groupd_properties"))
    except (CannotStart, ValueError) as error:
        _fail(str(error))
    with daemon:
        yield daemon


@pytest.fixture
def broker(request: pytest.FixtureRequest, groupd: Daemon) -> Iterator[Namespace]:
    """Return the broker of this test, a `groupd_client.Namespace`. Clients connect to `.bootstrap`."""
    wanted = read_marks(request.node)
    try:
        groupd.ensure()
        for oracle in sorted(wanted.allow | wanted.errors):
            groupd.violations(oracle=oracle, limit=1)  # the daemon refuses a misspelt name
        namespace = groupd.namespace(topics=wanted.topics, config=wanted.config)
        for group_id in wanted.record:
            namespace.call("PUT", "recordings", group_id, body={})
        if request.config.getoption("--groupd-artifacts"):
            namespace.call("PUT", "recordings", body={})
    except GroupdError as error:
        _fail(str(error))
    request.node.stash[_BROKER] = namespace
    request.node.stash[_DAEMON] = groupd
    yield namespace
    del request.node.stash[_BROKER]
    try:
        namespace.remove()
    except GroupdError as error:
        # An ended daemon has no namespaces, and the report of the test contains its end.
        if groupd.describe_end() is None:
            _fail(f"the broker of the test cannot be removed: {error}")


@pytest.fixture
def async_broker(broker: Namespace) -> "AsyncNamespace":
    """The broker of the test with an asynchronous interface. Needs `pytest-groupd[async]`."""
    try:
        from groupd_client.async_transport import AsyncTransport
        from groupd_client.asynchronous import AsyncNamespace
    except ModuleNotFoundError:
        _fail("async_broker needs aiohttp: install pytest-groupd[async]")
    return AsyncNamespace(broker.endpoint, AsyncTransport().run, broker.described)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add groupd's reports to a failed test, and fail a passed test with a violation."""
    report = yield
    namespace = item.stash.get(_BROKER, None)
    if namespace is not None and report.when == "call":
        _add_findings(item, namespace, report)
    return report


def _add_findings(item: pytest.Item, broker: Namespace, report: pytest.TestReport) -> None:
    if report.passed:
        try:
            found = find_unaccepted(broker, read_marks(item))
        except GroupdError as error:
            report.outcome, report.longrepr = "failed", f"the check for violations failed: {error}"
        else:
            if found:
                report.outcome = "failed"
                report.longrepr = f"groupd found (allow=['ORACLE'] accepts it):\n{violations_text(found)}"
    if not report.failed:
        return
    ended = item.stash[_DAEMON].describe_end()
    if ended is not None:
        report.sections.append(("groupd", ended))
        return
    report.sections.extend(create_sections(broker))
    directory = item.config.getoption("--groupd-artifacts")
    if directory:
        written = write_artifacts(broker, Path(directory), item.nodeid)
        report.sections.append(("groupd: artifacts", str(written)))
