"""The Spark session of these tests: one for all of them, made when the first one asks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.interop.requirement import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.told import Told

QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Most code of these tests runs a few times: compiling it well takes longer than running it does."""


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    pytest.importorskip("pyspark")
    from pipeline.errors import BadInput
    from pipeline.session import start

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_SUBMIT_OPTS", QUICK_JVM)
        try:
            session = start("local[2]", QUICK)
        except BadInput as error:
            lacking(str(error))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def told(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Told":
    """An eventful history, ingested, built and told; nobody may change it."""
    from tests.pipeline.told import MEASURED, Told, eventful

    made = Told(spark, tmp_path_factory.mktemp("told"))
    made.goes_on(eventful, MEASURED)
    return made
