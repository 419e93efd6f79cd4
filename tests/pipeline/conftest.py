"""One Spark session for all tests that need one, and the histories of random clusters, which are played once."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline.session import spark_session
from tests.pipeline.histories import SEEDS, WHOLE_SEEDS, History, play_history
from tests.pipeline.interpreted import SETTINGS


@pytest.fixture(scope="session")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[History]:
    """The logs that servers left. Tests change copies of them."""
    folder = tmp_path_factory.mktemp("histories")
    played = [play_history(seed, folder) for seed in SEEDS]
    played += [play_history(seed, folder, whole=True) for seed in WHOLE_SEEDS]
    assert {history.log.files[0].is_snapshot for history in played} == {True, False}
    return played


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", SETTINGS, short=True) as session:
        yield session
