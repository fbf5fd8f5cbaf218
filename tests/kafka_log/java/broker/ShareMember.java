import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a share group: ShareMember BOOTSTRAP GROUP TOPIC. Ends once it has read a record. */
public final class ShareMember {
    public static void main(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        try (KafkaShareConsumer<String, String> member =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(List.of(args[2]));
            System.out.println("subscribed");
            while (member.poll(Duration.ofMillis(200)).isEmpty()) {
                if (System.nanoTime() > deadline) {
                    System.exit(1);
                }
            }
            member.commitSync();
        }
    }
}
