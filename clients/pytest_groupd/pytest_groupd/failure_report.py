"""Reports of a broker about a failed test, as text and as files."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from groupd_client import GroupdError, Namespace, Value

from pytest_groupd.marks import BrokerMark
from pytest_groupd.report_texts import escape, format_explanation, format_offsets

MAX_GROUPS: Final = 20
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME: Final = 150


def find_unaccepted(broker: Namespace, mark: BrokerMark) -> list[Any]:
    """Return the violations and notices that fail a test."""
    violations = [one for one in broker.violations() if one.oracle not in mark.allow]
    if not mark.errors:
        return violations
    return violations + [
        notice
        for notice in broker.notices()
        if notice.oracle in mark.errors and notice.oracle not in mark.allow
    ]


def violations_text(violations: list[Any]) -> str:
    """Return a line for each violation."""
    lines = [f"{each.severity} {each.oracle} in {each.group_id}: {each.detail}" for each in violations]
    return "\n".join(map(escape, lines))


def create_sections(broker: Namespace) -> list[tuple[str, str]]:
    """Return titles and texts for a failed test: the explanation, the offsets, the last commits and the ledger of
    each group, then violations and notices. Groups that were removed during the test come last, with the time and
    the reason. If groupd does not respond, the text is the error."""
    groups = _list_group_ids(broker)
    found = []
    for group_id in groups[:MAX_GROUPS]:
        of_group = ("groups", group_id)
        parts = [
            _read_text(partial(format_explanation, broker, group_id)),
            _read_text(partial(format_offsets, broker, group_id)),
            _read_text(partial(broker.text, *of_group, "ledger", last=10)),
        ]
        found.append((f"groupd: {escape(group_id)}", "\n".join(filter(None, parts))))
    if len(groups) > MAX_GROUPS:
        found.append(("groupd", f"{len(groups) - MAX_GROUPS} more groups"))
    for title, findings in (("violations", broker.violations), ("notices", broker.notices)):
        text = _read_text(lambda findings=findings: violations_text(findings()))  # type: ignore[misc]
        if text:
            found.append((f"groupd: {title}", text))
    return found


def write_artifacts(broker: Namespace, directory: Path, test: str) -> Path:
    """Write all reports into a new directory of the test and return it."""
    target = directory / _file_name(test)
    target.mkdir(parents=True, exist_ok=True)
    files: Mapping[str, Callable[[], str]] = {
        "explain.txt": lambda: "\n".join(
            format_explanation(broker, group_id) for group_id in _list_group_ids(broker)
        ),
        "ledger.txt": lambda: broker.text("ledger", last=1000),
        "ledger.json": lambda: _format_json(broker.call("GET", "ledger", last=1000)),
        "violations.json": lambda: _format_json(broker.call("GET", "violations", limit=1000)),
        "metrics.txt": lambda: broker.text("metrics"),
    }
    for name, text in files.items():
        (target / name).write_text(_read_text(text))
    for group_id in _list_recordings(broker):
        recording = _read_text(partial(broker.text, "recordings", group_id))
        (target / f"{_file_name(group_id)}.groupd-rec").write_text(f"{recording}\n")
    return target


def _list_recordings(broker: Namespace) -> list[str]:
    try:
        return [each.group_id for each in broker.call("GET", "recordings").recordings]
    except GroupdError:
        return []


def _file_name(name: str) -> str:
    return _UNSAFE.sub("_", name).strip("_")[-_MAX_NAME:] or "test"


def _list_group_ids(broker: Namespace) -> list[str]:
    """Return the ids of all groups, then of the removed groups, the last removal first."""
    try:
        found = broker.call("GET", "groups")
    except GroupdError:
        return []
    # Daemons of earlier versions have no list of removed groups.
    removed = [removal.group_id for removal in found.get("removed", ())]
    return sorted(group.group_id for group in found.groups) + removed


def _read_text(text: Callable[[], str]) -> str:
    try:
        return text().rstrip()
    except GroupdError as error:
        return f"is not available: {error}"


def _format_json(value: Any) -> str:
    return json.dumps(
        value, default=lambda each: dict(each) if isinstance(each, Value) else str(each), indent=1
    )
