import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** The story of an old client: make a topic, write in each compression, read in a group, commit, look, delete. */
public final class OldClients {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4"};
    static void is(boolean claim, String what) { if (!claim) throw new AssertionError(what); }
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String topic = "story-" + args[1];
        Properties p = new Properties();
        p.put("bootstrap.servers", servers);
        p.put("client.id", "old-" + args[1]);
        p.put("request.timeout.ms", "20000");
        try (AdminClient admin = AdminClient.create(p)) {
            admin.createTopics(Collections.singleton(new NewTopic(topic, 2, (short) 1))).all().get(20, TimeUnit.SECONDS);
            is(admin.listTopics().names().get().contains(topic), "listed");
            is(admin.describeTopics(Collections.singleton(topic)).all().get().get(topic).partitions().size() == 2, "described");
            Config config = admin.describeConfigs(Collections.singleton(new ConfigResource(ConfigResource.Type.TOPIC, topic))).all().get().values().iterator().next();
            is(config.get("cleanup.policy").value().equals("delete"), "config");
            is(admin.describeCluster().nodes().get().size() == 1, "nodes");
        }
        int sent = 0;
        for (String codec : CODECS) {
            Properties q = new Properties();
            q.putAll(p);
            q.put("compression.type", codec);
            q.put("acks", "all");
            q.put("linger.ms", "20");
            q.put("key.serializer", StringSerializer.class.getName());
            q.put("value.serializer", StringSerializer.class.getName());
            try (Producer<String, String> producer = new KafkaProducer<>(q)) {
                List<Future<RecordMetadata>> all = new ArrayList<>();
                for (int i = 0; i < 50; i++) all.add(producer.send(new ProducerRecord<>(topic, i % 2, "k" + i, codec + "-" + i)));
                for (Future<RecordMetadata> one : all) one.get(20, TimeUnit.SECONDS);
                sent += 50;
            }
        }
        Properties c = new Properties();
        c.putAll(p);
        c.put("group.id", "group-" + args[1]);
        c.put("auto.offset.reset", "earliest");
        c.put("enable.auto.commit", "false");
        c.put("key.deserializer", StringDeserializer.class.getName());
        c.put("value.deserializer", StringDeserializer.class.getName());
        int read = 0;
        long end = System.currentTimeMillis() + 30000;
        try (Consumer<String, String> consumer = new KafkaConsumer<>(c)) {
            consumer.subscribe(Collections.singletonList(topic));
            while (read < sent && System.currentTimeMillis() < end) read += consumer.poll(200).count();
            consumer.commitSync();
            is(read == sent, "read " + read);
            TopicPartition first = new TopicPartition(topic, 0);
            is(consumer.committed(first).offset() == sent / 2, "committed");
            is(consumer.beginningOffsets(Collections.singleton(first)).get(first) == 0, "beginning");
            is(consumer.offsetsForTimes(Collections.singletonMap(first, 0L)).get(first).offset() == 0, "times");
        }
        try (Consumer<String, String> consumer = new KafkaConsumer<>(c)) {
            consumer.subscribe(Collections.singletonList(topic));
            int more = 0;
            for (int i = 0; i < 10; i++) more += consumer.poll(100).count();
            is(more == 0, "more " + more);
        }
        Properties t = new Properties();
        t.putAll(p);
        t.put("transactional.id", "tx-" + args[1]);
        t.put("key.serializer", StringSerializer.class.getName());
        t.put("value.serializer", StringSerializer.class.getName());
        try (Producer<String, String> producer = new KafkaProducer<>(t)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "t", "in"));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "t", "out"));
            producer.abortTransaction();
        }
        try (AdminClient admin = AdminClient.create(p)) {
            admin.deleteTopics(Collections.singleton(topic)).all().get(20, TimeUnit.SECONDS);
        }
        System.out.println("story of " + args[1] + " told: " + read + " records");
    }
}
