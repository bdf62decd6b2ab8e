// What is refused, and with which of the client's codes.

import assert from "node:assert/strict";
import { assertFails } from "./scenario.js";

const ONCE = { retryOptions: { maxRetries: 0 } };

/** Assert that neither sending nor receiving nor peeking works, for this reason. */
async function assertNoEntry(client, queue, code) {
  await assertFails(client.createSender(queue).sendMessages({ body: "" }), code);
  const receiver = client.createReceiver(queue);
  await assertFails(receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 }), code);
  await assertFails(client.createReceiver(queue).peekMessages(1), code);
}

export async function a_wrong_key_is_unauthorized(bus) {
  const wrong = bus.connectionString.replace("SAS_KEY_VALUE", "wrong");
  await assertNoEntry(bus.connect(wrong, ONCE), bus.queue, "UnauthorizedAccess");
}

export async function an_unknown_queue_is_not_found(bus) {
  const client = bus.connect(bus.connectionString, ONCE);
  await assertNoEntry(client, "no-such-queue", "MessagingEntityNotFound");
}

export async function a_stream_from_an_unknown_queue_reports_the_reason(bus) {
  const receiver = bus.connect(bus.connectionString, ONCE).createReceiver("no-such-queue");
  const error = await new Promise((resolve) => {
    receiver.subscribe({
      processMessage: async () => {},
      processError: async (args) => resolve(args.error),
    });
  });
  assert.equal(error.code, "MessagingEntityNotFound", error.message);
  await receiver.close();
}

export async function a_disabled_queue_says_so(bus) {
  const client = bus.connect(bus.connectionString, ONCE);
  const code = "MessagingEntityDisabled";
  await assertFails(client.createSender(bus.queue).sendMessages({ body: "" }), code);
  const receiver = client.createReceiver(bus.queue);
  await assertFails(receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 }), code);
}

export async function sending_to_dead_letters_is_refused(bus) {
  const client = bus.connect(bus.connectionString, ONCE);
  const sender = client.createSender(`${bus.queue}/$DeadLetterQueue`);
  await assert.rejects(sender.sendMessages({ body: "" }), /dead-letter/);
}

export async function a_session_of_a_queue_without_sessions_is_refused(bus) {
  const client = bus.connect(bus.connectionString, ONCE);
  await assert.rejects(client.acceptNextSession(bus.queue), /does not require sessions/);
}

export async function a_session_id_with_another_partition_key_is_refused(bus) {
  const sender = bus.connect(bus.connectionString, ONCE).createSender(bus.queue);
  const properties = { groupId: "session" };
  const messageAnnotations = { "x-opt-partition-key": "another" };
  const message = { bodyType: "data", body: "", properties, messageAnnotations };
  await assert.rejects(sender.sendMessages(message), /SessionId/);
}
