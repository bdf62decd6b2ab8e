// Settling, and the locks that it needs.

import assert from "node:assert/strict";
import {
  assertEmpty,
  assertFails,
  assertNothingComes,
  bodies,
  numbered,
  receive,
  receiveAll,
} from "./scenario.js";

export async function an_abandoned_message_comes_back_with_changed_properties(bus) {
  await bus.send({ body: "bad", applicationProperties: { colour: "red", kept: "as it was" } });
  const receiver = bus.receiver();
  const [first] = await receive(receiver, 1);
  await receiver.abandonMessage(first, { colour: "blue", tries: 1, urgent: true });
  const [second] = await receive(receiver, 1);
  assert.equal(second.deliveryCount, 1);
  assert.ok(second.sequenceNumber.equals(first.sequenceNumber));
  const changed = { colour: "blue", kept: "as it was", tries: 1, urgent: true };
  assert.deepEqual(second.applicationProperties, changed);
  assert.equal(second.body, "bad");
  await receiver.abandonMessage(second, { tries: 2 });
  const [third] = await receive(receiver, 1);
  assert.deepEqual(third.applicationProperties, { ...changed, tries: 2 });
  await receiver.completeMessage(third);
  await assertEmpty(bus);
}

export async function a_message_without_properties_gets_some_when_abandoned(bus) {
  await bus.send({ body: "plain" });
  const receiver = bus.receiver();
  const [first] = await receive(receiver, 1);
  await receiver.abandonMessage(first, { note: "looked at" });
  const [second] = await receiveAll(receiver, 1);
  assert.deepEqual(second.applicationProperties, { note: "looked at" });
  assert.equal(second.body, "plain");
}

export async function a_dead_letter_carries_reason_description_and_properties(bus) {
  await bus.send({ body: "bad", applicationProperties: { colour: "red" } });
  const receiver = bus.receiver();
  const [message] = await receive(receiver, 1);
  await receiver.deadLetterMessage(message, {
    deadLetterReason: "unreadable",
    deadLetterErrorDescription: "no colour",
    colour: "blue",
    stage: 2,
  });
  await assertEmpty(bus);
  const [dead] = await receiveAll(bus.deadLetters(), 1);
  assert.equal(dead.body, "bad");
  assert.equal(dead.deadLetterReason, "unreadable");
  assert.equal(dead.deadLetterErrorDescription, "no colour");
  assert.equal(dead.deadLetterSource, bus.queue);
  assert.equal(dead.applicationProperties.colour, "blue");
  assert.equal(dead.applicationProperties.stage, 2);
  await assertEmpty(bus, { subQueueType: "deadLetter" });
}

export async function a_message_abandoned_too_often_is_dead_lettered(bus) {
  await bus.send(...numbered(1));
  const receiver = bus.receiver();
  for (let delivery = 0; delivery < 2; delivery++) {
    const [message] = await receive(receiver, 1);
    assert.equal(message.deliveryCount, delivery);
    await receiver.abandonMessage(message);
  }
  const [dead] = await receiveAll(bus.deadLetters(), 1);
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
  await assertEmpty(bus);
}

export async function a_message_is_settled_after_its_receiver_is_closed(bus) {
  await bus.send(...numbered(3));
  const [first, other] = [bus.receiver(), bus.receiver()];
  const [completed, abandoned, dead] = await receive(first, 3);
  await first.close();
  await other.completeMessage(completed);
  await other.abandonMessage(abandoned, { by: "another" });
  await other.deadLetterMessage(dead, { deadLetterReason: "r", deadLetterErrorDescription: "d" });
  const [again] = await receiveAll(other, 1);
  assert.equal(again.body, abandoned.body);
  assert.deepEqual(again.applicationProperties, { by: "another" });
  const [letter] = await receiveAll(bus.deadLetters(), 1);
  assert.deepEqual([letter.body, letter.deadLetterReason], [dead.body, "r"]);
  await assertEmpty(bus);
}

export async function a_lock_renewed_by_hand_lasts_longer(bus) {
  await bus.send(...numbered(1));
  const receiver = bus.receiver({ maxAutoLockRenewalDurationInMs: 0 });
  const other = bus.receiver();
  const [message] = await receive(receiver, 1);
  const firstEnd = message.lockedUntilUtc;
  await assertNothingComes(other, 2_500);
  const renewed = await receiver.renewMessageLock(message);
  assert.ok(renewed > firstEnd);
  assert.deepEqual(message.lockedUntilUtc, renewed);
  await assertNothingComes(other, firstEnd - Date.now() + 500);
  await receiver.completeMessage(message);
  await assertEmpty(bus);
}

export async function the_client_renews_a_lock_while_work_goes_on(bus) {
  await bus.send(...numbered(1));
  const receiver = bus.receiver();
  const [message] = await receive(receiver, 1);
  await assertNothingComes(bus.receiver(), 8_000);
  await receiver.completeMessage(message);
  await assertEmpty(bus);
}

export async function a_message_whose_lock_ended_is_lost_and_comes_again(bus) {
  await bus.send(...numbered(1));
  const slow = bus.receiver({ maxAutoLockRenewalDurationInMs: 0 });
  const other = bus.receiver();
  const [lost] = await receive(slow, 1);
  const [again] = await receive(other, 1);
  assert.equal(again.deliveryCount, 1);
  await assertFails(slow.completeMessage(lost), "MessageLockLost");
  await assertFails(slow.renewMessageLock(lost), "MessageLockLost");
  await other.completeMessage(again);
  await assertEmpty(bus);
}

export async function an_expired_message_is_dead_lettered(bus) {
  await bus.send({ body: "short", timeToLive: 1_000 }, { body: "long" });
  const [dead] = await receiveAll(bus.deadLetters(), 1);
  assert.equal(dead.body, "short");
  assert.equal(dead.deadLetterReason, "TTLExpiredException");
  assert.deepEqual(bodies(await receiveAll(bus.receiver(), 1)), ["long"]);
}

export async function a_deferred_message_is_had_back_by_its_number_alone(bus) {
  await bus.send(...numbered(3));
  const receiver = bus.receiver();
  const messages = await receive(receiver, 3);
  for (const message of messages) await receiver.deferMessage(message, { stage: 1 });
  const numbers = messages.map((message) => message.sequenceNumber);
  const found = await bus.receiver().receiveDeferredMessages(numbers);
  assert.deepEqual(bodies(found), bodies(messages));
  assert.ok(found.every((message) => message.state === "deferred"));
  assert.deepEqual(found[0].applicationProperties, { stage: 1 });
  await receiver.completeMessage(found[0]);
  await receiver.deadLetterMessage(found[1], { deadLetterReason: "late" });
  await receiver.abandonMessage(found[2]);
  const [again] = await receiver.receiveDeferredMessages(numbers[2]);
  assert.equal(again.deliveryCount, 1);
  await receiver.completeMessage(again);
  await assertEmpty(bus);
  await assertFails(receiver.receiveDeferredMessages(numbers[0]), "MessageNotFound");
}
