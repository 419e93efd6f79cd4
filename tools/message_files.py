"""Which module declares which message: the families of APIs, and the files of records."""

FAMILIES = {
    "cluster": "ApiVersions DescribeCluster UpdateFeatures GetTelemetrySubscriptions PushTelemetry",
    "configs": "DescribeConfigs AlterConfigs IncrementalAlterConfigs ListConfigResources"
    " DescribeClientQuotas AlterClientQuotas",
    "brokers": "BrokerRegistration BrokerHeartbeat UnregisterBroker AllocateProducerIds AssignReplicasToDirs"
    " AlterReplicaLogDirs DescribeLogDirs Envelope",
    "zookeeper": "LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown",
    "topics": "Metadata CreateTopics CreatePartitions DeleteTopics DescribeTopicPartitions AlterTopics",
    "partitions": "AlterPartition ElectLeaders AlterPartitionReassignments ListPartitionReassignments ReplicaStatus"
    " OffsetForLeaderEpoch",
    "data": "Produce Fetch ListOffsets DeleteRecords DescribeProducers",
    "groups": "FindCoordinator JoinGroup SyncGroup Heartbeat LeaveGroup DescribeGroups ListGroups DeleteGroups"
    " ConsumerGroupHeartbeat ConsumerGroupDescribe",
    "offsets": "OffsetCommit OffsetFetch OffsetDelete TxnOffsetCommit",
    "transactions": "InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers DescribeTransactions"
    " ListTransactions",
    "shares": "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge DescribeShareGroupOffsets"
    " AlterShareGroupOffsets DeleteShareGroupOffsets",
    "share_state": "InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState"
    " ReadShareGroupStateSummary",
    "streams": "StreamsGroupHeartbeat StreamsGroupDescribe",
    "security": "SaslHandshake SaslAuthenticate DescribeAcls CreateAcls DeleteAcls DescribeUserScramCredentials"
    " AlterUserScramCredentials",
    "tokens": "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken",
    "raft": "Vote BeginQuorumEpoch EndQuorumEpoch DescribeQuorum FetchSnapshot ControllerRegistration AddRaftVoter"
    " RemoveRaftVoter UpdateRaftVoter",
}
RECORD_FILES = {
    "brokers": "RegisterBrokerRecord UnregisterBrokerRecord BrokerRegistrationChangeRecord FenceBrokerRecord"
    " UnfenceBrokerRecord ProducerIdsRecord",
    "topics": "TopicRecord RemoveTopicRecord",
    "partitions": "PartitionRecord PartitionChangeRecord ClearElrRecord",
    "configs": "ConfigRecord ClientQuotaRecord",
    "cluster": "FeatureLevelRecord NoOpRecord RegisterControllerRecord ZkMigrationStateRecord",
    "transactions": "BeginTransactionRecord EndTransactionRecord AbortTransactionRecord",
    "security": "AccessControlEntryRecord RemoveAccessControlEntryRecord UserScramCredentialRecord"
    " RemoveUserScramCredentialRecord DelegationTokenRecord RemoveDelegationTokenRecord",
    "control": "LeaderChangeMessage SnapshotHeaderRecord SnapshotFooterRecord KRaftVersionRecord VotersRecord",
    "data": "ControlRecordTypeSchema EndTxnMarker QuorumStateData DefaultPrincipalData ConsumerProtocolSubscription"
    " ConsumerProtocolAssignment",
}
COORDINATOR_FILES = {
    "ConsumerGroup": ("__consumer_offsets", "consumer_groups"),
    "ShareGroup": ("__consumer_offsets", "share_groups"),
    "StreamsGroup": ("__consumer_offsets", "streams_groups"),
    "TransactionLog": ("__transaction_state", "transaction_log"),
    "Share": ("__share_group_state", "share_state"),
    "": ("__consumer_offsets", "groups"),
}
"""The topic and the module of a coordinator record, by the first part of its name."""
