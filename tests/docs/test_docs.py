"""The documents are true where a machine can tell: links, paths, commands, generated pages, named tests."""

import ast
import re
from pathlib import Path

import pytest

import tests
from docs import (
    generate_configuration,
    generate_http_operations,
    generate_kafka_tools,
    generate_log_lines,
    generate_metrics,
    generate_permissions,
    generate_protocol,
)

ROOT = Path(tests.__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "RESULTS.md"])
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
ANCHOR = re.compile(r"\]\(([\w./-]*)#([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"^[A-Za-z_.][\w.-]*(/[\w.-]+)+/?$")
TOP_LEVEL = {
    "protocol",
    "storage",
    "coordinator",
    "pipeline",
    "distribution",
    "release",
    "tests",
    "benchmarks",
    "docker",
    "docs",
    ".ci",
    ".github",
}
INSTALLS_BY_NAME = re.compile(
    r"pip install [^`\n]*(?<![\w/.-])(groupd|groupd-client|pytest-groupd)(?![\w/.-])"
)
TEST = re.compile(r"`(tests/[\w/.-]+\.(?:py|txt))(?:::(\w+))?`")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing_links(text: str, folder: Path) -> list[str]:
    found = [link for link in LINK.findall(text) if "://" not in link]
    return [link for link in found if not (folder / link).exists()]


def missing_anchors(page: Path, text: str) -> list[str]:
    """Return links of a page to headings that do not exist, in this page or another one."""
    missing = []
    for link, anchor in ANCHOR.findall(text):
        target = page.parent / link if link else page
        if target.suffix == ".md" and target.exists():
            linked = text if target == page else target.read_text()
            if anchor not in anchors_of(linked):
                missing.append(f"{link}#{anchor}")
    return missing


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub forms it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def missing_paths(text: str) -> list[str]:
    found = [code for code in CODE.findall(text) if PATH.match(code) and code.split("/")[0] in TOP_LEVEL]
    return [path for path in found if not (ROOT / path).exists()]


def missing_targets(text: str) -> list[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    in_code = "\n".join([*CODE.findall(text), *re.findall(r"```.*?```", text, re.DOTALL)])
    return sorted(set(MAKE.findall(in_code)) - targets)


def missing_tests(text: str) -> list[str]:
    missing = []
    for path, function in TEST.findall(text):
        file = ROOT / path
        if not file.is_file() or (function and function not in functions_of(file)):
            missing.append(f"{path}::{function}")
    return missing


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_points_at_exists(page: Path) -> None:
    text = page.read_text()
    assert missing_links(text, page.parent) == []
    assert missing_anchors(page, text) == []
    assert missing_paths(text) == []
    assert missing_targets(text) == []
    assert missing_tests(text) == []


def test_no_page_installs_from_an_index_what_no_index_has() -> None:
    """`docs/log-lines.md` is generated from messages, and CHANGELOG.md quotes former messages."""
    pages = {*PAGES, *(ROOT / "clients").glob("*/README.md")}
    pages -= {ROOT / "CHANGELOG.md", ROOT / "docs" / "log-lines.md"}
    assert [name_of(page) for page in pages if INSTALLS_BY_NAME.search(page.read_text())] == []
    assert INSTALLS_BY_NAME.search("run `pip install 'groupd[otel]'`")
    assert not INSTALLS_BY_NAME.search("pip install ./groupd ./clients/pytest_groupd")


def test_a_dead_reference_is_seen() -> None:
    assert missing_links("[the design](nowhere.md)", ROOT) == ["nowhere.md"]
    page = ROOT / "docs" / "limits.md"
    assert missing_anchors(page, "[here](#nowhere) [there](http.md#nowhere) [it](http.md#the-api)") == [
        "#nowhere",
        "http.md#nowhere",
    ]
    assert missing_paths("see `storage/nowhere.py`") == ["storage/nowhere.py"]
    assert missing_targets("type `make nothing`") == ["nothing"]
    assert missing_tests("`tests/docs/test_docs.py::test_nothing`") == [
        "tests/docs/test_docs.py::test_nothing"
    ]


def test_the_index_links_to_every_page() -> None:
    folder = ROOT / "docs"
    linked = set(LINK.findall((folder / "README.md").read_text()))
    assert {page.name for page in folder.glob("*.md")} - linked == {"README.md"}


def test_every_difference_names_the_test_that_pins_it() -> None:
    text = (ROOT / "docs" / "differences.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|--")]
    differences = [row for row in rows if not row.startswith("| difference")]
    assert len(differences) > 5
    assert [row for row in differences if not TEST.search(row)] == []


def test_the_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_index_of_decisions_has_the_title_of_each_page() -> None:
    folder = ROOT / "docs" / "adr"
    titles = [
        (page.read_text().splitlines()[0].removeprefix("# "), page.name)
        for page in sorted(folder.glob("[0-9]*.md"))
    ]
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+?)\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert [(f"{number}. {title}", name) for number, title, name in rows] == titles


def test_the_protocol_page_is_fresh() -> None:
    assert generate_protocol.PAGE.read_text() == generate_protocol.page()


def test_the_configuration_page_is_fresh() -> None:
    assert generate_configuration.PAGE.read_text() == generate_configuration.page()


def test_the_page_of_metrics_is_fresh() -> None:
    assert generate_metrics.PAGE.read_text() == generate_metrics.page()


def test_the_page_of_http_operations_is_fresh() -> None:
    assert generate_http_operations.PAGE.read_text() == generate_http_operations.page()


def test_the_page_of_log_lines_is_fresh() -> None:
    assert generate_log_lines.PAGE.read_text() == generate_log_lines.page()


def test_the_table_of_permissions_is_generated() -> None:
    assert generate_permissions.PAGE.read_text() == generate_permissions.page()


def test_the_table_of_kafkas_tools_is_generated() -> None:
    assert generate_kafka_tools.PAGE.read_text() == generate_kafka_tools.page()
