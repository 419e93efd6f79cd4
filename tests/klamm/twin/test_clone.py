"""What `klamm clone` makes of a cluster's answers: a log from which a cluster with the same metadata begins."""

import resource
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import klamm
from klamm.__main__ import main
from klamm.protocol.messages.configs import alter_client_quotas
from klamm.protocol.messages.security import create_acls
from tests.controller.snapshots import lasting_facts

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONFIGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS", "broker.session.timeout.ms": "1000"}


async def fill(cluster: klamm.Cluster, admin: klamm.AdminClient) -> None:
    """Metadata of every kind that the admin APIs show."""
    topic = klamm.NewTopic("orders", 3, 3, {"retention.ms": "77"})
    (made,) = await admin.create_topics([topic])
    assert made.error is None
    resources = {
        klamm.ConfigResource.broker(): [klamm.ConfigAlteration("max.partitions", "500")],
        klamm.ConfigResource.broker(2): [klamm.ConfigAlteration("max.broker.partitions", "40")],
    }
    assert [one.error for one in await admin.incremental_alter_configs(resources)] == [None, None]
    acl = create_acls.AclCreation(
        resource_type=2, resource_name="orders", principal="User:a", host="*", operation=3, permission_type=3
    )
    assert (await admin._request(create_acls.API, create_acls.CreateAclsRequest(creations=[acl]))).results[
        0
    ].error_code == 0
    entry = alter_client_quotas.EntryData(
        entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=None)],
        ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=9.0)],
    )
    await admin._request(alter_client_quotas.API, alter_client_quotas.AlterClientQuotasRequest(entries=[entry]))
    await cluster.stop_broker(3)


def cloned(servers: str, out: Path, *options: str) -> int:
    return main(["clone", "--bootstrap-server", servers, "--out", str(out), *options])


async def test_a_clone_has_what_the_cluster_shows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with (
        klamm.Cluster(brokers=3, racks=("a", "b", "c"), configs=CONFIGS, seed=1) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        await fill(cluster, admin)
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / ".lock").touch()  # a call of another command has left it
        assert await trio.to_thread.run_sync(cloned, cluster.bootstrap_servers, tmp_path / "copy") == 0
        wanted = lasting_facts(cluster._up.image)
        async with klamm.Cluster(twin=tmp_path / "copy", configs=CONFIGS) as twin:
            found = lasting_facts(twin._up.image)
            cluster_ids = [one._up.identity.cluster_id for one in (cluster, twin)]
        assert cluster_ids[0] == cluster_ids[1]
        for kind in ("topics", "configs", "client_quotas", "features"):
            assert found[kind] == wanted[kind], kind
        assert [(acl.principal, acl.resource_name) for acl in found["acls"].values()] == [("User:a", "orders")]
        assert [(b, one.rack, one.fenced) for b, one in sorted(found["brokers"].items())] == [
            (b, one.rack, one.fenced) for b, one in sorted(wanted["brokers"].items())
        ]
        assert _shown(found) == _shown(wanted)
    assert "not shown" not in capfd.readouterr().err


def _shown(facts: dict[str, Any]) -> Any:
    """What clients see of the partitions."""
    return {key: (one.replicas, one.isr, one.leader, one.leader_epoch) for key, one in facts["partitions"].items()}


async def test_a_client_without_rights_clones_the_rest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rights = CONFIGS | {"super.users": "User:root", "allow.everyone.if.no.acl.found": "false"}
    async with klamm.Cluster(brokers=1, configs=rights) as cluster:
        assert await trio.to_thread.run_sync(cloned, cluster.bootstrap_servers, tmp_path / "copy") == 0
    err = capfd.readouterr().err
    assert "klamm clone: not shown by the cluster: ACLs: CLUSTER_AUTHORIZATION_FAILED" in err
    assert "klamm clone: not shown by the cluster: client quotas: " in err
    assert err.splitlines()[-1].endswith(f"are in {tmp_path / 'copy'}")


def test_a_directory_that_is_used_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / ".lock").touch()
    assert cloned("127.0.0.1:1", tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not empty (it holds 'letter.txt')" in line


@pytest.mark.parametrize("most_bytes", [10, 2_000])
async def test_a_disk_without_room_leaves_no_directory(tmp_path: Path, most_bytes: int) -> None:
    """The first limit is too small for every file, and the second one for the log."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    async with klamm.Cluster(brokers=3) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([klamm.NewTopic("wide", 50, 3)])
        command = [sys.executable, "-m", "klamm", "clone", "--bootstrap-server", cluster.bootstrap_servers, "--out"]
        ended = await trio.run_process(
            [*command, str(tmp_path / "copy")], check=False, capture_stderr=True, preexec_fn=limit
        )
        file = "meta.properties" if most_bytes == 10 else f"__cluster_metadata-0/{0:020}.log"
        assert ended.returncode == 1
        assert ended.stderr.decode() == f"klamm clone: cannot write {tmp_path / 'copy' / file}: File too large\n"
        assert not (tmp_path / "copy").exists()
        assert await trio.to_thread.run_sync(cloned, cluster.bootstrap_servers, tmp_path / "copy") == 0


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "new" / "copy"):
        assert cloned("127.0.0.1:1", out) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "127.0.0.1:1" in line
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize(
    "options", [["--out", "x"], ["--bootstrap-server", "h:1"], ["--bootstrap-server", "h", "--out", "x"]]
)
def test_a_wrong_call_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["clone", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("klamm clone: ")
