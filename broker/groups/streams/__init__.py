"""Streams groups of KIP-1071 as pure state machines: the coordinator's half of Kafka Streams.

A request is decided by a function of a group and the time: it returns records, a response and timers (`outcome`), and
changes nothing. `replay` is the only code that changes what a group has in records.

| Module | Subject |
|---|---|
| `tasks`, `member` | tasks in their roles (active, standby, warm-up); a member: process, epochs, state, tasks |
| `topology` | subtopologies as members send them and the group's record keeps them |
| `partition_counts`, `internal_topics` | the topology beside the topics that exist: its tasks, or what is missing |
| `group` | a group: members, target assignment, which processes have a task |
| `records`, `replay` | the records that a group is made of, and the group that is made of records |
| `target`, `reconciliation` | the target assignment; a member's way from its tasks to the target |
| `checks`, `heartbeat`, `work`, `response`, `leaving` | StreamsGroupHeartbeat and the timeouts |
| `endpoints` | where the application can be asked about the state of a partition |
| `describe`, `offsets` | StreamsGroupDescribe; which commits and reads of offsets are allowed |
| `hosted`, `in_cluster` | the groups of a shard; what they see of the cluster |

States of a member (`member.MemberState`), and what changes them (a heartbeat, unless another cause is given):

| From | To | When |
|---|---|---|
| STABLE | UNREVOKED_TASKS | the target no longer has tasks that the member has |
| STABLE | UNRELEASED_TASKS | the target has tasks that others, or its own process, still have |
| STABLE | STABLE | all tasks of the target are free, or none changes: the member has the target's epoch |
| UNREVOKED_TASKS | one of the three | the member's lists of tasks have none of those to be revoked |
| UNREVOKED_TASKS | removed | the rebalance timeout expires |
| UNRELEASED_TASKS | one of the three | each heartbeat tries again |
| any | removed | it leaves, or its session timeout expires |

States of a group: Empty (no members), NotReady (topics are missing or do not fit together), Assigning (the group's
epoch is ahead of the target's), Reconciling (a member is not at the target's epoch or not STABLE), Stable.
"""
