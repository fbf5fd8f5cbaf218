"""The composition root connects the parts of a server: docs/adr/0034-one-composition-root.md.

`composition.toml` has the findings that are left. A change may only take some out.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tests
from tests.tooling.composition import RULES, Module, find_circles, list_imports

ROOT = Path(tests.__file__).parents[1]
LEFT: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "composition.toml").read_text())
MAX_LEFT = 18
PATH = "coordinator/broker/part.py"


@cache
def findings() -> dict[str, list[str]]:
    """All findings by rule. One module is in memory at a time."""
    found: dict[str, list[str]] = {rule.__name__: [] for rule in RULES}
    imports = {}
    for package in ("protocol", "storage", "coordinator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            module = Module(path.relative_to(ROOT).as_posix(), path.read_text())
            imports[module.name] = list_imports(module)
            for rule in RULES:
                found[rule.__name__] += rule(module)
    return {**found, "import_circles": find_circles(imports)}


@pytest.mark.parametrize("rule", [*(rule.__name__ for rule in RULES), "import_circles"])
def test_the_findings_are_those_that_are_left(rule: str) -> None:
    found, left = Counter(findings()[rule]), Counter(LEFT[rule])
    assert found - left == Counter(), "connect parts in coordinator/broker/composition_root.py"
    assert left - found == Counter(), f"take these out of composition.toml, {rule}"


def test_the_list_only_shrinks() -> None:
    assert sum(map(len, LEFT.values())) <= MAX_LEFT


BROKEN = [
    ("wide_constructors", "class A:\n    def __init__(self, a, b, c, d, e, f, *, g, h): ...\n"),
    ("missing_attributes", "class A:\n    def f(self):\n        return hasattr(self, 'x')\n"),
    ("missing_attributes", "class A:\n    def f(self):\n        return getattr(self, 'x', None)\n"),
    ("outside_assignments", "def f(part):\n    part.clock = 1\n"),
    ("outside_assignments", "class A:\n    def f(self):\n        self.part.count += 1\n"),
    ("outside_assignments", "class A:\n    def f(self):\n        self.part.a, self.b = 1, 2\n"),
    ("membership_branches", "if self.cluster is not None:\n    pass\n"),
    ("membership_branches", "a = 1 if cluster is None else 2\n"),
    ("typing_imports", "if TYPE_CHECKING:\n    from coordinator.apis.a import B\n"),
    (
        "typing_imports",
        "if TYPE_CHECKING:\n    from storage.a import B\ndef f():\n    from storage import b\n",
    ),
    ("server_imports", "def f():\n    from coordinator.broker.server import Server\n"),
]
KEPT = [
    ("wide_constructors", "class A(Struct):\n    a: int\n    b: int\n"),
    ("outside_assignments", "def f():\n    part = Part()\n    part.clock = 1\n"),
    ("outside_assignments", "class A:\n    def f(self):\n        self.count += 1\n"),
    ("typing_imports", "if TYPE_CHECKING:\n    import ssl\n"),
    (
        "typing_imports",
        "if TYPE_CHECKING:\n    from storage.a import B\ndef f():\n    from storage.a import B\n",
    ),
    (
        "typing_imports",
        "if TYPE_CHECKING:\n    from storage.a import B\ndef f():\n    from storage import a\n",
    ),
]


def _apply(rule: str, text: str) -> Iterator[Any]:
    (function,) = (each for each in RULES if each.__name__ == rule)
    return function(Module(PATH, text))


@pytest.mark.parametrize(("rule", "text"), BROKEN)
def test_a_rule_sees_what_breaks_it(rule: str, text: str) -> None:
    assert list(_apply(rule, text)) != []


@pytest.mark.parametrize(("rule", "text"), KEPT)
def test_a_rule_accepts_what_keeps_it(rule: str, text: str) -> None:
    assert list(_apply(rule, text)) == []


def test_a_branch_on_replication_is_seen_in_the_runtime() -> None:
    (rule,) = (each for each in RULES if each.__name__ == "membership_branches")
    assert list(rule(Module("coordinator/runtime/timers.py", "if partition.is_replicated:\n    pass\n")))


def test_a_circle_is_seen_through_several_modules() -> None:
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a, b, c"]
