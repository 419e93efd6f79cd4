"""The share coordinator (KIP-932): the state of share partitions as records of `__share_group_state`.

| Module | Subject |
|---|---|
| `offset` | the state of one share partition |
| `combiner` | how new batches of state are laid over those before |
| `states` | the state machine of one partition of the internal topic |
| `persister` | how group coordinators and leaders of partitions reach the coordinator of a share partition |
| `questions` | what is asked about one share partition |
| `remote` | how coordinators on real brokers are asked |
| `initializer` | carries out what share groups want to have initialized |
"""
