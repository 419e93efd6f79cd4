"""The Spark session of a job: everything that has to be set stands here, with the reason."""

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
# Where `klamm` is, in a clone (through its link) as installed.
_ROOT: Final = Path(__file__).absolute().parents[2]
_CONNECT_SECONDS: Final = 10
_CONNECT_PORT: Final = 15002
_STANDALONE_PORT: Final = 7077
_TOLD_BYTES: Final = 100_000
# The first compiler alone, and one thread that collects garbage: a start takes half the time.
_SHORT_JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Parquet is written in half the time with the second compiler's code.
_LONG_JVM_OPTIONS: Final = "-XX:+UseParallelGC"
SHORT_JOB_BYTES: Final = 32 << 20
"""With less of a log to read a job has ended before the second compiler has paid for itself."""
_SETTINGS: Final = {
    # Python sources that take filters may not be read at all without it.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Times are labels in UTC, wherever the job runs.
    "spark.sql.session.timeZone": "UTC",
    # On a busy machine a Python worker needs more than Spark's 15 seconds to say that it is there.
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Only what a job says of its own accord is worth overwriting: the partitions it writes.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
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
    """A session with our data sources, stopped at the end.

    Args:
        master: "local[*]", "spark://HOST:PORT", or "sc://HOST:PORT" of Spark Connect.
        settings: Spark's, beside ours and before them.
        memory: of the JVM that drives the job, such as "4g".
        verbose: what Spark logs goes to stderr; else to a file that ends with the session.
        short: start fast and compute slowly, for jobs over less than `SHORT_JOB_BYTES`.

    Raises PipelineError if there is no Java, too little memory, or nobody at the master.
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
    """Make `kraft-log` and `request-log` known to a session that somebody else has made, in a notebook or by
    `spark-submit`."""
    for source in DATA_SOURCES:
        session.dataSource.register(source)


def _check_master(master: str) -> None:
    """Spark itself takes a minute to find out that nobody is there."""
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
        # Spark itself asks for ten minutes whoever listens there and says nothing.
        with client.DefaultChannelBuilder(master).toChannel() as channel:
            grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
        return SparkSession.builder.remote(master).getOrCreate()
    except ImportError as error:
        raise PipelineError(
            f"{master} is Spark Connect, which needs more than the pipeline: pip install 'pyspark[connect]==4.2.*'"
        ) from error
    except Exception as error:
        reason = _first_line(error) if str(error) else f"nobody there speaks gRPC within {_CONNECT_SECONDS} s"
        raise PipelineError(f"no Spark Connect server answers at {master}: {reason}") from error


def _start(master: str, settings: Mapping[str, str], app_name: str, scratch: str, told: Path | None) -> SparkSession:
    os.environ["JAVA_HOME"] = str(write_java_home(find_java(), Path(scratch), told))
    # Executors take whatever is called python3 otherwise, and find our packages nowhere.
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
        # 200 tasks for each step are for clusters.
        places["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    return places


def _why(error: BaseException, told: Path | None) -> str:
    """The line that tells a person what to do, out of an exception and of what the JVM wrote before it ended."""
    reason = _first_line(error)
    if "JAVA_GATEWAY_EXITED" in reason and told is not None and told.is_file():
        with told.open("rb") as file:
            lines = _JVM_FAILURE.findall(file.read(_TOLD_BYTES).decode("utf-8", "replace"))
        return f"Java ended at once: {lines[0]}" if lines else "Java ended at once"
    return first_cause(error)


def first_cause(error: BaseException) -> str:
    """What Java says of a failure, if it is Java's, else the first line."""
    cause = _JAVA_CAUSE.search(str(error))
    return cause[1][:300] if cause else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
