"""The windows of clusters whose logs grow, on Spark: a micro-batch closes windows; the others stay open in state.

The state of a cluster has its brokers and one value per topic, so the time of a micro-batch depends on its changes
only. A key per partition would take 0.2 to 0.4 ms each time it has rows (measured): minutes for a million partitions.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from klamm.pipeline import schemas
from klamm.pipeline.windows.fold import READ_TYPES, State, WindowFold

_JSON: Final = T.StructType([T.StructField("json", schemas.STRING)])
_TOPIC_ID: Final = T.StructType([T.StructField("topic_id", schemas.STRING)])
_READ: Final = (
    *("cluster_id", "record_offset", "snapshot_position", "batch_offset"),
    *("timestamp", "type", "partition", "body", "problem"),
)


class ClusterWindows(StatefulProcessor):
    """Turns rows of bronze.metadata_record, grouped by cluster_id, into rows of live.closed_window."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._cluster = handle.getValueState("cluster", _JSON)
        self._topics = handle.getMapState("topics", _TOPIC_ID, _JSON)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        known = self._cluster.get()
        cluster: State = {} if known is None else json.loads(known[0])
        fold = WindowFold(cluster, self._load_topic)
        for window in fold.add(row.asDict(recursive=True) for row in rows):
            yield Row(*schemas.CLOSED_WINDOW.names)(key[0], *(getattr(window, name) for name in _FIELDS))
        self._cluster.update((json.dumps(cluster),))
        for topic_id, topic in fold.topics.items():
            if topic is not None:
                self._topics.updateValue((topic_id,), (json.dumps(topic),))
            elif self._topics.containsKey((topic_id,)):
                self._topics.removeKey((topic_id,))

    def _load_topic(self, topic_id: str) -> State | None:
        known = self._topics.getValue((topic_id,)) if self._topics.containsKey((topic_id,)) else None
        return None if known is None else json.loads(known[0])

    def close(self) -> None:
        pass


_FIELDS: Final = schemas.CLOSED_WINDOW.names[1:]


def closed_windows(records: DataFrame) -> DataFrame:
    """live.closed_window, from a stream of the data source `kraft-log`."""
    read = records.where(F.col("type").isin(*READ_TYPES) & F.col("problem").isNull()).select(*_READ)
    return read.groupBy("cluster_id").transformWithState(
        statefulProcessor=ClusterWindows(),
        outputStructType=schemas.CLOSED_WINDOW,
        outputMode="Append",
        timeMode="None",
    )
