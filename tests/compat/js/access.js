// Keys of a single queue: what the client may do with them, and how it is told what it may not.

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
