"""Measure the prose of the repository: docstrings, comments, messages and Markdown.

The rules are those of CONTRIBUTING.md. `test_tidy.py` measures all Python files in one pass, and `prose_bounds.py`
compares the figures with their bounds.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

SPLIT_FOLDERS: Final = ("coordinator", "tests")
"""Folders with a figure for each subfolder."""
MAX_SENTENCE_WORDS: Final = 40
MIN_DOCSTRING_WORDS: Final = 4
MIN_PROSE_WORDS: Final = 4
"""A shorter string literal is a name or a value."""

_VERBS: Final = (
    r"(?:is|are|was|were|has|have|had|it|they|comes?|came|goes|went|becomes?|became|there|may|can|must|would|follows"
    r"|takes?|stands?|needs|belongs|keeps?|waits?|happens|asks?|asked|joins?|joined|wants?|gets?|got|knows|reads?"
    r"|commits?|leads?|leaves?|left|does|do|owns?)"
)
HABITS: Final[Mapping[str, re.Pattern[str]]] = {
    "relative clause for a noun": re.compile(rf"\b(?:what|who) {_VERBS}\b"),
    "indefinite person": re.compile(r"\b(?:who|whom)ever\b|\b(?:no|some|any)body\b"),
    "told, asked, said": re.compile(
        r"\b(?:is|are|was|were|be|been|has|have|had|gets?) (?:told|asked|said)\b"
    ),
    "is none, is no": re.compile(
        r"\b(?:is|are|was|were|be) (?:none\b|no (?!longer|more|other than|such|need|point|op\b)\w+)"
    ),
}
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]+")
_COMMENT: Final = re.compile(r"^(?:[^\"'#]*\s)?#\s(.+)$", re.MULTILINE)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+")
_CODE: Final = re.compile(r"`[^`]*`")
_LIST_ITEM: Final = re.compile(r"(?:[-*+]|\d+\.)\s")


Nodes = Mapping[type[ast.AST], list[Any]]
"""The nodes of a syntax tree by type."""


def count_habits(text: str) -> int:
    """Return how many habits of CONTRIBUTING.md a text shows."""
    flat = " ".join(text.split())
    return sum(len(pattern.findall(flat)) for pattern in HABITS.values())


def python_prose(nodes: Nodes, source: str) -> Iterator[str]:
    """Yield string literals, docstrings included, and comments of a module. X replaces the values of f-strings."""
    parts = set[int]()
    texts: list[str] = []
    for node in nodes.get(ast.JoinedStr, ()):
        parts |= {id(part) for part in node.values}
        texts.append(
            "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        )
    texts += [
        node.value
        for node in nodes.get(ast.Constant, ())
        if isinstance(node.value, str) and id(node) not in parts
    ]
    yield from (text for text in texts if text.count(" ") + text.count("\n") >= MIN_PROSE_WORDS - 1)
    # The lines of one comment belong together, but a habit rarely spans two of them.
    yield from _COMMENT.findall(source)


def markdown_prose(page: str) -> Iterator[str]:
    """Yield the headings, paragraphs, list items and table cells of a page, with X in place of code."""
    paragraph: list[str] = []
    for line in (*re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL).splitlines(), ""):
        text = line.strip()
        is_table = text.startswith("|")
        if paragraph and (not text or is_table or text.startswith("#") or _LIST_ITEM.match(text)):
            yield _CODE.sub("X", " ".join(paragraph))
            paragraph.clear()
        if is_table:
            yield from (cell.strip() for cell in _CODE.sub("X", text).strip("|").split("|"))
        elif text:
            paragraph.append(text)
        if text.startswith("#"):
            yield _CODE.sub("X", paragraph.pop())


def long_sentences(prose: Iterable[str]) -> list[str]:
    """Return the sentences of more than `MAX_SENTENCE_WORDS` words."""
    sentences = (sentence for text in prose for sentence in _SENTENCE_END.split(text))
    return [sentence for sentence in sentences if len(_WORD.findall(sentence)) > MAX_SENTENCE_WORDS]


def short_docstrings(nodes: Nodes) -> list[str]:
    """Return the public classes and functions with a docstring of fewer than `MIN_DOCSTRING_WORDS` words."""
    return [
        node.name
        for kind in (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in nodes.get(kind, ())
        if not node.name.startswith("_")
        and (docstring := ast.get_docstring(node, clean=False)) is not None
        and len(docstring.split()) < MIN_DOCSTRING_WORDS
    ]


def folder_of(path: str) -> str:
    """Return the folder of a file that has a bound: a top-level folder, or one below `coordinator` or `tests`."""
    parts = path.split("/")
    length = 2 if parts[0] in SPLIT_FOLDERS and len(parts) > 2 else 1
    return "/".join(parts[:length]) if len(parts) > 1 else "."
