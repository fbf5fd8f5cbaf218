"""Compare the figures of `prose.py` with their bounds, which only shrink, in `prose_bounds.toml`.

After a rewrite this lowers the bounds to today's figures, and never raises one:

python -m tests.tooling.prose_bounds
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.tooling.prose import count_habits, long_sentences, markdown_prose
from tests.tooling.test_tidy import ROOT, examine_files

BOUNDS: Final = Path(__file__).with_suffix(".toml")
Figures = Mapping[str, Mapping[str, int]]
"""Figures by kind, then by folder or page."""


def measure_python() -> Figures:
    """Return the figures of all Python files by folder: `habits`, and of the product `short_docstrings`."""
    examination = examine_files()
    return {"habits": examination.habits, "short_docstrings": examination.short_docstrings}


def measure_pages() -> Figures:
    """Return the figures of all pages by page: `page_habits` and `long_sentences`."""
    habits, sentences = dict[str, int](), dict[str, int]()
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").glob("*/README.md")]:
        name = page.relative_to(ROOT).as_posix()
        prose = list(markdown_prose(page.read_text(encoding="utf-8")))
        habits[name] = sum(map(count_habits, prose))
        sentences[name] = len(long_sentences(prose))
    return {"page_habits": habits, "long_sentences": sentences}


def read_bounds() -> Figures:
    """Return the bounds. A folder or page without a bound has 0."""
    bounds: Figures = tomllib.loads(BOUNDS.read_text(encoding="utf-8"))
    return bounds


def find_excesses(figures: Figures, bounds: Figures) -> list[str]:
    """Return a line for each figure above its bound."""
    return [
        f"{kind} of {place}: {figure}, at most {bounds.get(kind, {}).get(place, 0)}"
        for kind, by_place in figures.items()
        for place, figure in by_place.items()
        if figure > bounds.get(kind, {}).get(place, 0)
    ]


def write_bounds(bounds: Figures) -> None:
    """Write the bounds, without those of 0."""
    lines = [
        "# Figures of tests/tooling/prose.py. They only shrink: `python -m tests.tooling.prose_bounds` lowers them."
    ]
    for kind, by_place in bounds.items():
        lines += ["", f"[{kind}]"]
        lines += [f'"{place}" = {bound}' for place, bound in sorted(by_place.items()) if bound]
    BOUNDS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Lower each bound to today's figure, and print the figures above their bounds."""
    figures, bounds = {**measure_python(), **measure_pages()}, read_bounds()
    write_bounds(
        {
            kind: {place: min(figure, bounds[kind].get(place, 0)) for place, figure in by_place.items()}
            for kind, by_place in figures.items()
        }
    )
    for excess in find_excesses(figures, bounds):
        print(f"not changed: {excess}")


if __name__ == "__main__":
    main()
