import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * What Kafka's own generated classes make of bytes. Each line of the file has a class, a version, and bytes in hexadecimal,
 * with blanks between. Out comes a line of JSON: "json", the message in Kafka's form, "hex", its bytes written again, and
 * "left", how many bytes were not read; or "error", what reading or writing threw.
 */
public final class Messages {
    private static final Map<String, Kind> KINDS = new HashMap<>();

    private record Kind(Class<?> message, Method toJson) {
        static Kind of(String name) {
            try {
                Class<?> message = Class.forName(name);
                Method toJson = Class.forName(name + "JsonConverter").getMethod("write", message, short.class);
                return new Kind(message, toJson);
            } catch (ReflectiveOperationException e) {
                throw new IllegalArgumentException(e);
            }
        }
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        ObjectMapper mapper = new ObjectMapper();
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.US_ASCII);
                Writer out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] parts = line.split(" ", 3);
                byte[] bytes = HexFormat.of().parseHex(parts[2]);
                out.write(mapper.writeValueAsString(read(parts[0], Short.parseShort(parts[1]), bytes)));
                out.write('\n');
            }
        }
    }

    private static ObjectNode read(String name, short version, byte[] bytes) throws ReflectiveOperationException {
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        Kind kind = KINDS.computeIfAbsent(name, Kind::of);
        try {
            Message message = (Message) kind.message().getConstructor().newInstance();
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(buffer), version);
            answer.put("left", buffer.remaining());
            answer.set("json", (JsonNode) kind.toJson().invoke(null, message, version));
            ObjectSerializationCache cache = new ObjectSerializationCache();
            byte[] again = new byte[message.size(cache, version)];
            message.write(new ByteBufferAccessor(ByteBuffer.wrap(again)), cache, version);
            answer.put("hex", HexFormat.of().formatHex(again));
        } catch (InvocationTargetException e) {
            answer.put("error", e.getCause().toString());
        } catch (RuntimeException e) {
            answer.put("error", e.toString());
        }
        return answer;
    }
}
