// Keys of a single queue: what the client may do with them, and how it is told what it may not.

import { createHmac } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";
import { assertFails, receive } from "./scenario.js";

const ROOT = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE";
const SENDER = "SharedAccessKeyName=sender;SharedAccessKey=the-key-of-the-sender";
const LISTENER = "SharedAccessKeyName=listener;SharedAccessKey=the-key-of-the-listener";
const ONCE = { retryOptions: { maxRetries: 0 } };

/** Connect as one does with the connection string of a single queue. */
function connect(bus, key) {
  const own = `${key};EntityPath=${bus.queue}`;
  return bus.connect(bus.connectionString.replace(ROOT, own), ONCE);
}

export async function keys_of_a_queue_send_and_receive_by_their_rights(bus) {
  await connect(bus, SENDER).createSender(bus.queue).sendMessages([{ body: "1" }, { body: "2" }]);
  await receive(connect(bus, LISTENER).createReceiver(bus.queue), 2);
}

export async function a_missing_right_is_unauthorized(bus) {
  const code = "UnauthorizedAccess";
  const sender = connect(bus, LISTENER).createSender(bus.queue);
  await assertFails(sender.sendMessages({ body: "" }), code);
  const receiver = connect(bus, SENDER).createReceiver(bus.queue);
  await assertFails(receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 }), code);
}

export async function credentials_are_taken_in_place_of_a_connection_string(bus) {
  const host = `localhost:${bus.encrypted.amqpsPort}`;
  const named = { name: "sender", key: "the-key-of-the-sender" };
  const sending = new ServiceBusClient(host, named);
  await sending.createSender(bus.queue).sendMessages({ body: "1" });
  await sending.close();
  const token = signed(`sb://localhost/${bus.queue}`, "listener", "the-key-of-the-listener");
  const receiving = new ServiceBusClient(host, { signature: token });
  await receive(receiving.createReceiver(bus.queue), 1);
  await receiving.close();
}

function signed(uri, name, key) {
  const resource = encodeURIComponent(uri);
  const expiry = Math.floor(Date.now() / 1000) + 300;
  const signature = createHmac("sha256", key).update(`${resource}\n${expiry}`).digest("base64");
  const sig = encodeURIComponent(signature);
  return `SharedAccessSignature sr=${resource}&sig=${sig}&se=${expiry}&skn=${name}`;
}
