import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A placer of Apache Kafka's behind a line protocol: a command per line of stdin, one line of stdout for each answer.
 *
 *   place PARTITIONS RF BROKERS RACKS SEED CALLS FRESH FILE     nanoseconds of all CALLS together
 *   reassign PARTITIONS RF BROKERS RACKS CURRENT FILE           nanoseconds
 *
 * Brokers are 0 to BROKERS - 1, broker b in rack number b % RACKS; RACKS 0 means none. FRESH 1: the list of brokers is
 * made in every call. FILE and CURRENT hold little-endian int32, row by row; FILE "-" is not written. Whatever goes
 * wrong ends the process with a stack trace.
 */
abstract class PlacementPeer<B> {
    /** What is asked for; {@code racks} has one of each broker, made before any clock runs. */
    record Shape(int partitions, short replicationFactor, List<Optional<String>> racks) {
        static Shape of(int partitions, int replicationFactor, int brokers, int racks) {
            List<Optional<String>> ofBrokers = new ArrayList<>(brokers);
            for (int broker = 0; broker < brokers; broker++) {
                String name = racks == 0 ? null : String.format("rack-%03d", broker % racks);
                ofBrokers.add(Optional.ofNullable(name));
            }
            return new Shape(partitions, (short) replicationFactor, ofBrokers);
        }
    }

    private Object last; // a result that nobody keeps might never be made

    /** What the placer takes for brokers. */
    abstract B brokers(Shape shape);

    /** One placement, as the placer hands it out. */
    abstract Object place(B brokers, Shape shape, int seed);

    /** The replicas of a result, partition by partition. */
    abstract Iterator<List<Integer>> rows(Object result, Shape shape);

    /** Another placement of what lies there. What is returned is what has to be timed, and gives the new rows. */
    Supplier<Function<Shape, Iterator<List<Integer>>>> reassignment(Shape shape, List<List<Integer>> current) {
        throw new UnsupportedOperationException("this placer reassigns nothing");
    }

    final void answer() throws IOException {
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            Shape shape = Shape.of(number(words[1]), number(words[2]), number(words[3]), number(words[4]));
            switch (words[0]) {
                case "place" ->
                    System.out.println(
                        timePlacements(shape, number(words[5]), number(words[6]), words[7].equals("1"), words[8]));
                case "reassign" -> System.out.println(timeReassignment(shape, words[5], words[6]));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private long timePlacements(Shape shape, int seed, int calls, boolean fresh, String file) throws IOException {
        last = null;
        B kept = brokers(shape);
        leaveNoGarbage(calls);
        long begun = System.nanoTime();
        for (int call = 0; call < calls; call++) {
            last = place(fresh ? brokers(shape) : kept, shape, seed);
        }
        long taken = System.nanoTime() - begun;
        write(file, shape, rows(last, shape));
        return taken;
    }

    private long timeReassignment(Shape shape, String currentFile, String file) throws IOException {
        var reassignment = reassignment(shape, read(currentFile, shape));
        leaveNoGarbage(1);
        long begun = System.nanoTime();
        var result = reassignment.get();
        long taken = System.nanoTime() - begun;
        write(file, shape, result.apply(shape));
        return taken;
    }

    /** So that a large placement does not pay for those before it. */
    private static void leaveNoGarbage(int calls) {
        if (calls == 1) {
            System.gc();
        }
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static void write(String file, Shape shape, Iterator<List<Integer>> rows) throws IOException {
        if (file.equals("-")) {
            return;
        }
        int bytes = shape.partitions * shape.replicationFactor * Integer.BYTES;
        ByteBuffer written = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        while (rows.hasNext()) {
            rows.next().forEach(written::putInt);
        }
        Files.write(Path.of(file), written.array());
    }

    private static List<List<Integer>> read(String file, Shape shape) throws IOException {
        ByteBuffer kept = ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN);
        List<List<Integer>> rows = new ArrayList<>(shape.partitions);
        for (int partition = 0; partition < shape.partitions; partition++) {
            Integer[] row = new Integer[shape.replicationFactor];
            Arrays.setAll(row, place -> kept.getInt());
            rows.add(Arrays.asList(row));
        }
        return rows;
    }
}
