// How the leader of a partition in Apache Kafka 4.3.0 lists an ISR in an AlterPartition request. README.md beside this file.

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import scala.collection.mutable.SetOps;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

@SuppressWarnings({"unchecked", "rawtypes", "deprecation"})
public final class ListIsrs {
    private static final int CASES = 1000;
    private static final int[] LARGEST_IDS = {4, 9, 40, 2_000, 200_000};

    public static void main(String[] arguments) {
        Random random = new Random(7);
        for (int number = 0; number < CASES; number++) {
            int most = LARGEST_IDS[random.nextInt(LARGEST_IDS.length)];
            int count = Math.min(most, 1 + random.nextInt(number % 10 == 0 ? 30 : 6));
            Set<Integer> isr = new LinkedHashSet<>();
            while (isr.size() < count) {
                isr.add(random.nextInt(most));
            }
            int joining = random.nextInt(most + 1);
            while (isr.contains(joining)) {
                joining = random.nextInt(most + 1);
            }
            Set<Integer> leaving = new HashSet<>();
            isr.forEach(one -> { if (random.nextInt(3) == 0) leaving.add(one); });
            System.out.println(ids(isr) + "|" + joining + "|" + ids(grown(isr, joining))
                + "|" + ids(leaving) + "|" + ids(shrunk(isr, leaving)));
        }
    }

    /** As kafka.cluster.Partition.prepareIsrExpand. */
    private static List<Integer> grown(Set<Integer> isr, int joining) {
        return asList((scala.collection.mutable.Set) ((SetOps) committed(isr)).$plus(joining));
    }

    /** As kafka.cluster.Partition.prepareIsrShrink. */
    private static List<Integer> shrunk(Set<Integer> isr, Set<Integer> leaving) {
        return asList((scala.collection.mutable.Set) committed(isr).diff(CollectionConverters.asScala(leaving)));
    }

    /** The ISR of a CommittedPartitionState, as a new set of Scala. */
    private static scala.collection.mutable.Set committed(Set<Integer> isr) {
        return (scala.collection.mutable.Set) CollectionConverters.asScala((Set) Set.copyOf(isr))
            .map(new AbstractFunction1<Object, Object>() {
                @Override
                public Object apply(Object replica) {
                    return replica;
                }
            });
    }

    private static List<Integer> asList(scala.collection.mutable.Set set) {
        return new ArrayList<>((List<Integer>) CollectionConverters.asJava(set.toList()));
    }

    private static String ids(Iterable<Integer> given) {
        StringBuilder text = new StringBuilder();
        given.forEach(one -> text.append(text.isEmpty() ? "" : ",").append(one));
        return text.toString();
    }
}
