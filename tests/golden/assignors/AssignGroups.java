import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Answers cases of groups on its standard input with what Kafka's own assignors make of them; README.md has the form. */
final class AssignGroups {
    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            answers.append(line).append('#').append(answer(line.split("\\|", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String answer(String[] fields) {
        PartitionAssignor assignor = switch (fields[0]) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        List<Uuid> topics = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : parts(fields[2], ",")) {
            String[] idAndCount = topic.split(":");
            topics.add(Uuid.fromString(idAndCount[0]));
            counts.put(topics.get(topics.size() - 1), Integer.valueOf(idAndCount[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        List<String> order = new ArrayList<>();
        for (String member : parts(fields[3], ",")) {
            String[] about = member.split("/", -1);
            Map<Uuid, Set<Integer>> sorted = new TreeMap<>();
            for (String topic : parts(about[3], "\\+")) {
                String[] numberAndPartitions = topic.split(":");
                Uuid id = topics.get(Integer.parseInt(numberAndPartitions[0]));
                List<Integer> partitions = numbers(numberAndPartitions[1]);
                sorted.put(id, new HashSet<>(partitions));
                partitions.forEach(partition -> owners.computeIfAbsent(id, key -> new HashMap<>()).put(partition, about[0]));
            }
            Map<Uuid, Set<Integer>> owned = new HashMap<>(); // grows as that which Kafka makes of a record
            sorted.forEach(owned::put);
            Set<Uuid> subscribed = numbers(about[2]).stream().map(topics::get).collect(Collectors.toCollection(TreeSet::new));
            Optional<String> instance = about[1].isEmpty() ? Optional.empty() : Optional.of(about[1]);
            order.add(about[0]);
            members.put(about[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, subscribed, new Assignment(Collections.unmodifiableMap(owned))));
        }
        Map<String, MemberAssignment> result = assignor.assign(
            new GroupSpecImpl(
                Collections.unmodifiableMap(members), SubscriptionType.valueOf(fields[1]), owners, assignable(fields, topics)),
            describer(counts)).members();
        return order.stream().map(id -> shown(result.get(id), topics)).collect(Collectors.joining(","));
    }

    /** The partitions that may be assigned, for the simple assignor; absent: all. */
    private static Optional<Map<Uuid, Set<Integer>>> assignable(String[] fields, List<Uuid> topics) {
        if (fields.length < 5) {
            return Optional.empty();
        }
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (String topic : parts(fields[4], "\\+")) {
            String[] numberAndPartitions = topic.split(":");
            found.put(topics.get(Integer.parseInt(numberAndPartitions[0])), new HashSet<>(numbers(numberAndPartitions[1])));
        }
        return Optional.of(found);
    }

    private static String shown(MemberAssignment assignment, List<Uuid> topics) {
        Map<Integer, Set<Integer>> sorted = new TreeMap<>();
        if (assignment != null) {
            assignment.partitions().forEach((id, partitions) -> sorted.put(topics.indexOf(id), new TreeSet<>(partitions)));
        }
        sorted.values().removeIf(Set::isEmpty);
        return sorted.entrySet().stream()
            .map(entry -> entry.getKey() + ":" + entry.getValue().stream().map(String::valueOf).collect(Collectors.joining(".")))
            .collect(Collectors.joining("+"));
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    private static List<String> parts(String text, String separator) {
        return text.isEmpty() ? List.of() : Arrays.asList(text.split(separator));
    }

    private static List<Integer> numbers(String text) {
        return parts(text, "\\.").stream().map(Integer::valueOf).toList();
    }
}
