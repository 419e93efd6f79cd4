"""What Spark reads: `kraft-log`, metadata logs, and `request-log`, request logs; each as a table and as a stream."""

from klamm.pipeline.sources.kraft_log import KraftLogSource
from klamm.pipeline.sources.request_log import RequestLogSource

DATA_SOURCES = (KraftLogSource, RequestLogSource)
