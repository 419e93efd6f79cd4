import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Logs in with Kafka's admin client as each line of standard input says, and prints a line with what came of it: {"client":
 * NAME, "settings": {…}} makes a client, the same without settings asks an existing one again, and "token" in place of
 * them makes a delegation token as this client. "seconds" is how long to wait.
 */
public final class Logins {
    private Logins() {
    }

    public static void main(String[] arguments) throws IOException {
        ObjectMapper json = new ObjectMapper();
        Map<String, Admin> clients = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            System.out.println(answer(clients, asked));
            System.out.flush();
        }
        clients.values().forEach(Admin::close);
    }

    private static String answer(Map<String, Admin> clients, JsonNode asked) {
        String name = asked.get("client").asText();
        int seconds = asked.get("seconds").asInt();
        try {
            if (asked.has("settings")) {
                Properties properties = new Properties();
                asked.get("settings").properties().forEach(one -> properties.put(one.getKey(), one.getValue().asText()));
                properties.put("default.api.timeout.ms", Integer.toString(seconds * 1000));
                properties.put("request.timeout.ms", Integer.toString(seconds * 500));
                Admin before = clients.put(name, Admin.create(properties));
                if (before != null) {
                    before.close();
                }
            }
            Admin client = clients.get(name);
            if (asked.has("token")) {
                long lifetime = asked.get("token").asLong();
                CreateDelegationTokenOptions options = new CreateDelegationTokenOptions().maxLifetimeMs(lifetime);
                DelegationToken token = client.createDelegationToken(options).delegationToken().get(seconds, TimeUnit.SECONDS);
                return token.tokenInfo().tokenId() + " " + Base64.getEncoder().encodeToString(token.hmac());
            }
            return "ok " + client.describeCluster().nodes().get(seconds, TimeUnit.SECONDS).size();
        } catch (ExecutionException e) {
            return "refused " + e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
        } catch (Exception e) {
            return "failed " + e.getClass().getSimpleName() + ": " + e.getMessage();
        }
    }
}
