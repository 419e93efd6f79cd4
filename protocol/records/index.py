"""Where each metadata and control record is declared, by id; modules are imported when asked for.

Written by tools/generate_messages.py from spec/.
"""

METADATA: dict[int, tuple[str, str]] = {
    0: ("klamm.protocol.records.brokers", "REGISTER_BROKER"),
    1: ("klamm.protocol.records.brokers", "UNREGISTER_BROKER"),
    2: ("klamm.protocol.records.topics", "TOPIC"),
    3: ("klamm.protocol.records.partitions", "PARTITION"),
    4: ("klamm.protocol.records.configs", "CONFIG"),
    5: ("klamm.protocol.records.partitions", "PARTITION_CHANGE"),
    7: ("klamm.protocol.records.brokers", "FENCE_BROKER"),
    8: ("klamm.protocol.records.brokers", "UNFENCE_BROKER"),
    9: ("klamm.protocol.records.topics", "REMOVE_TOPIC"),
    10: ("klamm.protocol.records.security", "DELEGATION_TOKEN"),
    11: ("klamm.protocol.records.security", "USER_SCRAM_CREDENTIAL"),
    12: ("klamm.protocol.records.cluster", "FEATURE_LEVEL"),
    14: ("klamm.protocol.records.configs", "CLIENT_QUOTA"),
    15: ("klamm.protocol.records.brokers", "PRODUCER_IDS"),
    17: ("klamm.protocol.records.brokers", "BROKER_REGISTRATION_CHANGE"),
    18: ("klamm.protocol.records.security", "ACCESS_CONTROL_ENTRY"),
    19: ("klamm.protocol.records.security", "REMOVE_ACCESS_CONTROL_ENTRY"),
    20: ("klamm.protocol.records.cluster", "NO_OP"),
    21: ("klamm.protocol.records.cluster", "ZK_MIGRATION_STATE"),
    22: ("klamm.protocol.records.security", "REMOVE_USER_SCRAM_CREDENTIAL"),
    23: ("klamm.protocol.records.transactions", "BEGIN_TRANSACTION"),
    24: ("klamm.protocol.records.transactions", "END_TRANSACTION"),
    25: ("klamm.protocol.records.transactions", "ABORT_TRANSACTION"),
    26: ("klamm.protocol.records.security", "REMOVE_DELEGATION_TOKEN"),
    27: ("klamm.protocol.records.cluster", "REGISTER_CONTROLLER"),
    28: ("klamm.protocol.records.partitions", "CLEAR_ELR"),
}

CONTROL: dict[int, tuple[str, str]] = {
    2: ("klamm.protocol.records.control", "LEADER_CHANGE"),
    3: ("klamm.protocol.records.control", "SNAPSHOT_HEADER"),
    4: ("klamm.protocol.records.control", "SNAPSHOT_FOOTER"),
    5: ("klamm.protocol.records.control", "KRAFT_VERSION"),
    6: ("klamm.protocol.records.control", "VOTERS"),
}
