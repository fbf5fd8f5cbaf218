import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKeyJsonConverter;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValueJsonConverter;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKeyJsonConverter;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValueJsonConverter;

/** Prints keys and values of the offsets log as Kafka's own classes encode them, a JSON object a line. */
public final class Values {
    private static final List<String> TEXTS = List.of("", "a", "größer 日本 😀", "x".repeat(126), "y".repeat(127), "z".repeat(300));

    private static void print(String name, int version, JsonNode fields, ByteBuffer bytes) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        line.put("name", name).put("version", version).put("hex", HexFormat.of().formatHex(raw));
        line.set("fields", fields);
        System.out.println(line);
    }

    private static ByteBuffer key(int type, ApiMessage key) {
        // A key starts with its type and is written in its lowest version.
        ByteBuffer versioned = MessageUtil.toVersionPrefixedByteBuffer((short) 0, key);
        return versioned.putShort(0, (short) type);
    }

    private static void offset(short version, String metadata, long offset, int leaderEpoch, long expire, Uuid topicId) {
        OffsetCommitValue value = new OffsetCommitValue()
                .setOffset(offset).setMetadata(metadata).setCommitTimestamp(1_700_000_000_000L + version);
        if (version == 1) {
            value.setExpireTimestamp(expire);
        }
        if (version >= 3) {
            value.setLeaderEpoch(leaderEpoch);
        }
        if (version >= 4) {
            value.setTopicId(topicId);
        }
        print("OffsetCommitValue", version, OffsetCommitValueJsonConverter.write(value, version),
                MessageUtil.toVersionPrefixedByteBuffer(version, value));
    }

    private static GroupMetadataValue.MemberMetadata member(short version, String name, String instance, int bytes) {
        GroupMetadataValue.MemberMetadata member = new GroupMetadataValue.MemberMetadata()
                .setMemberId(name + "-1").setClientId(name).setClientHost("/192.0.2.7").setSessionTimeout(45000)
                .setSubscription(new byte[bytes]).setAssignment(new byte[bytes * 2]);
        if (version >= 1) {
            member.setRebalanceTimeout(300000);
        }
        if (version >= 3) {
            member.setGroupInstanceId(instance);
        }
        return member;
    }

    private static void group(short version, String type, String protocol, String leader,
            List<GroupMetadataValue.MemberMetadata> members) {
        GroupMetadataValue value = new GroupMetadataValue().setProtocolType(type).setGeneration(7)
                .setProtocol(protocol).setLeader(leader).setMembers(members);
        if (version >= 2) {
            value.setCurrentStateTimestamp(1_700_000_000_000L);
        }
        print("GroupMetadataValue", version, GroupMetadataValueJsonConverter.write(value, version),
                MessageUtil.toVersionPrefixedByteBuffer(version, value));
    }

    public static void main(String[] args) {
        for (String text : TEXTS) {
            OffsetCommitKey offsetKey = new OffsetCommitKey().setGroup("g" + text).setTopic("topic").setPartition(text.length());
            print("OffsetCommitKey", 1, OffsetCommitKeyJsonConverter.write(offsetKey, (short) 0), key(1, offsetKey));
            GroupMetadataKey groupKey = new GroupMetadataKey().setGroup(text);
            print("GroupMetadataKey", 2, GroupMetadataKeyJsonConverter.write(groupKey, (short) 0), key(2, groupKey));
        }
        Uuid topicId = Uuid.fromString("wWnUccmrRUetS5lXDd483A");
        for (short version = 0; version <= OffsetCommitValue.HIGHEST_SUPPORTED_VERSION; version++) {
            for (String text : TEXTS) {
                offset(version, text, text.length(), -1, -1, Uuid.ZERO_UUID);
                offset(version, text, Long.MAX_VALUE, 2147483647, 1_800_000_000_000L, topicId);
            }
        }
        for (short version = 0; version <= GroupMetadataValue.HIGHEST_SUPPORTED_VERSION; version++) {
            group(version, "", null, null, List.of());
            group(version, "consumer", null, null, List.of());
            group(version, "consumer", "range", "a-1", List.of(member(version, "a", null, 0)));
            group(version, "connect", "sessioned", "größer-1", List.of(member(version, "größer", "instance", 100),
                    member(version, "b".repeat(200), null, 300)));
        }
    }
}
