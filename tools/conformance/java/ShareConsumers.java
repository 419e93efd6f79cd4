// KafkaShareConsumer (KIP-932) gets every record, with implicit and explicit acknowledgement, though a member, the leaders
// of the partitions and the coordinator of the group crash:
//
//     java -cp ... ShareConsumers BOOTSTRAP_SERVERS CONTROL_URL
//     java -cp ... ShareConsumers BOOTSTRAP_SERVERS holds         takes records until it is killed
//
// What a member has accepted, and was told so, is not delivered again. Exit code 0 if that is so; else 1, and one line
// says what is not.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

final class ShareConsumers {
    private static final String GROUP = "workers";
    private static final String TOPIC = "orders";
    private static final int PARTITIONS = 3;
    private static final int RECORDS = 120;
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(300);

    private final String servers;
    private final Brokers brokers;
    private final Map<String, Integer> deliveries = new TreeMap<>();
    private final Set<String> accepted = new HashSet<>();
    // Their partition's leader died before it answered: it has accepted them or not, so they come again or not.
    private final Set<String> inDoubt = new HashSet<>();
    private int written;

    private ShareConsumers(String servers, String controlUrl) {
        this.servers = servers;
        this.brokers = new Brokers(controlUrl);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("holds")) {
            hold(arguments[0]);
            return;
        }
        try {
            new ShareConsumers(arguments[0], arguments[1]).play();
        } catch (Exception failure) {
            System.err.println(("java: " + failure).replace('\n', ' '));
            System.exit(1);
        }
        System.out.println("java: share consumers get every record");
        System.exit(0);
    }

    private void play() throws Exception {
        try (Admin admin = Admin.create(configs(servers))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, PARTITIONS, (short) 3))).all().get();
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            List<AlterConfigOp> ops = List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(group, ops)).all().get();
            acknowledgeImplicitly();
            acknowledgeExplicitly();
            loseMember();
            try (KafkaShareConsumer<String, String> consumer = consumer(servers, "explicit")) {
                crash(consumer, leader(admin));
                crash(consumer, admin.describeShareGroups(List.of(GROUP)).all().get().get(GROUP).coordinator().id());
            }
        }
    }

    // Two members get each record once between them.
    private void acknowledgeImplicitly() throws Exception {
        write();
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        try (KafkaShareConsumer<String, String> one = consumer(servers, "implicit");
                KafkaShareConsumer<String, String> two = consumer(servers, "implicit")) {
            while (deliveries.size() < written) {
                for (KafkaShareConsumer<String, String> each : List.of(one, two)) {
                    for (ConsumerRecord<String, String> record : each.poll(Duration.ofMillis(100))) {
                        deliveries.merge(record.value(), 1, Integer::sum);
                    }
                }
                check(System.nanoTime() < deadline, deliveries.size() + " of " + written + " records come");
            }
            // What the last poll returned would be released by close.
            one.commitSync(LONGEST_WAIT);
            two.commitSync(LONGEST_WAIT);
        }
        deliveries.forEach((value, count) -> check(count == 1, value + " comes " + count + " times"));
        accepted.addAll(deliveries.keySet());
    }

    // Released records come again, rejected ones do not.
    private void acknowledgeExplicitly() throws Exception {
        deliveries.clear();
        write();
        try (KafkaShareConsumer<String, String> consumer = consumer(servers, "explicit")) {
            long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
            while (deliveries.values().stream().mapToInt(Integer::intValue).sum() < RECORDS + RECORDS / 10) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    boolean isNew = deliveries.merge(record.value(), 1, Integer::sum) == 1;
                    int kind = Integer.parseInt(record.value()) % 10;
                    int count = record.deliveryCount().map(Short::intValue).orElse(0);
                    check(count == deliveries.get(record.value()), record.value() + " has delivery count " + count);
                    consumer.acknowledge(record, isNew && kind == 3 ? AcknowledgeType.RELEASE
                            : isNew && kind == 7 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                }
                commit(consumer);
                check(System.nanoTime() < deadline, "released records do not come again");
            }
        }
        deliveries.forEach((value, count) -> {
            check(count == (Integer.parseInt(value) % 10 == 3 ? 2 : 1), value + " comes " + count + " times");
            accepted.add(value);
        });
    }

    // What a process had that is killed is delivered to another member.
    private void loseMember() throws Exception {
        write();
        String java = ProcessHandle.current().info().command().orElse("java");
        String classPath = System.getProperty("java.class.path");
        Process other = new ProcessBuilder(java, "-cp", classPath, "ShareConsumers", servers, "holds").start();
        other.inputReader().readLine(); // it has some
        other.destroyForcibly();
        check(other.waitFor(60, TimeUnit.SECONDS), "the member does not end");
        try (KafkaShareConsumer<String, String> consumer = consumer(servers, "explicit")) {
            acceptAll(consumer);
        }
    }

    private static void hold(String servers) throws Exception {
        try (KafkaShareConsumer<String, String> consumer = consumer(servers, "explicit")) {
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                continue;
            }
            System.out.println("has records");
            Thread.sleep(LONGEST_WAIT.toMillis());
        }
    }

    // Records are written before a broker is killed, while it is down, and when it is back.
    private void crash(KafkaShareConsumer<String, String> consumer, int broker) throws Exception {
        write();
        acceptSome(consumer);
        brokers.change(broker, "kill");
        write();
        acceptAll(consumer);
        brokers.change(broker, "start");
        write();
        acceptAll(consumer);
    }

    private void acceptSome(KafkaShareConsumer<String, String> consumer) {
        int before = accepted.size();
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (accepted.size() == before) {
            accept(consumer);
            check(System.nanoTime() < deadline, "no record comes");
        }
    }

    private void acceptAll(KafkaShareConsumer<String, String> consumer) {
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (accepted.size() + inDoubt.size() < written) {
            accept(consumer);
            check(System.nanoTime() < deadline, accepted.size() + " of " + written + " records are accepted, "
                    + inDoubt.size() + " are in doubt");
        }
    }

    private void accept(KafkaShareConsumer<String, String> consumer) {
        Map<TopicPartition, List<String>> values = new HashMap<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
            check(!accepted.contains(record.value()), record.value() + " was accepted, and comes again");
            consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            values.computeIfAbsent(partition, unused -> new ArrayList<>()).add(record.value());
        }
        Set<TopicPartition> told = new HashSet<>();
        commit(consumer).forEach((partition, failure) -> {
            if (failure.isEmpty()) {
                told.add(partition.topicPartition());
            }
        });
        values.forEach((partition, some) -> {
            if (told.contains(partition)) {
                accepted.addAll(some);
                inDoubt.removeAll(some);
            } else {
                inDoubt.addAll(some);
            }
        });
    }

    private static Map<TopicIdPartition, Optional<KafkaException>> commit(KafkaShareConsumer<String, String> consumer) {
        return consumer.commitSync(LONGEST_WAIT);
    }

    private void write() throws Exception {
        Properties configs = configs(servers);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(configs, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(TOPIC, number % PARTITIONS, null, String.valueOf(written++)));
            }
        }
    }

    private static int leader(Admin admin) throws Exception {
        List<TopicPartitionInfo> partitions =
                admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).partitions();
        return partitions.get(0).leader().id();
    }

    private static KafkaShareConsumer<String, String> consumer(String servers, String mode) {
        Properties configs = configs(servers);
        configs.put("group.id", GROUP);
        configs.put("share.acknowledgement.mode", mode);
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(configs, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(TOPIC));
        return consumer;
    }

    private static Properties configs(String servers) {
        Properties configs = new Properties();
        configs.put("bootstrap.servers", servers);
        return configs;
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
