// The administration client, over the management API: everything that it offers.

import assert from "node:assert/strict";
import { ServiceBusAdministrationClient } from "@azure/service-bus";
import { WAIT_MS_MAX, assertFails, receiveAll } from "./scenario.js";

const KEY = "SAS_KEY_VALUE";

/** Open the client, as it is: it goes to HTTPS. */
function administrator(bus, key = KEY) {
  const connectionString = bus.connectionString
    .replace(/localhost:\d+/, `localhost:${bus.encrypted.httpsPort}`)
    .replace("UseDevelopmentEmulator=true;", "")
    .replace(KEY, key);
  return new ServiceBusAdministrationClient(connectionString);
}

/** Open the client with a policy that sends it to plain HTTP. */
function plainAdministrator(bus) {
  const client = administrator(bus);
  const { host } = new URL(bus.managementUrl);
  client.pipeline.addPolicy({
    name: "plain",
    sendRequest(request, next) {
      const { pathname, search } = new URL(request.url);
      request.url = `http://${host}${pathname}${search}`;
      request.allowInsecureConnection = true;
      return next(request);
    },
  });
  return client;
}

async function all(pages) {
  const found = [];
  for await (const each of pages) found.push(each);
  return found;
}

const RULE = {
  claimType: "SharedAccessKey",
  accessRights: ["Listen", "Send"],
  keyName: "mine",
  primaryKey: "a-primary-key-of-its-own",
  secondaryKey: "a-secondary-key-of-its-own",
};

export async function a_queue_lives_from_its_creation_to_its_end(bus) {
  await liveFromCreationToEnd(bus, administrator(bus));
}

export async function a_queue_lives_on_plain_http_too(bus) {
  await liveFromCreationToEnd(bus, plainAdministrator(bus));
}

async function liveFromCreationToEnd(bus, client) {
  const name = `${bus.queue}/made`;
  const made = await client.createQueue(name, {
    authorizationRules: [RULE],
    autoDeleteOnIdle: "PT10M",
    deadLetteringOnMessageExpiration: true,
    defaultMessageTimeToLive: "PT11M",
    duplicateDetectionHistoryTimeWindow: "PT12M",
    enableBatchedOperations: false,
    enableExpress: true,
    enablePartitioning: bus.isPartitioned,
    forwardDeadLetteredMessagesTo: bus.queue,
    forwardTo: bus.queue,
    lockDuration: "PT13S",
    maxDeliveryCount: 14,
    maxSizeInMegabytes: 2048,
    userMetadata: "who made <this> & why",
  });
  assert.equal(made.name, name);
  const shown = await client.getQueue(name);
  assert.equal(shown.autoDeleteOnIdle, "PT10M");
  assert.equal(shown.deadLetteringOnMessageExpiration, true);
  assert.equal(shown.defaultMessageTimeToLive, "PT11M");
  assert.equal(shown.enableBatchedOperations, false);
  assert.equal(shown.enableExpress, true);
  assert.equal(shown.enablePartitioning, bus.isPartitioned);
  assert.ok(shown.forwardTo.endsWith(`/${bus.queue}`));
  assert.equal(shown.lockDuration, "PT13S");
  assert.equal(shown.maxDeliveryCount, 14);
  assert.equal(shown.maxSizeInMegabytes, 2048 * (bus.isPartitioned ? 16 : 1));
  assert.equal(shown.userMetadata, "who made <this> & why");
  assert.deepEqual(
    shown.authorizationRules.map((rule) => ({ ...rule, accessRights: rule.accessRights.sort() })),
    [RULE],
  );
  delete shown.forwardTo;
  delete shown.forwardDeadLetteredMessagesTo;
  const changed = await client.updateQueue({ ...shown, maxDeliveryCount: 3, status: "Disabled" });
  assert.equal(changed.forwardTo, undefined);
  assert.equal(changed.maxDeliveryCount, 3);
  assert.equal(changed.status, "Disabled");
  assert.equal(changed.maxSizeInMegabytes, shown.maxSizeInMegabytes);
  assert.equal(await client.queueExists(name), true);
  await assertFails(client.createQueue(name), "MessageEntityAlreadyExistsError");
  await client.deleteQueue(name);
  assert.equal(await client.queueExists(name), false);
  await assertFails(client.getQueue(name), "MessageEntityNotFoundError");
  await assertFails(client.deleteQueue(name), "MessageEntityNotFoundError");
}

export async function a_queue_tells_what_it_holds(bus) {
  await bus.send({ body: "one" }, { body: "two" });
  const later = new Date(Date.now() + 3_600_000);
  await bus.sender().scheduleMessages({ body: "later" }, later);
  const client = administrator(bus);
  const shown = await client.getQueueRuntimeProperties(bus.queue);
  assert.equal(shown.totalMessageCount, 3);
  assert.equal(shown.activeMessageCount, 2);
  assert.equal(shown.scheduledMessageCount, 1);
  assert.equal(shown.deadLetterMessageCount, 0);
  assert.ok(shown.sizeInBytes > 0);
  assert.ok(shown.createdAt instanceof Date);
}

/** Whether a list has these names, in their order; others make and delete entities meanwhile. */
async function awaitListed(list, names) {
  const deadline = Date.now() + WAIT_MS_MAX;
  for (;;) {
    const found = (await all(list())).map((each) => each.name);
    const wanted = found.filter((name) => names.includes(name));
    if (wanted.join() === names.join()) return;
    assert.ok(Date.now() < deadline, `${wanted} were listed`);
  }
}

export async function all_queues_and_topics_are_listed(bus) {
  const client = administrator(bus);
  const names = [0, 1, 2].map((number) => `${bus.queue}-listed${number}`);
  const topics = names.map((name) => `${name}-topic`);
  for (const name of names) await client.createQueue(name);
  for (const name of topics) await client.createTopic(name);
  await awaitListed(() => client.listQueues(), names);
  await awaitListed(() => client.listQueuesRuntimeProperties(), names);
  await awaitListed(() => client.listTopics(), topics);
  await awaitListed(() => client.listTopicsRuntimeProperties(), topics);
  for (const name of names) await client.deleteQueue(name);
  for (const name of topics) await client.deleteTopic(name);
}

export async function a_list_comes_in_pages(bus) {
  const client = administrator(bus);
  const topic = `${bus.queue}-paged`;
  await client.createTopic(topic);
  const names = ["a", "b", "c", "d", "e"];
  for (const name of names) await client.createSubscription(topic, name);
  for (const maxPageSize of [1, 2, 5, 100]) {
    const found = [];
    for await (const page of client.listSubscriptions(topic).byPage({ maxPageSize })) {
      assert.ok(page.length <= maxPageSize);
      found.push(...page.map((each) => each.subscriptionName));
    }
    assert.deepEqual(found, names);
  }
  await client.deleteTopic(topic);
}

export async function a_topic_and_its_subscriptions_live_from_creation_to_end(bus) {
  const client = administrator(bus);
  const topic = `${bus.queue}-topic`;
  await client.createTopic(topic, {
    authorizationRules: [RULE],
    defaultMessageTimeToLive: "PT11M",
    enablePartitioning: bus.isPartitioned,
    maxSizeInMegabytes: 2048,
    requiresDuplicateDetection: true,
    userMetadata: "a topic",
  });
  const shown = await client.getTopic(topic);
  assert.equal(shown.name, topic);
  assert.equal(shown.defaultMessageTimeToLive, "PT11M");
  assert.equal(shown.maxSizeInMegabytes, 2048 * (bus.isPartitioned ? 16 : 1));
  assert.equal(shown.supportOrdering, !bus.isPartitioned);
  assert.equal(shown.requiresDuplicateDetection, true);
  const changed = await client.updateTopic({ ...shown, defaultMessageTimeToLive: "PT21M" });
  assert.equal(changed.defaultMessageTimeToLive, "PT21M");
  assert.equal(await client.topicExists(topic), true);
  await client.createSubscription(topic, "s", {
    lockDuration: "PT13S",
    maxDeliveryCount: 14,
    forwardTo: bus.queue,
    defaultRuleOptions: { name: "mine", filter: { correlationId: "c" } },
  });
  const subscription = await client.getSubscription(topic, "s");
  assert.equal(subscription.topicName, topic);
  assert.equal(subscription.subscriptionName, "s");
  assert.equal(subscription.maxDeliveryCount, 14);
  assert.ok(subscription.forwardTo.endsWith(`/${bus.queue}`));
  delete subscription.forwardTo;
  const updated = await client.updateSubscription({ ...subscription, maxDeliveryCount: 3 });
  assert.equal(updated.forwardTo, undefined);
  assert.equal(updated.maxDeliveryCount, 3);
  await client.createSubscription(topic, "second");
  const sender = bus.client.createSender(topic);
  await sender.sendMessages({ body: "published", messageId: "1" });
  const counts = await client.getSubscriptionRuntimeProperties(topic, "second");
  assert.equal(counts.activeMessageCount, 1);
  assert.equal(counts.totalMessageCount, 1);
  const listed = await all(client.listSubscriptions(topic));
  assert.deepEqual(
    listed.map((each) => each.subscriptionName),
    ["s", "second"],
  );
  const runtime = await all(client.listSubscriptionsRuntimeProperties(topic));
  assert.deepEqual(
    runtime.map((each) => each.activeMessageCount),
    [0, 1],
  );
  await receiveAll(bus.client.createReceiver(topic, "second"), 1);
  assert.equal((await client.getTopicRuntimeProperties(topic)).subscriptionCount, 2);
  assert.deepEqual(
    (await all(client.listRules(topic, "s"))).map((rule) => rule.name),
    ["mine"],
  );
  assert.equal(await client.subscriptionExists(topic, "s"), true);
  await client.deleteSubscription(topic, "s");
  assert.equal(await client.subscriptionExists(topic, "s"), false);
  await client.deleteTopic(topic);
  assert.equal(await client.topicExists(topic), false);
}

export async function rules_are_made_shown_changed_and_deleted(bus) {
  const client = administrator(bus);
  const topic = `${bus.queue}-ruled`;
  await client.createTopic(topic, { enablePartitioning: bus.isPartitioned });
  await client.createSubscription(topic, "s");
  const filter = {
    correlationId: "c",
    subject: "l",
    applicationProperties: {
      text: "a <b> & c",
      number: 2.5,
      truth: false,
      moment: new Date("2020-07-05T11:12:13.456Z"),
    },
  };
  const action = {
    sqlExpression: "SET Priority = @low",
    sqlParameters: { "@low": 5 },
  };
  const made = await client.createRule(topic, "s", "correlation", filter, action);
  assert.equal(made.name, "correlation");
  const shown = await client.getRule(topic, "s", "correlation");
  const asked = Object.fromEntries(
    Object.entries(shown.filter).filter(([, value]) => value !== undefined),
  );
  assert.deepEqual(asked, filter);
  assert.deepEqual(shown.action, action);
  await client.createRule(topic, "s", "sql", {
    sqlExpression: "Priority = @low",
    sqlParameters: { "@low": "x" },
  });
  const sql = await client.getRule(topic, "s", "sql");
  assert.deepEqual(sql.filter, {
    sqlExpression: "Priority = @low",
    sqlParameters: { "@low": "x" },
  });
  assert.deepEqual(
    (await all(client.listRules(topic, "s"))).map((rule) => rule.name),
    ["$Default", "correlation", "sql"],
  );
  const updated = await client.updateRule(topic, "s", { ...sql, filter: { correlationId: "d" } });
  assert.equal(updated.filter.correlationId, "d");
  await assertFails(
    client.createRule(topic, "s", "sql", { sqlExpression: "a = 1" }),
    "MessageEntityAlreadyExistsError",
  );
  assert.equal(await client.ruleExists(topic, "s", "sql"), true);
  await client.deleteRule(topic, "s", "sql");
  assert.equal(await client.ruleExists(topic, "s", "sql"), false);
  await client.deleteTopic(topic);
}

export async function what_cannot_be_is_refused(bus) {
  const client = administrator(bus);
  const name = `${bus.queue}-refused`;
  await assertFails(client.createQueue(name, { lockDuration: "PT10M" }), "ServiceError");
  await assertFails(client.createQueue(name, { forwardTo: "nowhere" }), "ServiceError");
  const made = await client.createQueue(name);
  await assertFails(client.updateQueue({ ...made, requiresSession: true }), "ServiceError");
  const missing = { ...made, name: `${name}-missing` };
  await assertFails(client.updateQueue(missing), "MessageEntityNotFoundError");
  await client.deleteQueue(name);
  const wrong = administrator(bus, "another");
  await assertFails(wrong.getQueue(bus.queue), "UnauthorizedRequestError");
}

export async function the_namespace_tells_what_it_is(bus) {
  const shown = await administrator(bus).getNamespaceProperties();
  assert.equal(shown.name, "sbemulatorns");
  assert.equal(shown.messagingSku, "Standard");
  assert.ok(shown.createdAt <= shown.modifiedAt);
}
