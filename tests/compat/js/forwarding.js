// Messages that the broker itself takes to another queue, of the other kind.

import assert from "node:assert/strict";
import { assertFails, numbered, receive, receiveAll, sortedBodies } from "./scenario.js";

const endOf = (bus) => bus.client.createReceiver(`${bus.queue}.end`);

export async function what_is_sent_to_a_forwarding_queue_is_received_where_it_leads(bus) {
  await bus.send(...numbered(5));
  const messages = await receiveAll(endOf(bus), 5);
  assert.deepEqual(sortedBodies(messages), sortedBodies(numbered(5)));
  for (const message of messages) {
    assert.equal(message.deliveryCount, 0);
    assert.ok(message.enqueuedSequenceNumber > 0);
  }
}

export async function a_queue_that_forwards_has_no_receivers(bus) {
  const receiver = bus.receiver();
  await assertFails(() => receiver.receiveMessages(1, { maxWaitTimeInMs: 1000 }), "GeneralError");
}

export async function dead_letters_are_forwarded_with_all_that_was_said(bus) {
  await bus.send({ body: "bad", applicationProperties: { colour: "red" } });
  const receiver = bus.receiver();
  const [message] = await receive(receiver, 1);
  await receiver.deadLetterMessage(message, {
    deadLetterReason: "unreadable",
    deadLetterErrorDescription: "no colour",
  });
  const [dead] = await receiveAll(endOf(bus), 1);
  assert.equal(dead.body, "bad");
  assert.equal(dead.deadLetterReason, "unreadable");
  assert.equal(dead.deadLetterErrorDescription, "no colour");
  assert.equal(dead.deadLetterSource, bus.queue);
  assert.equal(dead.applicationProperties.colour, "red");
}

export async function what_goes_round_is_found_in_the_transfer_dead_letters(bus) {
  await bus.send(...numbered(2));
  const messages = await receiveAll(bus.receiver({ subQueueType: "transferDeadLetter" }), 2);
  assert.deepEqual(sortedBodies(messages), sortedBodies(numbered(2)));
  for (const { deadLetterReason } of messages) {
    assert.equal(deadLetterReason, "MaxTransferHopCountExceeded");
  }
}
