// Kafka Streams with the streams protocol (KIP-1071) counts words exactly once while brokers and its own instances are
// restarted, a broker crashes, and the topology changes:
//
//     java -cp ... StreamsGroup BOOTSTRAP_SERVERS CONTROL_URL STATE_DIR
//
// Two instances with two threads each count the words of a topic (exactly_once_v2), with state stores and a standby task
// for each of them, which the group's config asks for. An instance with another topology is refused by the group; when
// the group has been deleted and its offsets are there again, the other topology goes on with the counts. Every change of
// every count must be in the output once and in order. Exit code 0 if that is so; else 1, and one line says what is not.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

final class StreamsGroup {
    private static final String GROUP = "word-count";
    private static final String LINES = "lines";
    private static final String COUNTS = "counts";
    private static final String LONG_WORDS = "long-words";
    private static final int PARTITIONS = 4;
    private static final int NUMBERED_WORDS = 37;
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(300);

    private final String servers;
    private final Brokers brokers;
    private final String stateDir;
    private final Map<String, Long> written = new HashMap<>();
    private final AtomicBoolean restartsAreDone = new AtomicBoolean();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private int lines;

    private StreamsGroup(String servers, String controlUrl, String stateDir) {
        this.servers = servers;
        this.brokers = new Brokers(controlUrl);
        this.stateDir = stateDir;
    }

    public static void main(String[] arguments) {
        try {
            new StreamsGroup(arguments[0], arguments[1], arguments[2]).play();
        } catch (Exception failure) {
            System.err.println(("java: " + failure).replace('\n', ' '));
            System.exit(1);
        }
        System.out.println("java: every word is counted once by a streams group");
        System.exit(0);
    }

    private void play() throws Exception {
        try (Admin admin = Admin.create(configs())) {
            admin.createTopics(List.of(topic(LINES), topic(COUNTS), topic(LONG_WORDS))).all().get();
            askForStandbyTasks(admin);
            KafkaStreams one = start("one", counter(false));
            KafkaStreams two = start("two", counter(false));
            Thread writer = new Thread(() -> write(Integer.MAX_VALUE));
            writer.start();
            awaitGroup(admin);
            awaitStandbyTasks(admin);
            brokers.restartAll();
            one.close(Duration.ofSeconds(20));
            one = start("one", counter(false));
            awaitStandbyTasks(admin);
            two.close(Duration.ofSeconds(20));
            two = start("two", counter(false));
            awaitStandbyTasks(admin);
            restartsAreDone.set(true);
            writer.join();
            checkCounts();
            refuseAnotherTopology();
            one.close(Duration.ofSeconds(20));
            two.close(Duration.ofSeconds(20));
            moveOffsets(admin);
            KafkaStreams changed = start("one", counter(true));
            write(lines + 500);
            checkCounts();
            changed.close(Duration.ofSeconds(20));
        }
    }

    private static NewTopic topic(String name) {
        return new NewTopic(name, PARTITIONS, (short) 3);
    }

    private Properties configs() {
        Properties configs = new Properties();
        configs.put("bootstrap.servers", servers);
        return configs;
    }

    private static void askForStandbyTasks(Admin admin) throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
        ConfigEntry one = new ConfigEntry("streams.num.standby.replicas", "1");
        Collection<AlterConfigOp> ops = List.of(new AlterConfigOp(one, AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(group, ops)).all().get();
    }

    // The group is there when its first member has joined, which takes a while on a busy machine.
    private static void awaitGroup(Admin admin) throws Exception {
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (admin.listGroups().all().get().stream().noneMatch(group -> group.groupId().equals(GROUP))) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no member joins");
            }
            Thread.sleep(100);
        }
    }

    // Four threads have the eight tasks, and the other instance follows each of the four that have state.
    private static void awaitStandbyTasks(Admin admin) throws Exception {
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (true) {
            StreamsGroupDescription group = admin.describeStreamsGroups(List.of(GROUP)).all().get().get(GROUP);
            int active = 0;
            int standby = 0;
            for (StreamsGroupMemberDescription member : group.members()) {
                active += member.assignment().activeTasks().stream().mapToInt(tasks -> tasks.partitions().size()).sum();
                standby += member.assignment().standbyTasks().stream().mapToInt(tasks -> tasks.partitions().size()).sum();
            }
            boolean complete = group.members().size() == 4 && active == 2 * PARTITIONS && standby == PARTITIONS;
            if (complete && group.groupState() == GroupState.STABLE) {
                return;
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not stable: " + group);
            }
            Thread.sleep(200);
        }
    }

    private static Topology counter(boolean withLongWords) {
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> words = builder.<String, String>stream(LINES)
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word);
        var counts = words.count(Materialized.as("store")).toStream();
        counts.to(COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
        if (withLongWords) {
            counts.filter((word, count) -> word.length() > 5)
                    .groupBy((word, count) -> String.valueOf(word.length()))
                    .count(Materialized.as("lengths"))
                    .toStream()
                    .to(LONG_WORDS, Produced.with(Serdes.String(), Serdes.Long()));
        }
        return builder.build();
    }

    private Properties application(String instance) {
        Properties configs = configs();
        configs.put("application.id", GROUP);
        configs.put("group.protocol", "streams");
        configs.put("processing.guarantee", "exactly_once_v2");
        configs.put("state.dir", stateDir + "/" + instance);
        configs.put("default.key.serde", Serdes.String().getClass());
        configs.put("default.value.serde", Serdes.String().getClass());
        configs.put("num.stream.threads", "2");
        configs.put("replication.factor", "3");
        configs.put("commit.interval.ms", "100");
        configs.put("statestore.cache.max.bytes", "0"); // each change of a count is a record
        configs.put("consumer.auto.offset.reset", "earliest");
        return configs;
    }

    private KafkaStreams start(String instance, Topology topology) {
        KafkaStreams counter = new KafkaStreams(topology, application(instance));
        counter.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        counter.start();
        return counter;
    }

    private void refuseAnotherTopology() throws Exception {
        CountDownLatch refused = new CountDownLatch(1);
        AtomicReference<Throwable> why = new AtomicReference<>();
        try (KafkaStreams other = new KafkaStreams(counter(true), application("other"))) {
            other.setUncaughtExceptionHandler(error -> {
                why.compareAndSet(null, error);
                refused.countDown();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            other.start();
            if (!refused.await(LONGEST_WAIT.toSeconds(), TimeUnit.SECONDS)) {
                throw new IllegalStateException("another topology is not refused");
            }
        }
        if (!String.valueOf(why.get()).contains("Topology updates are not supported yet")) {
            throw new IllegalStateException("another topology is refused otherwise", why.get());
        }
    }

    // The group forgets its topology when it is deleted; its offsets are written again before another one begins.
    private static void moveOffsets(Admin admin) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listStreamsGroupOffsets(Map.of(GROUP, new org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec()))
                        .partitionsToOffsetAndMetadata(GROUP)
                        .get();
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (admin.describeStreamsGroups(List.of(GROUP)).all().get().get(GROUP).groupState() != GroupState.EMPTY) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the group is not empty");
            }
            Thread.sleep(200);
        }
        admin.deleteStreamsGroups(List.of(GROUP)).all().get();
        admin.alterConsumerGroupOffsets(GROUP, offsets).all().get();
    }

    private void write(int end) {
        Properties configs = configs();
        configs.put("key.serializer", StringSerializer.class);
        configs.put("value.serializer", StringSerializer.class);
        List<String> words = List.of("alpha", "beta", "gamma", "delta", "epsilon");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(configs)) {
            for (; lines < end && !(end == Integer.MAX_VALUE && restartsAreDone.get()); lines++) {
                String word = words.get(lines * 7 % words.size());
                String numbered = word + lines % NUMBERED_WORDS;
                written.merge(word, 1L, Long::sum);
                written.merge(numbered, 1L, Long::sum);
                producer.send(new ProducerRecord<>(LINES, String.valueOf(lines), word + " " + numbered), (_to, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
                if (lines % 10 == 0) {
                    Thread.sleep(10);
                }
            }
        } catch (Exception error) {
            failure.set(error);
        }
    }

    private void checkCounts() {
        if (failure.get() != null) {
            throw new IllegalStateException("the lines could not be written", failure.get());
        }
        Properties configs = configs();
        configs.put("group.id", "check");
        configs.put("enable.auto.commit", "false");
        configs.put("isolation.level", "read_committed");
        configs.put("auto.offset.reset", "earliest");
        configs.put("key.deserializer", StringDeserializer.class);
        configs.put("value.deserializer", LongDeserializer.class);
        Map<String, Long> seen = new HashMap<>();
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(configs)) {
            consumer.subscribe(List.of(COUNTS));
            while (!seen.equals(written)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("counted " + seen + ", written " + written);
                }
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    long expected = seen.getOrDefault(record.key(), 0L) + 1;
                    if (record.value() != expected) {
                        throw new IllegalStateException(
                                record.key() + " is counted as " + record.value() + " after " + (expected - 1));
                    }
                    seen.put(record.key(), expected);
                }
            }
        }
    }
}
