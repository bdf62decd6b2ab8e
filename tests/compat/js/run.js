// Runs scenarios with the official JavaScript client, several side by side, and reports each as a
// line of JSON: {"queue": ..., "error": null or text}.

import { readFile } from "node:fs/promises";
import { inspect } from "node:util";
import { Bus } from "./scenario.js";
import * as access from "./access.js";
import * as administration from "./administration.js";
import * as forwarding from "./forwarding.js";
import * as receiving from "./receiving.js";
import * as refusals from "./refusals.js";
import * as restarting from "./restarting.js";
import * as scheduling from "./scheduling.js";
import * as sending from "./sending.js";
import * as sessions from "./sessions.js";
import * as settling from "./settling.js";
import * as topics from "./topics.js";
import * as transports from "./transports.js";

const SIDE_BY_SIDE = 5;
// Brokers cost more than clients: of scenarios that start their own, few run at a time.
const OWN_BROKERS_MAX = 2;
const SCENARIOS = {
  ...access,
  ...administration,
  ...forwarding,
  ...receiving,
  ...refusals,
  ...restarting,
  ...scheduling,
  ...sending,
  ...sessions,
  ...settling,
  ...topics,
  ...transports,
};

async function assertListIsComplete() {
  const list = JSON.parse(await readFile(new URL("scenarios.json", import.meta.url), "utf-8"));
  const unlisted = Object.keys(SCENARIOS).filter((name) => !(name in list));
  const missing = Object.keys(list).filter((name) => !(name in SCENARIOS));
  if (unlisted.length + missing.length > 0) {
    throw new Error(`scenarios.json differs from the code: ${[...unlisted, ...missing]}`);
  }
}

async function runCase({ scenario, queue, kind }, order) {
  const bus = new Bus(order.connectionString, queue);
  bus.managementUrl = order.managementUrl;
  bus.encrypted = order.encrypted;
  bus.isPartitioned = kind === "partitioned";
  let error = null;
  try {
    await SCENARIOS[scenario](bus);
    await bus.close();
  } catch (failure) {
    error = inspect(failure);
  }
  process.stdout.write(JSON.stringify({ queue, error }) + "\n");
}

async function assertVersion(expected) {
  const path = new URL("node_modules/@azure/service-bus/package.json", import.meta.url);
  const { version } = JSON.parse(await readFile(path, "utf-8"));
  if (version !== expected) throw new Error(`found version ${version}; run scripts/setup-tests`);
}

async function main() {
  const order = JSON.parse(process.env.BENDYBUS_COMPAT_ORDER);
  const { cases } = order;
  await assertVersion(order.version);
  await assertListIsComplete();
  const work = async (waiting) => {
    while (waiting.length > 0) await runCase(waiting.shift(), order);
  };
  const many = cases.filter(({ scenario }) => !(scenario in restarting));
  const few = cases.filter(({ scenario }) => scenario in restarting);
  const workers = [
    ...Array.from({ length: SIDE_BY_SIDE }, () => work(many)),
    ...Array.from({ length: OWN_BROKERS_MAX }, () => work(few)),
  ];
  await Promise.all(workers);
}

await main();
// A scenario that failed may have left a client open, which would keep the process alive.
process.exit(0);
