import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Answers the JSON objects of standard input: with the `names` that Kafka's `rules` make of `subjects`, none where
 * they make none, and none at all where Kafka refuses the rules; or with the `name` that Java gives an encoded one.
 */
public final class PrincipalNames {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static void map(ObjectNode asked) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(asked.get("rules").asText());
        } catch (RuntimeException refused) {
            asked.putNull("names");
            return;
        }
        ArrayNode names = asked.putArray("names");
        for (JsonNode subject : asked.get("subjects")) {
            try {
                names.add(mapper.getName(subject.asText()));
            } catch (Exception none) {
                names.addNull();
            }
        }
    }

    private static void write(ObjectNode asked) {
        try {
            byte[] encoded = HexFormat.of().parseHex(asked.get("encoded").asText());
            asked.put("name", new X500Principal(encoded).getName());
        } catch (RuntimeException refused) {
            asked.putNull("name");
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode asked = (ObjectNode) JSON.readTree(line);
            if (asked.has("rules")) {
                map(asked);
            } else {
                write(asked);
            }
            OUT.println(asked);
        }
    }
}
