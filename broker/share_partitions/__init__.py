"""Share partitions on the leaders of their partitions (KIP-932): which records are acquired, by whom and until when.

A share partition is a partition as one share group reads it. All of this is soft state of the leader, which begins with
what the share coordinator has; acknowledgements are written there before they are answered.

| Module | Subject |
|---|---|
| `in_flight` | the states of records in flight, and the sorted batches of a share partition |
| `share_partition` | a share partition: its offsets, and where the next fetch begins |
| `acquisition` | records are acquired by a member that fetches |
| `acknowledgement` | a member accepts, releases, rejects or renews what it has acquired |
| `releases` | records become available again: a lock expired, a session ended, or the log start offset moved |
| `left_records` | what members have left whose sessions ended, and is released some at a time |
| `locks` | acquisition locks on the controller's clock |
| `sessions` | share sessions |
| `leaders` | the share partitions of all brokers of a process: loading, writing, changes of leaders |

States of records, and what changes them:

| From | To | When |
|---|---|---|
| AVAILABLE | ACQUIRED | a member fetches them; the delivery count grows by one |
| ACQUIRED | AVAILABLE | released, the lock expired, or the session ended, below the delivery limit |
| ACQUIRED | ARCHIVED | the same at the delivery limit; rejected; of an aborted transaction; deleted from the log |
| ACQUIRED | ACKNOWLEDGED | accepted |
| AVAILABLE | ARCHIVED | deleted from the log |

An acknowledgement is a transition that is not complete before the share coordinator has it. If that fails, the records
are acquired again, or available if the lock has expired meanwhile.
"""
