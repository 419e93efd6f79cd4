"""Reads Kafka's own image of the log from the tree of its MetadataShell.

The shell reads one file, so it gets the segments joined into one. It answers before it has read the whole file, so it
is asked until it knows the last offset; only then are its answers used.
"""

import re
import shutil
from collections.abc import Iterator

from tools.toolchain_checks.cluster_state import BrokerRegistration, ClusterState, PartitionState
from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.own_log import OwnLog
from tools.toolchain_checks.report import CheckFailed

SHELL_SECONDS = 240.0
INDENT = "  "
PROMPT = ">> "
_METADATA_VERSIONS = {"Optional[4.3-IV0]": 30}
_RECOVERY_STATES = {"RECOVERED": 0, "RECOVERING": 1}
_RESOURCE_TYPES = {"TOPIC": 2, "BROKER": 4, "CLIENT_METRICS": 16, "GROUP": 32}
_PROVENANCE = re.compile(r"offset (-?\d+), epoch")
_PARTITION = re.compile(
    r"PartitionRegistration\(replicas=\[(.*?)\], directories=\[(.*?)\], isr=\[(.*?)\], removingReplicas=\[\], "
    r"addingReplicas=\[\], elr=\[(.*?)\], lastKnownElr=\[(.*?)\], leader=(-?\d+), leaderRecoveryState=(\w+), "
    r"leaderEpoch=(\d+), partitionEpoch=(\d+)\)"
)
_BROKER = re.compile(
    r"BrokerRegistration\(id=(\d+), epoch=(\d+), incarnationId=(\S+), listeners=\[(.*?)\], "
    r"supportedFeatures=\{(.*?)\}, rack=Optional(?:\.empty|\[(.*?)\]), fenced=(\w+), inControlledShutdown=(\w+), "
    r"isMigratingZkBroker=false, directories=\[(.*?)\], cordonedDirectories=(null|\[.*?\])\)"
)
_FEATURE = re.compile(r"(\S+): (\d+)(?:-(\d+))?")
"""A range of one level is a single number."""
_END_POINT = re.compile(r"listenerName='(.*?)', securityProtocol=\w+, host='(.*?)', port=(\d+)")


def ask_shell(java: Java, log: OwnLog) -> ClusterState:
    """The image that the shell makes of the log."""
    # Kafka takes the offset of a file's first record from its name.
    joined = java.folder / "joined" / log.segments[0].name
    joined.parent.mkdir()
    with joined.open("wb") as whole:
        for segment in log.segments:
            whole.write(segment.read_bytes())
    arguments = ["--snapshot", str(joined)]
    with java.running("metadata-shell", "org.apache.kafka.shell.MetadataShell", arguments) as shell:
        _await_offset(shell, log.end_offset - 1)
        for folder in ("features", "cluster/brokers", "configs", "topics/byName"):
            shell.tell(f"tree /image/{folder}")
        shell.tell("exit")
        shell.wait_end(SHELL_SECONDS)
        answer = _decode_answers(shell.output.read_text(encoding="utf-8"))
    shutil.rmtree(joined.parent)
    return answer


def _await_offset(shell: JavaProcess, last_offset: int) -> None:
    asked = 0

    def has_read_all() -> bool | None:
        nonlocal asked
        offsets = _PROVENANCE.findall(shell.output.read_text(encoding="utf-8"))
        if len(offsets) < asked:
            return None  # one request at a time
        if any(int(offset) == last_offset for offset in offsets):
            return True
        shell.tell("cat /image/provenance")
        asked = len(offsets) + 1
        return None

    shell.wait_for(f"it knew offset {last_offset}", has_read_all, SHELL_SECONDS)


def _decode_answers(text: str) -> ClusterState:
    # Each answer follows a prompt; the last prompt is the one at which the shell got the command to exit.
    features, brokers, configs, topics, _ = text.split(PROMPT)[-5:]
    state = ClusterState()
    for (name,), content in _leaves(features):
        if name == "metadataVersion":
            state.features["metadata.version"] = _METADATA_VERSIONS[content]
        else:
            state.features[name.removeprefix("finalized_")] = int(content)
    for _, content in _leaves(brokers):
        broker_id, registration = _decode_broker(content)
        state.brokers[broker_id] = registration
    for (resource, name), content in _leaves(configs):
        kind, _, resource_name = resource.partition(":")
        state.configs[_RESOURCE_TYPES[kind], resource_name, name] = content
    for (topic_name, leaf), content in _leaves(topics):
        if leaf == "id":
            state.topic_ids[topic_name] = content
        elif leaf != "name":
            state.partitions[topic_name, int(leaf)] = _decode_partition(content)
    return state


def _leaves(tree: str) -> Iterator[tuple[list[str], str]]:
    """The files of a tree: path and content. The name of a folder or file is above its content, further left."""
    path: list[str] = []
    for line in tree.splitlines():
        content = line.lstrip()
        depth = (len(line) - len(content)) // len(INDENT)
        if content.endswith(":"):
            path[depth:] = [content[:-1]]
        elif content:
            yield path[:depth], content


def _decode_broker(text: str) -> tuple[int, BrokerRegistration]:
    match = _BROKER.fullmatch(text)
    if match is None:
        raise CheckFailed(f"the shell has a broker that we cannot read: {text}")
    broker_id, epoch, incarnation, end_points, features, rack, fenced, leaving, directories, cordoned = match.groups()
    return int(broker_id), BrokerRegistration(
        broker_epoch=int(epoch),
        incarnation_id=incarnation,
        end_points=tuple((name, host, int(port)) for name, host, port in _END_POINT.findall(end_points)),
        features=tuple((name, int(low), int(high or low)) for name, low, high in _FEATURE.findall(features)),
        rack=rack,
        fenced=fenced == "true",
        in_controlled_shutdown=leaving == "true",
        log_dirs=_texts(directories),
        cordoned_log_dirs=None if cordoned == "null" else _texts(cordoned[1:-1]),
    )


def _decode_partition(text: str) -> PartitionState:
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise CheckFailed(f"the shell has a partition that we cannot read: {text}")
    replicas, directories, isr, elr, last_known_elr, leader, recovery, leader_epoch, partition_epoch = match.groups()
    return PartitionState(
        replicas=_numbers(replicas),
        directories=_texts(directories),
        isr=_numbers(isr),
        eligible_leader_replicas=_numbers(elr),
        last_known_elr=_numbers(last_known_elr),
        leader=int(leader),
        leader_recovery_state=_RECOVERY_STATES[recovery],
        leader_epoch=int(leader_epoch),
        partition_epoch=int(partition_epoch),
    )


def _texts(listed: str) -> tuple[str, ...]:
    return tuple(listed.split(", ")) if listed else ()


def _numbers(listed: str) -> tuple[int, ...]:
    return tuple(map(int, _texts(listed)))
