// Records that are written while their leaders move away, by an idempotent producer of kafkajs for each codec that it
// has without further packages. A consumer of kafkajs is always one of a group, which is not served here: what the
// broker says of offsets is all that can be seen of the records.

"use strict";

const { CompressionTypes } = require("kafkajs");

const TOPIC = "moved";
const CODECS = [CompressionTypes.None, CompressionTypes.GZIP];
const FIRST_RECORDS = 2000; // two seconds of replication
const AT_ONCE = 5;

/** `expect` is the other story's. */
async function moveRecords(client, admin, expect) {
  const partitions = CODECS.map((_, partition) => partition);
  const assigned = (replicas) => partitions.map((partition) => ({ partition, replicas }));
  const move = (replicas) =>
    admin.alterPartitionReassignments({ topics: [{ topic: TOPIC, partitionAssignment: assigned(replicas) }] });
  const moves = async () => (await admin.listPartitionReassignments({ topics: null })).topics;
  const leaders = async () =>
    (await admin.fetchTopicMetadata({ topics: [TOPIC] })).topics[0].partitions.map((row) => row.leader);

  const replicaAssignment = partitions.map((partition) => ({ partition, replicas: [1, 2] }));
  await admin.createTopics({ topics: [{ topic: TOPIC, replicaAssignment }] });
  const producers = CODECS.map(() => client.producer({ idempotent: true, maxInFlightRequests: 1 }));
  await Promise.all(producers.map((producer) => producer.connect()));
  const ends = CODECS.map(() => 0);
  const write = (ofEach) =>
    Promise.all(
      producers.map(async (producer, partition) => {
        const messages = Array.from({ length: ofEach }, (_, at) => ({ partition, value: `${ends[partition] + at}` }));
        const [told] = await producer.send({ topic: TOPIC, acks: -1, compression: CODECS[partition], messages });
        expect("the offset of a batch", told.baseOffset, `${ends[partition]}`);
        ends[partition] += ofEach;
      }),
    );
  try {
    await write(FIRST_RECORDS);
    await move([3, 2]);
    const [moved] = await moves();
    const shown = moved.partitions.map((row) => [row.replicas, row.addingReplicas, row.removingReplicas]);
    expect("the moves", shown, partitions.map(() => [[3, 2, 1], [3], [1]]));
    while ((await moves()).length) {
      await write(AT_ONCE);
    }
    expect("the leaders", await leaders(), partitions.map(() => 3));
    await write(AT_ONCE);
    const found = (await admin.fetchTopicOffsets(TOPIC)).sort((a, b) => a.partition - b.partition);
    expect("where the partitions end", found.map((row) => row.high), ends.map(String));
    expect("the moves that are left", await moves(), []);
  } finally {
    await Promise.all(producers.map((producer) => producer.disconnect()));
  }
  await admin.deleteTopics({ topics: [TOPIC] });
}

module.exports = { moveRecords };
