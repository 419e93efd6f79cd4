import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

/**
 * Prints what Apache Kafka's own classes write: message sets of formats 0 and 1, and batches of format 2 with what its down
 * conversion makes of them. A line has the kind, the format, the codec, the timestamp type, the first offset that is
 * wanted, the bytes before and the bytes after.
 */
public final class MessageSets {
    private static final long TIME = 1_700_000_000_000L;

    public static void main(String[] arguments) {
        for (CompressionType type : new CompressionType[] {
            CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4}) {
            for (byte magic = 0; magic < 2; magic++) {
                print("set", magic, type, TimestampType.CREATE_TIME, 0, records(magic, type, TimestampType.CREATE_TIME, 0), null);
            }
            for (TimestampType time : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                MemoryRecords batch = records((byte) 2, type, time, 40);
                for (byte magic = 0; magic < 2; magic++) {
                    for (long first : new long[] {40, 42}) {
                        MemoryRecords converted = (MemoryRecords) batch.downConvert(magic, first, Time.SYSTEM).records();
                        print("down", magic, type, time, first, batch, converted);
                    }
                }
            }
        }
    }

    private static MemoryRecords records(byte magic, CompressionType type, TimestampType time, long offset) {
        TimestampType written = magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE : time;
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(4096), magic, Compression.of(type).build(), written, offset, TIME);
        Header[] headers = magic < 2 ? new Header[0] : new Header[] {new RecordHeader("h", new byte[] {1})};
        byte[][][] all = {
            {"k".getBytes(), "first".getBytes()}, {null, "no key".getBytes()}, {"gone".getBytes(), null},
            {"".getBytes(), "".getBytes()}};
        for (int place = 0; place < all.length; place++) {
            long timestamp = magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME + (place % 3) * 10;
            builder.append(timestamp, all[place][0] == null ? null : ByteBuffer.wrap(all[place][0]),
                all[place][1] == null ? null : ByteBuffer.wrap(all[place][1]), headers);
        }
        return builder.build();
    }

    private static void print(String kind, byte magic, CompressionType type, TimestampType time, long first,
                              MemoryRecords before, MemoryRecords after) {
        System.out.printf("%s %d %s %s %d %s %s%n", kind, magic, type.name, time.name, first, hex(before),
            after == null ? "-" : hex(after));
    }

    private static String hex(MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
