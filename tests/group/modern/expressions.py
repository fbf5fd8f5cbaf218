"""Expressions and the recorded results of RE2/J. `python -m tests.group.modern.expressions` records them again.

The recording needs Java and Maven. Review it with git diff.
"""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_log.artifacts import broker

RECORDING: Final = Path(__file__).with_name("re2j-1.8.jsonl")
NAMES: Final = (
    *("a", "b", "A", "B", "k", "ab", "aa", "aaa", "abc", "a.b", "a-b", "x_y", "1", "__consumer_offsets"),
    *("orders", "orders.eu", "orders-2026", "Orders", "payments.eu.1", "p\u00e9"),
)
_WRITTEN: Final = r"""
orders orders.* orders\..+ (?i)ORDERS.* ^orders$ [a-z]+ [^a].* .* (orders|payments)\..* a{2,3} \w+ [[:alpha:]]+
\Aorders\z (?P<n>a)b (?<n>a)b \Qa.b\E [a-b]{1,3} a*? (?U)a+ (?s).* (?m)^a$ \x61 \x{61} \141 [\x61-\x63]+ \pL+
\p{Lu}.* \p{^L} \PL [^\d]+ [\w.-]+ (?i:A)b (?-i)a a|b|ab () (|a)+ [a\]] []a] [a-] [-a] a{,2} a{ { } ] a{01} \_
\- \. p\u00e9 p\\u00e9 (?i)\u212a [[a]b] [a&&b] [\b] \Qa \Q\E* \E ( ) (a a) (( )( [ [a [] [^] [^ [a- [b-a]
[\d-z] [a-\d] [[:foo:]] [[:]] [[: [[:alpha] * + ? a** a+* a?? a??? a++ a*+ (*) |* ^* $* {2} a{2}{3} a{1001}
a{2,1} a{1000} a{1,1000} a{1000,1001} a{99999999999} {* a{* {{2} {,2}* (?=a) (?!a) (?<=a) (?<!a) (?>a) (?#a)
(?P=n) (?P>n) (?R) (?1) (?|a) (?x)a (?i (? (?) (?:) (?: (?a) (?i-) (?-) (?--i) (?i-i-i) (?P<n (?P< (?P<> (?P<a>b
(?P<1>a) (?P<a-b>a) (?P<\u00e9>a) (?P<n>a)(?P<n>b) (?P<n>a)(?<n>b) (?P<n>(?P<n>a)) (?< (?<n (?<> (?P (?Pn \ a\
\1 \8 \0 \01 \12 \Z \G \h \H \R \X \C [\C] \N \K \k<n> \g1 \u0061 \c \e \B \b \a \f \t \n \r \v \x \xZ \x6 \x{
\x{} \x{110000} \x{10FFFF} \p \P \pX \p{ \p{} \p{Greek} \p{greek} \p{IsGreek} \p{Adlam} \p{Any} [\p{Adlam}]
[\pL\d]+ (a{10}){100} \z.* \A\A (x+x+)+y (a|a)*b (.*)(.*)(.*)b .*.*.*=.* (((a))) a|* (a|*) a|+ \d{4} [0-9]{4}
.*-[0-9]{4} [^-]* (?i)[a-c]+ (?i)(?s)(?m)a
"""
_PIECES: Final = (
    *"abAk.^$|*+?()[]{}\\-1,:=<>P_",
    *(
        "(?",
        "(?:",
        "(?i)",
        "(?P<n>",
        "(?P<m>",
        "(?<n>",
        "(?<",
        "\\d",
        "\\b",
        "\\A",
        "\\z",
        "\\Q",
        "\\E",
        "\\C",
        "\\pL",
    ),
    *(
        "\\p{Greek}",
        "\\PL",
        "\\x41",
        "\\x{41}",
        "\\012",
        "\\8",
        "\\_",
        "\\\u00e9",
        "[:alpha:]",
        "[:]",
        "[^",
        "a{2}",
    ),
    *("{1,}", "{,3}", "{1001}", "*?", "a-z", "]-", "\u212a", "(?s)", "(?U)", "(?-i:", "-]", "{*", "ab)"),
)


class Expression(NamedTuple):
    """An expression, the error of RE2/J for an invalid one, and the names of NAMES that it matches."""

    pattern: str
    refused: str | None = None
    matches: tuple[str, ...] = ()


def recorded() -> list[Expression]:
    """Return the recorded results of RE2/J."""
    lines = map(json.loads, RECORDING.read_text(encoding="utf-8").splitlines())
    return [Expression(**{**line, "matches": tuple(line.get("matches", ()))}) for line in lines]


def _patterns() -> Iterator[str]:
    yield ""
    for written in _WRITTEN.split():
        yield written.replace("\\u00e9", "\u00e9").replace("\\u212a", "\u212a")
    pieces = random.Random(17)
    for _ in range(1000):
        yield "".join(pieces.choice(_PIECES) for _ in range(pieces.randint(2, 7)))


def main() -> None:
    """Write the recording, one line for each expression. Raises CannotBuild."""
    questions = [json.dumps({"pattern": each, "names": NAMES}) for each in dict.fromkeys(_patterns())]
    command = [*broker(), "TopicExpressions"]
    done = subprocess.run(
        command, input="\n".join(questions), capture_output=True, check=True, encoding="utf-8"
    )
    assert len(done.stdout.splitlines()) == len(questions), done.stderr
    RECORDING.write_text(done.stdout, encoding="utf-8")
    print(f"{len(questions)} expressions")


if __name__ == "__main__":
    main()
