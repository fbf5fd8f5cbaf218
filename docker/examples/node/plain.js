// groupd in a plain container: npm install; node plain.js
//
// A container's ports are known once it runs. It is told then where its clients are to connect.
import { once } from "node:events";
import { GenericContainer, Wait } from "testcontainers";

const container = await new GenericContainer("groupd:dev")
  .withExposedPorts(9092, 9080)
  .withEnvironment({ KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: "0" })
  .withWaitStrategy(Wait.forHttp("/ready", 9080))
  .start();
const bootstrap = `${container.getHost()}:${container.getMappedPort(9092)}`;
const api = `http://${container.getHost()}:${container.getMappedPort(9080)}/v1`;
const told = await fetch(`${api}/namespaces/default/advertised`, {
  method: "PUT",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ PLAINTEXT: bootstrap }),
});
if (!told.ok) throw new Error(await told.text());

console.log(bootstrap);
await once(process.stdin.resume(), "end");
await container.stop();
