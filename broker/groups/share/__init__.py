"""Share groups of KIP-932 as pure state machines, as `klamm.broker.groups.consumer` has consumer groups.

| Module | Subject |
|---|---|
| `group` | a group: members, target assignment, and the partitions whose state the share coordinator has |
| `records`, `replay` | the records that a group is made of, and the group that is made of records |
| `heartbeat` | ShareGroupHeartbeat: a member joins, stays or leaves |
| `state_partitions` | which partitions are being initialized, are initialized, or are being deleted |
| `offsets` | AlterShareGroupOffsets, DeleteShareGroupOffsets: what they do to a group |
| `describe` | ShareGroupDescribe |
| `hosted`, `groups` | the share groups of one shard, and that shard |
| `in_cluster` | the configs in force |

A partition is assigned to members when the share coordinator has its state. A heartbeat that subscribes to a topic
writes it down as initializing and asks the share coordinator; its answer makes the topic initialized, and the next
heartbeat assigns it.
"""
