// Kafka Streams counts the words of the topic `lines` by the streams protocol (KIP-1071) until its standard input ends:
//
//     java -cp ... RunningStreams BOOTSTRAP_SERVERS STATE_DIR
//
// It prints "running" when it has counted all lines that were there.

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;

final class RunningStreams {
    private RunningStreams() {}

    public static void main(String[] arguments) throws Exception {
        Properties configs = new Properties();
        configs.put("bootstrap.servers", arguments[0]);
        configs.put("application.id", "counter");
        configs.put("group.protocol", "streams");
        configs.put("state.dir", arguments[1]);
        configs.put("default.key.serde", Serdes.String().getClass());
        configs.put("default.value.serde", Serdes.String().getClass());
        configs.put("commit.interval.ms", "100");
        configs.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("store"))
                .toStream()
                .foreach((word, count) -> {
                    if (word.equals("end")) {
                        System.out.println("running");
                    }
                });
        try (KafkaStreams counter = new KafkaStreams(builder.build(), configs)) {
            counter.start();
            while (System.in.read() >= 0) {
                // Until the input ends.
            }
            counter.close(Duration.ofSeconds(30));
        }
    }
}
