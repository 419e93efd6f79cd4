// Which partition of a topic the controller of Apache Kafka 4.3.0 finds first: the first value of the table that
// ReplicationControlManager has for a topic, filled as records of the metadata log fill it. README.md beside this file.

package org.apache.kafka.timeline;

import java.util.Random;
import org.apache.kafka.common.utils.LogContext;

public final class FirstPartition {
    private static final int COUNTS = 2000;
    private static final int LIVES = 400;

    public static void main(String[] arguments) {
        counts();
        lives(new Random(24));
    }

    /** For each count: the first partition of a new topic, and after one partition has changed. */
    private static void counts() {
        for (int count = 1; count <= COUNTS; count++) {
            Topic topic = new Topic();
            topic.add(count);
            int created = topic.first();
            topic.change(count - 1);
            System.out.println(count + " " + created + " " + topic.first());
        }
    }

    /** Topics that grow, and whose partitions change: the steps, and the first partition after each. */
    private static void lives(Random random) {
        for (int number = 0; number < LIVES; number++) {
            Topic topic = new Topic();
            StringBuilder line = new StringBuilder();
            int most = 1 << random.nextInt(7);
            for (int step = random.nextInt(8); step >= 0; step--) {
                if (topic.size() == 0 || random.nextBoolean()) {
                    int more = 1 + random.nextInt(most);
                    topic.add(more);
                    line.append("+").append(more);
                } else {
                    topic.change(random.nextInt(topic.size()));
                    line.append("c");
                }
                line.append("=").append(topic.first()).append(step == 0 ? "" : " ");
            }
            System.out.println(line);
        }
    }

    private static final class Topic {
        private final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        private final TimelineHashMap<Integer, Integer> parts = new TimelineHashMap<>(registry, 0);
        private long offset = 0;

        int size() {
            return parts.size();
        }

        void add(int more) {
            for (int index = 0; index < more; index++) {
                parts.put(parts.size(), parts.size());
            }
            commit();
        }

        void change(int partition) {
            parts.put(partition, partition);
            commit();
        }

        /** As the controller: a snapshot in memory for each batch, deleted when the batch is committed. */
        private void commit() {
            offset++;
            registry.getOrCreateSnapshot(offset);
            registry.deleteSnapshotsUpTo(offset);
        }

        int first() {
            return parts.values().iterator().next();
        }
    }
}
