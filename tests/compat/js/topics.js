// Topics, subscriptions and their rules.

import assert from "node:assert/strict";
import { assertFails, bodies, receive, receiveAll, sortedBodies } from "./scenario.js";

function subscription(bus, name, options = {}) {
  return bus.client.createReceiver(bus.queue, name, options);
}

export async function each_subscription_gets_what_its_rules_let_in(bus) {
  const red = { body: "one", applicationProperties: { colour: "red" } };
  await bus.send(red, { body: "two" });
  assert.deepEqual(sortedBodies(await receiveAll(subscription(bus, "all"), 2)), ["one", "two"]);
  assert.deepEqual(bodies(await receiveAll(subscription(bus, "red"), 1)), ["one"]);
  assert.deepEqual(await subscription(bus, "red").peekMessages(1), []);
}

export async function a_rule_manager_adds_lists_and_removes_rules(bus) {
  const manager = bus.client.createRuleManager(bus.queue, "all");
  const [first] = await listed(manager);
  assert.equal(first.name, "$Default");
  await manager.deleteRule("$Default");
  await manager.createRule("sql", { sqlExpression: "colour = 'red'" });
  await manager.createRule("correlation", {
    correlationId: "c",
    subject: "label",
    applicationProperties: { colour: "blue", size: 3 },
  });
  const rules = await listed(manager);
  assert.deepEqual(
    rules.map((rule) => rule.name),
    ["sql", "correlation"],
  );
  assert.equal(rules[0].filter.sqlExpression, "colour = 'red'");
  assert.equal(rules[1].filter.correlationId, "c");
  assert.equal(rules[1].filter.subject, "label");
  assert.deepEqual(rules[1].filter.applicationProperties, { colour: "blue", size: 3 });
  await bus.send(
    { body: "red", applicationProperties: { colour: "red" } },
    { body: "neither", applicationProperties: { colour: "blue", size: 3 } },
    {
      body: "both",
      subject: "label",
      correlationId: "c",
      applicationProperties: { colour: "blue", size: 3 },
    },
  );
  const receiver = subscription(bus, "all");
  assert.deepEqual(sortedBodies(await receiveAll(receiver, 2)), ["both", "red"]);
  await manager.deleteRule("sql");
  await manager.deleteRule("correlation");
  assert.deepEqual(await listed(manager), []);
  await bus.send({ body: "red", applicationProperties: { colour: "red" } });
  assert.deepEqual(await receiver.peekMessages(1), []);
}

export async function a_rule_with_an_action_changes_what_it_lets_in(bus) {
  const manager = bus.client.createRuleManager(bus.queue, "all");
  await manager.deleteRule("$Default");
  const action = { sqlExpression: "SET colour = 'blue'; SET sys.Label = 'painted'" };
  await manager.createRule("paint", { sqlExpression: "colour = 'red'" }, action);
  const [rule] = await listed(manager);
  assert.equal(rule.action.sqlExpression, action.sqlExpression);
  await bus.send({ body: "wall", applicationProperties: { colour: "red", size: 2 } });
  const [message] = await receiveAll(subscription(bus, "all"), 1);
  assert.equal(message.body, "wall");
  assert.equal(message.subject, "painted");
  assert.deepEqual(message.applicationProperties, { colour: "blue", size: 2 });
}

export async function a_rule_that_means_nothing_is_refused(bus) {
  const manager = bus.client.createRuleManager(bus.queue, "all");
  await assert.rejects(manager.createRule("bad", { sqlExpression: "colour = =" }), (error) => {
    assert.match(error.message, /syntax error at character 10/);
    return true;
  });
  await assert.rejects(manager.createRule("long", { sqlExpression: "a".repeat(1025) }), (error) => {
    assert.match(error.message, /at most 1024 characters/);
    return true;
  });
  const action = { sqlExpression: "SET sys.SequenceNumber = 1" };
  await assert.rejects(manager.createRule("sys", { sqlExpression: "1=1" }, action), (error) => {
    assert.match(error.message, /read-only/);
    return true;
  });
  assert.equal((await listed(manager)).length, 1);
}

export async function a_rule_of_a_name_that_is_taken_is_refused(bus) {
  const manager = bus.client.createRuleManager(bus.queue, "all");
  await assertFails(
    manager.createRule("$Default", { sqlExpression: "1=1" }),
    "MessagingEntityAlreadyExists",
  );
  await assertFails(manager.deleteRule("none"), "MessagingEntityNotFound");
}

export async function a_subscription_that_is_not_there_is_named(bus) {
  await assertFails(subscription(bus, "none").receiveMessages(1), "MessagingEntityNotFound");
}

export async function a_subscription_has_sessions_and_dead_letters_of_its_own(bus) {
  await bus.send({ body: "a", sessionId: "one" }, { body: "b", sessionId: "two" }, { body: "c" });
  const named = await bus.client.acceptSession(bus.queue, "sessions", "one");
  await named.setSessionState(Buffer.from("so far"));
  assert.deepEqual(bodies(await receiveAll(named, 1)), ["a"]);
  const next = await bus.client.acceptNextSession(bus.queue, "sessions");
  assert.equal(next.sessionId, "two");
  const [deferred] = await receive(next, 1);
  await next.deferMessage(deferred);
  const [again] = await next.receiveDeferredMessages(deferred.sequenceNumber);
  await next.deadLetterMessage(again, { deadLetterReason: "bad" });
  const letters = await receiveAll(subscription(bus, "sessions", { subQueueType: "deadLetter" }), 2);
  assert.deepEqual(sortedBodies(letters), ["b", "c"]);
  assert.deepEqual(letters.map((each) => each.deadLetterReason).sort(), ["Session id is null.", "bad"]);
}

async function listed(manager) {
  const rules = [];
  // Of no rules at all the client makes one that is undefined.
  for await (const rule of manager.listRules()) if (rule !== undefined) rules.push(rule);
  return rules;
}
