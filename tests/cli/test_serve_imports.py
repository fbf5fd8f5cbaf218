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


def test_a_plain_broker_loads_few_modules(start: dict[str, Any]) -> None:
    modules: list[str] = start["modules"]
    assert not LOADED_WHEN_USED.intersection(modules)
    assert len([name for name in modules if name.startswith(OURS)]) <= MAX_MODULES


def test_imports_for_types_are_of_modules_that_are_loaded_later(start: dict[str, Any]) -> None:
    """Of any other module a plain import costs nothing."""
    loaded = {name for name in start["modules"] if name.startswith(OURS)}
    needless = []
    for name in sorted(loaded):
        path = Path(name.replace(".", "/")).with_suffix(".py")
        if (ROOT / path).exists():  # a package has no imports
            module = Module(path.as_posix(), (ROOT / path).read_text())
            needless += [
                f"{name}: {imported}" for imported in list_typing_imports(module) if imported in loaded
            ]
    assert needless == []


def test_a_start_generates_no_dataclass(start: dict[str, Any]) -> None:
    """A Struct costs a tenth of the time and no Python code: docs/adr/0014-structs-of-msgspec.md."""
    assert [name for name in start["dataclasses"] if name.startswith(OURS)] == []
