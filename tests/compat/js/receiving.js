// Receiving: by call, as a stream, as an iterator, and peeking.

import assert from "node:assert/strict";
import {
  WAIT_MS_MAX,
  assertEmpty,
  assertNothingComes,
  bodies,
  numbered,
  receive,
  receiveAll,
  sortedBodies,
} from "./scenario.js";

/** Stream until so many messages were handled. */
async function stream(receiver, count, options, handle = async () => {}) {
  const messages = [];
  let subscription;
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${messages.length} came`)), WAIT_MS_MAX);
    subscription = receiver.subscribe(
      {
        processMessage: async (message) => {
          await handle(message);
          messages.push(message);
          if (messages.length === count) {
            clearTimeout(timer);
            resolve();
          }
        },
        processError: async ({ error }) => reject(error),
      },
      options,
    );
  });
  await subscription.close();
  await receiver.close();
  return messages;
}

export async function a_stream_completes_what_it_has_processed(bus) {
  const sender = bus.sender();
  await sender.sendMessages(numbered(30));
  const messages = await stream(bus.receiver(), 30, { autoCompleteMessages: true });
  assert.deepEqual(bodies(messages), bodies(numbered(30)));
  await assertEmpty(bus);
}

export async function a_stream_of_many_calls_at_once_gets_every_message_once(bus) {
  const sender = bus.sender();
  for (let round = 0; round < 10; round++) await sender.sendMessages(numbered(30));
  const receiver = bus.receiver();
  const options = { autoCompleteMessages: false, maxConcurrentCalls: 20 };
  const messages = await stream(receiver, 300, options, (each) => receiver.completeMessage(each));
  const numbers = new Set(messages.map((message) => message.sequenceNumber.toString()));
  assert.equal(numbers.size, 300);
  await assertEmpty(bus);
}

export async function a_stream_gets_what_is_sent_while_it_waits(bus) {
  const sender = bus.sender();
  const receiver = bus.receiver({ receiveMode: "receiveAndDelete" });
  const streaming = stream(receiver, 5, {});
  for (const message of numbered(5)) await sender.sendMessages(message);
  assert.deepEqual(sortedBodies(await streaming), sortedBodies(numbered(5)));
  await assertEmpty(bus);
}

export async function asking_for_more_than_there_is_drains_and_goes_on(bus) {
  const sender = bus.sender();
  await sender.sendMessages(numbered(3));
  const receiver = bus.receiver();
  const begin = Date.now();
  const first = await receiver.receiveMessages(10, { maxWaitTimeInMs: 20_000 });
  assert.ok(Date.now() - begin < 10_000, "what is there comes without the whole wait");
  assert.deepEqual(bodies(first), bodies(numbered(3)));
  for (const message of first) await receiver.completeMessage(message);
  await assertDrainIsAnswered(receiver);
  await sender.sendMessages({ body: "later" });
  const [later] = await receiveAll(receiver, 1);
  assert.equal(later.body, "later");
  assert.equal(later.deliveryCount, 0);
  await assertEmpty(bus);
}

/**
 * The client gives up a link whose drain is not answered within 200 ms. On a busy machine that may
 * happen to a good broker, so one answer in time is enough.
 */
async function assertDrainIsAnswered(receiver) {
  for (let tries = 0; tries < 5; tries++) {
    await assertNothingComes(receiver, 300);
    const link = receiver._batchingReceiver.link;
    await assertNothingComes(receiver, 300);
    if (link !== undefined && receiver._batchingReceiver.link === link) return;
  }
  assert.fail("no drain was answered");
}

export async function an_empty_queue_answers_nothing_after_the_wait(bus) {
  const receiver = bus.receiver();
  const begin = Date.now();
  assert.deepEqual(await receiver.receiveMessages(5, { maxWaitTimeInMs: 1_500 }), []);
  const elapsed = Date.now() - begin;
  assert.ok(elapsed >= 1_400 && elapsed < 10_000, `${elapsed} ms`);
}

export async function an_iterator_yields_message_after_message(bus) {
  const sender = bus.sender();
  await sender.sendMessages(numbered(5));
  const receiver = bus.receiver();
  const received = [];
  for await (const message of receiver.getMessageIterator()) {
    received.push(message.body);
    await receiver.completeMessage(message);
    if (received.length === 5) break;
  }
  assert.deepEqual(received, bodies(numbered(5)));
  await assertEmpty(bus);
}

export async function a_message_received_and_deleted_is_gone(bus) {
  await bus.send(...numbered(3));
  const receiver = bus.receiver({ receiveMode: "receiveAndDelete" });
  assert.deepEqual(sortedBodies(await receive(receiver, 3)), bodies(numbered(3)));
  await assertEmpty(bus);
}

export async function peeking_on_shows_every_message_once(bus) {
  await bus.send(...numbered(20));
  const receiver = bus.receiver();
  const seen = [];
  for (;;) {
    const messages = await receiver.peekMessages(7);
    if (messages.length === 0) break;
    seen.push(...messages);
  }
  assert.deepEqual(sortedBodies(seen), sortedBodies(numbered(20)));
  const last = seen.at(-1);
  const [again] = await receiver.peekMessages(5, { fromSequenceNumber: last.sequenceNumber });
  assert.equal(again.body, last.body);
  assert.equal(again.lockToken, undefined);
  await receiveAll(receiver, 20);
}

export async function peeking_can_leave_bodies_out(bus) {
  await bus.send({ body: "x".repeat(1000), messageId: "wide" });
  const receiver = bus.receiver();
  const [bare] = await receiver.peekMessages(1, { omitMessageBody: true });
  assert.equal(bare.messageId, "wide");
  assert.notEqual(bare.body, "x".repeat(1000));
}
