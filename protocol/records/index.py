"""Where each metadata and control record is declared, by id; modules are imported when asked for.

Written by scripts/generate_messages.py from spec/.
"""

METADATA: dict[int, tuple[str, str]] = {
    0: ("protocol.records.brokers", "REGISTER_BROKER"),
    1: ("protocol.records.brokers", "UNREGISTER_BROKER"),
    2: ("protocol.records.topics", "TOPIC"),
    3: ("protocol.records.partitions", "PARTITION"),
    4: ("protocol.records.configs", "CONFIG"),
    5: ("protocol.records.partitions", "PARTITION_CHANGE"),
    7: ("protocol.records.brokers", "FENCE_BROKER"),
    8: ("protocol.records.brokers", "UNFENCE_BROKER"),
    9: ("protocol.records.topics", "REMOVE_TOPIC"),
    10: ("protocol.records.security", "DELEGATION_TOKEN"),
    11: ("protocol.records.security", "USER_SCRAM_CREDENTIAL"),
    12: ("protocol.records.cluster", "FEATURE_LEVEL"),
    14: ("protocol.records.configs", "CLIENT_QUOTA"),
    15: ("protocol.records.brokers", "PRODUCER_IDS"),
    17: ("protocol.records.brokers", "BROKER_REGISTRATION_CHANGE"),
    18: ("protocol.records.security", "ACCESS_CONTROL_ENTRY"),
    19: ("protocol.records.security", "REMOVE_ACCESS_CONTROL_ENTRY"),
    20: ("protocol.records.cluster", "NO_OP"),
    21: ("protocol.records.cluster", "ZK_MIGRATION_STATE"),
    22: ("protocol.records.security", "REMOVE_USER_SCRAM_CREDENTIAL"),
    23: ("protocol.records.transactions", "BEGIN_TRANSACTION"),
    24: ("protocol.records.transactions", "END_TRANSACTION"),
    25: ("protocol.records.transactions", "ABORT_TRANSACTION"),
    26: ("protocol.records.security", "REMOVE_DELEGATION_TOKEN"),
    27: ("protocol.records.cluster", "REGISTER_CONTROLLER"),
    28: ("protocol.records.partitions", "CLEAR_ELR"),
}

CONTROL: dict[int, tuple[str, str]] = {
    2: ("protocol.records.control", "LEADER_CHANGE"),
    3: ("protocol.records.control", "SNAPSHOT_HEADER"),
    4: ("protocol.records.control", "SNAPSHOT_FOOTER"),
    5: ("protocol.records.control", "KRAFT_VERSION"),
    6: ("protocol.records.control", "VOTERS"),
}
