import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.TopicAssignment;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/** The placer of a KRaft controller, and what kafka-reassign-partitions --generate makes of it. */
final class StripedPeer extends PlacementPeer<List<UsableBroker>> {
    private static final Uuid DIRECTORY = Uuid.fromString("a2xhbW0tcGxhY2VtZW50AA");
    private static final String TOPIC = "orders";

    public static void main(String[] arguments) throws Exception {
        new StripedPeer().answer();
    }

    @Override
    List<UsableBroker> brokers(Shape shape) {
        return IntStream.range(0, shape.racks().size())
            .mapToObj(broker -> new UsableBroker(broker, shape.racks().get(broker), false))
            .toList();
    }

    @Override
    Object place(List<UsableBroker> brokers, Shape shape, int seed) {
        PlacementSpec spec = new PlacementSpec(0, shape.partitions(), shape.replicationFactor());
        return new StripedReplicaPlacer(new Random(seed)).place(spec, new Cluster(brokers));
    }

    @Override
    Iterator<List<Integer>> rows(Object result, Shape shape) {
        return ((TopicAssignment) result).assignments().stream().map(PartitionAssignment::replicas).iterator();
    }

    /** The tool's own calculation, without its client: private there, so called by its name. */
    @Override
    Supplier<Function<Shape, Iterator<List<Integer>>>> reassignment(Shape shape, List<List<Integer>> current) {
        List<UsableBroker> brokers = brokers(shape);
        Map<TopicPartition, List<Integer>> replicas = new HashMap<>();
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < shape.partitions(); partition++) {
            partitions.add(new TopicPartition(TOPIC, partition));
            replicas.put(partitions.get(partition), current.get(partition));
        }
        Method calculation = calculation();
        return () -> {
            Map<?, ?> moved = (Map<?, ?>) call(calculation, replicas, brokers);
            return ignored -> partitions.stream().map(partition -> integers(moved.get(partition))).iterator();
        };
    }

    private static Method calculation() {
        try {
            Method found = ReassignPartitionsCommand.class.getDeclaredMethod("calculateAssignment", Map.class, List.class);
            found.setAccessible(true);
            return found;
        } catch (NoSuchMethodException gone) {
            throw new IllegalStateException("this version of the tool calculates otherwise", gone);
        }
    }

    private static Object call(Method method, Object... arguments) {
        try {
            return method.invoke(null, arguments);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    @SuppressWarnings("unchecked")
    private static List<Integer> integers(Object replicas) {
        return (List<Integer>) replicas;
    }

    private record Cluster(List<UsableBroker> brokers) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return brokers.iterator();
        }

        @Override
        public Uuid defaultDir(int broker) {
            return DIRECTORY;
        }
    }
}
