import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints the definition of every property of a broker and of a topic, then for each line of standard input whether
 * Kafka takes the properties on it. Everything is a JSON object a line.
 */
public final class ConfigValues {
    /** What a broker cannot do without. The default of the last one would else bound another one. */
    private static final Map<String, String> NECESSARY = Map.of(
            "process.roles", "broker", "node.id", "1", "controller.quorum.bootstrap.servers", "localhost:9093",
            "controller.listener.names", "CONTROLLER", "connection.failed.authentication.delay.ms", "0");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static void define(String of, ConfigDef definitions) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            ObjectNode line = JSON.createObjectNode();
            line.put("of", of).put("name", key.name).put("type", key.type.name());
            Object value = key.hasDefault() ? key.defaultValue : null;
            line.put("default", value == null ? null : ConfigDef.convertToString(value, key.type));
            line.put("values", key.validator == null ? "" : key.validator.toString());
            OUT.println(line);
        }
    }

    private static KafkaConfig broker(Map<String, String> properties) {
        Map<String, String> all = new HashMap<>(NECESSARY);
        all.putAll(properties);
        KafkaConfig config = new KafkaConfig(all, false);
        // The defaults of topics are first looked at where logs are opened.
        new LogConfig(config.extractLogConfigMap());
        return config;
    }

    private static String refusal(String of, Map<String, String> properties) {
        try {
            if (of.equals("broker")) {
                broker(properties);
            } else {
                LogConfig.validate(Map.of(), properties, broker(Map.of()).extractLogConfigMap(), false);
            }
            return null;
        } catch (RuntimeException refused) {
            return String.valueOf(refused.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        define("broker", KafkaConfig.configDef());
        define("topic", LogConfig.configDefCopy());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode asked = (ObjectNode) JSON.readTree(line);
            Map<String, String> properties = new HashMap<>();
            for (Map.Entry<String, JsonNode> entry : asked.get("properties").properties()) {
                properties.put(entry.getKey(), entry.getValue().asText());
            }
            OUT.println(asked.put("refusal", refusal(asked.get("of").asText(), properties)));
        }
    }
}
