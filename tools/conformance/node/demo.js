// The story of scripts/demo, told by kafkajs: topics of its own are made, described, configured, enlarged, refused and
// deleted. kafkajs shows no racks and replaces a topic's configs as a whole: docs/clients.md.

"use strict";

const { ConfigResourceTypes } = require("kafkajs");

const RACKS = { 1: "a", 2: "b", 3: "c" };
const AUTOMATIC = "orders-node";
const BY_HAND = "by-hand-node";
const PLACED = [[3, 1], [2, 3], [1, 2]];
// As Kafka numbers them; kafkajs has no names for them.
const DYNAMIC_TOPIC_CONFIG = 1;
const DEFAULT_CONFIG = 5;

/** `expect` and `refused` are the other story's. */
async function demo(admin, { expect, refused }) {
  const names = async () => (await admin.listTopics()).sort();
  const create = (topic) => admin.createTopics({ topics: [topic] });
  const enlarge = (count) => admin.createPartitions({ topicPartitions: [{ topic: AUTOMATIC, count }] });
  const itself = { type: ConfigResourceTypes.TOPIC, name: AUTOMATIC };
  const replaceConfigs = (configEntries) => admin.alterConfigs({ resources: [{ ...itself, configEntries }] });
  const expectRetention = async (value, source) => {
    const { resources } = await admin.describeConfigs({ resources: [{ ...itself, configNames: ["retention.ms"] }] });
    const [shown] = resources[0].configEntries;
    expect("retention.ms and its source", [shown.configValue, shown.configSource], [value, source]);
  };
  /** The topic as it is now, the demo's rules checked: one leader, in sync, no two replicas on a rack. */
  const see = async (topic) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const rows = topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId);
    rows.forEach((row, index) => {
      expect(`the index in ${topic}`, row.partitionId, index);
      expect(`the leader of ${topic}-${index}`, row.leader, row.replicas[0]);
      expect(`the ISR of ${topic}-${index}`, [...row.isr].sort(), [...row.replicas].sort());
      expect(`the racks of ${topic}-${index}`, new Set(row.replicas.map((id) => RACKS[id])).size, row.replicas.length);
    });
    return rows;
  };
  const replicas = (rows) => rows.map((row) => row.replicas);

  const { brokers } = await admin.describeCluster();
  expect("the brokers", brokers.map((broker) => `${broker.nodeId}`).sort(), Object.keys(RACKS));

  const configEntries = [{ name: "retention.ms", value: "86400000" }];
  await create({ topic: AUTOMATIC, numPartitions: 4, replicationFactor: 2, configEntries });
  const made = await see(AUTOMATIC);
  expect("the partitions", made.length, 4);
  expect("who leads", [...new Set(made.map((row) => `${row.leader}`))].sort(), Object.keys(RACKS));

  await expectRetention("86400000", DYNAMIC_TOPIC_CONFIG);
  await replaceConfigs([{ name: "retention.ms", value: "3600000" }]);
  await expectRetention("3600000", DYNAMIC_TOPIC_CONFIG);
  await replaceConfigs([]);
  await expectRetention("604800000", DEFAULT_CONFIG);

  await enlarge(6);
  const enlarged = await see(AUTOMATIC);
  expect("the partitions after enlarging", enlarged.length, 6);
  expect("the former partitions", replicas(enlarged).slice(0, 4), replicas(made));

  await create({ topic: BY_HAND, replicaAssignment: PLACED.map((row, partition) => ({ partition, replicas: row })) });
  expect("where it was put", replicas(await see(BY_HAND)), PLACED);
  expect("the topics", await names(), [BY_HAND, AUTOMATIC]);

  await refused("INVALID_REPLICATION_FACTOR", create({ topic: "too-many", numPartitions: 1, replicationFactor: 4 }));
  expect("what is made of a topic that is there", await create({ topic: AUTOMATIC, numPartitions: 1 }), false);
  await refused("INVALID_PARTITIONS", enlarge(6));
  await refused("INVALID_CONFIG", replaceConfigs([{ name: "retention.ms", value: "soon" }]));
  await refused("UNKNOWN_TOPIC_OR_PARTITION", admin.deleteTopics({ topics: ["too-many"] }));
  expect("the topics after the refusals", await names(), [BY_HAND, AUTOMATIC]);

  await admin.deleteTopics({ topics: [AUTOMATIC, BY_HAND] });
  expect("the topics that are left", await names(), []);
}

module.exports = { demo };
