"""The Spark session of the tests: started, looked at, and ended so that another one can be started after it."""

import contextlib
import subprocess
import warnings
from collections.abc import Iterator
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from pipeline.session import start
from tests.pipeline.class_archive import quick_jvm

QUICK: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
MASTER: Final = "local[2,2]"
"""Two cores, and two tries of a task: Spark waits ten seconds, no longer, for a Python process to begin."""
END_TIMEOUT_S: Final = 30


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session in a virtual machine of its own. Both end with the context, also after a failure.

    Raises BadInput without Java.
    """
    machines: list[subprocess.Popen[bytes]] = []

    def launch(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        machines.append(subprocess.Popen(*arguments, **options))
        return machines[-1]

    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SPARK_SUBMIT_OPTS", quick_jvm())
            patched.setattr(java_gateway, "Popen", launch)
            session = start(MASTER, QUICK)
        yield session
        _stop(session)
    finally:
        _forget()
        for machine in machines:
            _end(machine)


def is_alive(session: SparkSession) -> bool:
    """Whether it can run something."""
    context = session.sparkContext._jsc
    try:
        return context is not None and not context.sc().isStopped()
    except (Py4JError, OSError):
        return False


def _stop(session: SparkSession) -> None:
    """As far as its virtual machine still lets it."""
    with warnings.catch_warnings(), contextlib.suppress(Py4JError, OSError):
        warnings.simplefilter("ignore", RuntimeWarning)
        session.stop()


def _forget() -> None:
    """Spark keeps its session and virtual machine for as long as the process lives, even when they are dead."""
    gateway, SparkContext._gateway = SparkContext._gateway, None
    if gateway is not None:
        gateway.shutdown()
    SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end(machine: subprocess.Popen[bytes]) -> None:
    """End the JVM: it exits and removes its files when its standard input is closed."""
    assert machine.stdin is not None
    machine.stdin.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            machine.wait(END_TIMEOUT_S)
    finally:
        machine.kill()
        machine.wait()
