// What the behaviours share: connections, names, and waiting for facts.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import amqplib from 'amqplib';

export const url = process.env.INTEROP_URL ?? 'amqp://guest:guest@127.0.0.1:5672/';
export const blockedUrl = process.env.INTEROP_BLOCKED_URL;

/** Connects; errors of the connection are for those who listen for them. */
export async function connect({ to = url, change = () => {}, options = {} } = {}) {
  const address = new URL(to);
  change(address);
  const connection = await amqplib.connect(address.href, options);
  connection.on('error', () => {});
  return connection;
}

export function uniqueName(kind) {
  return `interop.node.${kind}.${randomUUID().slice(0, 8)}`;
}

export async function channelOf(connection) {
  return quiet(await connection.createChannel());
}

export async function confirmingChannelOf(connection) {
  return quiet(await connection.createConfirmChannel());
}

function quiet(channel) {
  channel.on('error', () => {});
  return channel;
}

export async function exclusiveQueue(channel, options = {}) {
  const { queue } = await channel.assertQueue('', { exclusive: true, durable: false, ...options });
  return queue;
}

export async function messageCount(channel, queue) {
  return (await channel.checkQueue(queue)).messageCount;
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Asks until the answer is true; the limit of the behaviour bounds it. */
export async function eventually(check) {
  for (;;) {
    const answer = await check();
    if (answer) return answer;
    await pause(20);
  }
}

export function eventOf(emitter, name) {
  return new Promise((resolve) => emitter.once(name, resolve));
}

/** Expects the call to be refused, and the channel or connection to tell the code and the text. */
export async function refused(emitter, code, text, act) {
  const told = eventOf(emitter, 'error');
  await assert.rejects(act);
  const error = await told;
  assert.equal(error.code, code);
  assert.ok(error.message.includes(text), error.message);
}
