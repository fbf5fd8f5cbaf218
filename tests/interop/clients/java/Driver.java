import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client as a group member or producer. Options, commands and events: see ../conversation.py. */
public final class Driver {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Map<String, String> options = new HashMap<>();

    private Driver(String[] args) {
        for (int i = 0; i + 1 < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
    }

    private String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private static synchronized void emit(String event, String fields) {
        String more = fields.isEmpty() ? "" : ", " + fields;
        byte[] line = ("{\"event\": " + quoted(event) + more + "}\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }

    private static void tell(Throwable failure) {
        emit("error", "\"name\": " + quoted(failure.getClass().getSimpleName()) + ", \"message\": "
                + quoted(failure.getMessage()) + ", \"fatal\": " + !(failure instanceof RetriableException));
    }

    private static String pairs(Collection<TopicPartition> partitions) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        StringBuilder out = new StringBuilder("\"partitions\": [");
        for (TopicPartition p : sorted) {
            out.append(out.charAt(out.length() - 1) == '[' ? "" : ", ");
            out.append('[').append(quoted(p.topic())).append(", ").append(p.partition()).append(']');
        }
        return out.append(']').toString();
    }

    /** Tells of each change of the assignment. */
    private static final class Listener implements ConsumerRebalanceListener {
        private final Set<TopicPartition> owned = new HashSet<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> fresh) {
            owned.addAll(fresh);
            emit("assigned", pairs(owned));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            gone.forEach(owned::remove);
            emit("revoked", pairs(gone));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> gone) {
            gone.forEach(owned::remove);
            emit("lost", pairs(gone));
        }
    }

    private boolean coordinatorAssigns() {
        return "consumer".equals(option("group-protocol", "classic"));
    }

    private Properties consumerProperties() {
        Properties p = new Properties();
        p.put("bootstrap.servers", option("bootstrap", ""));
        p.put("group.id", option("group", ""));
        p.put("group.protocol", option("group-protocol", "classic"));
        if (!option("instance-id", "").isEmpty()) {
            p.put("group.instance.id", option("instance-id", ""));
        }
        if (!option("client-id", "").isEmpty()) {
            p.put("client.id", option("client-id", ""));
        }
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("allow.auto.create.topics", "false");
        if (coordinatorAssigns()) {
            p.put("group.remote.assignor", option("assignor", "uniform"));
        } else {
            p.put("partition.assignment.strategy", ASSIGNORS.get(option("assignor", "range")));
            p.put("session.timeout.ms", option("session-timeout-ms", "6000"));
            p.put("heartbeat.interval.ms", option("heartbeat-ms", "500"));
        }
        p.put("max.poll.interval.ms", option("rebalance-timeout-ms", "30000"));
        p.put("metadata.max.age.ms", option("metadata-max-age-ms", "60000"));
        p.put("fetch.max.wait.ms", "100");
        p.put("isolation.level", option("isolation-level", "read_uncommitted"));
        p.put("reconnect.backoff.max.ms", "500");
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        return p;
    }

    private static LinkedBlockingQueue<String> commands() {
        LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line.trim());
                }
            } catch (IOException failure) {
                tell(failure);
            }
            Runtime.getRuntime().halt(3);
        }, "commands");
        reader.setDaemon(true);
        reader.start();
        return lines;
    }

    private static void commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
            emit("committed", "\"offsets\": []");
        } catch (KafkaException failure) {
            tell(failure);
        }
    }

    private void consume() {
        LinkedBlockingQueue<String> commands = commands();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties());
        Listener listener = new Listener();
        if (option("pattern", "").isEmpty()) {
            consumer.subscribe(Arrays.asList(option("topics", "").split(",")), listener);
        } else if (coordinatorAssigns()) {
            consumer.subscribe(new SubscriptionPattern(option("pattern", "")), listener);
        } else {
            consumer.subscribe(Pattern.compile("^" + option("pattern", "")), listener);
        }
        while (true) {
            String command = commands.poll();
            if ("commit".equals(command)) {
                commit(consumer);
            } else if ("leave".equals(command)) {
                break;
            } else if (command != null && command.startsWith("subscribe ")) {
                consumer.subscribe(Arrays.asList(command.split(" ")[1].split(",")), listener);
            }
            try {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(50))) {
                    emit("record", "\"topic\": " + quoted(r.topic()) + ", \"partition\": " + r.partition()
                            + ", \"offset\": " + r.offset() + ", \"value\": " + quoted(r.value()));
                }
            } catch (KafkaException failure) {
                tell(failure);
            }
        }
        consumer.close();
        emit("closed", "");
    }

    private Properties producerProperties(boolean transactional) {
        Properties p = new Properties();
        p.put("bootstrap.servers", option("bootstrap", ""));
        p.put("compression.type", option("codec", "none"));
        p.put("linger.ms", "20");
        p.put("max.block.ms", "20000");
        p.put("request.timeout.ms", "15000");
        p.put("delivery.timeout.ms", "30000");
        if (transactional) {
            p.put("transactional.id", option("transactional-id", ""));
        } else {
            p.put("enable.idempotence", option("idempotent", "false"));
        }
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        return p;
    }

    private void produce() throws InterruptedException {
        boolean transactional = !option("transactional-id", "").isEmpty();
        int count = Integer.parseInt(option("count", "0"));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties(transactional))) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                sent.add(producer.send(new ProducerRecord<>(option("topic", ""), option("codec", "none") + "-" + n)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            if (transactional) {
                producer.commitTransaction();
            }
            emit("produced", "\"count\": " + sent.size());
        } catch (ExecutionException failure) {
            tell(failure.getCause());
            return;
        } catch (KafkaException failure) {
            tell(failure);
            return;
        }
        emit("closed", "");
    }

    private void transaction(KafkaProducer<String, String> producer, String[] words)
            throws InterruptedException, ExecutionException {
        switch (words[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "offsets" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[1], Integer.parseInt(words[2])),
                            new OffsetAndMetadata(Long.parseLong(words[3]))),
                    new ConsumerGroupMetadata(option("group", "")));
            case "produce" -> {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int n = 0; n < Integer.parseInt(words[3]); n++) {
                    sent.add(producer.send(new ProducerRecord<>(words[1], words[2] + "-" + n)));
                }
                for (Future<RecordMetadata> one : sent) {
                    one.get();
                }
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void transact() throws InterruptedException {
        LinkedBlockingQueue<String> commands = commands();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties(true))) {
            for (String command = commands.take(); !"leave".equals(command); command = commands.take()) {
                String[] words = command.split(" ");
                try {
                    transaction(producer, words);
                    emit("done", "\"command\": " + quoted(words[0]));
                } catch (ExecutionException failure) {
                    tell(failure.getCause());
                } catch (KafkaException failure) {
                    tell(failure);
                }
            }
        }
        emit("closed", "");
    }

    private static String version() throws IOException {
        Properties about = new Properties();
        try (InputStream in = Driver.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            about.load(in);
        }
        return about.getProperty("version");
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        Driver driver = new Driver(args);
        emit("ready", "\"client\": \"kafka-clients\", \"version\": " + quoted(version()));
        switch (driver.option("mode", "consume")) {
            case "produce" -> driver.produce();
            case "transact" -> driver.transact();
            default -> driver.consume();
        }
        Runtime.getRuntime().halt(0);
    }
}
