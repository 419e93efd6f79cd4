"""Twins of the logs of old releases, whose metadata.version is far below that of the logs that Klamm begins itself."""

import gzip
from pathlib import Path

import pytest

import klamm
from klamm import AdminClient, ConfigResource
from klamm.twin.changes import (
    AddPartitions,
    CreateTopic,
    ElectPreferredLeaders,
    LoseBroker,
    ReturnBroker,
    SetConfigs,
    Step,
)
from klamm.twin.trial import run_trial
from tools.toolchain_checks.security_metadata import SECURE, security_seen

LOGS = Path(__file__).parents[2] / "golden" / "twins"
LEVELS = {"3.3.2": 7, "3.6.2": 14, "3.9.1": 21}
"""The metadata.version of each log."""
SECURITY = (17, 21)
"""The numbers of resources with ACLs, and of entities with quotas."""
TOPICS = {"__transaction_state": 50, "topic-0": 3, "topic-1": 9, "topic-3": 6, "topic-4": 7}


@pytest.fixture(params=LEVELS)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def log(release: str, tmp_path: Path) -> Path:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(gzip.decompress((LOGS / f"{release}.log.gz").read_bytes()))
    return path


async def test_a_twin_of_an_old_log_has_all_that_the_log_says(release: str, log: Path) -> None:
    async with (
        klamm.Cluster(twin=log, clock="manual", configs=SECURE) as twin,
        AdminClient(twin.bootstrap_servers) as admin,
    ):
        topics = (await admin.metadata()).topics
        assert {one.topic_name: len(one.partitions) for one in topics} == TOPICS
        assert {(p.leader, p.replicas, p.isr) for one in topics for p in one.partitions} == {(1, (1,), (1,))}
        assert [(one.broker_id, one.rack) for one in (await admin.describe_cluster()).brokers] == [(1, "r1")]
        (described,) = await admin.describe_configs([ConfigResource.topic("topic-3")])
        assert described.configs["retention.ms"].value == "4"
        found = await security_seen(admin, has_users=True)
        assert (len(found["acls"][1]), len(found["quotas"][1])) == SECURITY
        assert len(found["users"][1]) == (0 if release == "3.3.2" else 5)
        assert twin._up.image.features["metadata.version"] == LEVELS[release]


async def test_changes_can_be_tried_on_a_twin_of_an_old_log(log: Path) -> None:
    steps: list[Step] = [
        CreateTopic("new", 3, 1, {}),
        AddPartitions("topic-0", 7),
        SetConfigs({"unclean.leader.election.enable": "true"}, None, "topic-1"),
        LoseBroker(1),
        ReturnBroker(1),
        ElectPreferredLeaders(),
    ]
    trial = await run_trial(log, steps)
    assert [step.refusals for step in trial.steps] == [[]] * len(steps)
    after = [step.after for step in trial.steps]
    assert all(one is not None for one in after)
    assert [(one.partitions, one.offline) for one in after if one is not None] == [
        (78, 0), (82, 0), (82, 0), (82, 82), (82, 0), (82, 0)
    ]  # fmt: skip
