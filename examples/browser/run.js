// Opens page.html in headless Chromium, cuts its connection, lets things happen
// meanwhile, and sees that the page is told all of it, once, in order.
//
// PATHLOCKD_PID is for a daemon that somebody starts again when it ends: it is killed.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import https from "node:https";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const TIMEOUT = 20_000; // ms that the page may take to be told
const web = new URL(process.env.PATHLOCKD_WEB ?? "https://127.0.0.1:50443");
const agent = new https.Agent({ keepAlive: true, ca: await readFile(process.env.PATHLOCKD_CA ?? "pathlockd-data/dev-cert.pem") });
const run = randomUUID().slice(0, 8);
const owner = `page-${run}`;
const requests = [{ path: `example:/browser/${run}` }];

function call(rpc, fields) {
  return new Promise((resolve, reject) => {
    const request = https.request(new URL(`/v1/${rpc}`, web), { agent, method: "POST", timeout: TIMEOUT }, async (response) => {
      const answer = JSON.parse(Buffer.concat(await response.toArray()).toString());
      if (response.statusCode === 200) resolve(answer);
      else reject(new Error(`${rpc}: ${answer.error.code}: ${answer.error.message}`));
    });
    request.setHeader("Content-Type", "application/json");
    request.on("error", reject);
    request.end(JSON.stringify(fields));
  });
}

// A way to the server that can be cut.
const wire = net.createServer();
const ends = new Set();
let whole = true;
wire.on("connection", (near) => {
  if (!whole) return near.destroy();
  const far = net.connect(Number(web.port), web.hostname);
  for (const [end, other] of [[near, far], [far, near]]) {
    ends.add(end);
    end.on("error", () => {}).on("close", () => ends.delete(end) && other.destroy());
    end.pipe(other);
  }
});
function cut() {
  whole = false;
  for (const end of ends) end.destroy();
}
wire.listen(0, "127.0.0.1");
await once(wire, "listening");
const origin = `https://127.0.0.1:${wire.address().port}`;

function same(what, got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
  }
  console.log(`${what}: ${JSON.stringify(got)}`);
}

async function main(page) {
  // The page comes from the server's own origin, as far as the browser knows.
  await page.route(`${origin}/page.html?*`, (route) => route.fulfill({ path: fileURLToPath(new URL("page.html", import.meta.url)) }));
  await page.goto(`${origin}/page.html?owner=${owner}`);
  const state = (wanted) => page.waitForFunction((s) => state.textContent === s, wanted, { timeout: TIMEOUT });
  const told = async (count) => {
    await page.waitForFunction((n) => seen.length >= n, count, { timeout: TIMEOUT });
    return page.evaluate(() => seen);
  };
  const types = (events) => events.map((event) => event.type);

  await state("connected");
  await call("acquire", { ownerId: `other-${run}`, ttlMs: 60_000, requests });
  await call("acquire", { ownerId: owner, ttlMs: 60_000, requests });
  await call("release", { ownerId: `other-${run}`, requests });
  same("the page is told", types(await told(1)), ["grant"]);

  cut();
  await state("reconnecting");
  await call("requestRevoke", { ownerId: owner });
  await call("forceRelease", { victimId: owner });
  whole = true;
  const events = await told(3);
  same("of what happened while it was cut off, too", types(events), ["grant", "revoke", "killed"]);
  same("each once, without a hole", events.map((event) => event.id - events[0].id), [0, 1, 2]);

  if (!process.env.PATHLOCKD_PID) return;
  await call("acquire", { ownerId: owner, ttlMs: 60_000, requests });
  await state("connected");
  process.kill(Number(process.env.PATHLOCKD_PID), "SIGKILL");
  await state("reconnecting");
  await state("connected"); // when it serves again
  agent.destroy();
  await call("requestRevoke", { ownerId: owner }); // the lock is still there
  const after = (await told(5)).slice(3);
  same("of a restart, and of what comes after it", types(after), ["gap", "revoke"]);
  same("ids go on growing", after[1].id > events[2].id, true);
}

const profile = await mkdtemp(join(tmpdir(), "pathlockd-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  ignoreHTTPSErrors: true, // the certificate is for development
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--ignore-certificate-errors",
  ],
});
try {
  await main(browser.pages()[0]);
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  wire.close();
  cut();
  agent.destroy();
}
