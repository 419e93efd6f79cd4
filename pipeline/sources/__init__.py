"""Spark data sources: `kraft-log` for metadata logs and `request-log` for request logs, each as a table and a stream;
`closed-windows`, a stream of windows that close in metadata logs, and `kraft-log-files`, a stream of Parquet files."""

from klamm.pipeline.sources.bronze_files import BronzeFileSource
from klamm.pipeline.sources.closed_windows import ClosedWindowSource
from klamm.pipeline.sources.kraft_log import KraftLogSource
from klamm.pipeline.sources.request_log import RequestLogSource

DATA_SOURCES = (KraftLogSource, RequestLogSource, ClosedWindowSource, BronzeFileSource)
