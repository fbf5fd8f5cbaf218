"""Certificate subjects and mapping rules, with the results of Java and Kafka:
python -m tests.security.core.principal_cases

The command records the results of Kafka's own classes again. It needs Java, Maven and some seconds. Review the
recording with git diff.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.kafka_log.artifacts import NEWEST, broker

RECORDING: Final = Path(__file__).parent / f"principals-{NEWEST}.jsonl"

_SUBJECTS: Final = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "OU=JavaSoft,O=Sun Microsystems,C=US",
    "CN=a\\,b,O=x/y",
    "",
)
_RULES: Final = (
    *("DEFAULT", " DEFAULT ", "", " ", ",", "DEFAULT,", ",DEFAULT", "DEFAULTS", "default", "DEFAULT DEFAULT"),
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/U, DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^OU=(.*?),.*$/$1/U , DEFAULT",
    "DEFAULT,RULE:.*/x/",
    *("RULE:.*/x/", "RULE:.+/x/", "RULE:/x/", "RULE://", "RULE:.*//", "RULE:(.*)/$1/LU", "RULE:(.*)/$1/X"),
    *("RULE:(.*)/$1", "RULE:(.*)", "RULE:", "rule:(.*)/$1/", "RULE:(.*)/$1/L x", "RULE:(.*)/$1/ L"),
    *("RULE:(.*)/$0/", "RULE:.*/$0/", "RULE:.*/$1/", "RULE:(.*)/$2/", "RULE:(.+)/$2$3/", "RULE:(.+)/$1$2$3/"),
    *("RULE:(.+)/$12/", "RULE:(.+)/$21/", "RULE:(.+)/$01/", "RULE:(.+)/$012/", "RULE:(.+)/$/", "RULE:.+/$/"),
    *("RULE:(.+)/a$b/", "RULE:(.+)/\\$1/", "RULE:(.+)/\\\\$1/", "RULE:(.+)/a\\b/", "RULE:(.+)/\\/$1/"),
    *("RULE:(.+)/${1}/", "RULE:(?<user>.+)/${user}/", "RULE:(?<user>.+)/${other}/", "RULE:(?<user>.+)/$1/"),
    *("RULE:(.+)/$2147483648/", "RULE:(.+)/$2$2$2/", "RULE:(.+)/x$2/", "RULE:(.+)/$99999999/"),
    "RULE:(C)(N)=(.)(.*)/$4$3$2$1/",
    "RULE:(C)(N)=(.)(.)(.)(.)(.)(.)(.)(.)(.)(.*)/$12-$11-$13-$123/",
    "RULE:(x)?.+/<$1>/",
    "RULE:(?:CN=)(.+?)(?:,O=x\\/y)?/$1/",
    "RULE:CN=(.*),O=x.y/$1/",
    "RULE:CN=([^,\\\\]+)\\\\,(.*)/$1.$2/",
    "RULE:CN=([^,]+),.*,C=(US|DE)/$1-$2/U",
    "RULE:(?i)cn=([^,]+).*/$1/",
    "RULE:[A-Z=]+(.*)/$1/L",
    "RULE:[A-Z]+=[^,]*(,[A-Z]+=[^,]*)*/x/",
    "RULE:(?=CN)(.*)/$1/, RULE:(?!CN).*/other/",
    "RULE:\\w+=(\\w+).*/$1/",
    "RULE:(\\w)+.*/$1/",
    "RULE:(/x/",
    "RULE:(.*/$1/",
    "RULE:[a/x/",
    "RULE:CN=(.++),O=.*/$1/",
    "RULE:CN=(\\p{Alpha}+),.*/$1/",
    "RULE:.*[a-z&&[^b]].*/x/",
    "RULE:CN=\\QDuke\\E,.*/x/",
    "RULE:a{2,1}/x/",
    "RULE:.*/\u0130STANBUL \u00df/L",
    "RULE:.*/\u0131stanbul \u00df/U",
)


def _der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = bytes([len(content)]) if len(content) < 128 else b"\x82" + len(content).to_bytes(2)
    return bytes([tag]) + size + content


def _relative(*attributes: tuple[str, int, bytes]) -> bytes:
    return _der(
        0x31,
        *(_der(0x30, _der(0x06, bytes.fromhex(type_)), _der(tag, value)) for type_, tag, value in attributes),
    )


_CN: Final = "550403"
_TYPES: Final = (
    *(f"5504{last:02x}" for last in range(3, 21)),
    *("550429", "55042a", "55042b", "55042c", "55042e", "550441", "550461"),
    *("0992268993f22c640119", "0992268993f22c640101", "0992268993f22c640103", "2a864886f70d010901"),
    *("2a864886f70d010902", "2b0e030211", "2a", "8837", "2a0387ffffff7f", "78", "6d"),
)
_TEXTS: Final = (
    *("alice", "", " ", "  a  ", "\ra\r", "\na\n", "a  b", "a,b", "a=b", "a+b", "<a>", "#a", "a#b", "a;b"),
    *('a"b', "a\\b", " ,", ", ", "\\ ", "a\0b", "\0", "caf\u00e9", "\u4e2d", "\U0001f600", "a/b", "a\tb"),
    *("User:alice", "x" * 300, "\u00a0a\u00a0", "*", "a:b@c", "'a'"),
)


def _names() -> list[bytes]:
    names = [_der(0x30, _relative((type_, 0x0C, b"a"))) for type_ in _TYPES]
    names += [_der(0x30, _relative((_CN, 0x0C, text.encode()))) for text in _TEXTS]
    names += [
        _der(0x30, _relative((_CN, tag, value)))
        for tag in (0x02, 0x03, 0x04, 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1A, 0x1B, 0x1C, 0x1E)
        for value in (b"ab", b"\0a\0b", b"\xe9a", b"\xff")
    ]
    two = (_CN, 0x0C, b"a"), ("55040b", 0x0C, b"b")
    names += [
        _der(0x30),
        _der(0x30, _relative(two[0]), _relative(two[1])),
        _der(0x30, _relative(*two)),
        _der(0x30, _relative(*two[::-1]), _relative(two[0]), _relative(two[0])),
    ]
    return names


def questions() -> list[dict[str, Any]]:
    """Return the questions: rules first, then names."""
    return [
        *({"rules": rules, "subjects": list(_SUBJECTS)} for rules in _RULES),
        *({"encoded": name.hex()} for name in _names()),
    ]


def recorded() -> list[dict[str, Any]]:
    """Return each question with its answer: `names` or `name`, None if there is none."""
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Writes the recording."""
    command = [*broker(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "PrincipalNames"]
    asked = "".join(f"{json.dumps(question)}\n" for question in questions())
    done = subprocess.run(command, input=asked, capture_output=True, check=True, encoding="utf-8")
    RECORDING.write_text(done.stdout, encoding="utf-8")
    print(f"{len(done.stdout.splitlines())} answers")


if __name__ == "__main__":
    main()
