// Sessions: accepted by name or as they come, in order, with a state, and lost when time is up.

import assert from "node:assert/strict";
import { assertFails, assertNothingComes, bodies, numbered, receive, receiveAll } from "./scenario.js";

const ONCE = { retryOptions: { maxRetries: 0 } };

/** Numbered messages of one session. */
function messagesOf(sessionId, count) {
  return numbered(count).map((message) => ({ ...message, sessionId }));
}

export async function a_named_session_yields_its_messages_in_order_and_no_others(bus) {
  const [mine, others] = [messagesOf("mine", 10), messagesOf("other", 10)];
  for (let at = 0; at < 10; at++) await bus.send(mine[at], others[at]);
  const receiver = await bus.client.acceptSession(bus.queue, "mine");
  assert.equal(receiver.sessionId, "mine");
  const messages = await receiveAll(receiver, 10);
  assert.deepEqual(bodies(messages), bodies(numbered(10)));
  assert.ok(messages.every((message) => message.sessionId === "mine"));
  await assertNothingComes(receiver);
  await receiver.close();
}

export async function the_next_session_is_each_session_once(bus) {
  for (const sessionId of ["a", "b", "c"]) await bus.send(...messagesOf(sessionId, 2));
  const held = [];
  for (let turn = 0; turn < 3; turn++) {
    const receiver = await bus.client.acceptNextSession(bus.queue);
    held.push(receiver.sessionId);
    assert.deepEqual(bodies(await receiveAll(receiver, 2)), bodies(numbered(2)));
  }
  assert.deepEqual(held.sort(), ["a", "b", "c"]);
}

export async function who_waits_for_any_session_gets_the_first_that_comes(bus) {
  const accepting = bus.client.acceptNextSession(bus.queue);
  await bus.send(...messagesOf("late", 1));
  const receiver = await accepting;
  assert.equal(receiver.sessionId, "late");
  await receiveAll(receiver, 1);
}

export async function waiting_for_any_session_ends_when_the_time_is_up(bus) {
  const options = { retryOptions: { maxRetries: 0, timeoutInMs: 2_000 } };
  const client = bus.connect(bus.connectionString, options);
  await assertFails(client.acceptNextSession(bus.queue), "ServiceTimeout");
}

export async function a_session_that_somebody_holds_is_refused_until_it_is_given_back(bus) {
  await bus.send(...messagesOf("s", 2));
  const first = await bus.client.acceptSession(bus.queue, "s");
  assert.equal((await receive(first, 1))[0].body, "message 0");
  const other = bus.connect(bus.connectionString, ONCE);
  await assertFails(other.acceptSession(bus.queue, "s"), "SessionCannotBeLocked");
  await first.close();
  const second = await other.acceptSession(bus.queue, "s");
  const messages = await receiveAll(second, 2);
  assert.deepEqual(bodies(messages), bodies(numbered(2)));
  assert.deepEqual(messages.map((message) => message.deliveryCount), [0, 0]);
}

export async function the_state_of_a_session_outlives_its_messages(bus) {
  await bus.send(...messagesOf("s", 1));
  const first = await bus.client.acceptSession(bus.queue, "s");
  assert.ok(!(await first.getSessionState()));
  await first.setSessionState(Buffer.from("half done"));
  await receiveAll(first, 1);
  await first.close();
  const second = await bus.client.acceptSession(bus.queue, "s");
  assert.equal((await second.getSessionState()).toString(), "half done");
  await second.setSessionState(null);
  assert.ok(!(await second.getSessionState()));
}

export async function within_a_session_messages_are_settled_in_every_way(bus) {
  await bus.send(...messagesOf("s", 4));
  const receiver = await bus.client.acceptSession(bus.queue, "s");
  const [first, second, third] = await receive(receiver, 3);
  await receiver.completeMessage(first);
  await receiver.deadLetterMessage(second, { deadLetterReason: "bad" });
  await receiver.deferMessage(third);
  const [fourth] = await receive(receiver, 1);
  await receiver.abandonMessage(fourth);
  const [again] = await receive(receiver, 1);
  assert.deepEqual([again.body, again.deliveryCount], ["message 3", 1]);
  await receiver.completeMessage(again);
  const [deferred] = await receiver.receiveDeferredMessages(third.sequenceNumber);
  assert.equal(deferred.body, "message 2");
  await receiver.completeMessage(deferred);
  assert.deepEqual(await receiver.peekMessages(5), []);
  const [dead] = await receiveAll(bus.deadLetters(), 1);
  assert.deepEqual([dead.body, dead.sessionId], ["message 1", "s"]);
}

export async function peeking_shows_the_session_alone(bus) {
  await bus.send(...messagesOf("s", 3), ...messagesOf("t", 2));
  const receiver = await bus.client.acceptSession(bus.queue, "t");
  assert.deepEqual(bodies(await receiver.peekMessages(10)), bodies(numbered(2)));
}

export async function a_renewed_session_outlasts_its_first_end(bus) {
  await bus.send(...messagesOf("s", 1));
  const receiver = await bus.client.acceptSession(bus.queue, "s", {
    maxAutoLockRenewalDurationInMs: 0,
  });
  const firstEnd = receiver.sessionLockedUntilUtc;
  const [message] = await receive(receiver, 1);
  await assertNothingComes(receiver, 2_500);
  const renewed = await receiver.renewSessionLock();
  assert.ok(renewed - firstEnd > 1_000, `${renewed} after ${firstEnd}`);
  await assertNothingComes(receiver, Math.max(firstEnd - Date.now(), 0) + 1_000);
  await receiver.completeMessage(message);
}

export async function a_session_whose_lock_ended_is_lost_and_its_messages_are_counted(bus) {
  await bus.send(...messagesOf("s", 1));
  const options = { maxAutoLockRenewalDurationInMs: 0 };
  const slow = await bus.client.acceptSession(bus.queue, "s", options);
  const [lost] = await receive(slow, 1);
  const other = await bus.client.acceptNextSession(bus.queue);
  assert.equal(other.sessionId, "s");
  const [again] = await receive(other, 1);
  assert.deepEqual([again.body, again.deliveryCount], ["message 0", 1]);
  await assertFails(slow.completeMessage(lost), "SessionLockLost");
  await assertFails(slow.renewSessionLock(), "SessionLockLost");
  await other.completeMessage(again);
}

export async function a_stream_from_a_session_completes_in_order(bus) {
  await bus.send(...messagesOf("s", 20));
  const receiver = await bus.client.acceptNextSession(bus.queue);
  const seen = [];
  await new Promise((resolve, reject) => {
    receiver.subscribe({
      processMessage: async (message) => {
        seen.push(message.body);
        if (seen.length === 20) resolve();
      },
      processError: async ({ error }) => reject(error),
    });
  });
  assert.deepEqual(seen, bodies(numbered(20)));
  await receiver.close();
}

export async function a_message_without_a_session_is_refused(bus) {
  const sender = bus.connect(bus.connectionString, ONCE).createSender(bus.queue);
  await assert.rejects(sender.sendMessages({ body: "whose?" }), /SessionId was not set/);
  await sender.sendMessages(messagesOf("s", 1));
  await receiveAll(await bus.client.acceptSession(bus.queue, "s"), 1);
}

export async function a_receiver_without_a_session_is_refused(bus) {
  const receiver = bus.connect(bus.connectionString, ONCE).createReceiver(bus.queue);
  const receiving = receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 });
  await assert.rejects(receiving, /non-sessionful message receiver/);
}
