"""The list of `make coverage`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unexecuted import main


def file(lines: int, missing: list[int], branches: int = 0, jumps: tuple[tuple[int, int], ...] = ()) -> Any:
    counts = {
        "num_statements": lines,
        "missing_lines": len(missing),
        "num_branches": branches,
        "missing_branches": len(jumps),
    }
    return {"summary": counts, "missing_lines": missing, "missing_branches": [list(jump) for jump in jumps]}


def test_lines_are_told_by_file_and_counts_by_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "storage/log.py": file(10, [3, 5, 6, 7], 8, ((2, 3), (8, -1), (8, 9))),
        "storage/log_segments.py": file(10, []),
        "storage/repair/copy.py": file(0, []),
    }
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"files": files}))
    main(str(path))
    listed, empty, head, *table = capsys.readouterr().out.splitlines()
    assert listed == "storage/log.py: 3 5-7 8->end 8->9"
    assert not empty
    assert head.split() == ["package", "lines", "missed", "branches", "missed", "executed"]
    assert [line.split()[:-1] for line in table] == [
        ["storage", "20", "4", "8", "3", "75.0"],
        ["storage.repair", "0", "0", "0", "0", "100.0"],
    ]
