"""Spark's classes in a class data archive, so that each virtual machine of the tests need not load them again.

`python -m tests.pipeline.class_archive FILE` makes such an archive, in half a minute; with it Spark takes half the
work to start. A virtual machine that it does not fit, since Java is another one, does without it.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from typing import Final

import pyspark.version
from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.session import start
from tests.interop import build

OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:ReservedCodeCacheSize=256m"
"""Most code of these tests runs a few times: compiling it well takes longer than running it does. Without the
best compiler the machine keeps 48 MB of compiled code: Spark fills them, and the same code is compiled again."""
_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_FILE: Final = "spark.jsa"
_END_TIMEOUT_S: Final = 800


def quick_jvm() -> str:
    """Options of a virtual machine for Spark that soon ends. Makes the archive, unless it is there."""
    of_spark = [pyspark.version.__file__]
    target = build.once("spark-classes", of_spark, lambda fresh: _make(os.path.join(fresh, _FILE)))
    return f"{OPTIONS} {_SILENT} {shlex.quote(f'-XX:SharedArchiveFile={os.path.join(target, _FILE)}')}"


def _make(file: str) -> None:
    build.run([sys.executable, "-m", "tests.pipeline.class_archive", file], build.CHECKOUT)


def main(file: str) -> None:
    """Use the features that most tests use, in a virtual machine that archives its classes at its end."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} {_SILENT} {shlex.quote(f'-XX:ArchiveClassesAtExit={file}')}"
    spark = start("local[2]")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    machine: subprocess.Popen[bytes] = gateway.proc
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "table")
        spark.range(9).withColumn("third", sf.col("id") % 3).write.parquet(path)
        rows = spark.read.parquet(path)
        order = sf.row_number().over(Window.partitionBy("third").orderBy("id"))
        rows.join(rows.groupBy("third").agg(sf.max("id")), "third").withColumn("order", order).toArrow()
    spark.stop()
    assert machine.stdin is not None
    machine.stdin.close()
    machine.wait(_END_TIMEOUT_S)


if __name__ == "__main__":
    main(sys.argv[1])
