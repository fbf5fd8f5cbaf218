// groupd instead of Kafka in Testcontainers' module: npm install; node drop-in.js
import { once } from "node:events";
import { KafkaContainer } from "@testcontainers/kafka";

const kafka = await new KafkaContainer("groupd-kafka:8.0.0").withKraft().start();

console.log(`${kafka.getHost()}:${kafka.getMappedPort(9093)}`);
await once(process.stdin.resume(), "end");
await kafka.stop();
