import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source of numbers, in as many lanes as the topic has partitions: each goes from 0 to its limit. Tasks share the
 * lanes. A transaction has SIZE numbers of each, so a limit that is no multiple of it leaves one open.
 */
public final class Numbers extends SourceConnector {
    private static final int LANES = 2;
    private static final int SIZE = 100;
    private static final int AT_ONCE = 10;
    private static final long PAUSE_MS = 50;

    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public void stop() {
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counting.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int number = 0; number < most; number++) {
            Map<String, String> task = new HashMap<>(settings);
            task.put("number", Integer.toString(number));
            task.put("count", Integer.toString(most));
            tasks.add(task);
        }
        return tasks;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where to")
                .define("limit", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "How many of each lane");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> settings) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    @Override
    public String version() {
        return "1";
    }

    /** Writes the numbers of some lanes. */
    public static final class Counting extends SourceTask {
        private final Map<Integer, Integer> next = new HashMap<>();
        private String topic;
        private int limit;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            limit = Integer.parseInt(settings.get("limit"));
            int count = Integer.parseInt(settings.get("count"));
            for (int lane = Integer.parseInt(settings.get("number")); lane < LANES; lane += count) {
                Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("lane", lane));
                next.put(lane, offset == null ? 0 : ((Number) offset.get("next")).intValue());
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PAUSE_MS);
            List<SourceRecord> records = new ArrayList<>();
            next.replaceAll((lane, first) -> {
                int end = Math.min(first + AT_ONCE, limit);
                for (int number = first; number < end; number++) {
                    records.add(new SourceRecord(Map.of("lane", lane), Map.of("next", number + 1), topic, lane,
                            Schema.STRING_SCHEMA, Integer.toString(number)));
                }
                return end;
            });
            if (records.isEmpty()) {
                return null;
            }
            if (next.values().stream().allMatch(number -> number % SIZE == 0)) {
                context.transactionContext().commitTransaction();
            }
            return records;
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
