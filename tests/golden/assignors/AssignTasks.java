import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Answers cases of streams groups on its standard input with what Kafka's sticky assignor makes of them; README.md has the form. */
final class AssignTasks {
    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            answers.append(line).append('#').append(answer(line.split("\\|", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String answer(String[] fields) {
        TreeMap<String, Integer> sizes = new TreeMap<>();
        Set<String> stateful = new HashSet<>();
        for (String subtopology : parts(fields[1], ",")) {
            String[] about = subtopology.split(":");
            sizes.put(about[0], Integer.valueOf(about[1]));
            if (about[2].equals("stateful")) {
                stateful.add(about[0]);
            }
        }
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        List<String> order = new ArrayList<>();
        for (String member : parts(fields[2], ",")) {
            String[] about = member.split("/", -1);
            order.add(about[0]);
            members.put(about[0], new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(about[2]), tasks(about[3]), Map.of(), about[1], Map.of(), Map.of(), Map.of()));
        }
        Map<String, MemberAssignment> result = new StickyTaskAssignor().assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), Map.of("num.standby.replicas", fields[0])),
            describer(sizes, stateful)).members();
        return order.stream()
            .map(id -> shown(result.get(id).activeTasks()) + "/" + shown(result.get(id).standbyTasks()))
            .collect(Collectors.joining(","));
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        for (String one : parts(text, "\\+")) {
            String[] about = one.split(":");
            tasks.put(about[0], new HashSet<>(parts(about[1], "\\.").stream().map(Integer::valueOf).toList()));
        }
        return tasks;
    }

    private static String shown(Map<String, Set<Integer>> tasks) {
        return new TreeMap<>(tasks).entrySet().stream()
            .map(entry -> entry.getKey() + ":" + new TreeSet<>(entry.getValue()).stream().map(String::valueOf).collect(Collectors.joining(".")))
            .collect(Collectors.joining("+"));
    }

    private static TopologyDescriber describer(TreeMap<String, Integer> sizes, Set<String> stateful) {
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return List.copyOf(sizes.keySet());
            }

            @Override
            public int maxNumInputPartitions(String subtopology) {
                return sizes.get(subtopology);
            }

            @Override
            public boolean isStateful(String subtopology) {
                return stateful.contains(subtopology);
            }
        };
    }

    private static List<String> parts(String text, String separator) {
        return text.isEmpty() ? List.of() : Arrays.asList(text.split(separator));
    }
}
