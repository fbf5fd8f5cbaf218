import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

/**
 * groupd in a plain container. Its ports are known once it runs: it is told then where its clients are to connect.
 */
public class Plain {
    public static void main(String[] arguments) throws Exception {
        try (
            GenericContainer<?> container = new GenericContainer<>("groupd:dev")
                .withExposedPorts(9092, 9080)
                .withEnv("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
                .waitingFor(Wait.forHttp("/ready").forPort(9080))
        ) {
            container.start();
            String bootstrap = container.getHost() + ":" + container.getMappedPort(9092);
            String api = "http://" + container.getHost() + ":" + container.getMappedPort(9080) + "/v1";
            var told = HttpClient
                .newHttpClient()
                .send(
                    HttpRequest
                        .newBuilder(URI.create(api + "/namespaces/default/advertised"))
                        .header("Content-Type", "application/json")
                        .PUT(BodyPublishers.ofString("{\"PLAINTEXT\": \"" + bootstrap + "\"}"))
                        .build(),
                    BodyHandlers.ofString()
                );
            if (told.statusCode() != 200) {
                throw new IllegalStateException(told.body());
            }
            System.out.println(bootstrap);
            System.in.readAllBytes();
        }
    }
}
