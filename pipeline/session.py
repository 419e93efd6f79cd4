"""Starts the Spark session of a job. All of Spark's settings are here, with the reason for each."""

import importlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.java import find_java, write_java_home
from klamm.pipeline.sources import DATA_SOURCES

DEFAULT_MASTER: Final = "local[*]"
DEFAULT_MEMORY: Final = "1g"
# The folder that contains the package `klamm`, in a clone (through its link) as well as installed.
_ROOT: Final = Path(__file__).absolute().parents[2]
_CONNECT_SECONDS: Final = 10
_CONNECT_PORT: Final = 15002
_STANDALONE_PORT: Final = 7077
_TOLD_BYTES: Final = 100_000
# Only the first compiler, and one garbage collection thread: the start takes half the time.
_SHORT_JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# With the second compiler, Parquet is written in half the time.
_LONG_JVM_OPTIONS: Final = "-XX:+UseParallelGC"
SHORT_JOB_BYTES: Final = 32 << 20
"""With fewer bytes of logs to read, a job ends before the second compiler saves time."""
_SETTINGS: Final = {
    # Without this setting Spark refuses to read Python sources that accept filters.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Times are in UTC on every machine.
    "spark.sql.session.timeZone": "UTC",
    # On a busy machine a Python worker needs more than Spark's default of 15 seconds to start.
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # glibc returns memory to the system less often. NumPy's arrays of a few 100 kB then take no new page faults, which
    # saves an eighth of the time of a what-if analysis (measured).
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(32 * 1024 * 1024),
    # A write replaces only the partitions that it contains.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
_MASTER: Final = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[.+\]|(spark|sc|k8s)://\S+|yarn")
_JAVA_CAUSE: Final = re.compile(r"^: [\w.$]+(?:Exception|Error): (?:\[\w+\] )?(.+)$", re.MULTILINE)
_JVM_FAILURE: Final = re.compile(r"^(Error:? .+|Exception in thread .+|Invalid .+|OpenJDK .* failed.*)$", re.MULTILINE)


@contextmanager
def spark_session(
    master: str = DEFAULT_MASTER,
    settings: Mapping[str, str] | None = None,
    app_name: str = "klamm-pipeline",
    *,
    memory: str = DEFAULT_MEMORY,
    verbose: bool = False,
    short: bool = False,
) -> Iterator[SparkSession]:
    """A session with Klamm's data sources. It is stopped at the end of the `with` block.

    Args:
        master: "local[*]", "spark://HOST:PORT", or "sc://HOST:PORT" of Spark Connect.
        settings: Spark settings, which override Klamm's.
        memory: memory of the driver's JVM, such as "4g".
        verbose: whether Spark's log goes to stderr; otherwise to a temporary file.
        short: start fast and compute slowly, for jobs that read less than `SHORT_JOB_BYTES`.

    Raises PipelineError if there is no Java, too little memory, or no Spark at the master.
    """
    _check_master(master)
    java_home = os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="klamm-spark-", ignore_cleanup_errors=True) as scratch:
        try:
            if master.startswith("sc://"):
                session = _connect(master)
            else:
                told = None if verbose else Path(scratch) / "spark.log"
                own = {"spark.driver.memory": memory, **_jvm_options(scratch, short=short), **(settings or {})}
                session = _start(master, own, app_name, scratch, told)
            try:
                register_sources(session)
                yield session
            finally:
                session.stop()
        finally:
            if java_home is None:
                os.environ.pop("JAVA_HOME", None)
            else:
                os.environ["JAVA_HOME"] = java_home


def register_sources(session: SparkSession) -> None:
    """Register `kraft-log` and `request-log` in an existing session, in a notebook or with `spark-submit`."""
    for source in DATA_SOURCES:
        session.dataSource.register(source)


def _check_master(master: str) -> None:
    """Raise PipelineError if no server answers at the master. Spark itself needs a minute to report that."""
    if not _MASTER.fullmatch(master):
        raise PipelineError(f"{master!r} is no master: local[*], local[N], spark://HOST:PORT or sc://HOST:PORT")
    scheme, _, places = master.partition("://")
    if scheme not in ("spark", "sc"):
        return
    reasons: list[str] = []
    for place in places.split("/")[0].split(";")[0].split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", "")
        number = port or str(_CONNECT_PORT if scheme == "sc" else _STANDALONE_PORT)
        if not host or not number.isdigit() or int(number) > 0xFFFF:
            raise PipelineError(f"{master!r} is no master: {place!r} is no HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(number)), _CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise PipelineError(f"no Spark master answers at {master}: {'; '.join(reasons)}")


def _connect(master: str) -> SparkSession:
    try:
        grpc = importlib.import_module("grpc")
        client = importlib.import_module("pyspark.sql.connect.client")
        # Spark itself waits ten minutes for a server that accepts connections and does not answer.
        with client.DefaultChannelBuilder(master).toChannel() as channel:
            grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
        return SparkSession.builder.remote(master).getOrCreate()
    except ImportError as error:
        raise PipelineError(
            f"{master} is Spark Connect, which needs more than the pipeline: pip install 'pyspark[connect]==4.2.*'"
        ) from error
    except Exception as error:
        reason = _first_line(error) if str(error) else f"no gRPC answer within {_CONNECT_SECONDS} s"
        raise PipelineError(f"no Spark Connect server answers at {master}: {reason}") from error


def _start(master: str, settings: Mapping[str, str], app_name: str, scratch: str, told: Path | None) -> SparkSession:
    os.environ["JAVA_HOME"] = str(write_java_home(find_java(), Path(scratch), told))
    # Otherwise executors use any python3 and do not find Klamm's packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**_SETTINGS, **_places(scratch, is_local=is_local), **settings}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        reason = _why(error, told)
        if "stopped SparkContext" in reason:
            reason = "who answers there is no Spark master, or one of another version"
        if reason.startswith("System memory"):
            reason = f"too little memory: {reason.rstrip('.')}; give it more with --memory"
        raise PipelineError(f"no Spark session on {master}: {reason}") from error
    session.sparkContext.setLogLevel("ERROR" if told else "WARN")
    return session


def _jvm_options(scratch: str, *, short: bool) -> dict[str, str]:
    options = _SHORT_JVM_OPTIONS if short else _LONG_JVM_OPTIONS
    return {"spark.driver.extraJavaOptions": f"{options} -Dderby.system.home={scratch}"}


def _places(scratch: str, *, is_local: bool) -> dict[str, str]:
    places = {
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
    }
    if is_local:
        places["spark.driver.host"] = places["spark.driver.bindAddress"] = "127.0.0.1"
        # The default of 200 tasks per step is meant for clusters.
        places["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        # Large logs are sorted in many small parts, which fit into memory. Spark joins the parts of small ones.
        places["spark.sql.adaptive.coalescePartitions.initialPartitionNum"] = "64"
        places["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = "16m"
    return places


def _why(error: BaseException, told: Path | None) -> str:
    """One line for users, from an exception and the output of the JVM before it ended."""
    reason = _first_line(error)
    if "JAVA_GATEWAY_EXITED" in reason and told is not None and told.is_file():
        with told.open("rb") as file:
            lines = _JVM_FAILURE.findall(file.read(_TOLD_BYTES).decode("utf-8", "replace"))
        return f"Java ended at once: {lines[0]}" if lines else "Java ended at once"
    return first_cause(error)


def first_cause(error: BaseException) -> str:
    """The message of a Java exception, or the first line of another one."""
    cause = _JAVA_CAUSE.search(str(error))
    return cause[1][:300] if cause else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
