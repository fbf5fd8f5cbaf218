import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** groupd instead of Kafka in Testcontainers' modules, that of Apache's image or that of Confluent's. */
public class DropIn {
    private static final DockerImageName GROUPD = DockerImageName.parse("groupd-kafka:8.0.0");

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("confluent")) {
            confluent();
        } else {
            apache();
        }
    }

    private static void apache() throws Exception {
        try (var kafka = new KafkaContainer(GROUPD.asCompatibleSubstituteFor("apache/kafka"))) {
            kafka.start();
            System.out.println(kafka.getBootstrapServers());
            System.in.readAllBytes();
        }
    }

    private static void confluent() throws Exception {
        try (var kafka = new ConfluentKafkaContainer(GROUPD.asCompatibleSubstituteFor("confluentinc/cp-kafka"))) {
            kafka.start();
            System.out.println(kafka.getBootstrapServers());
            System.in.readAllBytes();
        }
    }
}
