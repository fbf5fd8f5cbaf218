"""The Spark session of these tests: one for all of them, made when the first one asks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.interop.requirement import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    pytest.importorskip("pyspark")
    from pipeline.errors import BadInput
    from pipeline.session import start

    try:
        session = start("local[2]", QUICK)
    except BadInput as error:
        lacking(str(error))
    yield session
    session.stop()
