"""Spark data sources: `kraft-log` for metadata logs, `request-log` for request logs, each as a table and a stream."""

from klamm.pipeline.sources.kraft_log import KraftLogSource
from klamm.pipeline.sources.request_log import RequestLogSource

DATA_SOURCES = (KraftLogSource, RequestLogSource)
