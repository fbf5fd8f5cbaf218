import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.utils.Time;

/**
 * Asks Kafka's own server of OAUTHBEARER. In: a case a line, as bearer_cases.py describes it. Out: a
 * line for each with its steps: a challenge; who was let in and until when; what a client is told that is refused
 * (null: what everybody is told); or what the server fails with.
 */
public final class BearerTokens {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
        }
    }

    private static ArrayNode answer(JsonNode asked) throws Exception {
        AuthenticateCallbackHandler handler = asked.has("jwks") ? secured(asked) : unsecured(asked);
        OAuthBearerSaslServer server = new OAuthBearerSaslServer(handler);
        ArrayNode steps = JSON.createArrayNode();
        for (JsonNode token : asked.get("tokens")) {
            steps.add(step(server, Base64.getDecoder().decode(token.asText())));
        }
        handler.close();
        return steps;
    }

    private static ObjectNode step(OAuthBearerSaslServer server, byte[] token) {
        ObjectNode step = JSON.createObjectNode();
        try {
            byte[] answer = server.evaluateResponse(token);
            if (server.isComplete()) {
                step.put("principal", server.getAuthorizationID());
                step.put("until_ms", (Long) server.getNegotiatedProperty("CREDENTIAL.LIFETIME.MS"));
            } else {
                step.put("challenge", new String(answer, StandardCharsets.UTF_8));
            }
        } catch (SaslAuthenticationException refusal) {
            step.put("refused", refusal.getMessage());
        } catch (SaslException refusal) {
            step.putNull("refused");
        } catch (RuntimeException | StackOverflowError failure) {
            step.put("fails", failure.getClass().getSimpleName());
        }
        return step;
    }

    private static AuthenticateCallbackHandler unsecured(JsonNode asked) throws Exception {
        AuthenticateCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        Map<String, String> options = new HashMap<>();
        asked.get("options").properties().forEach(each -> options.put(each.getKey(), each.getValue().asText()));
        handler.configure(Map.of(), "OAUTHBEARER", List.of(module(options)));
        long now = asked.get("now_ms").asLong();
        Field time = handler.getClass().getDeclaredField("time");
        time.setAccessible(true);
        time.set(handler, Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, values) -> now));
        return handler;
    }

    private static AuthenticateCallbackHandler secured(JsonNode asked) throws Exception {
        Path file = Files.createTempFile("jwks", ".json");
        file.toFile().deleteOnExit();
        Files.writeString(file, asked.get("jwks").toString());
        Map<String, String> set = new HashMap<>();
        set.put("sasl.oauthbearer.jwks.endpoint.url", file.toUri().toString());
        asked.get("properties").properties().forEach(each -> set.put(each.getKey(), each.getValue().asText()));
        System.setProperty(URLS, file.toUri().toString());
        ConfigDef known = new ConfigDef();
        SaslConfigs.addClientSaslSupport(known);
        AuthenticateCallbackHandler handler = new OAuthBearerValidatorCallbackHandler();
        handler.configure(known.parse(set), "OAUTHBEARER", List.of(module(Map.of())));
        return handler;
    }

    private static AppConfigurationEntry module(Map<String, String> options) {
        return new AppConfigurationEntry(
            OAuthBearerLoginModule.class.getName(), LoginModuleControlFlag.REQUIRED, options);
    }
}
