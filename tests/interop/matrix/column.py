"""A column of the matrix: one stock client. Its program runs its cells in one process."""

import functools
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.interop import build
from tests.interop.driver import python_program
from tests.interop.matrix.cells import CELLS, JAVA_CELLS, Cell
from tests.interop.secured_broker import SecuredBroker
from tests.shared_fixtures import own_limit

TIMEOUT_S: Final = 240

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """A stock client behind the program that `clients/visits.py` describes."""

    name: str
    prepare: Callable[[], list[str]]
    """Returns the command to run; raises CannotBuild where the machine lacks something."""
    cells: tuple[Cell, ...] = CELLS

    def __str__(self) -> str:
        """Return the name, for test ids."""
        return self.name


@dataclass(frozen=True, slots=True)
class Column:
    """What became of a client's cells."""

    answers: Mapping[str, Answer]
    """By the cells' names."""
    counts: Counter[str]
    """How often something happened to the broker meanwhile, by the names of its metrics."""
    report: str
    """The output of the program and of the broker, for a failure message."""

    def of(self, cell: Cell) -> Answer:
        """Return the result of a cell; AssertionError without one."""
        assert cell.name in self.answers, f"no answer for {cell}\n{self.report}"
        return self.answers[cell.name]


CLIENTS: Final = (
    Client("librdkafka", functools.partial(python_program, "confluent_cells", "confluent_kafka")),
    Client("kafka_python", functools.partial(python_program, "kafka_python_cells", "kafka")),
    Client("aiokafka", functools.partial(python_program, "aiokafka_cells", "aiokafka")),
    Client("kafkajs", functools.partial(build.kafkajs, "cells.js")),
    Client("java", functools.partial(build.java, "Cells"), JAVA_CELLS),
    Client("franz_go", lambda: [*build.franz_go(), "-mode", "cells"]),
)


def visit(client: Client, cells: Sequence[Cell], broker: SecuredBroker) -> Column:
    """Run the program of a client on some of its cells and return the answers. Raises CannotBuild."""
    stores = {}
    if client.cells is JAVA_CELLS:
        stores = {each.form: each for each in broker.files.java_stores()}
    lines = [cell.line(client.name, broker, stores) for cell in cells]
    before = broker.counts()
    command = client.prepare()
    pipe = subprocess.PIPE
    with (
        own_limit(f"{client} did not end", 2 * TIMEOUT_S),
        subprocess.Popen(
            command, cwd=build.CHECKOUT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as program,
    ):
        late = threading.Timer(TIMEOUT_S, program.kill)
        late.start()
        out, err = program.communicate("".join(f"{line}\n" for line in lines))
        late.cancel()
    counts = broker.counts()
    counts.subtract(before)
    answers = [json.loads(line) for line in out.splitlines()]
    said = f"{client} ended with {program.returncode}\n{err[-6000:]}"
    return Column({each["cell"]: each for each in answers}, counts, f"{said}\n{broker.log()}")
