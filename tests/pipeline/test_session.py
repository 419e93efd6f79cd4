"""The error if there is no Spark session, and the settings of a session that Klamm starts."""

import os
import socket
import sys

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline import session
from klamm.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    "master", ["", "foo", "local[", "local[x]", "spark://", "http://host:1", "spark://:1", "sc://h:x"]
)
def test_what_is_no_master_is_told_at_once(master: str) -> None:
    with pytest.raises(PipelineError, match="is no master"), session.spark_session(master):
        pass


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_nobody_is_at_is_told_at_once(scheme: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        master = f"{scheme}://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(PipelineError) as caught, session.spark_session(master):
            pass
    place = master.partition("://")[2]
    assert str(caught.value) == f"no Spark master answers at {master}: {place}: Connection refused"


def test_what_spark_connect_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PipelineError, match=r"needs more .* pip install 'pyspark\[connect\]"):
            session.spark_session(master).__enter__()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Failed.\n: org.apache.spark.SparkIllegalArgumentException: [MEMORY] System memory 1 is little.\n\tat x",
            "System memory 1 is little.",
        ),
        ("something else\nand more", "something else"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_is_one_line(text: str, told: str) -> None:
    assert session._why(RuntimeError(text), None) == told


def test_the_session_s_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None
    assert os.environ["SPARK_LOCAL_IP"]
