import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Plays histories of a group with Kafka's own classes. In: a history a line, as tests/group/modern/histories.py
 * describes it. Out: the answers to its assignments, a line for each history.
 */
public final class Assignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Group group = new Group();
            ArrayNode answers = JSON.createArrayNode();
            for (JsonNode step : JSON.readTree(line)) {
                group.take(step, answers);
            }
            System.out.println(answers);
        }
    }

    private static final class Group {
        private final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        private final TimelineHashMap<String, ConsumerGroupMember> members = new TimelineHashMap<>(registry, 0);
        private final TimelineHashMap<String, Assignment> targets = new TimelineHashMap<>(registry, 0);
        private final Image image = new Image();

        void take(JsonNode step, ArrayNode answers) throws Exception {
            switch (step.get(0).asText()) {
                case "topic" -> image.put(step.get(1).asText(), id(step.get(2).asText()), step.get(3).asInt());
                case "delete" -> image.remove(step.get(1).asText());
                case "put" -> put(step.get(1).asText(), step.get(2).textValue(), texts(step.get(3)));
                case "remove" -> {
                    members.remove(step.get(1).asText());
                    targets.remove(step.get(1).asText());
                }
                case "assign" -> answers.add(assign(step.get(1).asText()));
                default -> throw new IllegalArgumentException(step.toString());
            }
        }

        private void put(String memberId, String instanceId, List<String> names) {
            members.put(memberId, new ConsumerGroupMember.Builder(memberId)
                .setInstanceId(instanceId).setSubscribedTopicNames(names).build());
        }

        private ObjectNode assign(String name) {
            ConsumerGroupPartitionAssignor assignor = name.equals("range") ? new RangeAssignor() : new UniformAssignor();
            Set<Set<String>> subscriptions = new HashSet<>();
            members.values().forEach(member -> subscriptions.add(member.subscribedTopicNames()));
            TargetAssignmentBuilder.TargetAssignmentResult result =
                new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("group", 1, assignor)
                    .withTime(Time.SYSTEM)
                    .withMembers(members)
                    .withSubscriptionType(subscriptions.size() > 1
                        ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS)
                    .withTargetAssignment(targets)
                    .withInvertedTargetAssignment(inverted())
                    .withMetadataImage(image)
                    .withResolvedRegularExpressions(Map.of())
                    .build();
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode order = answer.putArray("order");
            members.keySet().forEach(order::add);
            Map<String, Long> hashes = new HashMap<>();
            image.names.keySet().forEach(topic -> hashes.put(topic, Utils.computeTopicHash(topic, image)));
            answer.put("hash", Utils.computeGroupHash(hashes));
            ObjectNode records = answer.putObject("records");
            result.records().forEach(record -> write(record, records));
            return answer;
        }

        private void write(CoordinatorRecord record, ObjectNode records) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                var value = (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
                targets.put(key.memberId(), Assignment.fromRecord(value));
                ArrayNode topics = records.putArray(key.memberId());
                value.topicPartitions().forEach(topic -> {
                    ArrayNode one = topics.addArray().add(hex(topic.topicId()));
                    topic.partitions().forEach(one.addArray()::add);
                });
            }
        }

        private Map<Uuid, Map<Integer, String>> inverted() {
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            targets.forEach((memberId, target) -> target.partitions().forEach((topicId, partitions) ->
                partitions.forEach(partition ->
                    owners.computeIfAbsent(topicId, none -> new HashMap<>()).put(partition, memberId))));
            return owners;
        }
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return new ArrayList<>();
        }
    }

    private static final class Image implements CoordinatorMetadataImage {
        private final Map<String, Topic> names = new LinkedHashMap<>();
        private final Map<Uuid, Topic> ids = new HashMap<>();

        void put(String name, Uuid id, int partitions) {
            Topic topic = new Topic(name, id, partitions);
            names.put(name, topic);
            ids.put(id, topic);
        }

        void remove(String name) {
            ids.remove(names.remove(name).id());
        }

        @Override
        public Set<Uuid> topicIds() {
            return ids.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return names.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(names.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(ids.get(id));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return names.isEmpty();
        }
    }

    private static Uuid id(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(text -> texts.add(text.asText()));
        return texts;
    }
}
