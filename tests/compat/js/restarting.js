// The broker goes away and comes back while a client stays; a store does.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import {
  Bus,
  WAIT_MS_MAX,
  assertEmpty,
  assertFails,
  bodies,
  numbered,
  receive,
  receiveAll,
  sortedBodies,
} from "./scenario.js";

const PYTHON = process.env.BENDYBUS_COMPAT_PYTHON;
// By default the client tries again after 30 seconds.
const IMPATIENT = { retryOptions: { retryDelayInMs: 200, maxRetries: 50 } };
const run = promisify(execFile);

/** A broker that one scenario has to itself, on a folder and on ports that stay the same. */
class OwnBroker {
  amqpPort = 0;
  httpPort = 0;

  static async withQueue(name, isPartitioned) {
    const broker = new OwnBroker();
    broker.folder = await mkdtemp(join(tmpdir(), "bendybus-"));
    const queue = { Name: name, Properties: { EnablePartitioning: isPartitioned } };
    const namespaces = [{ Name: "sbemulatorns", Queues: [queue] }];
    const config = { UserConfig: { Namespaces: namespaces } };
    await writeFile(broker.path("namespace.json"), JSON.stringify(config));
    await broker.start();
    return broker;
  }

  path(name) {
    return join(this.folder, name);
  }

  get connectionString() {
    const rule = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE";
    return `Endpoint=sb://localhost:${this.amqpPort};${rule};UseDevelopmentEmulator=true;`;
  }

  async start() {
    const ready = this.path("ready.json");
    await rm(ready, { force: true });
    const files = ["--config", this.path("namespace.json"), "--data", this.path("data")];
    const ports = ["--amqp-port", `${this.amqpPort}`, "--http-port", `${this.httpPort}`];
    const options = [...files, ...ports, "--flight-port", "none", "--ready-file", ready];
    this.process = spawn(PYTHON, ["-m", "bendybus", "serve", ...options], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const deadline = Date.now() + WAIT_MS_MAX;
    while (!existsSync(ready)) {
      assert.ok(Date.now() < deadline && this.process.exitCode === null, "the broker starts");
      await pause(20);
    }
    const taken = JSON.parse(await readFile(ready, "utf-8"));
    [this.amqpPort, this.httpPort] = [taken.amqp_port, taken.http_port];
  }

  async end(signal) {
    const ended = once(this.process, "exit");
    this.process.kill(signal);
    await ended;
  }

  async drill(verb, store) {
    const url = `http://localhost:${this.httpPort}`;
    const options = ["store", verb, `${store}`, "--management-url", url];
    await run(PYTHON, ["-m", "bendybus", ...options]);
  }

  async remove() {
    await this.end("SIGKILL");
    await rm(this.folder, { recursive: true });
  }
}

async function withOwnBroker(bus, scenario) {
  const broker = await OwnBroker.withQueue(bus.queue, bus.isPartitioned);
  const own = new Bus(broker.connectionString, bus.queue, IMPATIENT);
  try {
    await scenario(own, broker);
  } finally {
    await own.close();
    await broker.remove();
  }
}

async function assertClientGoesOn(bus, signal) {
  await withOwnBroker(bus, async (own, broker) => {
    const [sender, receiver] = [own.sender(), own.receiver()];
    await sender.sendMessages(numbered(2));
    const [done, held] = await receive(receiver, 2);
    await receiver.completeMessage(done);
    await broker.end(signal);
    await broker.start();
    await sender.sendMessages({ body: "after" });
    assert.deepEqual(bodies(await receiveAll(receiver, 1)), ["after"]);
    // To its old link the client would talk on in vain; without one it asks by lock token.
    await receiver.close();
    await own.receiver().completeMessage(held);
    await assertEmpty(own);
  });
}

export async function a_client_finds_a_broker_again_that_was_stopped(bus) {
  await assertClientGoesOn(bus, "SIGTERM");
}

export async function a_client_finds_a_broker_again_that_was_killed(bus) {
  await assertClientGoesOn(bus, "SIGKILL");
}

export async function a_stream_goes_on_when_the_broker_is_back(bus) {
  await withOwnBroker(bus, async (own, broker) => {
    const received = [];
    own.receiver().subscribe({
      processMessage: async (message) => void received.push(message),
      processError: async () => {},
    });
    const sender = own.sender();
    const deadline = Date.now() + WAIT_MS_MAX;
    const sendAndAwait = async (body) => {
      await sender.sendMessages({ body });
      while (!bodies(received).includes(body)) {
        assert.ok(Date.now() < deadline, `${body} comes`);
        await pause(20);
      }
    };
    await sendAndAwait("before");
    await broker.end("SIGKILL");
    await broker.start();
    await sendAndAwait("after");
  });
}

export async function a_store_that_is_away_makes_the_service_busy(bus) {
  await withOwnBroker(bus, async (own, broker) => {
    const once = own.connect(own.connectionString, { retryOptions: { maxRetries: 0 } });
    const sender = once.createSender(own.queue);
    await sender.sendMessages({ body: "first", partitionKey: "key" });
    const [first] = await receiveAll(own.receiver(), 1);
    // With one queue the number of the fragment is that of its store.
    const store = Number(first.sequenceNumber.shiftRightUnsigned(48));
    await broker.drill("offline", store);
    const keyed = { body: "keyed", partitionKey: "key" };
    await assertFails(sender.sendMessages(keyed), "ServiceBusy");
    const free = bus.isPartitioned ? [{ body: "free" }] : [];
    for (const message of free) await sender.sendMessages(message);
    await broker.drill("online", store);
    await sender.sendMessages(keyed);
    const rest = await receiveAll(own.receiver(), 1 + free.length);
    assert.deepEqual(sortedBodies(rest), sortedBodies([...free, keyed]));
  });
}
