// gRPC from Node: acquire, renew, and a subscription that stays open.
//
//   node client.js [seconds]     for how long to hold the lock; 2 unless said
//
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const seconds = Number(process.argv[2] ?? 2);
const ttl = 6000; // ms; renewed every third of it
const run = randomUUID().slice(0, 8);
const path = `example:/node-grpc/${run}`;
const owner = `holder-${run}`;

const proto = fileURLToPath(new URL("../../compat/proto/pathlockd/v1/pathlock.proto", import.meta.url));
const { pathlockd } = grpc.loadPackageDefinition(
  loader.loadSync(proto, { longs: String, enums: String, defaults: true, keepCase: true }),
);
const address = process.env.PATHLOCKD_GRPC ?? "127.0.0.1:50051";
const options = {
  "grpc.keepalive_time_ms": 30_000, // notices a peer that has gone without a word
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.keepalive_permit_without_calls": 1,
};
const { PathLock } = pathlockd.v1;
const client = new PathLock(address, grpc.credentials.createInsecure(), options);
// Events come over a connection of their own, which is silent but for them and pings.
const listener = new PathLock(address, grpc.credentials.createInsecure(), { ...options, "grpc.use_local_subchannel_pool": 1 });

function call(rpc, request) {
  return promisify(client[rpc].bind(client))(request, { deadline: Date.now() + 10_000 });
}

function expect(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what}: got ${got}, wanted ${wanted}`);
  console.log(`${what}: ${got}`);
}

// An error of the stream is one of the program: without a handler it ends it.
const events = listener.Subscribe({ owner_id: owner });
await once(events, "metadata"); // the headers: the subscription is live

const answer = await call("Acquire", { owner_id: owner, ttl_ms: ttl, requests: [{ path }] });
expect("acquire", answer.status, "ACQUIRE_STATUS_OK");

const until = Date.now() + seconds * 1000;
let renewals = 0;
do {
  await sleep(Math.min(ttl / 3, Math.max(0, until - Date.now())));
  const renewed = await call("Renew", { owner_id: owner, ttl_ms: ttl });
  if (renewed.status !== "RENEW_STATUS_OK") throw new Error(`renewal ${renewals}: ${renewed.status}`);
  renewals++;
} while (Date.now() < until);
console.log(`held for ${seconds} s, renewed ${renewals} times`);

// Somebody asks it to let go: it hears so over the stream that was open all the time.
const told = once(events, "data", { signal: AbortSignal.timeout(10_000) });
await call("RequestRevoke", { owner_id: owner });
const [event] = await told;
expect("event", event.type, "EVENT_TYPE_REVOKE");
expect("  for", event.owner_id, owner);

await call("Release", { owner_id: owner, requests: [{ path }] });
expect("who holds it now", (await call("InspectPath", { path })).write_owner, "");

events.on("error", (ended) => {
  if (ended.code !== grpc.status.CANCELLED) throw ended;
});
events.cancel();
listener.close();
client.close();
