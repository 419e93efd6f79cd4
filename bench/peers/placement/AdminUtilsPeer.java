import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** KIP-36's round robin, as Kafka had it up to 4.0. The seed is the start, and the first shift. */
final class AdminUtilsPeer extends PlacementPeer<List<BrokerMetadata>> {
    public static void main(String[] arguments) throws Exception {
        new AdminUtilsPeer().answer();
    }

    @Override
    List<BrokerMetadata> brokers(Shape shape) {
        return IntStream.range(0, shape.racks().size())
            .mapToObj(broker -> new BrokerMetadata(broker, shape.racks().get(broker)))
            .toList();
    }

    @Override
    Object place(List<BrokerMetadata> brokers, Shape shape, int seed) {
        return AdminUtils.assignReplicasToBrokers(brokers, shape.partitions(), shape.replicationFactor(), seed, 0);
    }

    @Override
    @SuppressWarnings("unchecked")
    Iterator<List<Integer>> rows(Object result, Shape shape) {
        Map<Integer, List<Integer>> replicas = (Map<Integer, List<Integer>>) result;
        return IntStream.range(0, shape.partitions()).mapToObj(replicas::get).iterator();
    }
}
