// Kafka Streams counts words exactly once while brokers are restarted and one crashes:
//
//     java -cp ... WordCount BOOTSTRAP_SERVERS CONTROL_URL STATE_DIR
//
// Two instances with two threads each count the words of a topic, with state stores and standby replicas
// (exactly_once_v2). Meanwhile each broker is shut down and started, and one is killed. With "-" instead of a URL,
// another program does that: "counting" is printed when the first word is counted, and the end of the standard input
// says that the brokers are as they were. Every change of every count must be in the output once and in order. Exit code
// 0 if that is so; else 1, and one line says what is not.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

final class WordCount {
    private static final String LINES = "lines";
    private static final String COUNTS = "counts";
    private static final int PARTITIONS = 4;
    private static final List<String> WORDS = List.of("alpha", "beta", "gamma", "delta", "epsilon");
    private static final int NUMBERED_WORDS = 37;
    private static final int LINES_AT_ONCE = 20; // written without a pause
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(300);

    private final String servers;
    private final String controlUrl;
    private final String stateDir;
    private final Map<String, Long> written = new ConcurrentHashMap<>();
    private final AtomicBoolean brokersAreDone = new AtomicBoolean();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private WordCount(String servers, String controlUrl, String stateDir) {
        this.servers = servers;
        this.controlUrl = controlUrl;
        this.stateDir = stateDir;
    }

    public static void main(String[] arguments) {
        try {
            new WordCount(arguments[0], arguments[1], arguments[2]).play();
        } catch (Exception failure) {
            System.err.println(("java: " + failure).replace('\n', ' '));
            System.exit(1);
        }
        System.out.println("java: every word is counted once");
        System.exit(0);
    }

    private void play() throws Exception {
        try (Admin admin = Admin.create(configs())) {
            List<NewTopic> topics = List.of(
                    new NewTopic(LINES, PARTITIONS, (short) 3), new NewTopic(COUNTS, PARTITIONS, (short) 3));
            admin.createTopics(topics).all().get();
        }
        KafkaStreams one = counter("one");
        KafkaStreams two = counter("two");
        Thread writer = new Thread(this::write);
        writer.start();
        if (controlUrl.equals("-")) {
            awaitOthers();
        } else {
            new Brokers(controlUrl).restartAll();
        }
        brokersAreDone.set(true);
        writer.join();
        if (failure.get() != null) {
            throw new IllegalStateException("the lines could not be written", failure.get());
        }
        checkCounts();
        one.close(Duration.ofSeconds(20));
        two.close(Duration.ofSeconds(20));
    }

    private void awaitOthers() throws Exception {
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(readerConfigs("first"))) {
            consumer.subscribe(List.of(COUNTS));
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                // Until there is a count.
            }
        }
        System.out.println("counting");
        while (System.in.read() >= 0) {
            // Until the input ends.
        }
    }

    private Properties configs() {
        Properties configs = new Properties();
        configs.put("bootstrap.servers", servers);
        return configs;
    }

    private KafkaStreams counter(String name) {
        Properties configs = configs();
        configs.put("application.id", "word-count");
        configs.put("processing.guarantee", "exactly_once_v2");
        configs.put("state.dir", stateDir + "/" + name);
        configs.put("default.key.serde", Serdes.String().getClass());
        configs.put("default.value.serde", Serdes.String().getClass());
        configs.put("num.stream.threads", "2");
        configs.put("num.standby.replicas", "1");
        configs.put("replication.factor", "3");
        configs.put("commit.interval.ms", controlUrl.equals("-") ? "500" : "100");
        configs.put("statestore.cache.max.bytes", "0"); // each change of a count is a record
        configs.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(LINES)
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("store"))
                .toStream()
                .to(COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams counter = new KafkaStreams(builder.build(), configs);
        counter.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        counter.start();
        return counter;
    }

    private void write() {
        Properties configs = configs();
        configs.put("key.serializer", StringSerializer.class);
        configs.put("value.serializer", StringSerializer.class);
        Random random = new Random(7);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(configs)) {
            for (int number = 0; !brokersAreDone.get(); number++) {
                String word = WORDS.get(random.nextInt(WORDS.size()));
                String numbered = word + number % NUMBERED_WORDS;
                written.merge(word, 1L, Long::sum);
                written.merge(numbered, 1L, Long::sum);
                producer.send(new ProducerRecord<>(LINES, String.valueOf(number), word + " " + numbered), (_to, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
                if (number % (controlUrl.equals("-") ? 1 : LINES_AT_ONCE) == 0) {
                    Thread.sleep(10);
                }
            }
        } catch (Exception error) {
            failure.set(error);
        }
    }

    private void checkCounts() {
        Map<String, Long> seen = new HashMap<>();
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(readerConfigs("check"))) {
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

    private Properties readerConfigs(String group) {
        Properties configs = configs();
        configs.put("group.id", group);
        configs.put("isolation.level", "read_committed");
        configs.put("auto.offset.reset", "earliest");
        configs.put("key.deserializer", StringDeserializer.class);
        configs.put("value.deserializer", LongDeserializer.class);
        return configs;
    }
}
