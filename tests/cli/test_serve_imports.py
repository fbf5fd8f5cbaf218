"""What a plain broker loads until it is ready. Each module and each class costs time and memory at every start."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tests
from tests.cli.test_serve import FREE, TIMEOUT_S, clean_environment
from tests.tooling.composition import Module, list_typing_imports

ROOT = Path(tests.__file__).parents[1]

OURS = ("coordinator", "protocol", "storage")
LOADED_WHEN_USED = {
    *(
        "aiofiles",
        "aiohttp",
        "construct",
        "cramjam",
        "cryptography",
        "grpc",
        "joserfc",
        "prometheus_client",
        "re2",
    ),
    *("rich", "urllib3", "xxhash", "encodings.idna", "hashlib", "hmac", "random", "secrets"),
}
MAX_MODULES = 267
"""Of groupd itself. A module that only some brokers need is better imported by the function that needs it."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    data_dir: Path = tmp_path_factory.mktemp("imports") / "data"
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.loaded_modules", "serve", *FREE, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=clean_environment(),
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return report


def find_typing_imports() -> dict[str, set[str]]:
    """Return the modules of our own that each module of `coordinator` imports only for types, by module."""
    found = {}
    for path in sorted((ROOT / "coordinator").rglob("*.py")):
        text = path.read_text()
        if "if TYPE_CHECKING:" in text:  # only a few modules have to be parsed
            relative = path.relative_to(ROOT)
            imported = list_typing_imports(Module(relative.as_posix(), text))
            found[".".join(relative.with_suffix("").parts)] = set(imported)
    return found


def test_a_plain_broker_loads_few_modules(start: dict[str, Any]) -> None:
    modules: list[str] = start["modules"]
    assert not LOADED_WHEN_USED.intersection(modules)
    assert len([name for name in modules if name.startswith(OURS)]) <= MAX_MODULES


def test_imports_for_types_are_of_modules_that_are_loaded_later(start: dict[str, Any]) -> None:
    """Of any other module a plain import costs nothing."""
    loaded = {name for name in start["modules"] if name.startswith(OURS)}
    typed = find_typing_imports()
    assert [
        (name, typed[name] & loaded) for name in sorted(loaded & typed.keys()) if typed[name] & loaded
    ] == []


def test_imports_for_types_in_other_modules_are_not_loaded_by_these_modules(start: dict[str, Any]) -> None:
    """Commands and the control plane are loaded when they are used, mostly one module at a time."""
    typed = find_typing_imports()
    for name in sorted(name for name, found in typed.items() if found and name not in start["modules"]):
        done = subprocess.run(
            [sys.executable, "-c", f"import sys, {name}; print(*sys.modules)"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=clean_environment(),
            check=True,
            cwd=ROOT,
        )
        assert typed[name].isdisjoint(done.stdout.split()), name


def test_a_start_generates_no_dataclass(start: dict[str, Any]) -> None:
    """A Struct costs a tenth of the time and no Python code: docs/adr/0014-structs-of-msgspec.md."""
    assert [name for name in start["dataclasses"] if name.startswith(OURS)] == []
