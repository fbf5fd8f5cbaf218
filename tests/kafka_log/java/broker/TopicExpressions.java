import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * For each line of standard input, what RE2/J makes of the expression on it: why it refuses it, or which of the names
 * on it match. Everything is a JSON object a line.
 */
public final class TopicExpressions {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            ObjectNode answer = json.createObjectNode();
            answer.set("pattern", asked.get("pattern"));
            try {
                Pattern pattern = Pattern.compile(asked.get("pattern").asText());
                ArrayNode matched = answer.putArray("matches");
                for (JsonNode name : asked.get("names")) {
                    if (pattern.matcher(name.asText()).matches()) {
                        matched.add(name.asText());
                    }
                }
            } catch (PatternSyntaxException refused) {
                answer.put("refused", refused.getDescription());
            }
            out.println(answer);
        }
    }
}
