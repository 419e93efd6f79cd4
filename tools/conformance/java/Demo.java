// The story of scripts/demo, told by Apache Kafka's AdminClient: topics of its own are made, described, configured,
// enlarged, refused and deleted.

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class Demo {
    private static final Map<Integer, String> RACKS = Map.of(1, "a", 2, "b", 3, "c");
    private static final String AUTOMATIC = "orders-java";
    private static final String BY_HAND = "by-hand-java";
    private static final List<List<Integer>> PLACED = List.of(List.of(3, 1), List.of(2, 3), List.of(1, 2));
    private static final ConfigResource ITS_CONFIGS = new ConfigResource(ConfigResource.Type.TOPIC, AUTOMATIC);

    private final Admin admin;

    private Demo(Admin admin) {
        this.admin = admin;
    }

    static void play(Admin admin) throws Exception {
        Demo demo = new Demo(admin);
        demo.seeBrokers();
        demo.create();
        demo.configure();
        demo.enlarge();
        demo.createByHand();
        demo.beRefused();
        demo.delete();
    }

    private void seeBrokers() throws Exception {
        Map<Integer, String> racks = RollingRestart.answer(admin.describeCluster().nodes()).stream()
            .collect(Collectors.toMap(Node::id, node -> String.valueOf(node.rack())));
        RollingRestart.expect("the brokers and their racks", racks, RACKS);
    }

    private void create() throws Exception {
        NewTopic topic = new NewTopic(AUTOMATIC, 4, (short) 2).configs(Map.of("retention.ms", "86400000"));
        RollingRestart.answer(admin.createTopics(List.of(topic)).all());
        List<TopicPartitionInfo> made = see(AUTOMATIC);
        RollingRestart.expect("the partitions", made.size(), 4);
        Set<Integer> leaders = made.stream().map(each -> each.leader().id()).collect(Collectors.toSet());
        RollingRestart.expect("who leads", leaders, RACKS.keySet());
    }

    private void configure() throws Exception {
        RollingRestart.expect("retention.ms", config("retention.ms").value(), "86400000");
        alter("retention.ms", "3600000");
        ConfigEntry altered = config("retention.ms");
        RollingRestart.expect("retention.ms, altered", altered.value(), "3600000");
        RollingRestart.expect("its source", altered.source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alter("retention.ms", null);
        RollingRestart.expect("retention.ms, by default", config("retention.ms").value(), "604800000");
    }

    private void enlarge() throws Exception {
        List<List<Integer>> before = replicas(see(AUTOMATIC));
        RollingRestart.answer(admin.createPartitions(Map.of(AUTOMATIC, NewPartitions.increaseTo(6))).all());
        List<List<Integer>> after = replicas(see(AUTOMATIC));
        RollingRestart.expect("the partitions after enlarging", after.size(), 6);
        RollingRestart.expect("the former partitions", after.subList(0, 4), before);
    }

    private void createByHand() throws Exception {
        Map<Integer, List<Integer>> rows = IntStream.range(0, PLACED.size()).boxed()
            .collect(Collectors.toMap(index -> index, PLACED::get, (one, other) -> one, TreeMap::new));
        RollingRestart.answer(admin.createTopics(List.of(new NewTopic(BY_HAND, rows))).all());
        RollingRestart.expect("where it was put", replicas(see(BY_HAND)), PLACED);
        RollingRestart.expect("the topics", names(), Set.of(AUTOMATIC, BY_HAND));
    }

    private void beRefused() throws Exception {
        String words = RollingRestart.refused(InvalidReplicationFactorException.class,
            admin.createTopics(List.of(new NewTopic("too-many-replicas", 1, (short) 4))).all());
        RollingRestart.expect("the words of the refusal: " + words, words.contains("3 broker"), true);
        RollingRestart.refused(TopicExistsException.class,
            admin.createTopics(List.of(new NewTopic(AUTOMATIC, Optional.empty(), Optional.empty()))).all());
        RollingRestart.refused(InvalidPartitionsException.class,
            admin.createPartitions(Map.of(AUTOMATIC, NewPartitions.increaseTo(6))).all());
        RollingRestart.refused(InvalidConfigurationException.class, altered("retention.ms", "soon"));
        RollingRestart.refused(UnknownTopicOrPartitionException.class,
            admin.deleteTopics(List.of("too-many-replicas")).all());
        RollingRestart.expect("the topics after the refusals", names(), Set.of(AUTOMATIC, BY_HAND));
    }

    private void delete() throws Exception {
        RollingRestart.answer(admin.deleteTopics(List.of(AUTOMATIC, BY_HAND)).all());
        RollingRestart.refused(UnknownTopicOrPartitionException.class,
            admin.describeTopics(List.of(AUTOMATIC)).allTopicNames());
        RollingRestart.expect("the topics that are left", names(), Set.of());
    }

    /** The topic as it is now, the demo's rules checked: one leader, in sync, no two replicas on a rack. */
    private List<TopicPartitionInfo> see(String name) throws Exception {
        List<TopicPartitionInfo> seen =
            RollingRestart.answer(admin.describeTopics(List.of(name)).allTopicNames()).get(name).partitions();
        for (int index = 0; index < seen.size(); index++) {
            TopicPartitionInfo partition = seen.get(index);
            String where = name + "-" + index;
            List<Node> replicas = partition.replicas();
            RollingRestart.expect("the index of " + where, partition.partition(), index);
            RollingRestart.expect("the leader of " + where, partition.leader(), replicas.get(0));
            RollingRestart.expect("the ISR of " + where, Set.copyOf(partition.isr()), Set.copyOf(replicas));
            long racks = replicas.stream().map(Node::rack).distinct().count();
            RollingRestart.expect("the racks of " + where, racks, (long) replicas.size());
        }
        return seen;
    }

    private static List<List<Integer>> replicas(List<TopicPartitionInfo> partitions) {
        return partitions.stream().map(each -> each.replicas().stream().map(Node::id).toList()).toList();
    }

    private Set<String> names() throws Exception {
        return RollingRestart.answer(admin.listTopics().names());
    }

    private ConfigEntry config(String key) throws Exception {
        Config configs = RollingRestart.answer(admin.describeConfigs(List.of(ITS_CONFIGS)).all()).get(ITS_CONFIGS);
        return configs.get(key);
    }

    private void alter(String key, String value) throws Exception {
        RollingRestart.answer(altered(key, value));
    }

    private Future<Void> altered(String key, String value) {
        AlterConfigOp operation = new AlterConfigOp(new ConfigEntry(key, value),
            value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(ITS_CONFIGS, List.of(operation))).all();
    }
}
