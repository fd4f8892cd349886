// The behaviours by name; ../support/behaviours.py says what each shows.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import {
  blockedUrl,
  channelOf,
  confirmingChannelOf,
  connect,
  eventOf,
  eventually,
  exclusiveQueue,
  messageCount,
  pause,
  refused,
  uniqueName,
} from './client.mjs';

const MESSAGES = 200;
const FRAME_MAX = 131_072;
const FRAME_OVERHEAD = 8;

async function confirms(connection) {
  const channel = await confirmingChannelOf(connection);
  const queue = await exclusiveQueue(channel);
  const confirmed = [];
  for (let number = 0; number < MESSAGES; number++) {
    channel.sendToQueue(queue, Buffer.from(`${number}`), {}, (error) => confirmed.push(error ?? number));
  }
  await channel.waitForConfirms();
  assert.deepEqual(confirmed, [...Array(MESSAGES).keys()]);
  assert.equal(await messageCount(channel, queue), MESSAGES);
}

async function returns(connection) {
  const channel = await confirmingChannelOf(connection);
  const heard = [];
  channel.on('return', (message) => heard.push(message));
  const key = uniqueName('nowhere');
  await new Promise((resolve, reject) => {
    const settled = (error) => (error ? reject(error) : resolve(heard.push('confirm')));
    channel.publish('amq.direct', key, Buffer.from('back'), { mandatory: true, messageId: 'm1' }, settled);
  });
  assert.equal(heard.length, 2);
  assert.equal(heard[1], 'confirm');
  const { fields, properties, content } = heard[0];
  assert.deepEqual({ ...fields }, { replyCode: 312, replyText: 'NO_ROUTE', exchange: 'amq.direct', routingKey: key });
  assert.equal(properties.messageId, 'm1');
  assert.equal(content.toString(), 'back');
}

async function prefetch(connection) {
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  for (let number = 0; number < 10; number++) channel.sendToQueue(queue, Buffer.from(`${number}`));
  await eventually(async () => (await messageCount(channel, queue)) === 10);
  await channel.prefetch(3);
  const out = [];
  await channel.consume(queue, (message) => out.push(message));
  await eventually(() => out.length === 3);
  assert.equal(await messageCount(channel, queue), 7);
  assert.equal(out.length, 3);
  channel.ack(out[0]);
  await eventually(() => out.length === 4);
  assert.equal(await messageCount(channel, queue), 6);
  channel.ack(out[3], true);
  await eventually(() => out.length === 7);
  assert.deepEqual(out.map((message) => message.content.toString()), ['0', '1', '2', '3', '4', '5', '6']);
}

async function requeue(connection) {
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  channel.sendToQueue(queue, Buffer.from('again'));
  const first = await eventually(() => channel.get(queue));
  assert.equal(first.fields.redelivered, false);
  channel.nack(first, false, true);
  const second = await eventually(() => channel.get(queue));
  assert.equal(second.fields.redelivered, true);
  assert.equal(second.content.toString(), 'again');
  channel.reject(second, false);
  assert.equal(await channel.get(queue), false);
}

async function dead_letter(connection) {
  const channel = await channelOf(connection);
  const target = await exclusiveQueue(channel);
  const source = await exclusiveQueue(channel, { deadLetterExchange: '', deadLetterRoutingKey: target });
  channel.sendToQueue(source, Buffer.from('rejected'));
  channel.reject(await eventually(() => channel.get(source)), false);
  await assertDead(await eventually(() => channel.get(target)), 'rejected', source);
  channel.sendToQueue(source, Buffer.from('expired'), { expiration: '1' });
  await assertDead(await eventually(() => channel.get(target)), 'expired', source);
}

async function assertDead(message, reason, source) {
  assert.equal(message.content.toString(), reason);
  const { headers, expiration } = message.properties;
  const [death, ...others] = headers['x-death'];
  assert.equal(others.length, 0);
  assert.deepEqual(
    { count: death.count, reason: death.reason, queue: death.queue, exchange: death.exchange },
    { count: 1, reason, queue: source, exchange: '' },
  );
  assert.deepEqual(death['routing-keys'], [source]);
  assert.equal(death.time['!'], 'timestamp');
  assert.equal(headers['x-first-death-reason'], reason);
  assert.equal(headers['x-first-death-queue'], source);
  assert.equal(expiration, undefined);
}

async function bindings(connection) {
  const channel = await channelOf(connection);
  const [topic, headers] = [uniqueName('topic'), uniqueName('headers')];
  await channel.assertExchange(topic, 'topic', { autoDelete: true });
  await channel.assertExchange(headers, 'headers', { autoDelete: true });
  const [byTopic, byHeaders] = [await exclusiveQueue(channel), await exclusiveQueue(channel)];
  await channel.bindQueue(byTopic, topic, 'a.*.#');
  await channel.bindExchange(headers, topic, '#');
  await channel.bindQueue(byHeaders, headers, '', { 'x-match': 'all', kind: 'urgent', size: 5 });
  const publish = (key, values) => channel.publish(topic, key, Buffer.from(key), { headers: values });
  publish('a.b', { kind: 'urgent', size: 5 });
  publish('a', { kind: 'urgent', size: 5 });
  publish('a.b.c.d', { kind: 'urgent' });
  await eventually(async () => (await messageCount(channel, byTopic)) === 2);
  await eventually(async () => (await messageCount(channel, byHeaders)) === 2);
  await channel.unbindQueue(byTopic, topic, 'a.*.#');
  publish('a.b', { kind: 'urgent', size: 5 });
  await eventually(async () => (await messageCount(channel, byHeaders)) === 3);
  assert.equal(await messageCount(channel, byTopic), 2);
  await channel.deleteExchange(topic);
  await channel.deleteExchange(headers);
}

const typed = (type, value) => ({ '!': type, value });

const SENT_HEADERS = {
  bool: true,
  int8: typed('int8', -128),
  uint8: typed('uint8', 255),
  int16: typed('int16', -32_768),
  uint16: typed('uint16', 65_535),
  int32: typed('int32', -2_147_483_648),
  uint32: typed('uint32', 4_294_967_295),
  int64: typed('int64', -9_007_199_254_740_991),
  float: typed('float', 0.5),
  double: 1e-9,
  decimal: typed('decimal', { places: 2, digits: 314 }),
  string: 'grüße',
  bytes: Buffer.from([0, 255, 206]),
  timestamp: typed('timestamp', 1_700_000_000),
  array: [1, 'two', null, [false]],
  table: { deep: { deeper: 'deepest' }, empty: {} },
  nothing: null,
};

const TYPES_THAT_COME_BACK_MARKED = new Set(['timestamp', 'decimal']);

const PROPERTIES = {
  contentType: 'application/json',
  contentEncoding: 'utf-8',
  deliveryMode: 2,
  priority: 7,
  correlationId: 'c1',
  replyTo: 'somewhere',
  expiration: '60000',
  messageId: 'm1',
  timestamp: 1_700_000_000,
  type: 'greeting',
  userId: 'guest',
  appId: 'interop',
};

async function header_types(connection) {
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  channel.sendToQueue(queue, Buffer.from('m'), { ...PROPERTIES, headers: SENT_HEADERS });
  const { headers, ...properties } = (await eventually(() => channel.get(queue, { noAck: true }))).properties;
  for (const [name, value] of Object.entries(PROPERTIES)) assert.deepEqual(properties[name], value, name);
  const plain = ([name, value]) => {
    const isPlain = !value?.['!'] || TYPES_THAT_COME_BACK_MARKED.has(value['!']);
    return [name, isPlain ? value : value.value];
  };
  assert.deepEqual(headers, Object.fromEntries(Object.entries(SENT_HEADERS).map(plain)));
}

const digest = (content) => createHash('sha256').update(content).digest('hex');

async function large_bodies(connection) {
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  const full = FRAME_MAX - FRAME_OVERHEAD;
  for (const size of [0, 1, full - 1, full, full + 1, 5 * 1024 * 1024]) {
    const body = randomBytes(size);
    channel.sendToQueue(queue, body);
    const message = await eventually(() => channel.get(queue, { noAck: true }));
    assert.equal(message.content.length, size);
    assert.equal(digest(message.content), digest(body));
  }
}

async function transactions(_connection, skip) {
  skip('amqplib has no transactions');
}

async function heartbeats() {
  const connection = await connect({ change: (address) => address.searchParams.set('heartbeat', '1') });
  let isClosed = false;
  connection.on('close', () => {
    isClosed = true;
  });
  assert.equal(connection.connection.heartbeat, 1);
  await pause(4000);
  assert.equal(isClosed, false);
  await exclusiveQueue(await channelOf(connection));
  await connection.close();
}

async function cancel_notify(connection) {
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  const told = new Promise((resolve) => channel.consume(queue, resolve));
  await channel.deleteQueue(queue);
  assert.equal(await told, null);
  await exclusiveQueue(channel);
}

async function exclusive_queue(connection) {
  const other = await connect();
  const owner = await channelOf(other);
  const name = uniqueName('exclusive');
  await owner.assertQueue(name, { exclusive: true, durable: false });
  const text = `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${name}' in vhost '/'`;
  for (const act of [
    (channel) => channel.consume(name, () => {}),
    (channel) => channel.assertQueue(name, { exclusive: true, durable: false }),
    (channel) => channel.purgeQueue(name),
  ]) {
    const channel = await channelOf(connection);
    await refused(channel, 405, text, () => act(channel));
  }
  await other.close();
  const channel = await channelOf(connection);
  await refused(channel, 404, `NOT_FOUND - no queue '${name}' in vhost '/'`, () => channel.checkQueue(name));
}

async function server_named_queue(connection) {
  const channel = await channelOf(connection);
  const [first, second] = [await exclusiveQueue(channel), await exclusiveQueue(channel)];
  assert.match(first, /^amq\.gen-[\w-]{22}$/);
  assert.notEqual(first, second);
  // No name is the queue this channel declared last.
  await channel.bindQueue('', 'amq.fanout', '');
  channel.publish('amq.fanout', '', Buffer.from('m'));
  await eventually(async () => (await messageCount(channel, second)) === 1);
  assert.equal(await messageCount(channel, first), 0);
}

async function blocked(_connection, skip) {
  if (!blockedUrl) skip('no broker that is low on memory');
  const connection = await connect({ to: blockedUrl });
  const told = eventOf(connection, 'blocked');
  const channel = await channelOf(connection);
  const publishing = setInterval(() => channel.publish('amq.fanout', '', Buffer.from('m')), 50);
  assert.equal(await told, 'low on memory');
  clearInterval(publishing);
  connection.connection.stream.destroy();
}

async function channel_errors(connection) {
  const missing = uniqueName('missing');
  const queue = uniqueName('errors');
  await (await channelOf(connection)).assertQueue(queue, { exclusive: true, durable: false, expires: 60_000 });
  const cases = [
    [404, `NOT_FOUND - no queue '${missing}' in vhost '/'`, (channel) => channel.checkQueue(missing)],
    [
      404,
      `NOT_FOUND - no exchange '${missing}' in vhost '/'`,
      (channel) => channel.bindQueue(queue, missing, ''),
    ],
    [
      406,
      `PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '${queue}' in vhost '/':` +
        " received none but current is the value '60000' of type 'signedint'",
      (channel) => channel.assertQueue(queue, { exclusive: true, durable: false }),
    ],
    [
      406,
      'PRECONDITION_FAILED - unknown delivery tag 99',
      (channel) => {
        channel.ack({ fields: { deliveryTag: 99 } });
        return channel.prefetch(1);
      },
    ],
    [
      403,
      "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
      (channel) => channel.assertQueue('amq.mine'),
    ],
  ];
  for (const [code, text, act] of cases) {
    const channel = await channelOf(connection);
    await refused(channel, code, text, () => act(channel));
  }
  await exclusiveQueue(await channelOf(connection));
}

async function connection_errors() {
  const connection = await connect();
  const channel = await channelOf(connection);
  const queue = await exclusiveQueue(channel);
  const consume = () => channel.consume(queue, () => {}, { consumerTag: 'twice' });
  await consume();
  const closed = eventOf(connection, 'close');
  await refused(connection, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'twice'", consume);
  await closed;

  const setPassword = (address) => Object.assign(address, { password: 'not-the-password' });
  await assert.rejects(connect({ change: setPassword }), /403.*ACCESS_REFUSED - Login was refused using/);
  const setVhost = (address) => Object.assign(address, { pathname: '/interop-missing' });
  // All that amqplib tells of it.
  await assert.rejects(connect({ change: setVhost }), /Expected ConnectionOpenOk; got <ConnectionClose channel:0>/);
}

export const behaviours = {
  confirms,
  returns,
  prefetch,
  requeue,
  dead_letter,
  bindings,
  header_types,
  large_bodies,
  transactions,
  heartbeats,
  cancel_notify,
  exclusive_queue,
  server_named_queue,
  blocked,
  channel_errors,
  connection_errors,
};
