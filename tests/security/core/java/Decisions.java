import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's own authorizer. In: a case a line, as cases.py describes it. Out: a line for each with
 * its decisions: whether it is allowed, the number of the ACL that decided (or -1 SuperUser, -2 DefaultAllow,
 * -3 DefaultDeny), and the line of the audit log; null where the authorizer fails.
 */
public final class Decisions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> OTHERS = List.of("SuperUser", "DefaultAllow", "DefaultDeny");
    private static final String RULE = " based on rule ";

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = answer(JSON.readTree(line));
            System.setOut(out);
            out.println(answer);
        }
    }

    private static ObjectNode answer(JsonNode asked) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
            "super.users", asked.get("super_users").asText(),
            "allow.everyone.if.no.acl.found", asked.get("allow_if_none").asText()));
        Map<String, Integer> rules = new HashMap<>();
        int number = 0;
        for (JsonNode acl : asked.get("acls")) {
            StandardAcl one = new StandardAcl(
                ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()), acl.get(3).asText(), acl.get(4).asText(),
                AclOperation.fromCode((byte) acl.get(5).asInt()), AclPermissionType.fromCode((byte) acl.get(6).asInt()));
            authorizer.addAcl(new Uuid(1, number), one);
            rules.put("MatchingAcl(acl=" + one + ")", number++);
        }
        authorizer.completeInitialLoad();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode decisions = answer.putArray("decisions");
        for (JsonNode each : asked.get("asked")) {
            decisions.add(decision(authorizer, each, rules));
        }
        ArrayNode writers = answer.putArray("writers");
        for (JsonNode each : asked.get("writers")) {
            Client client = new Client(each.get(0).asText(), each.get(1).asText());
            try {
                AuthorizationResult result =
                    authorizer.authorizeByResourceType(client, AclOperation.WRITE, ResourceType.TOPIC);
                writers.add(result == AuthorizationResult.ALLOWED);
            } catch (StringIndexOutOfBoundsException e) {
                writers.addNull();
            }
        }
        return answer;
    }

    private static ArrayNode decision(StandardAuthorizer authorizer, JsonNode asked, Map<String, Integer> rules) {
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        System.setOut(new PrintStream(log, true, StandardCharsets.UTF_8));
        Action action = new Action(
            AclOperation.fromCode((byte) asked.get(2).asInt()),
            new ResourcePattern(
                ResourceType.fromCode((byte) asked.get(3).asInt()), asked.get(4).asText(), PatternType.LITERAL),
            1, true, true);
        AuthorizationResult result;
        try {
            result = authorizer.authorize(
                new Client(asked.get(0).asText(), asked.get(1).asText()), List.of(action)).get(0);
        } catch (StringIndexOutOfBoundsException e) {
            return null;
        }
        String line = log.toString(StandardCharsets.UTF_8).strip();
        line = line.substring(line.indexOf("Principal = "));
        String rule = line.substring(line.indexOf(RULE) + RULE.length());
        int number = OTHERS.contains(rule) ? -1 - OTHERS.indexOf(rule) : rules.get(rule);
        return JSON.createArrayNode().add(result == AuthorizationResult.ALLOWED).add(number).add(line);
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        Client(String principal, String host) {
            this(SecurityUtils.parseKafkaPrincipal(principal), address(host));
        }

        private static InetAddress address(String host) {
            try {
                return InetAddress.getByName(host);
            } catch (java.net.UnknownHostException e) {
                throw new IllegalArgumentException(e);
            }
        }

        @Override
        public String listenerName() {
            return "CLIENT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return ApiKeys.METADATA.id;
        }

        @Override
        public int requestVersion() {
            return 12;
        }

        @Override
        public String clientId() {
            return "client";
        }

        @Override
        public int correlationId() {
            return 1;
        }
    }
}
