"""One Spark session for all tests that need one."""

from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline.session import spark_session

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", SETTINGS, short=True) as session:
        yield session
