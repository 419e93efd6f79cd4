// Records that are written and read while their leaders move away, by Apache Kafka's clients: a KafkaProducer as it is
// by default, idempotent, for each codec, and a KafkaConsumer that assigns itself the partitions.

import static java.util.Comparator.comparing;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

final class MovedRecords implements AutoCloseable {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final String TOPIC = "moved";
    private static final int FIRST_RECORDS = 2000; // two seconds of replication
    private static final int AT_ONCE = 5;
    private static final int MOST_UNACKNOWLEDGED = 200;
    private static final Duration LOOK = Duration.ofMillis(20);

    private final Admin admin;
    private final List<KafkaProducer<String, String>> producers = new ArrayList<>();
    private final KafkaConsumer<String, String> consumer;
    private final List<TopicPartition> partitions =
        IntStream.range(0, CODECS.size()).mapToObj(index -> new TopicPartition(TOPIC, index)).toList();
    private final List<Future<RecordMetadata>> sent = new ArrayList<>();
    private final Map<Integer, List<String>> written = new TreeMap<>();
    private final Map<Integer, List<String>> read = new TreeMap<>();
    private int acknowledged;

    private MovedRecords(Admin admin, String bootstrapServers) {
        this.admin = admin;
        StringSerializer serializer = new StringSerializer();
        for (String codec : CODECS) {
            Map<String, Object> configs = Map.of("bootstrap.servers", bootstrapServers, "compression.type", codec);
            producers.add(new KafkaProducer<>(configs, serializer, serializer));
        }
        StringDeserializer deserializer = new StringDeserializer();
        Map<String, Object> configs = Map.of("bootstrap.servers", bootstrapServers, "auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(configs, deserializer, deserializer);
        consumer.assign(partitions);
    }

    static void play(Admin admin, String bootstrapServers) throws Exception {
        Map<Integer, List<Integer>> replicas = IntStream.range(0, CODECS.size()).boxed()
            .collect(Collectors.toMap(Function.identity(), index -> List.of(1, 2)));
        RollingRestart.answer(admin.createTopics(List.of(new NewTopic(TOPIC, replicas))).all());
        try (MovedRecords story = new MovedRecords(admin, bootstrapServers)) {
            story.play();
        }
        RollingRestart.answer(admin.deleteTopics(List.of(TOPIC)).all());
    }

    private void play() throws Exception {
        write(FIRST_RECORDS);
        finish();
        move(List.of(3, 2));
        Map<TopicPartition, PartitionReassignment> moves = moves();
        RollingRestart.expect("the partitions that move", moves.keySet(), Set.copyOf(partitions));
        for (PartitionReassignment move : moves.values()) {
            List<List<Integer>> shown = List.of(move.replicas(), move.addingReplicas(), move.removingReplicas());
            RollingRestart.expect("a move", shown, List.of(List.of(3, 2, 1), List.of(3), List.of(1)));
        }
        while (!moves().isEmpty()) {
            goOn();
        }
        expectLeader(3);
        move(List.of(2, 3));
        expectLeader(3);
        elect();
        expectLeader(2);
        RollingRestart.refused(ElectionNotNeededException.class,
            admin.electLeaders(ElectionType.PREFERRED, Set.of(partitions.get(0))).all());
        for (int look = 0; look < AT_ONCE; look++) {
            goOn();
        }
        finish();
        expectAllThere();
        cancel();
    }

    private void write(int ofEach) {
        for (int index = 0; index < CODECS.size(); index++) {
            List<String> before = written.computeIfAbsent(index, unused -> new ArrayList<>());
            for (int count = 0; count < ofEach; count++) {
                String value = (CODECS.get(index) + " " + before.size() + " ").repeat(8);
                before.add(before.size() + "=" + value);
                sent.add(producers.get(index)
                    .send(new ProducerRecord<>(TOPIC, index, String.valueOf(before.size() - 1), value)));
            }
        }
    }

    private void goOn() throws Exception {
        if (sent.size() - acknowledged < MOST_UNACKNOWLEDGED) {
            write(AT_ONCE);
        }
        look();
    }

    private void look() throws Exception {
        while (acknowledged < sent.size() && sent.get(acknowledged).isDone()) {
            RollingRestart.answer(sent.get(acknowledged++));
        }
        for (ConsumerRecord<String, String> record : consumer.poll(LOOK)) {
            List<String> before = read.computeIfAbsent(record.partition(), unused -> new ArrayList<>());
            RollingRestart.expect("the offset of a record", record.offset(), (long) before.size());
            before.add(record.key() + "=" + record.value());
        }
    }

    private void finish() throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(RollingRestart.WAIT_SECONDS);
        while (acknowledged < sent.size() || read.values().stream().mapToInt(List::size).sum() < sent.size()) {
            look();
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("of " + sent.size() + " records " + acknowledged
                    + " were acknowledged; read by partition were " + read.values().stream().map(List::size).toList());
            }
        }
    }

    private void move(List<Integer> target) throws Exception {
        RollingRestart.answer(admin.alterPartitionReassignments(
            ofEach(Optional.of(new NewPartitionReassignment(target)))).all());
    }

    private <T> Map<TopicPartition, T> ofEach(T value) {
        return partitions.stream().collect(Collectors.toMap(Function.identity(), unused -> value));
    }

    private Map<TopicPartition, PartitionReassignment> moves() throws Exception {
        return RollingRestart.answer(admin.listPartitionReassignments().reassignments());
    }

    private void elect() throws Exception {
        RollingRestart.answer(admin.electLeaders(ElectionType.PREFERRED, Set.copyOf(partitions)).all());
    }

    private void expectLeader(int brokerId) throws Exception {
        List<TopicPartitionInfo> described =
            RollingRestart.answer(admin.describeTopics(List.of(TOPIC)).allTopicNames()).get(TOPIC).partitions();
        Set<Integer> leaders =
            described.stream().map(TopicPartitionInfo::leader).map(Node::id).collect(Collectors.toSet());
        RollingRestart.expect("the leaders", leaders, Set.of(brokerId));
    }

    private void expectAllThere() throws Exception {
        RollingRestart.expect("the records that were read", read.equals(written), true);
        var ends = RollingRestart.answer(admin.listOffsets(ofEach(OffsetSpec.latest())).all());
        for (TopicPartition partition : partitions) {
            RollingRestart.expect("the end of " + partition, ends.get(partition).offset(),
                (long) written.get(partition.partition()).size());
        }
        Map<Integer, Map<String, LogDirDescription>> logDirs =
            RollingRestart.answer(admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions());
        Map<Integer, Set<TopicPartition>> hosted = new TreeMap<>();
        logDirs.forEach((brokerId, theirs) -> {
            Collection<LogDirDescription> all = theirs.values();
            hosted.put(brokerId, all.stream().flatMap(each -> each.replicaInfos().keySet().stream())
                .filter(each -> each.topic().equals(TOPIC)).collect(Collectors.toSet()));
        });
        Set<TopicPartition> all = Set.copyOf(partitions);
        RollingRestart.expect("what the brokers hold", hosted, Map.of(1, Set.of(), 2, all, 3, all));
        for (int brokerId : new TreeSet<>(List.of(2, 3))) {
            List<Long> lags = logDirs.get(brokerId).values().stream()
                .flatMap(each -> each.replicaInfos().entrySet().stream())
                .filter(each -> each.getKey().topic().equals(TOPIC))
                .sorted(comparing(each -> each.getKey().partition()))
                .map(each -> each.getValue()).map(ReplicaInfo::offsetLag).toList();
            RollingRestart.expect("the lags", lags, CODECS.stream().map(unused -> 0L).toList());
        }
    }

    private void cancel() throws Exception {
        move(List.of(1, 3));
        Map<TopicPartition, Optional<NewPartitionReassignment>> none = ofEach(Optional.empty());
        RollingRestart.answer(admin.alterPartitionReassignments(none).all());
        RollingRestart.expect("the moves after they were cancelled", moves(), Map.of());
        RollingRestart.refused(NoReassignmentInProgressException.class, admin.alterPartitionReassignments(none).all());
        expectLeader(2);
    }

    @Override
    public void close() {
        producers.forEach(KafkaProducer::close);
        consumer.close();
    }
}
