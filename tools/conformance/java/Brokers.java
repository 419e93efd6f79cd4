// Stops, kills and starts the simulated brokers by the control interface.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

final class Brokers {
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
}
