import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client visits a secured broker. What it reads, does and answers: see ../visits.py. */
public final class Cells {
    private static final int AT_ONCE = 8;
    private static final long STEP_S = 40;
    private static final long STAY_MS = 7_000;
    private static final Duration PAUSE = Duration.ofMillis(100);
    private static final long CATCH_UP_MS = 60_000;
    private static final String MODULES = "org.apache.kafka.common.security.";

    /** Something that may fail. */
    private interface Action {
        void run() throws Exception;
    }

    private final Map<String, String> cell = new HashMap<>();
    private final Map<String, Object> answer = new LinkedHashMap<>();

    private Cells(String line) {
        for (String word : line.split("\t")) {
            cell.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        answer.put("cell", cell.get("name"));
    }

    private static String words(Throwable failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        StringBuilder said = new StringBuilder(cause.getClass().getSimpleName()).append(": ").append(cause.getMessage());
        for (Throwable deeper = cause.getCause(); deeper != null; deeper = deeper.getCause()) {
            said.append("; ").append(deeper.getMessage());
        }
        return said.toString();
    }

    private static String said(Action action) {
        try {
            action.run();
            return "";
        } catch (Exception failure) {
            return words(failure);
        }
    }

    private Properties properties() {
        Properties p = new Properties();
        p.put("bootstrap.servers", cell.get("bootstrap"));
        p.put("client.id", cell.get("name"));
        p.put("security.protocol", cell.get("protocol"));
        if (cell.get("protocol").contains("SSL")) {
            String form = cell.getOrDefault("form", "PEM");
            p.put("ssl.truststore.type", form);
            p.put("ssl.truststore.location", cell.getOrDefault("trust_store", cell.get("authority")));
            String keyStore = cell.getOrDefault("key_store", cell.get("certificate_and_key"));
            if (keyStore != null) {
                p.put("ssl.keystore.type", form);
                p.put("ssl.keystore.location", keyStore);
            }
            String password = cell.get("store_password");
            if (password != null) {
                p.put("ssl.truststore.password", password);
            }
            if (password != null && keyStore != null) {
                p.put("ssl.keystore.password", password);
                p.put("ssl.key.password", password);
            }
        }
        if (cell.containsKey("mechanism")) {
            String module = cell.get("mechanism").equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            p.put("sasl.mechanism", cell.get("mechanism"));
            p.put("sasl.jaas.config", MODULES + module + " required username=\"" + cell.get("user")
                    + "\" password=\"" + cell.get("password") + "\";");
        }
        return p;
    }

    private KafkaProducer<String, String> producer() {
        Properties p = properties();
        p.put("buffer.memory", "1048576");
        p.put("max.block.ms", String.valueOf(1000 * STEP_S));
        // Answers that arrive during a re-authentication are handed over one for each event of the connection. With as
        // many requests in flight as are allowed no event follows, and the producer waits for this timeout.
        p.put("request.timeout.ms", "10000");
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> member(String group) {
        Properties p = properties();
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("fetch.max.wait.ms", "100");
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(cell.get("topic")));
        return consumer;
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, value)).get(STEP_S, TimeUnit.SECONDS);
    }

    private static void readUntil(KafkaConsumer<String, String> consumer, String wanted) throws TimeoutException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(STEP_S);
        while (System.nanoTime() < end) {
            for (ConsumerRecord<String, String> record : consumer.poll(PAUSE)) {
                if (record.value().equals(wanted)) {
                    return;
                }
            }
        }
        throw new TimeoutException(wanted + " was not read");
    }

    private boolean step(String name, Action action) {
        answer.put(name, said(action));
        return answer.get(name).equals("");
    }

    private void login() {
        step("login", () -> {
            try (Admin admin = Admin.create(properties())) {
                admin.describeTopics(List.of(cell.get("topic"))).allTopicNames().get(STEP_S, TimeUnit.SECONDS);
            }
        });
    }

    private void work() {
        String topic = cell.get("topic");
        String name = cell.get("name");
        try (KafkaProducer<String, String> producer = producer();
                KafkaConsumer<String, String> consumer = member(cell.get("group"))) {
            boolean well = step("login", () -> { })
                    && step("produce", () -> send(producer, topic, name))
                    && step("consume", () -> readUntil(consumer, name))
                    && step("commit", consumer::commitSync);
            if (well) {
                step("refused_topic", () -> send(producer, cell.get("refused_topic"), name));
                try (KafkaConsumer<String, String> refused = member(cell.get("refused_group"))) {
                    step("refused_group", () -> readUntil(refused, name));
                }
            }
        }
    }

    private void stay() throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        List<String> errors = new ArrayList<>();
        Set<String> read = new HashSet<>();
        try (KafkaProducer<String, String> producer = producer();
                KafkaConsumer<String, String> consumer = member(cell.get("group"))) {
            Action poll = () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(PAUSE)) {
                    if (record.value().startsWith(cell.get("name"))) {
                        read.add(record.value());
                    }
                }
            };
            send(producer, cell.get("topic"), "first of " + cell.get("name"));
            readUntil(consumer, "first of " + cell.get("name"));
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STAY_MS);
            while (System.nanoTime() < end) {
                sent.add(producer.send(new ProducerRecord<>(cell.get("topic"), cell.get("name") + " " + sent.size())));
                errors.add(said(poll));
            }
            while (read.size() < sent.size() && System.nanoTime() < end + TimeUnit.MILLISECONDS.toNanos(CATCH_UP_MS)) {
                errors.add(said(poll));
            }
            int acknowledged = 0;
            for (Future<?> one : sent) {
                String lost = said(() -> one.get(STEP_S, TimeUnit.SECONDS));
                acknowledged += lost.isEmpty() ? 1 : 0;
                errors.add(lost);
            }
            errors.removeIf(String::isEmpty);
            answer.put("sent", sent.size());
            answer.put("acknowledged", acknowledged);
            answer.put("read", read.size());
            answer.put("errors", errors);
            step("commit", consumer::commitSync);
        }
    }

    private static String json(Object value) {
        if (value instanceof String) {
            return Driver.quoted((String) value);
        }
        if (value instanceof List) {
            return "[" + String.join(", ", ((List<?>) value).stream().map(Cells::json).toList()) + "]";
        }
        return String.valueOf(value);
    }

    private void visit() {
        String failed = said(() -> {
            switch (cell.get("visit")) {
                case "login" -> login();
                case "work" -> work();
                case "stay" -> stay();
                default -> throw new IllegalArgumentException(cell.get("visit"));
            }
        });
        if (!failed.isEmpty()) {
            answer.put("login", failed);
        }
        List<String> fields = new ArrayList<>();
        answer.forEach((name, value) -> fields.add(json(name) + ": " + json(value)));
        byte[] line = ("{" + String.join(", ", fields) + "}\n").getBytes(StandardCharsets.UTF_8);
        synchronized (System.out) {
            System.out.write(line, 0, line.length);
            System.out.flush();
        }
    }

    public static void main(String[] args) throws Exception {
        ExecutorService visitors = Executors.newFixedThreadPool(AT_ONCE);
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                visitors.execute(new Cells(line)::visit);
            }
        }
        visitors.shutdown();
        visitors.awaitTermination(1, TimeUnit.HOURS);
    }
}
