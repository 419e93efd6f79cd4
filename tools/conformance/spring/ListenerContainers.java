// Spring Kafka's listener containers on Klamm, while brokers are restarted and one crashes:
//
//     java -cp ... ListenerContainers BOOTSTRAP_SERVERS CONTROL_URL
//
// Two applications read the same orders. The first handles each order with retry topics: some orders fail twice and
// succeed then, some fail always and must be in the topic of dead letters, once. The second copies each order to
// another topic in a transaction of a container: each must be there once for a reader of committed records. Exit code 0
// if that is so; else 1, and one line says what is not.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.DltHandler;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

public final class ListenerContainers {
    static final String ORDERS = "orders";
    static final String COPIES = "copies";
    static final int COUNT = 600;
    static final Duration LONGEST_WAIT = Duration.ofSeconds(300);

    static String servers;
    static final Set<Integer> handled = ConcurrentHashMap.newKeySet();
    static final Map<Integer, Integer> attempts = new ConcurrentHashMap<>();
    static final Map<Integer, Integer> deadLetters = new ConcurrentHashMap<>();

    private ListenerContainers() {}

    static boolean failsTwice(int order) {
        return order % 50 == 7;
    }

    static boolean failsAlways(int order) {
        return order % 100 == 13;
    }

    public static void main(String[] arguments) {
        servers = arguments[0];
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Application.class)) {
            play(context, new Brokers(arguments[1]));
        } catch (Exception failure) {
            System.err.println(("spring: " + failure).replace('\n', ' '));
            System.exit(1);
        }
        System.out.println("spring: each order is handled, and copied once");
        System.exit(0);
    }

    @SuppressWarnings("unchecked")
    private static void play(AnnotationConfigApplicationContext context, Brokers brokers) throws Exception {
        KafkaTemplate<String, String> template = context.getBean("template", KafkaTemplate.class);
        Thread restarts = new Thread(() -> restart(brokers));
        restarts.start();
        for (int order = 0; order < COUNT; order++) {
            template.send(ORDERS, String.valueOf(order), String.valueOf(order)).get(60, TimeUnit.SECONDS);
            Thread.sleep(10);
        }
        restarts.join();
        waitFor("orders are not handled", () -> handled.size() == COUNT - COUNT / 100);
        waitFor("orders are no dead letters", () -> deadLetters.size() == COUNT / 100);
        for (int order = 0; order < COUNT; order++) {
            if (failsTwice(order)) {
                expect(attempts.get(order) >= 3, "order " + order + " was tried " + attempts.get(order) + " times");
            }
            expect(failsAlways(order) == deadLetters.containsKey(order), "order " + order + " as a dead letter");
        }
        checkCopies();
    }

    private static void restart(Brokers brokers) {
        try {
            for (int broker = 1; broker <= 3; broker++) {
                brokers.change(broker, "stop");
                Thread.sleep(700);
                brokers.change(broker, "start");
                Thread.sleep(700);
            }
            brokers.change(2, "kill");
            brokers.change(2, "start");
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static void checkCopies() {
        Map<String, Object> configs = new HashMap<>(consumerConfigs());
        configs.put("group.id", "check");
        Map<Integer, Integer> copies = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(configs)) {
            consumer.subscribe(List.of(COPIES));
            waitFor("copies are missing: " + copies, () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    copies.merge(Integer.valueOf(record.value()), 1, Integer::sum);
                }
                return copies.size() == COUNT;
            });
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(2))) {
                copies.merge(Integer.valueOf(record.value()), 1, Integer::sum);
            }
        }
        copies.forEach((order, times) -> expect(times == 1, "order " + order + " is copied " + times + " times"));
    }

    static Map<String, Object> consumerConfigs() {
        return Map.of(
                "bootstrap.servers", servers,
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                "enable.auto.commit", "false",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class);
    }

    private static void waitFor(String failure, BooleanSupplier isSo) {
        long deadline = System.nanoTime() + LONGEST_WAIT.toNanos();
        while (!isSo.getAsBoolean()) {
            expect(System.nanoTime() < deadline, failure);
            try {
                Thread.sleep(50);
            } catch (InterruptedException interruption) {
                throw new IllegalStateException(interruption);
            }
        }
    }

    private static void expect(boolean isSo, String failure) {
        if (!isSo) {
            throw new IllegalStateException(failure + " (handled " + handled.size() + ", dead " + deadLetters + ")");
        }
    }

    @Configuration
    @EnableKafka
    @EnableKafkaRetryTopic
    public static class Application {
        @Bean
        public KafkaAdmin admin() {
            return new KafkaAdmin(Map.of("bootstrap.servers", servers));
        }

        @Bean
        public KafkaAdmin.NewTopics topics() {
            NewTopic orders = TopicBuilder.name(ORDERS).partitions(3).replicas(3).build();
            return new KafkaAdmin.NewTopics(orders, TopicBuilder.name(COPIES).partitions(3).replicas(3).build());
        }

        @Bean
        public ProducerFactory<String, String> producers() {
            return new DefaultKafkaProducerFactory<>(producerConfigs());
        }

        @Bean
        public ProducerFactory<String, String> transactionalProducers() {
            DefaultKafkaProducerFactory<String, String> factory = new DefaultKafkaProducerFactory<>(producerConfigs());
            factory.setTransactionIdPrefix("copies-");
            return factory;
        }

        private static Map<String, Object> producerConfigs() {
            return Map.of(
                    "bootstrap.servers", servers,
                    "key.serializer", StringSerializer.class,
                    "value.serializer", StringSerializer.class);
        }

        @Bean
        public KafkaTemplate<String, String> template() {
            return new KafkaTemplate<>(producers());
        }

        @Bean
        public KafkaTemplate<String, String> transactionalTemplate() {
            return new KafkaTemplate<>(transactionalProducers());
        }

        @Bean
        public ConsumerFactory<String, String> consumers() {
            return new DefaultKafkaConsumerFactory<>(consumerConfigs());
        }

        @Bean
        public TaskScheduler scheduler() {
            return new ThreadPoolTaskScheduler();
        }

        @Bean
        public ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
            ConcurrentKafkaListenerContainerFactory<String, String> factory =
                    new ConcurrentKafkaListenerContainerFactory<>();
            factory.setConsumerFactory(consumers());
            factory.setConcurrency(2);
            return factory;
        }

        @Bean
        public ConcurrentKafkaListenerContainerFactory<String, String> transactional() {
            ConcurrentKafkaListenerContainerFactory<String, String> factory =
                    new ConcurrentKafkaListenerContainerFactory<>();
            factory.setConsumerFactory(consumers());
            factory.setConcurrency(2);
            factory.getContainerProperties()
                    .setKafkaAwareTransactionManager(new KafkaTransactionManager<>(transactionalProducers()));
            return factory;
        }

        @Bean
        public Handler handler() {
            return new Handler();
        }
    }

    public static class Handler {
        @Autowired
        @Qualifier("transactionalTemplate")
        private KafkaTemplate<String, String> transactionalTemplate;

        @RetryableTopic(
                kafkaTemplate = "template",
                attempts = "3",
                backOff = @BackOff(delay = 200),
                numPartitions = "3",
                replicationFactor = "3")
        @KafkaListener(topics = ORDERS, groupId = "handlers")
        public void handle(String value) {
            int order = Integer.parseInt(value);
            int attempt = attempts.merge(order, 1, Integer::sum);
            if (failsAlways(order) || failsTwice(order) && attempt < 3) {
                throw new IllegalArgumentException("order " + order + ", attempt " + attempt);
            }
            handled.add(order);
        }

        @DltHandler
        public void bury(String value) {
            deadLetters.merge(Integer.valueOf(value), 1, Integer::sum);
        }

        @KafkaListener(topics = ORDERS, groupId = "copiers", containerFactory = "transactional")
        public void copy(ConsumerRecord<String, String> record) {
            transactionalTemplate.send(COPIES, record.key(), record.value());
        }
    }
}
