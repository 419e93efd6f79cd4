// The stories of docs/clients.md, told by Apache Kafka's clients:
//
//     java -cp ... RollingRestart BOOTSTRAP_SERVERS CONTROL_URL
//
// Exit code 0 if every answer is as it should be; else 1, and one line says which is not.

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

final class RollingRestart {
    static final long WAIT_SECONDS = 120;
    private static final Set<Integer> BROKER_IDS = Set.of(1, 2, 3);
    private static final String UNDER_REPLICATED = "enable.under.replicated.topic.creation";
    private static final String LIMIT = "max.broker.partitions";
    private static final ConfigResource ALL_BROKERS = new ConfigResource(ConfigResource.Type.BROKER, "");

    private final Admin admin;
    private final Brokers brokers;

    private RollingRestart(Admin admin, String controlUrl) {
        this.admin = admin;
        this.brokers = new Brokers(controlUrl);
    }

    public static void main(String[] arguments) {
        if (arguments.length != 2) {
            System.err.println("java: two arguments are expected: BOOTSTRAP_SERVERS CONTROL_URL");
            System.exit(1);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Demo.play(admin);
            new RollingRestart(admin, arguments[1]).play();
            MovedRecords.play(admin, arguments[0]);
            Storm.play(admin, arguments[0]);
        } catch (Exception failure) {
            System.err.println(("java: " + failure).replace('\n', ' '));
            System.exit(1);
        }
        System.out.println("java: every answer is as it should be");
    }

    private void play() throws Exception {
        leaveCountsToTheBroker();
        refuseWhatIsNotAllowedYet();
        setForAllBrokers(UNDER_REPLICATED, "true");
        List<String> made = restartBrokerByBroker();
        meetLimits(made);
        letSomebodyElseIn();
        setForAllBrokers(UNDER_REPLICATED, null);
        answer(admin.deleteTopics(made).all());
        expect("the topics that are left", answer(admin.listTopics().names()), Set.of());
    }

    private void leaveCountsToTheBroker() throws Exception {
        CreateTopicsResult result =
            admin.createTopics(List.of(new NewTopic("defaults", Optional.empty(), Optional.empty())));
        expect("num.partitions", answer(result.numPartitions("defaults")), 3);
        expect("default.replication.factor", answer(result.replicationFactor("defaults")), 2);
        expect("cleanup.policy", answer(result.config("defaults")).get("cleanup.policy").value(), "delete");
        Uuid topicId = answer(result.topicId("defaults"));
        TopicDescription byId = answer(admin.describeTopics(TopicCollection.ofTopicIds(List.of(topicId)))
            .allTopicIds()).get(topicId);
        expect("the topic by its id", byId.name() + " " + byId.partitions().size(), "defaults 3");
        answer(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(topicId))).all());
    }

    private void refuseWhatIsNotAllowedYet() throws Exception {
        brokers.change(3, "stop");
        refused(InvalidReplicationFactorException.class, create("too-early", 1, 3));
        brokers.change(3, "start");
    }

    private List<String> restartBrokerByBroker() throws Exception {
        List<String> made = new ArrayList<>(List.of("before"));
        answer(create("before", 3, 3));
        for (int down : new TreeSet<>(BROKER_IDS)) {
            Set<Integer> others = new TreeSet<>(BROKER_IDS);
            others.remove(down);
            String name = "while-" + down + "-is-down";
            made.add(name);
            brokers.change(down, "stop");
            answer(create(name, 2, 3));
            answer(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all());
            List<List<Integer>> wanted = new ArrayList<>();
            for (TopicPartitionInfo partition : partitions(name, rows -> rows.size() == 3)) {
                List<Integer> replicas = ids(partition.replicas());
                expect("the placeholder of " + name, replicas.get(2), -1);
                expect("the replicas of " + name, new TreeSet<>(replicas.subList(0, 2)), others);
                expect("the ISR of " + name, new TreeSet<>(ids(partition.isr())), others);
                expect("the leader of " + name, partition.leader().id(), replicas.get(0));
                wanted.add(List.of(replicas.get(0), replicas.get(1), down));
            }
            brokers.change(down, "start");
            expect("the filled replicas of " + name, replicas(partitions(name, RollingRestart::areWhole)), wanted);
            partitions("before", RollingRestart::areWhole);
        }
        expect("the topics", answer(admin.listTopics().names()), Set.copyOf(made));
        return made;
    }

    private void meetLimits(List<String> made) throws Exception {
        int held = 3 * made.size(); // by each broker
        setForAllBrokers(LIMIT, String.valueOf(held + 1));
        answer(create("the-last-one", 1, 3));
        for (Future<?> asked : List.of(create("too-much", 1, 1), enlarge("the-last-one", 2))) {
            String text = refused(PolicyViolationException.class, asked);
            for (String limit : List.of(LIMIT + "=" + (held + 1), "max.partitions=" + Long.MAX_VALUE)) {
                if (!text.contains(limit)) {
                    throw new IllegalStateException("the refusal does not name " + limit + ": " + text);
                }
            }
        }
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigEntry shown = config(broker).get(LIMIT);
        expect("the limit", shown.value(), String.valueOf(held + 1));
        expect("its source", shown.source(), ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);
        expect("its type", shown.type(), ConfigEntry.ConfigType.LONG);
        List<String> synonyms = shown.synonyms().stream().map(each -> each.source() + " " + each.value()).toList();
        expect("its synonyms", synonyms,
            List.of("DYNAMIC_DEFAULT_BROKER_CONFIG " + (held + 1), "DEFAULT_CONFIG " + Long.MAX_VALUE));
        setForAllBrokers(LIMIT, null);
        answer(enlarge("the-last-one", 2));
        expect("the enlarged topic", partitions("the-last-one", RollingRestart::areWhole).size(), 2);
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "the-last-one");
        alter(topic, "retention.ms", "1000");
        expect("retention.ms", config(topic).get("retention.ms").value(), "1000");
        answer(admin.deleteTopics(List.of("the-last-one")).all());
    }

    /** Once an entry says who may, the anonymous client is not among them. */
    private void letSomebodyElseIn() throws Exception {
        ResourcePattern pattern = new ResourcePattern(ResourceType.TOPIC, "before", PatternType.LITERAL);
        AclBinding binding = new AclBinding(pattern,
            new AccessControlEntry("User:bob", "*", AclOperation.ALTER, AclPermissionType.ALLOW));
        answer(admin.createAcls(List.of(binding)).all());
        Collection<AclBinding> found = answer(admin.describeAcls(AclBindingFilter.ANY).values());
        expect("the access control entries", found, List.of(binding));
        refused(TopicAuthorizationException.class, enlarge("before", 4));
        expect("the removed entries", answer(admin.deleteAcls(List.of(binding.toFilter())).all()), List.of(binding));
        answer(enlarge("before", 4));
    }

    private Future<Void> create(String name, int partitions, int replicationFactor) {
        return admin.createTopics(List.of(new NewTopic(name, partitions, (short) replicationFactor))).all();
    }

    private Future<Void> enlarge(String name, int partitions) {
        return admin.createPartitions(Map.of(name, NewPartitions.increaseTo(partitions))).all();
    }

    private void setForAllBrokers(String name, String value) throws Exception {
        alter(ALL_BROKERS, name, value);
    }

    private void alter(ConfigResource resource, String name, String value) throws Exception {
        AlterConfigOp operation = new AlterConfigOp(new ConfigEntry(name, value),
            value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        answer(admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all());
    }

    private Config config(ConfigResource resource) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
        return answer(admin.describeConfigs(List.of(resource), options).all()).get(resource);
    }

    /** The partitions as soon as they are so, by DescribeTopicPartitions; Metadata has to show the same replicas. */
    private List<TopicPartitionInfo> partitions(String name, Predicate<List<TopicPartitionInfo>> areSo)
            throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (true) {
            TopicDescription topic = answer(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
            if (areSo.test(topic.partitions())) {
                TopicDescription byId = answer(admin.describeTopics(TopicCollection.ofTopicIds(
                    List.of(topic.topicId()))).allTopicIds()).get(topic.topicId());
                expect("replicas by id", replicas(byId.partitions()), replicas(topic.partitions()));
                return topic.partitions();
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited " + WAIT_SECONDS + " s in vain: " + topic);
            }
        }
    }

    private static boolean areWhole(List<TopicPartitionInfo> partitions) {
        return partitions.stream().allMatch(partition -> Set.copyOf(ids(partition.isr())).equals(BROKER_IDS));
    }

    private static List<List<Integer>> replicas(List<TopicPartitionInfo> partitions) {
        return partitions.stream().map(partition -> ids(partition.replicas())).toList();
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    static String refused(Class<? extends Exception> wanted, Future<?> asked) throws Exception {
        try {
            asked.get(WAIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException refusal) {
            expect("the exception", refusal.getCause().getClass(), wanted);
            return refusal.getCause().getMessage();
        }
        throw new IllegalStateException("not refused with " + wanted.getSimpleName());
    }

    static <T> T answer(Future<T> asked) throws Exception {
        return asked.get(WAIT_SECONDS, TimeUnit.SECONDS);
    }

    static void expect(String what, Object found, Object wanted) {
        if (!found.equals(wanted)) {
            throw new IllegalStateException(what + ": " + found + " instead of " + wanted);
        }
    }
}
