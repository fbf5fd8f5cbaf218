import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.JaasContext;

/** Prints, for each JSON object of standard input, the login modules that Kafka finds in its `text`, or none. */
public final class JaasConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static List<AppConfigurationEntry> entries(String form, String text) throws Exception {
        if (form.equals("property")) {
            Map<String, ?> configs = Map.of("plain.sasl.jaas.config", new Password(text));
            return JaasContext.loadServerContext(new ListenerName("internal"), "PLAIN", configs).configurationEntries();
        }
        Path file = Files.createTempFile("jaas", ".conf");
        try {
            Files.writeString(file, text);
            Configuration found = Configuration.getInstance("JavaLoginConfig", new URIParameter(file.toUri()));
            AppConfigurationEntry[] entries = found.getAppConfigurationEntry("KafkaServer");
            return entries == null ? List.of() : List.of(entries);
        } finally {
            Files.delete(file);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode asked = (ObjectNode) JSON.readTree(line);
            List<AppConfigurationEntry> entries = null;
            try {
                entries = entries(asked.get("form").asText(), asked.get("text").asText());
            } catch (Exception refused) {
                asked.putNull("modules");
            }
            if (entries != null) {
                ArrayNode modules = asked.putArray("modules");
                for (AppConfigurationEntry entry : new ArrayList<>(entries)) {
                    ObjectNode module = modules.addObject();
                    module.put("name", entry.getLoginModuleName());
                    module.put("flag", entry.getControlFlag().toString().replaceAll(".*: ", "").toUpperCase());
                    module.set("options", JSON.valueToTree(new TreeMap<>(entry.getOptions())));
                }
            }
            OUT.println(asked);
        }
    }
}
