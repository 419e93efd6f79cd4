const kafka = require('kafka-node');
const servers = process.argv[2];
const topic = 'node-' + Date.now();
const client = new kafka.KafkaClient({kafkaHost: servers, autoConnect: true});
client.createTopics([{topic, partitions: 1, replicationFactor: 1}], (err, r) => {
  if (err || r.length) { console.error('create', err, r); process.exit(1); }
  const producer = new kafka.Producer(client, {requireAcks: 1});
  const payloads = [0, 1, 1].map(a => ({topic, messages: Array.from({length: 20}, (_, i) => `${a}-${i}`), attributes: a, partition: 0}));
  let step = 0;
  const next = () => {
    if (step === payloads.length) return consume();
    producer.send([payloads[step++]], (e, d) => { if (e) { console.error('send', e); process.exit(1); } next(); });
  };
  client.refreshMetadata([topic], () => next());
});
function consume() {
  let n = 0;
  const group = new kafka.ConsumerGroup({kafkaHost: servers, groupId: 'g' + topic, fromOffset: 'earliest', autoCommit: false, protocol: ['roundrobin'], encoding: 'utf8'}, topic);
  group.on('error', e => { console.error('group', e); process.exit(1); });
  group.on('message', m => {
    n += 1;
    if (n === 60) group.commit((e, d) => {
      const offset = new kafka.Offset(client);
      offset.fetch([{topic, partition: 0, time: -1, maxNum: 1}], (e2, d2) => {
        offset.fetchCommits('g' + topic, [{topic, partition: 0}], (e3, d3) => {
        console.log('read', n, 'last', m.offset, m.value, 'commit', JSON.stringify(d), 'ends', JSON.stringify(d2), JSON.stringify(d3));
        process.exit(n === 60 && m.offset === 59 && d2[topic][0][0] === 60 ? 0 : 1);
      }); });
    });
  });
  setTimeout(() => { console.error('late', n); process.exit(1); }, 20000);
}
