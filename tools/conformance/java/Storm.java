// Groups and transactions of Apache Kafka's clients under a storm of fault rules, which the caller has added for the
// client ids storm-classic and storm-consumer: a consumer of a group and a transactional producer copy records to
// another topic, and each record is there once, in order.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

final class Storm implements AutoCloseable {
    private static final int RECORDS = 40;
    private static final int BATCH = 5;
    private static final Duration POLL = Duration.ofMillis(200);

    private final String from;
    private final String into;
    private final String servers;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;

    private Storm(String servers, String protocol) {
        String name = "storm-" + protocol;
        this.servers = servers;
        from = name;
        into = name + "-copy";
        StringDeserializer deserializer = new StringDeserializer();
        StringSerializer serializer = new StringSerializer();
        consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers, "client.id", name, "group.id", name,
            "group.protocol", protocol, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "isolation.level", "read_committed", "max.poll.records", BATCH), deserializer, deserializer);
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers, "client.id", name,
            "transactional.id", name, "retry.backoff.ms", "20"), serializer, serializer);
    }

    static void play(Admin admin, String servers) throws Exception {
        for (String protocol : List.of("classic", "consumer")) {
            try (Storm storm = new Storm(servers, protocol)) {
                RollingRestart.answer(admin.createTopics(
                    List.of(new NewTopic(storm.from, 1, (short) 2), new NewTopic(storm.into, 1, (short) 2))).all());
                storm.write();
                storm.copy();
                storm.check();
                RollingRestart.answer(admin.deleteTopics(List.of(storm.from, storm.into)).all());
            }
        }
    }

    @Override
    public void close() {
        consumer.close();
        producer.close();
    }

    private void write() throws Exception {
        StringSerializer serializer = new StringSerializer();
        try (KafkaProducer<String, String> writer =
                new KafkaProducer<>(Map.of("bootstrap.servers", servers), serializer, serializer)) {
            for (int number = 0; number < RECORDS; number++) {
                writer.send(new ProducerRecord<>(from, Integer.toString(number)));
            }
        }
    }

    private void copy() {
        again(producer::initTransactions);
        consumer.subscribe(List.of(from));
        long deadline = System.nanoTime() + RollingRestart.WAIT_SECONDS * 1_000_000_000L;
        for (int done = 0; done < RECORDS;) {
            List<ConsumerRecord<String, String>> read = new ArrayList<>();
            consumer.poll(POLL).forEach(read::add);
            done += read.isEmpty() ? 0 : copy(read);
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(done + " records of " + from + " are copied in time");
            }
        }
    }

    private int copy(List<ConsumerRecord<String, String>> read) {
        TopicPartition partition = new TopicPartition(from, read.get(0).partition());
        try {
            producer.beginTransaction();
            read.forEach(record -> producer.send(new ProducerRecord<>(into, record.value())));
            long end = read.get(read.size() - 1).offset() + 1;
            producer.sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(end)), consumer.groupMetadata());
            again(producer::commitTransaction);
            return read.size();
        } catch (ProducerFencedException failure) {
            throw failure;
        } catch (KafkaException failure) {
            again(producer::abortTransaction);
            consumer.seek(partition, read.get(0).offset());
            return 0;
        }
    }

    private static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException failure) {
                // The same call goes on with what it has begun.
            }
        }
    }

    private void check() {
        List<String> found = new ArrayList<>();
        StringDeserializer deserializer = new StringDeserializer();
        TopicPartition partition = new TopicPartition(into, 0);
        try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(
                Map.of("bootstrap.servers", servers, "isolation.level", "read_committed"), deserializer, deserializer)) {
            reader.assign(List.of(partition));
            reader.seekToBeginning(List.of(partition));
            long end = reader.endOffsets(List.of(partition)).get(partition);
            while (reader.position(partition) < end) {
                reader.poll(POLL).forEach(record -> found.add(record.value()));
            }
        }
        List<String> expected = IntStream.range(0, RECORDS).mapToObj(Integer::toString).toList();
        if (!found.equals(expected)) {
            throw new IllegalStateException(into + " has " + found);
        }
    }
}
