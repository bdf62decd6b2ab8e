// Messages that come later or were there before: schedules, cancelling, duplicates.

import assert from "node:assert/strict";
import {
  assertEmpty,
  assertFails,
  assertNothingComes,
  bodies,
  numbered,
  receiveAll,
  sortedBodies,
} from "./scenario.js";

const DELAY_MS = 6_000;
const DAY_MS = 24 * 60 * 60 * 1_000;

function soon(ms = DELAY_MS) {
  return new Date(Date.now() + ms);
}

export async function scheduled_messages_come_when_their_time_has_come(bus) {
  const at = soon();
  const [sender, receiver] = [bus.sender(), bus.receiver()];
  const numbers = await sender.scheduleMessages(numbered(3), at);
  assert.equal(new Set(numbers.map(String)).size, 3);
  const [shown] = await receiver.peekMessages(1);
  assert.equal(shown.state, "scheduled");
  await assertNothingComes(receiver);
  const came = await receiveAll(receiver, 3);
  assert.ok(Date.now() >= at.getTime());
  assert.deepEqual(sortedBodies(came), bodies(numbered(3)));
  for (const message of came) {
    assert.equal(message.state, "active");
    assert.deepEqual(message.enqueuedTimeUtc, at);
    assert.deepEqual(message.scheduledEnqueueTimeUtc, at);
  }
  await assertEmpty(bus);
}

export async function an_ordinary_send_schedules_too(bus) {
  const scheduledEnqueueTimeUtc = soon();
  await bus.send({ body: "at once" }, { body: "later", scheduledEnqueueTimeUtc });
  const receiver = bus.receiver();
  assert.deepEqual(bodies(await receiveAll(receiver, 1)), ["at once"]);
  assert.deepEqual(bodies(await receiveAll(receiver, 1)), ["later"]);
}

export async function cancelled_messages_never_come(bus) {
  const [sender, receiver] = [bus.sender(), bus.receiver()];
  const numbers = await sender.scheduleMessages(numbered(4), soon(DAY_MS));
  await sender.cancelScheduledMessages(numbers.slice(1));
  const left = await receiver.peekMessages(10);
  assert.deepEqual(bodies(left), ["message 0"]);
  await assertFails(sender.cancelScheduledMessages(numbers), "MessageNotFound");
  await sender.cancelScheduledMessages(numbers[0]);
  await assertEmpty(bus);
}

export async function a_message_that_is_sent_twice_comes_once(bus) {
  const first = Array.from({ length: 10 }, (_, n) => ({ body: `${n}`, messageId: `id ${n}` }));
  const again = first.map(({ messageId }) => ({ body: "again", messageId }));
  const sender = bus.sender();
  await sender.sendMessages(first[0]);
  await sender.sendMessages(first);
  await sender.sendMessages(again[3]);
  await sender.sendMessages(again);
  const came = await receiveAll(bus.receiver(), 10);
  assert.deepEqual(sortedBodies(came), bodies(first));
  await sender.sendMessages(again);
  await assertEmpty(bus);
}
