// The stories of docs/clients.md, told by kafkajs:
//
//     node rolling_restart.js BOOTSTRAP_SERVERS CONTROL_URL
//
// Exit code 0 if every answer is as it should be; else 1, and one line says which is not. kafkajs alters configs as a
// whole and broker by broker, leaves counts to the broker in versions that KIP-464 refuses, and keeps the broker's words
// to itself: docs/clients.md.

"use strict";

const { isDeepStrictEqual } = require("node:util");
const kafkajs = require("kafkajs");
const { demo } = require("./demo.js");
const { moveRecords } = require("./moved_records.js");

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ConfigResourceTypes, ResourcePatternTypes } = kafkajs;
const WAIT_MS = 120_000;
const BROKER_IDS = [1, 2, 3];
const UNDER_REPLICATED = "enable.under.replicated.topic.creation";
const LIMIT = "max.broker.partitions";
const NO_LIMIT = (2n ** 63n - 1n).toString();
// As Kafka numbers them; kafkajs has no names for them.
const DYNAMIC_BROKER_CONFIG = 2;

async function main(bootstrapServers, controlUrl) {
  if (!bootstrapServers || !controlUrl) {
    throw new Error("two arguments are expected: BOOTSTRAP_SERVERS CONTROL_URL");
  }
  const client = new kafkajs.Kafka({ brokers: bootstrapServers.split(","), logLevel: kafkajs.logLevel.NOTHING });
  const admin = client.admin();
  await admin.connect();
  try {
    await demo(admin, { expect, refused });
    await leaveCountsToTheBroker(admin);
    await control(controlUrl, 3, "stop");
    await refused("INVALID_REPLICATION_FACTOR", create(admin, "too-early", 1, 3));
    await control(controlUrl, 3, "start");
    await configureBrokers(admin, { [UNDER_REPLICATED]: "true" });
    const made = await restartBrokerByBroker(admin, controlUrl);
    await meetLimits(admin, made);
    await letSomebodyElseIn(admin);
    await admin.deleteTopics({ topics: made });
    expect("the topics that are left", await admin.listTopics(), []);
    await moveRecords(client, admin, expect);
  } finally {
    await admin.disconnect();
  }
}

async function leaveCountsToTheBroker(admin) {
  await refused("INVALID_PARTITIONS", admin.createTopics({ topics: [{ topic: "defaults" }] }));
  const half = { topic: "defaults", numPartitions: 1 };
  await refused("INVALID_REPLICATION_FACTOR", admin.createTopics({ topics: [half] }));
}

async function restartBrokerByBroker(admin, controlUrl) {
  expect("the creation", await create(admin, "before", 3, 3), true);
  const made = ["before"];
  for (const down of BROKER_IDS) {
    const others = BROKER_IDS.filter((id) => id !== down);
    const name = `while-${down}-is-down`;
    made.push(name);
    await control(controlUrl, down, "stop");
    expect("the creation", await create(admin, name, 2, 3), true);
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: 3 }] });
    const placed = await partitions(admin, name, (rows) => rows.length === 3);
    for (const row of placed) {
      expect(`the placeholder of ${name}`, row.replicas[2], -1);
      expect(`the offline replicas of ${name}`, row.offlineReplicas, [-1]);
      expect(`the replicas of ${name}`, row.replicas.slice(0, 2).sort(), others);
      expect(`the ISR of ${name}`, [...row.isr].sort(), others);
      expect(`the leader of ${name}`, row.leader, row.replicas[0]);
    }
    await control(controlUrl, down, "start");
    const filled = await partitions(admin, name, areWhole);
    const wanted = placed.map((row) => [...row.replicas.slice(0, 2), down]);
    expect(`the filled replicas of ${name}`, filled.map((row) => row.replicas), wanted);
    await partitions(admin, "before", areWhole);
  }
  expect("the topics", (await admin.listTopics()).sort(), made);
  return made;
}

async function meetLimits(admin, made) {
  const held = 3 * made.length; // by each broker
  await configureBrokers(admin, { [UNDER_REPLICATED]: "true", [LIMIT]: `${held + 1}` });
  await create(admin, "the-last-one", 1, 3);
  const more = { topicPartitions: [{ topic: "the-last-one", count: 2 }] };
  await refused("POLICY_VIOLATION", create(admin, "too-much", 1, 1));
  await refused("POLICY_VIOLATION", admin.createPartitions(more));
  const shown = await config(admin, ConfigResourceTypes.BROKER, "1", LIMIT);
  expect("the limit", shown.configValue, `${held + 1}`);
  expect("its source", shown.configSource, DYNAMIC_BROKER_CONFIG);
  const synonyms = shown.configSynonyms.map((synonym) => synonym.configValue);
  expect("its synonyms", synonyms, [`${held + 1}`, NO_LIMIT]);
  await configureBrokers(admin, {});
  expect("the limit", (await config(admin, ConfigResourceTypes.BROKER, "1", LIMIT)).configValue, NO_LIMIT);
  await admin.createPartitions(more);
  expect("the enlarged topic", (await partitions(admin, "the-last-one", areWhole)).length, 2);
  await alter(admin, ConfigResourceTypes.TOPIC, "the-last-one", [{ name: "retention.ms", value: "1000" }]);
  const retention = await config(admin, ConfigResourceTypes.TOPIC, "the-last-one", "retention.ms");
  expect("retention.ms", retention.configValue, "1000");
  await admin.deleteTopics({ topics: ["the-last-one"] });
}

/** Once an entry says who may, the anonymous client is not among them. */
async function letSomebodyElseIn(admin) {
  const entry = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: "before",
    resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: "User:bob",
    host: "*",
    operation: AclOperationTypes.ALTER,
    permissionType: AclPermissionTypes.ALLOW,
  };
  const enlarge = () => admin.createPartitions({ topicPartitions: [{ topic: "before", count: 4 }] });
  await admin.createAcls({ acl: [entry] });
  const found = await admin.describeAcls(entry);
  expect("whom the entries let in", found.resources.map((each) => each.acls.map((acl) => acl.principal)), [["User:bob"]]);
  await refused("TOPIC_AUTHORIZATION_FAILED", enlarge());
  const removed = await admin.deleteAcls({ filters: [entry] });
  expect("the removed entries", removed.filterResponses.map((each) => each.matchingAcls.length), [1]);
  await enlarge();
}

function create(admin, topic, numPartitions, replicationFactor) {
  return admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor }] });
}

/** Gives every broker these values of its own, and no others: AlterConfigs is all that kafkajs has. */
async function configureBrokers(admin, configs) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  for (const brokerId of BROKER_IDS) {
    await alter(admin, ConfigResourceTypes.BROKER, `${brokerId}`, configEntries);
  }
}

async function alter(admin, type, name, configEntries) {
  const { resources } = await admin.alterConfigs({ resources: [{ type, name, configEntries }] });
  expect(`the alteration of ${name}`, resources.map((resource) => resource.errorCode), [0]);
}

async function config(admin, type, name, key) {
  const asked = { resources: [{ type, name, configNames: [key] }], includeSynonyms: true };
  const { resources } = await admin.describeConfigs(asked);
  return resources[0].configEntries[0];
}

/** The partitions as soon as they are so. Each look is a request: nothing is slept through. */
async function partitions(admin, topic, areSo) {
  for (const deadline = Date.now() + WAIT_MS; ; ) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const rows = topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId);
    if (areSo(rows)) {
      expect(`the errors of ${topic}`, rows.map((row) => row.partitionErrorCode), rows.map(() => 0));
      return rows;
    }
    if (Date.now() > deadline) {
      throw new Error(`waited ${WAIT_MS} ms in vain: ${JSON.stringify(rows)}`);
    }
  }
}

function areWhole(rows) {
  return rows.every((row) => isDeepStrictEqual([...row.isr].sort(), BROKER_IDS));
}

async function control(controlUrl, brokerId, change) {
  const response = await fetch(`${controlUrl}/brokers/${brokerId}/${change}`, { method: "POST" });
  expect(`${change} of broker ${brokerId}: ${await response.text()}`, response.status, 200);
}

/** CreateTopics wraps the errors of its topics, and kafkajs those that it has retried; all else throws the error itself. */
async function refused(type, asked) {
  try {
    await asked;
  } catch (error) {
    const types = (error.errors ?? [error.cause ?? error]).map((each) => each.type ?? `${each}`);
    expect("the refusal", types, [type]);
    return;
  }
  throw new Error(`not refused with ${type}`);
}

function expect(what, found, wanted) {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
  }
}

main(...process.argv.slice(2)).then(
  () => console.log("node: every answer is as it should be"),
  (failure) => {
    console.error(`node: ${failure}`.replaceAll("\n", " "));
    process.exitCode = 1;
  },
);
