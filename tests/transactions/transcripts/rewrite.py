"""`python -m tests.transactions.transcripts.rewrite [NAME …]`: store the present output of the transcripts.

A transcript states the behaviour of Kafka: read the difference before you commit it.
"""

import sys
from pathlib import Path

from tests.transactions.transcripts.runner import run


def main(names: list[str]) -> None:
    """Rewrite the transcripts of these names, all without any; say which changed."""
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        if not names or path.stem in names:
            before = path.read_text(encoding="utf-8")
            after = "".join(f"{line}\n" for line in run(before.splitlines()))
            path.write_text(after, encoding="utf-8")
            print(("same     " if before == after else "changed  ") + path.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
