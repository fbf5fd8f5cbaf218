"""Two accounts of the same session, compared field by field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.oracle.answer import Plain, flat
from tests.oracle.play import Entry

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One field of one answer that is not the same."""

    session: str
    step: int
    label: str
    path: str
    kafka: Plain
    groupd: Plain

    def __str__(self) -> str:
        """Return a block to read: where, and both values under each other."""
        path = f" {self.path}" if self.path else ""
        return (
            f"{self.session}, step {self.step}: {self.label}{path}\n"
            f"  - kafka   {json.dumps(self.kafka)}\n"
            f"  + groupd  {json.dumps(self.groupd)}"
        )


@dataclass(frozen=True)
class Explained:
    """A known difference. Patterns are those of file names; a value of None stands for any."""

    why: str
    """How its row in docs/differences.md begins."""
    session: str
    label: str
    path: str
    kafka: tuple[Plain, ...] = ()
    groupd: tuple[Plain, ...] = ()

    def covers(self, difference: Difference) -> bool:
        """Whether this explains that."""
        return (
            fnmatchcase(difference.session, self.session.replace("[", "[[]"))
            and fnmatchcase(difference.label, self.label)
            and fnmatchcase(difference.path.replace("[", "(").replace("]", ")"), self.path)
            and (not self.kafka or difference.kafka in self.kafka)
            and (not self.groupd or difference.groupd in self.groupd)
        )


def compare(session: str, kafka: Sequence[Entry], groupd: Sequence[Entry]) -> list[Difference]:
    """Every field that differs, in order. An answer that only one account has differs as a whole."""
    differences = []
    for step in range(max(len(kafka), len(groupd))):
        left = kafka[step] if step < len(kafka) else Entry(ABSENT, ABSENT)
        right = groupd[step] if step < len(groupd) else Entry(ABSENT, ABSENT)
        if left.label != right.label:
            differences.append(Difference(session, step, left.label, "", left.label, right.label))
            break
        groupd_fields, kafka_fields = flat(right.answer), flat(left.answer)
        paths = [*kafka_fields, *(path for path in groupd_fields if path not in kafka_fields)]
        differences += [
            Difference(
                session,
                step,
                left.label,
                path,
                kafka_fields.get(path, ABSENT),
                groupd_fields.get(path, ABSENT),
            )
            for path in paths
            if kafka_fields.get(path, ABSENT) != groupd_fields.get(path, ABSENT)
            or type(kafka_fields.get(path)) is not type(groupd_fields.get(path))
        ]
    return differences
