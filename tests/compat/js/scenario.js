// What a scenario for the official JavaScript client is given to work with.

import assert from "node:assert/strict";
import { ServiceBusClient } from "@azure/service-bus";

export const WAIT_MS_MAX = 30_000;
// Long enough to see that nothing comes, where a message that is free would come at once.
const NOTHING_MS = 1_000;

/** The broker as a scenario sees it: a client of its own and one queue. */
export class Bus {
  #clients = [];

  constructor(connectionString, queue, options = {}) {
    this.connectionString = connectionString;
    this.queue = queue;
    this.client = this.connect(connectionString, options);
  }

  connect(connectionString = this.connectionString, options = {}) {
    const client = new ServiceBusClient(connectionString, options);
    this.#clients.push(client);
    return client;
  }

  sender() {
    return this.client.createSender(this.queue);
  }

  receiver(options = {}) {
    return this.client.createReceiver(this.queue, options);
  }

  deadLetters() {
    return this.receiver({ subQueueType: "deadLetter" });
  }

  async send(...messages) {
    const sender = this.sender();
    for (const message of messages) await sender.sendMessages(message);
    await sender.close();
  }

  async close() {
    for (const client of this.#clients) await client.close();
  }
}

/** Receive exactly so many messages, in as many calls as it takes, if they keep coming. */
export async function receive(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const wanted = count - messages.length;
    const arrived = await receiver.receiveMessages(wanted, { maxWaitTimeInMs: WAIT_MS_MAX });
    if (arrived.length === 0) break;
    messages.push(...arrived);
  }
  assert.equal(messages.length, count, "so many messages came");
  return messages;
}

/** Receive and complete exactly so many messages. */
export async function receiveAll(receiver, count) {
  const messages = await receive(receiver, count);
  for (const message of messages) await receiver.completeMessage(message);
  return messages;
}

export async function assertNothingComes(receiver, ms = NOTHING_MS) {
  assert.deepEqual(bodies(await receiver.receiveMessages(1, { maxWaitTimeInMs: ms })), []);
}

/** Assert that the queue holds nothing at all, locked or not. */
export async function assertEmpty(bus, options = {}) {
  const receiver = bus.receiver(options);
  assert.deepEqual(bodies(await receiver.peekMessages(1)), []);
  await receiver.close();
}

export function numbered(count) {
  return Array.from({ length: count }, (_, number) => ({ body: `message ${number}` }));
}

/** Bodies in an order that does not depend on fragments. */
export function sortedBodies(messages) {
  return bodies(messages).sort();
}

export function bodies(messages) {
  return messages.map((message) => message.body);
}

/**
 * Assert that the action fails with this code of the client. Where the client tried again, as when
 * a detach crosses its settlement, it throws the errors of all its tries: the last one decides.
 */
export async function assertFails(action, code) {
  await assert.rejects(action, (error) => {
    const last = error instanceof AggregateError ? error.errors.at(-1) : error;
    assert.equal(last.code, code, `${last.name}: ${last.message}`);
    return true;
  });
}
