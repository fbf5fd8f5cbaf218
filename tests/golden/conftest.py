"""The Spark session of the pipeline's tests."""

from tests.pipeline.conftest import spark

__all__ = ["spark"]
