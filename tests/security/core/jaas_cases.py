"""JAAS configurations and the results of Kafka and Java: python -m tests.security.core.jaas_cases

The command records the results of Kafka's own classes again. It needs Java, Maven and some seconds. Review the
recording with git diff.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.kafka_log.artifacts import NEWEST, broker

RECORDING: Final = Path(__file__).parent / f"jaas-{NEWEST}.jsonl"

_MODULES: Final = (
    'Plain required username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a";',
    "Plain required user_alice='it is \"quoted\"';",
    "Plain required user_alice='a' ;",
    'org.apache.kafka.common.security.plain.PlainLoginModule   REQUIRED\n user_alice = "a\\"b\\\\c" ;',
    'Plain Requisite a="\\t\\n\\101\\1012\\3777\\8\\x\\q" ;',
    "Plain sufficient user_alice=word-1_$x.y;",
    "Plain optional;",
    'Plain required caf\u00e9="\u00fc\u4e2d\U0001f600";',
    'Plain required a="1" a="2";',
    'Plain required "a b"="c";',
    '"Plain" required a="c";',
    'Plain required // to the end "of the line\n a="1";',
    'Plain required /* several\n lines; */ a="1";',
    'Plain required / one slash\n a="1";',
    'Plain required a="/* no comment */";',
    'Plain required a="1"; // after it',
    'Plain required a="1"; /* open',
    'Plain required a="x\\\ny";',
    'Plain required a="";',
    'Plain required x*y="a";',
    "Plain required a=*;",
    "",
    " ",
    ";",
    "Plain",
    "Plain;",
    "Plain required",
    "Plain necessary;",
    "Plain required a;",
    "Plain required a=;",
    'Plain required a="1"',
    'Plain required a "1";',
    'Plain required ="1";',
    "Plain required a=5;",
    "Plain required a=-;",
    "Plain required a=-b;",
    'Plain required a="1", b="2";',
    'Plain required a="1"; Scram required;',
    'Plain required a="1";;',
    "Plain required a={b};",
    "Plain 5;",
    'Plain required a="${b}";',
    'Plain required a="1\n;',
    "Plain required a='x' b=\"'\";",
    "Plain required a=\"1\" b='2';",
    'Plain required a=b"c";',
)
_FILES: Final = (
    "",
    "KafkaServer {};",
    "KafkaServer { }",
    "KafkaServer Plain required;",
    'KafkaServer { Plain required a="1"; };',
    'KafkaServer { Plain required a="1"; } ;\nKafkaClient {\n Plain required b="2";\n};',
    'KafkaServer { Plain required a="1"; };\nKafkaServer { Plain required b="2"; };',
    'internal.KafkaServer { Plain required a="1"; };',
    'KafkaServer { Plain required a="1"; Scram required; };',
    '"KafkaServer" { Plain required a="1"; };',
    'KafkaServer { Plain required a="1" };',
    'KafkaServer { Plain required a="1"; }; }',
)


def questions() -> list[dict[str, str]]:
    """Return the questions: each text with its form."""
    wrapped = [f"KafkaServer {{\n{text}\n}};\n" for text in _MODULES]
    return [
        *({"form": "property", "text": text} for text in _MODULES),
        *({"form": "file", "text": text} for text in (*_FILES, *wrapped)),
    ]


def recorded() -> list[dict[str, Any]]:
    """Each question with Kafka's answer: its modules, None where it refuses the text."""
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Writes the recording."""
    command = [*broker(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "JaasConfigs"]
    asked = "".join(f"{json.dumps(question)}\n" for question in questions())
    done = subprocess.run(command, input=asked, capture_output=True, check=True, encoding="utf-8")
    RECORDING.write_text(done.stdout, encoding="utf-8")
    print(f"{len(done.stdout.splitlines())} texts")


if __name__ == "__main__":
    main()
