"""What Spark reads: `kraft-log`, metadata logs, and `request-log`, request logs; each as a table and as a stream."""

from pipeline.sources.kraft_log import KraftLogSource
from pipeline.sources.request_log import RequestLogSource

DATA_SOURCES = (KraftLogSource, RequestLogSource)
