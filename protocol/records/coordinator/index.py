"""Where each coordinator record is declared, by internal topic and number; imported when asked for.

Each entry has the module and the first part of the names of two constants, `…_KEY` and `…_VALUE`.

Written by tools/generate_messages.py from spec/.
"""

COORDINATOR: dict[str, dict[int, tuple[str, str]]] = {
    "__consumer_offsets": {
        0: ("klamm.protocol.records.coordinator.groups", "LEGACY_OFFSET_COMMIT"),
        1: ("klamm.protocol.records.coordinator.groups", "OFFSET_COMMIT"),
        2: ("klamm.protocol.records.coordinator.groups", "GROUP_METADATA"),
        3: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_METADATA"),
        4: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_PARTITION_METADATA"),
        5: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_MEMBER_METADATA"),
        6: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA"),
        7: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER"),
        8: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT"),
        10: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_MEMBER_METADATA"),
        11: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_METADATA"),
        12: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA"),
        13: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER"),
        14: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT"),
        15: ("klamm.protocol.records.coordinator.share_groups", "SHARE_GROUP_STATE_PARTITION_METADATA"),
        16: ("klamm.protocol.records.coordinator.consumer_groups", "CONSUMER_GROUP_REGULAR_EXPRESSION"),
        17: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_METADATA"),
        19: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_MEMBER_METADATA"),
        20: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA"),
        21: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER"),
        22: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT"),
        23: ("klamm.protocol.records.coordinator.streams_groups", "STREAMS_GROUP_TOPOLOGY"),
    },
    "__transaction_state": {
        0: ("klamm.protocol.records.coordinator.transaction_log", "TRANSACTION_LOG"),
    },
    "__share_group_state": {
        0: ("klamm.protocol.records.coordinator.share_state", "SHARE_SNAPSHOT"),
        1: ("klamm.protocol.records.coordinator.share_state", "SHARE_UPDATE"),
    },
}
