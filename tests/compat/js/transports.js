// The client's other ways to the broker: TLS, and WebSockets, which are always with TLS here.
// That the authority of the broker is trusted was said to Node.js by NODE_EXTRA_CA_CERTS.

import assert from "node:assert/strict";
import WebSocket from "ws";
import { assertEmpty, numbered, receiveAll, sortedBodies } from "./scenario.js";

// Several frames of AMQP.
const LARGE = "large ".repeat(30_000);

async function goThereAndBack(bus, port, options) {
  const connectionString = bus.connectionString
    .replace(/localhost:\d+/, `localhost:${port}`)
    .replace("UseDevelopmentEmulator=true;", "");
  const client = bus.connect(connectionString, options);
  const sender = client.createSender(bus.queue);
  await sender.sendMessages(numbered(3));
  await sender.sendMessages({ body: LARGE });
  const receiver = client.createReceiver(bus.queue);
  const messages = await receiveAll(receiver, 4);
  const expected = [...numbered(3), { body: LARGE }];
  assert.deepEqual(sortedBodies(messages), sortedBodies(expected));
  await receiver.close();
  await assertEmpty(bus);
}

export async function messages_go_over_tls(bus) {
  await goThereAndBack(bus, bus.encrypted.amqpsPort, {});
}

export async function messages_go_over_a_websocket(bus) {
  await goThereAndBack(bus, bus.encrypted.httpsPort, { webSocketOptions: { webSocket: WebSocket } });
}
