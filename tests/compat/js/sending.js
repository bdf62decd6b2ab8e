// Sending, and what comes back of a message.

import assert from "node:assert/strict";
import {
  assertEmpty,
  assertFails,
  bodies,
  numbered,
  receiveAll,
  sortedBodies,
} from "./scenario.js";

export async function one_message_a_list_and_a_batch_arrive(bus) {
  const sender = bus.sender();
  await sender.sendMessages({ body: "alone" });
  await sender.sendMessages(numbered(10));
  const batch = await sender.createMessageBatch();
  assert.equal(batch.maxSizeInBytes, 256 * 1024);
  for (const message of numbered(50)) assert.ok(batch.tryAddMessage(message));
  await sender.sendMessages(batch);
  const messages = await receiveAll(bus.receiver(), 61);
  const expected = [{ body: "alone" }, ...numbered(10), ...numbered(50)];
  assert.deepEqual(sortedBodies(messages), sortedBodies(expected));
  await assertEmpty(bus);
}

export async function a_batch_filled_to_its_limit_is_taken(bus) {
  const sender = bus.sender();
  const batch = await sender.createMessageBatch();
  const body = "x".repeat(10_000);
  while (batch.tryAddMessage({ body }));
  assert.ok(batch.count > 20);
  await sender.sendMessages(batch);
  const messages = await receiveAll(bus.receiver(), batch.count);
  assert.ok(messages.every((message) => message.body === body));
}

export async function a_message_of_250_kilobytes_arrives_unchanged(bus) {
  const body = Buffer.alloc(250_000, "0123456789abcdef!");
  await bus.send({ body });
  const [message] = await receiveAll(bus.receiver(), 1);
  assert.ok(body.equals(message.body));
}

export async function a_message_beyond_the_limit_is_refused_and_the_next_is_taken(bus) {
  const sender = bus.sender();
  const body = Buffer.alloc(300_000);
  await assertFails(sender.sendMessages({ body }), "MessageSizeExceeded");
  await sender.sendMessages({ body: "small" });
  assert.deepEqual(bodies(await receiveAll(bus.receiver(), 1)), ["small"]);
  await assertEmpty(bus);
}

export async function every_property_of_a_message_comes_back(bus) {
  const sent = {
    body: { nested: [1, "two", null, { three: 3.5 }] },
    contentType: "application/json",
    correlationId: "correlation",
    messageId: "id",
    partitionKey: "session",
    replyTo: "reply-to",
    replyToSessionId: "reply-session",
    sessionId: "session",
    subject: "subject",
    timeToLive: 300_000,
    to: "to",
    applicationProperties: {
      text: "Grüße, 世界",
      int: -7,
      large: 2 ** 40,
      fraction: 0.1,
      yes: true,
      no: false,
      nothing: null,
      time: new Date("2024-02-29T12:30:15.250Z"),
    },
  };
  await bus.send(sent);
  const receiver = bus.receiver();
  const [peeked] = await receiver.peekMessages(1);
  const [received] = await receiveAll(receiver, 1);
  for (const message of [peeked, received]) {
    const { time, ...properties } = message.applicationProperties;
    const { time: sentTime, ...sentProperties } = sent.applicationProperties;
    assert.deepEqual(properties, sentProperties);
    assert.equal(new Date(time).getTime(), sentTime.getTime());
    for (const [name, value] of Object.entries(sent)) {
      if (name !== "applicationProperties") assert.deepEqual(message[name], value, name);
    }
    assert.equal(message.expiresAtUtc.getTime(), message.enqueuedTimeUtc.getTime() + 300_000);
    assert.equal(message.state, "active");
    assert.equal(message.deliveryCount, 0);
  }
}

export async function every_kind_of_body_comes_back(bus) {
  const sent = [
    { bodyType: "data", body: Buffer.from([0, 255, 1]) },
    { bodyType: "value", body: "text" },
    { bodyType: "value", body: 42 },
    { bodyType: "value", body: { map: "entry" } },
    { bodyType: "sequence", body: [[1, "two", true]] },
  ];
  await bus.send(...sent);
  const received = await receiveAll(bus.receiver(), sent.length);
  const shown = (bodyType, body) => JSON.stringify([bodyType, body]);
  assert.deepEqual(
    received.map((message) => shown(message._rawAmqpMessage.bodyType, message.body)).sort(),
    sent.map(({ bodyType, body }) => shown(bodyType, body)).sort(),
  );
}

export async function every_type_of_message_id_comes_back(bus) {
  // The client reads sixteen bytes, whatever it finds, where an id is binary.
  const ids = ["text", 123_456, Buffer.from("sixteen bytes id")];
  await bus.send(...ids.map((messageId) => ({ body: "", messageId, correlationId: messageId })));
  const received = await receiveAll(bus.receiver(), ids.length);
  const pairs = received.map(({ messageId, correlationId }) => [messageId, correlationId]);
  const shown = (pair) => JSON.stringify(pair);
  assert.deepEqual(pairs.map(shown).sort(), ids.map((id) => shown([id, id])).sort());
}

export async function a_message_without_an_id_is_given_one(bus) {
  await bus.send({ body: "anonymous" });
  const [message] = await receiveAll(bus.receiver(), 1);
  assert.match(message.messageId, /^[0-9a-f]{32}$/);
}
