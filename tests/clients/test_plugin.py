"""pytest-groupd in a project of its own, as users have it.

The project's tests run in the process of this test, except where worker processes are the subject.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_groupd.daemon import Daemon

from tests.clients.command import COMMAND

README = Path(__file__).parents[2] / "clients" / "pytest_groupd" / "README.md"
ASYNCIO = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
CONFIG = f"[pytest]\ngroupd_command = {sys.executable} -m coordinator\n{ASYNCIO}"

FAILS = """
import pytest

@pytest.mark.groupd(record=["billing"])
def test_fails(broker):
    broker.topic("orders", 2)
    broker.group("billing").stand_in("alice", ["orders"])
    broker.group("billing").wait(state="Stable", members=1, within="60s")
    broker.group("shipping").stand_in("carol", ["orders"])
    broker.group("shipping").wait(state="Stable", members=1, within="60s")
    dave = broker.group("refunds").stand_in("dave", ["orders"])
    broker.group("refunds").wait(state="Stable", within="60s")
    dave.leave()
    broker.group("refunds").wait(state="Empty", within="60s")
    broker.group("refunds").delete()
    assert False
"""
WITH_OFFSETS = """
def test_offsets(broker):
    broker.topic("orders", 2)
    group = broker.group("billing")
    group.set_offsets({"orders-0": 0})
    bob = group.stand_in("bob", ["orders"])
    group.wait(state="Stable", members=1, within="60s")
    bob.stall()
    group.clock.advance("20s", silent=["bob"])
    group.wait(committed={"orders-1": 7}, within="20ms")
"""
TWO_OWNERS = """
import pytest

def double(broker):
    broker.topic("orders", 2)
    group = broker.group("billing")
    told = {"alice": {"orders": [0, 1]}, "bob": {"orders": [1]}}
    for members, name in enumerate(("alice", "bob"), start=1):
        group.stand_in(name, ["orders"], assignment=told)
        group.wait(state="Stable", members=members)

def test_not_seen(broker):
    double(broker)

@pytest.mark.groupd(allow=["double_owner"])
def test_allowed(broker):
    double(broker)
"""
SHARES_PARTITIONS = """
import pytest

def share(broker):
    broker.topic("orders", 2)
    group = broker.group("billing")
    told = {"alice": {"orders": [0, 1]}, "bob": {"orders": [0, 1]}}
    for members, name in enumerate(("alice", "bob"), start=1):
        group.stand_in(name, ["orders"], protocols=["faust"], assignment=told)
        group.wait(state="Stable", members=members)

def test_on_purpose(broker):
    share(broker)
    assert broker.violations() == []
    [notice] = broker.notices()
    assert (notice.oracle, notice.severity) == ("double_owner", "notice")

async def test_async(async_broker, broker):
    share(broker)
    assert await async_broker.violations() == []
    assert [notice.oracle for notice in await async_broker.notices()] == ["double_owner"]

@pytest.mark.groupd(errors=["double_owner"])
def test_not_wanted(broker):
    share(broker)
"""
DIES = """
import os, signal, pytest

def test_ends_it(groupd, broker):
    os.kill(groupd._process.pid, signal.SIGKILL)
    groupd._process.wait()
    broker.topic("orders", 1)

def test_has_another(broker):
    assert broker.topic("orders", 1).partitions == 1
"""
USES_ALL = """
import pytest

pytestmark = pytest.mark.groupd(topics={"orders": 6}, config={"num.partitions": 3})

@pytest.mark.groupd(topics={"payments": 1})
def test_of_class_and_test(broker):
    assert {topic.name: topic.partitions for topic in broker.topics()} == {"orders": 6, "payments": 1}
    assert broker.topic("other").partitions == 3

async def test_async(async_broker, broker):
    assert async_broker.bootstrap == broker.bootstrap
    assert [topic.name for topic in await async_broker.topics()] == ["orders"]
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with tests that start their own daemon."""
    for name in (
        "GROUPD",
        "GROUPD_CONTAINER",
        "GROUPD_URL",
        "GROUPD_TOKEN",
        "PYTEST_ADDOPTS",
        "PYTEST_XDIST_WORKER",
    ):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini(CONFIG)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:randomly", *arguments)


@pytest.mark.timeout(400)
def test_what_its_page_begins_with_works_when_pasted(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = README.read_text().partition("```python\n")[2].partition("```")[0]
    project.makepyfile(test_pasted=block, test_all=USES_ALL)
    project.makeini(f"[pytest]\ngroupd_command = no-such-command-here\n{ASYNCIO}")
    monkeypatch.setenv("GROUPD", shlex.join(COMMAND))  # it comes before the configuration file
    run(project).assert_outcomes(passed=3)


@pytest.mark.timeout(400)
def test_a_test_that_fails_says_why(project: pytest.Pytester, daemon: Daemon) -> None:
    project.makepyfile(test_fails=FAILS, test_owners=TWO_OWNERS)
    result = run(project, f"--groupd={daemon.url}", "--groupd-artifacts=kept")
    result.assert_outcomes(passed=1, failed=2)
    said = result.stdout.str()
    for expected in ("groupd: billing", "member joined: alice", "Stable", "double_owner", "orders-1"):
        assert expected in said
    [kept] = [path for path in (project.path / "kept").iterdir() if "test_fails" in path.name]
    entries = json.loads((kept / "ledger.json").read_text())["entries"]
    assert {(each["group_id"], each["cause"]) for each in entries} == {
        ("billing", "member joined"),
        ("shipping", "member joined"),
        ("refunds", "member joined"),
        ("refunds", "member left"),
    }
    assert "alice" in (kept / "ledger.txt").read_text()
    explained = (kept / "explain.txt").read_text()
    assert "billing" in explained
    for text in (said, explained):
        [removed] = [line for line in text.splitlines() if "Group refunds does not exist" in line]
        assert "removed" in removed
        assert "DeleteGroups" in removed
    assert json.loads((kept / "violations.json").read_text())["violations"] == []
    for group_id in ("billing", "shipping"):
        replay = [*COMMAND, "replay", str(kept / f"{group_id}.groupd-rec")]
        replayed = subprocess.run(replay, capture_output=True, text=True, check=False)
        assert (replayed.returncode, replayed.stdout[:9]) == (0, "identical"), replayed
    assert [each.name for each in daemon.namespaces() if each.name != "default"] == []


@pytest.mark.timeout(400)
def test_the_report_has_offsets_and_commits_and_calls_of_a_test(
    project: pytest.Pytester, daemon: Daemon
) -> None:
    project.makepyfile(WITH_OFFSETS)
    result = run(project, f"--groupd={daemon.url}")
    result.assert_outcomes(failed=1)
    lines = result.stdout.str().splitlines()
    report = lines[next(number for number, line in enumerate(lines) if "groupd: billing" in line) :]
    (committed,) = [line for line in report if line.startswith("  orders-0: ")]
    assert "committed 0, lag 0, log 0 to 0, owner bob" in committed
    (missing,) = [line for line in report if line.startswith("  orders-1: ")]
    assert "no committed offset" in missing
    assert any("orders-0 to 0" in line for line in report[report.index("last commits:") :])
    assert any('broker.group("billing").member("bob").expire()' in line for line in report)
    assert not any("/v1/" in line for line in lines)


@pytest.mark.timeout(400)
def test_a_notice_fails_only_a_test_that_asks_for_it(project: pytest.Pytester, daemon: Daemon) -> None:
    project.makepyfile(SHARES_PARTITIONS)
    result = run(project, f"--groupd={daemon.url}")
    result.assert_outcomes(passed=2, failed=1)
    assert "notice double_owner in billing" in result.stdout.str()


@pytest.mark.timeout(400)
def test_a_daemon_that_ends_is_told_of_and_the_next_test_has_another(project: pytest.Pytester) -> None:
    project.makepyfile(DIES)
    result = run(project)
    result.assert_outcomes(passed=1, failed=1)
    assert "signal 9" in result.stdout.str()
    assert "Ready." in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "config", "said"),
    [
        (["--groupd=http://127.0.0.1:1"], "", "127.0.0.1:1"),
        (["--groupd=ftp://nowhere"], "", "ftp://nowhere"),
        ([], "groupd_command = no-such-command-here", "no-such-command-here"),
        (["--groupd-command=no-such-command-here"], "", "no-such-command-here"),
        ([], f"groupd_command = {sys.executable} -c 'raise SystemExit(3)'", "exit code 3"),
        ([], f"groupd_command = {sys.executable} -m coordinator\ngroupd_properties = no.such=1", "no.such"),
    ],
    ids=["nobody", "no URL", "no command", "no command of the option", "it ends", "bad property"],
)
def test_what_cannot_be_begun_is_told(
    project: pytest.Pytester, arguments: list[str], config: str, said: str
) -> None:
    if config:
        project.makeini(f"[pytest]\n{config}\n{ASYNCIO}")
    project.makepyfile("def test_it(broker): pass")
    result = run(project, *arguments)
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()
    assert "During handling" not in result.stdout.str()
    assert "direct cause" not in result.stdout.str()


def test_a_mark_that_says_something_else_is_refused(project: pytest.Pytester, daemon: Daemon) -> None:
    project.makepyfile("import pytest\n@pytest.mark.groupd(topic={'orders': 1})\ndef test_it(broker): pass")
    result = run(project, f"--groupd={daemon.url}")
    assert result.ret != 0
    assert "topics" in result.stdout.str() + result.stderr.str()


def test_a_mark_with_a_misspelt_name_is_answered_with_the_nearest(
    project: pytest.Pytester, daemon: Daemon
) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.groupd(allow=["flaping"])
        def test_oracle(broker): pass

        @pytest.mark.groupd(config={"group.max.sise": 3})
        def test_property(broker): pass
    """)
    result = run(project, f"--groupd={daemon.url}")
    result.assert_outcomes(errors=2)
    for meant in ("flapping", "group.max.size"):
        assert f"did you mean {meant}?" in result.stdout.str()
    assert [each.name for each in daemon.namespaces()] == ["default"]


@pytest.mark.timeout(400)
def test_workers_share_a_daemon_and_nothing_else(project: pytest.Pytester, daemon: Daemon) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.groupd(topics={"orders": 2})
        @pytest.mark.parametrize("number", range(100))
        def test_alone(broker, number):
            assert broker.groups() == []
            broker.topic("payments", 1)
            assert len(broker.topics()) == 2
    """)
    arguments = ("-p", "no:randomly", "-q", "-n", "2", f"--groupd={daemon.url}")
    project.runpytest_subprocess(*arguments).assert_outcomes(passed=100)
    assert [each.name for each in daemon.namespaces()] == ["default"]
