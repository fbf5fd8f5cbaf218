"""The Spark session of these tests: one for all of them, created at its first use."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.interop.requirement import lacking
from tests.shared_fixtures import shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.told import Told


def _is_alive(session: "SparkSession") -> bool:
    from tests.pipeline.session import is_alive

    return is_alive(session)


@shared(_is_alive)
def spark() -> Iterator["SparkSession"]:
    pytest.importorskip("pyspark")
    from pipeline.errors import BadInput
    from pipeline.session import check_java
    from tests.pipeline.session import spark_session

    try:
        check_java()
    except BadInput as error:
        lacking(str(error))
    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def told(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Told":
    """Ingest an eventful history and build its tables and report; tests must not change it."""
    from tests.pipeline.told import MEASURED, Told, eventful

    made = Told(spark, tmp_path_factory.mktemp("told"))
    made.goes_on(eventful, MEASURED)
    return made
