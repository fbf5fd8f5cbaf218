"""The dashboard, the rules and the Prometheus configuration are valid and use existing metrics."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.docker.metrics_used import unknown
from tests.interop.requirement import lacking

DOCKER: Final = Path(__file__).parents[2] / "docker"
RULES: Final = DOCKER / "prometheus" / "groupd-rules.yml"
BOARD: Final = DOCKER / "grafana" / "groupd.json"
RULES_TEST: Final = Path(__file__).with_name("groupd-rules-test.yml")
WIDTH: Final = 24


def promtool(*arguments: str | Path) -> None:
    """Has to find nothing wrong."""
    command = shutil.which("promtool")
    if command is None:
        lacking("promtool (of Prometheus) is not installed")
    done = subprocess.run(
        [str(command), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    read: dict[str, Any] = msgspec.yaml.decode(RULES.read_text())
    return [rule for group in read["groups"] for rule in group["rules"]]


def board() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(BOARD.read_text())
    return read


def panels() -> list[dict[str, Any]]:
    return [panel for panel in board()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard: panels, annotations and variables."""
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    yield from (note["expr"] for note in board()["annotations"]["list"])
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])
            assert match is not None, variable
            yield match[1]


def test_every_rule_is_about_metrics_that_there_are() -> None:
    assert [wrong for rule in rules() for wrong in unknown(rule["expr"])] == []


def test_a_notice_is_no_reason_to_wake_anybody() -> None:
    about_notices = [rule for rule in rules() if "notices" in rule["expr"]]
    assert {rule["labels"]["severity"] for rule in about_notices} == {"info"}


def test_every_expression_of_the_board_is_about_metrics_that_there_are() -> None:
    assert [wrong for expression in expressions() for wrong in unknown(expression)] == []


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 1",
        "groupd_rebalance_total",
        "sum(groupd_rebalances)",
        'groupd_violations_total{oracle="orphans"}',
        'groupd_violations_total{kind="double_owner"}',
        'groupd_partitions{state=~"failed|broken"}',
        'groupd_group_events_total{event="EpochBump"}',
        "kafka_consumergroup_lags > 0",
    ],
)
def test_what_there_is_not_is_seen(expression: str) -> None:
    assert list(unknown(expression))


def test_a_board_is_made_of_panels_that_are_told_apart_and_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < WIDTH, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    for key in ("id", "title"):
        named = [panel[key] for panel in board()["panels"]]
        assert len(set(named)) == len(named)


def test_whatever_the_board_leaves_open_can_be_chosen() -> None:
    chosen = {variable["name"] for variable in board()["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", BOARD.read_text()))
    assert {name for name in used if not name.startswith("__")} == chosen


def test_prometheus_reads_its_configuration_and_the_rules() -> None:
    promtool("check", "config", DOCKER / "prometheus" / "prometheus.yml")


def test_each_alert_fires_when_it_should_and_else_not() -> None:
    promtool("test", "rules", RULES_TEST)


def test_each_alert_was_seen_both_firing_and_not() -> None:
    tested = msgspec.yaml.decode(RULES_TEST.read_text())["tests"]
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for one in tested:
        for case in one["alert_rule_test"]:
            seen["exp_alerts" in case].add(case["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert seen == {True: names, False: names}


def test_prometheus_understands_every_expression_of_the_board(tmp_path: Path) -> None:
    read = [re.sub(r"\$__(rate_)?interval", "5m", expression) for expression in expressions()]
    groups = [
        {
            "name": "board",
            "rules": [{"record": f"of_board_{at}", "expr": expr} for at, expr in enumerate(read)],
        }
    ]
    (tmp_path / "board.yml").write_bytes(msgspec.yaml.encode({"groups": groups}))
    promtool("check", "rules", tmp_path / "board.yml")


def test_an_alert_says_what_it_is_about_and_is_explained() -> None:
    guide = (DOCKER.parent / "docs" / "monitoring.md").read_text()
    for rule in rules():
        assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert f"`{rule['alert']}`" in guide
