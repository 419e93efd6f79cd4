"""A server whose listeners are all PLAINTEXT imports nothing of SASL and TLS."""

import subprocess
import sys

PROGRAM = """
import sys
import trio
import klamm

async def main():
    async with klamm.Cluster(brokers=1) as cluster:
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            await admin.describe_cluster()

trio.run(main)
ours = ("klamm.server.sasl", "klamm.server.tls", "klamm.server.security", "klamm.cluster.listener_")
wanted = (*ours, "cryptography", "jwt")
print(*sorted(name for name in sys.modules if name.startswith(wanted) and name != "klamm.cluster.listener_plan"))
"""


def test_listeners_without_security_import_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
