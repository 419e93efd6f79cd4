"""IncrementalAlterConfigs of broker loggers: what is refused, and which broker's level is set."""

import pytest

from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.config_requests import APPEND, CONTROLLER, DELETE, LOGGER, SET, described, edit

REFUSED_LOGGERS: dict[str, tuple[str, list[tuple[str, int, str | None]]]] = {
    "another logger": ("1", [("root", SET, "WARN"), ("kafka", SET, "WARN")]),
    "no level": ("1", [("root", SET, "LOUD")]),
    "no operation on a logger": ("1", [("root", APPEND, "WARN")]),
    "an unknown operation": ("1", [("root", 9, "WARN")]),
    "a removal": ("1", [("root", DELETE, "WARN")]),
    "another broker": ("2", [("root", SET, "WARN")]),
    "no broker": ("x", [("root", SET, "WARN")]),
    "a null": ("1", [("root", SET, None)]),
}


@pytest.mark.parametrize("refused", REFUSED_LOGGERS)
@pytest.mark.parametrize("broker_id", [1, CONTROLLER])
def test_a_refused_edit_of_loggers_sets_no_level(cluster: DrivenCluster, refused: str, broker_id: int | None) -> None:
    name, edits = REFUSED_LOGGERS[refused]
    own = "3000" if broker_id is CONTROLLER and name == "1" else name
    assert edit(cluster, (LOGGER, own), *edits, broker_id=broker_id)[0] != 0
    assert {one.root_log_level for one in cluster.brokers.by_id.values()} == {None}


def test_the_level_of_the_root_logger_is_told_as_it_was_set_on_that_broker_alone(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        assert edit(cluster, (LOGGER, "1"), ("root", SET, "WARN")) == (0, None)
        assert edit(cluster, (LOGGER, "2"), ("root", SET, "ERROR"), broker_id=2, validate_only=True) == (0, None)
    assert not written
    assert described(cluster, (LOGGER, "1")) == {"root": ("WARN", 6, [])}
    assert described(cluster, (LOGGER, "2"), broker_id=2) == {"root": ("INFO", 6, [])}
    cluster.restart()
    assert described(cluster, (LOGGER, "1")) == {"root": ("INFO", 6, [])}
