"""Starting Spark, with what the pipeline needs of it.

The master is set only when asked for, so that whatever spark-submit or a configuration file says wins. Workers
run this very interpreter unless PYSPARK_PYTHON says otherwise: a `python3` from the search path would be one
without Arrow. Drivers on a machine of their own address are reached on the loopback address, which needs no name
service; a cluster gets Spark's own choice.
"""

import logging
import os
import shutil
import signal
import subprocess
from importlib.resources import as_file, files
from typing import Final, Self

from pyspark.sql import SparkSession

from pipeline.errors import BadInput
from pipeline.java_errors import without_greeting
from pipeline.worker_python import worker_python
from pipeline.workload import Workload

MIN_JAVA: Final = 17
LOCAL: Final = "local[*,4]"
"""All cores, and as many tries of a task as on a cluster: on a busy machine a Python worker may start too late."""

_MIN_MEMORY_MB: Final = 1024
"""Spark's own default, which is little for sorting many millions of commits."""
_MAX_MEMORY_MB: Final = 4096
_SHARE_OF_MEMORY: Final = 4
"""The driver's heap is a quarter of the machine: the rest is for Python workers and the files' cache."""

_RUNTIME: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's own default is a legacy type without a time zone, which other readers take for nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.default": "parquet",
    # Else every operation on a column asks the JVM twice, to remember the line that it came from.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_STATIC: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.ui.enabled": "false",
}
_SETTINGS: Final[dict[Workload, dict[str, str]]] = {
    Workload.LITTLE: {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
    },
    Workload.MODERATE: {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    },
    Workload.MUCH: {},
}
"""For little data most code runs a few times: Spark does not earn back what compiling it takes, nor what looking
at each stage's data before the next one is planned takes."""
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Java's best compiler does not pay off either, up to more data. Without it Java keeps 48 MB of compiled code:
Spark fills them, and compiles the same code again."""
_LOGGING: Final = files(__package__) / "log4j2.properties"
"""The driver may run from an archive."""


def check_java() -> None:
    """Raise BadInput with the fix unless there is a Java runtime that Spark accepts."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    wanted = f"Spark needs a Java runtime, version {MIN_JAVA} or newer"
    advice = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise BadInput(f"{wanted}, but found none: {advice}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = java_version(said)
    if version is not None and version < MIN_JAVA:
        raise BadInput(f"{wanted}, but {java} is version {version}: {advice}")


def java_version(said: str) -> int | None:
    """The feature release in what `java -version` prints; None when it is not in there."""
    _, _, rest = said.partition('version "')
    numbers = rest.partition('"')[0].split(".")
    if not numbers[0].isdigit():
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def driver_memory_mb(physical_bytes: int) -> int:
    """Heap for Spark in one process on a machine of so much memory."""
    share = physical_bytes // _SHARE_OF_MEMORY >> 20
    return min(_MAX_MEMORY_MB, max(_MIN_MEMORY_MB, share))


class LazySpark:
    """A Spark session that starts when it is first needed and stops at the end of this context."""

    def __init__(self, master: str | None, workload: Workload) -> None:
        self._master = master
        self._workload = workload
        self._session: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.stop()

    def session(self) -> SparkSession:
        """Return the running session. Start it at the first call.

        Raises:
            BadInput: Java is missing.
        """
        if self._session is None:
            handler = signal.getsignal(signal.SIGINT)
            self._session = start(self._master, workload=self._workload)
            if handler is not signal.default_int_handler:
                # PySpark has replaced the handler of a command that ends at a safe point.
                signal.signal(signal.SIGINT, handler)
        return self._session


def start(
    master: str | None = None,
    settings: dict[str, str] | None = None,
    *,
    workload: Workload = Workload.MUCH,
) -> SparkSession:
    """A session that runs the pipeline; the one that is active if there is one.

    In: the master's URL, None for what spark-submit or `SPARK_MASTER` says, failing that all local cores; Spark
    settings that win over the pipeline's own; how much there is to do, which counts where Spark runs here alone.
    Raises BadInput when Java is missing.
    """
    check_java()
    builder = SparkSession.builder.appName("groupd-pipeline")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit started this process
    chosen = master or (None if submitted else os.environ.get("SPARK_MASTER", LOCAL))
    is_local = chosen is not None and chosen.startswith("local")
    java = ""
    if chosen is not None:
        builder = builder.master(chosen)
        if is_local:
            builder = builder.config("spark.driver.host", "127.0.0.1").config(
                "spark.driver.bindAddress", "127.0.0.1"
            )
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if "SPARK_DRIVER_MEMORY" not in os.environ:
                physical_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
                builder = builder.config("spark.driver.memory", f"{driver_memory_mb(physical_bytes)}m")
            # Spark's default of 200 is for clusters: on one machine most of them would be empty tasks.
            builder = builder.config("spark.sql.shuffle.partitions", str(max(4, 2 * (os.cpu_count() or 1))))
            if workload < Workload.MUCH:
                java = _QUICK_JAVA
            settings = {**_SETTINGS[workload], **(settings or {})}
    with as_file(_LOGGING) as logging_file, without_greeting(), worker_python(is_local=is_local):
        if not submitted:
            for key, value in _STATIC.items():
                builder = builder.config(key, value)
            java = f"-Dlog4j2.configurationFile={logging_file.as_uri()} {java}"
            builder = builder.config("spark.driver.extraJavaOptions", java)
        for key, value in {**_RUNTIME, **(settings or {})}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    # It logs a traceback before it raises; an interruption would look like a failure there.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return spark
