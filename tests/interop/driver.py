"""The drivers: the client of each, its start command, and the features of the client."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.interop import build

CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Driver:
    """One stock client behind the protocol of `clients/conversation.py`."""

    name: str
    prepare: Callable[[], list[str]]
    """Returns the command to run; raises CannotBuild where the machine lacks something."""
    assignors: tuple[str, ...]
    """The first is used where a test does not care."""
    static_membership: bool = True
    regex_finds_new_topics: bool = True
    commits_by_itself: bool = False
    """The client has no commit command: it commits in the background."""
    codecs: tuple[str, ...] = ()
    """What its producer can compress with; empty where the driver has no producer."""
    idempotent: bool = True
    zombie_interrupts: bool = False
    """One that is fenced when it writes asks for a newer epoch, and so aborts what its heir has open."""
    group_protocol: str = "classic"
    """Where it is consumer (KIP-848), the assignors are the coordinator's."""

    @property
    def cooperative(self) -> bool:
        """Whether the client has an incremental assignor."""
        return "cooperative-sticky" in self.assignors

    def __str__(self) -> str:
        """Return the name, and the protocol that is not classic, for test ids."""
        return self.name if self.group_protocol == "classic" else f"{self.name}-{self.group_protocol}"


def python_program(module: str, *needs: str) -> list[str]:
    """Return the command of a driver in Python, which imports `needs`. Raises CannotBuild."""
    for name in needs:
        if importlib.util.find_spec(name) is None:
            raise build.CannotBuild(f"the Python package {name} is not installed")
    return [sys.executable, "-X", "faulthandler", "-m", f"tests.interop.clients.{module}"]


def _kcat() -> list[str]:
    try:
        build.tool("kcat")
    except build.CannotBuild:
        build.tool("kafkacat")
    return python_program("kcat_driver")


DRIVERS = (
    Driver(
        "confluent",
        functools.partial(python_program, "confluent_driver", "confluent_kafka"),
        assignors=("range", "roundrobin", "cooperative-sticky"),
        codecs=CODECS,
    ),
    Driver(
        "kafka_python",
        functools.partial(python_program, "kafka_python_driver", "kafka"),
        assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
        codecs=("gzip",),
        zombie_interrupts=True,
    ),
    Driver(
        "aiokafka",
        functools.partial(python_program, "aiokafka_driver", "aiokafka"),
        assignors=("roundrobin", "range", "sticky"),
        codecs=CODECS,
    ),
    Driver(
        "kcat",
        _kcat,
        assignors=("range", "roundrobin", "cooperative-sticky"),
        commits_by_itself=True,
    ),
    Driver(
        "kafkajs",
        functools.cache(build.kafkajs),
        assignors=("roundrobin",),
        static_membership=False,
        regex_finds_new_topics=False,
        codecs=("gzip",),
    ),
    Driver(
        "java",
        functools.cache(build.java),
        assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
        codecs=CODECS,
    ),
    Driver(
        "franz_go",
        functools.cache(build.franz_go),
        assignors=("cooperative-sticky", "range", "roundrobin", "sticky"),
        codecs=CODECS,
    ),
)
CONSUMER_DRIVERS = tuple(
    replace(driver, group_protocol="consumer", assignors=("uniform", "range"))
    for driver in DRIVERS
    if driver.name in ("confluent", "java", "franz_go")
)
"""The clients that have the protocol consumer, speaking that."""
PRODUCERS = tuple(driver for driver in DRIVERS if driver.codecs)
