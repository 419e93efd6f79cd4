"""Consumer groups of KIP-848 as pure state machines.

A request is decided by a function of a group and the time: it returns records, a response and timers (`outcome`), and
changes nothing. `replay` is the only code that changes a group. What happens is in this order:

| Module | Subject |
|---|---|
| `member` | a member: subscription, epochs, state, partitions |
| `group` | a group: members, target assignment, resolved regular expressions, and what is counted of them |
| `records`, `replay` | the records that a group is made of, and the group that is made of records |
| `subscriptions` | which topics members are subscribed to; the hash of these topics' metadata |
| `target` | the target assignment, by an assignor |
| `reconciliation` | a member's way from its current assignment to the target |
| `joining`, `heartbeat`, `leaving` | ConsumerGroupHeartbeat and the timeouts |
| `regexes` | when regular expressions are resolved, and what follows |
| `classic_members`, `conversion` | members of the classic protocol; upgrade and downgrade of the group |
| `describe`, `offsets` | ConsumerGroupDescribe; which commits and reads of offsets are allowed |

States of a member (`member.MemberState`), and what changes them (a heartbeat, unless another cause is given):

| From | To | When |
|---|---|---|
| STABLE | UNREVOKED_PARTITIONS | the target no longer has partitions that the member owns |
| STABLE | UNRELEASED_PARTITIONS | the target has partitions that other members still own |
| STABLE | STABLE | all partitions of the target are free, or none changes: the member has the group's epoch |
| UNREVOKED_PARTITIONS | one of the three | the member's list of owned partitions has none of those to be revoked |
| UNREVOKED_PARTITIONS | removed | the rebalance timeout expires |
| UNRELEASED_PARTITIONS | one of the three | each heartbeat tries again |
| any | removed | it leaves, or its session timeout expires |

States of a group: Empty (no members), Assigning (the group's epoch is ahead of the target's), Reconciling (a member is
not at the target's epoch or not STABLE), Stable.
"""
