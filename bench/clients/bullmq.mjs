// Calls as BullMQ makes them: a job, a worker that echoes it, and whoever waits for the job's end.
// port, calls under way, seconds, bytes
import { Queue, QueueEvents, Worker } from "bullmq";

const [port, many, seconds, bytes] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port };
const queue = new Queue("bench", { connection });
const events = new QueueEvents("bench", { connection });
const worker = new Worker("bench", async (job) => job.data, { connection, concurrency: many });
// As many wait for the end of a job as there are calls.
for (const one of [queue, events, worker]) one.setMaxListeners(0);
await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()]);

const data = { text: "x".repeat(bytes) };
// A job that is gone before somebody asked for its end is an error to whoever waits.
const options = { removeOnComplete: { count: 10_000 }, removeOnFail: { count: 10_000 } };
const latencies = [];
const call = async () => {
  const job = await queue.add("work", data, options);
  await job.waitUntilFinished(events);
};
for (let n = 0; n < 20; n++) await call();

const begun = performance.now();
const callers = Array.from({ length: many }, async () => {
  while (performance.now() - begun < seconds * 1000) {
    const asked = performance.now();
    await call();
    latencies.push((performance.now() - asked) * 1000);
  }
});
await Promise.all(callers);
const elapsed = (performance.now() - begun) / 1000;
latencies.sort((one, other) => one - other);
const p50_micros = latencies[Math.floor(latencies.length / 2)];
console.log(JSON.stringify({ p50_micros, rate: latencies.length / elapsed }));
await worker.close();
await events.close();
await queue.close();
