// Stops, kills and starts the simulated brokers by the control interface; the broker ids are 1 to 3.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

final class Brokers {
    private static final int COUNT = 3;
    private static final int CRASHING = 2;
    private static final long PAUSE_MS = 500;

    private final String controlUrl;
    private final HttpClient http = HttpClient.newHttpClient();

    Brokers(String controlUrl) {
        this.controlUrl = controlUrl;
    }

    // `change` is stop, kill or start.
    void change(int broker, String change) throws Exception {
        URI uri = URI.create(controlUrl + "/brokers/" + broker + "/" + change);
        HttpRequest request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IllegalStateException(change + " of broker " + broker + ": " + response.body().strip());
        }
    }

    // Each broker is shut down and started, one after the other; then one crashes.
    void restartAll() throws Exception {
        for (int broker = 1; broker <= COUNT; broker++) {
            change(broker, "stop");
            Thread.sleep(PAUSE_MS);
            change(broker, "start");
            Thread.sleep(PAUSE_MS);
        }
        change(CRASHING, "kill");
        change(CRASHING, "start"); // waits until the session of the killed broker has expired
        Thread.sleep(PAUSE_MS);
    }
}
