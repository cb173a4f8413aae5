// What the pages are shown with: queues of every kind, clients that are busy, messages that wait, dead letters.
'use strict';
const amqp = require('amqplib');

const LONG = 'invoices.eu-central.long-running-export-of-everything-that-was-booked.v2.with-a-name-that-is-long-and-has-no-blank';

class Api {
  constructor(base, user = 'guest', password = 'guest') {
    this.base = base;
    this.authorization = 'Basic ' + Buffer.from(`${user}:${password}`).toString('base64');
  }

  async call(method, path, body) {
    const response = await fetch(`${this.base}/api/${path}`, {
      method,
      headers: { authorization: this.authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }
}

/** Waits until look() gives something true; every wait has an end. */
async function until(what, look, ms = 60000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`in vain for ${ms} ms: ${what}`);
    await new Promise((go) => setTimeout(go, 50));
  }
}

async function users(api) {
  await api.call('PUT', 'vhosts/tenant', { description: 'one customer of several' });
  for (const [name, tags] of [['watcher', 'monitoring'], ['tenant', 'management'], ['maker', 'policymaker'], ['app', '']]) {
    await api.call('PUT', `users/${name}`, { password: 'secret', tags });
    const vhost = name === 'tenant' ? 'tenant' : '%2F';
    await api.call('PUT', `permissions/${vhost}/${name}`, { configure: '.*', write: '.*', read: '.*' });
  }
  await api.call('PUT', 'policies/%2F/cap', { pattern: '^orders', definition: { 'max-length': 100000 }, priority: 3, 'apply-to': 'queues' });
  await api.call('PUT', 'policies/%2F/unrouted', { pattern: '^events$', definition: { 'alternate-exchange': 'amq.fanout' }, priority: 0, 'apply-to': 'exchanges' });
  await api.call('PUT', 'operator-policies/%2F/no-longer-than', { pattern: '.*', definition: { 'max-length-bytes': 1073741824 }, priority: 0, 'apply-to': 'queues' });
}

async function topology(channel) {
  const dead = { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'failed' };
  await channel.assertExchange('events', 'topic', { durable: true });
  await channel.assertExchange('parking', 'fanout', { durable: true });
  await channel.assertQueue('failed', { durable: true });
  await channel.assertQueue('orders', { durable: true, arguments: { ...dead, 'x-delayed-retry-min': 600000, 'x-delayed-retry-multiplier': 2,
    'x-delayed-retry-max': 14400000, 'x-delivery-limit': 8 } });
  await channel.assertQueue('mails', { durable: true, arguments: { ...dead, 'x-delayed-retry-min': 86400000, 'x-delivery-limit': 3 } });
  await channel.assertQueue('payments', { durable: true, arguments: { ...dead, 'x-delayed-retry-min': 1, 'x-delivery-limit': 1 } });
  await channel.assertQueue('audit', { durable: true, arguments: { 'x-dead-letter-exchange': 'parking', 'x-message-ttl': 86400000, 'x-max-length': 5000 } });
  await channel.assertQueue('thumbnails', { durable: false, arguments: { 'x-max-priority': 9 } });
  await channel.assertQueue(LONG, { durable: true });
  await channel.assertQueue('busy', { durable: true });
  for (let i = 0; i < 70; ++i) await channel.assertQueue(`shard.${String(i).padStart(3, '0')}`, { durable: true });
  await channel.bindQueue('orders', 'events', 'order.#');
  await channel.bindQueue('mails', 'events', '*.confirmed');
  await channel.bindQueue('audit', 'events', '#');
}

/** Rejections: `queue`'s next `count` messages come back later, each with a word of why where the broker takes one. */
async function reject(channel, queue, count, says_why) {
  for (let i = 0; i < count; ++i) {
    const message = await until(`a message of ${queue}`, () => channel.get(queue));
    if (says_why) {
      channel.publish('amq.retry', String(message.fields.deliveryTag), Buffer.alloc(0),
        { headers: { 'x-retry-error': `HTTP 503 from stock-service: no answer within 2000 ms (order ${i})`, 'x-retry-delay': 60000 * (i + 1) * (1 + (i % 3)) } });
    } else {
      channel.nack(message, false, true);
    }
  }
  await channel.waitForConfirms();
}

/** Fills the broker; returns {stop}: until then clients publish and consume. */
async function seed(api, url) {
  await users(api);
  const connection = await amqp.connect(url, { clientProperties: { connection_name: 'shop backend' } });
  const channel = await connection.createConfirmChannel();
  await topology(channel);
  const publish = (queue, body, options = {}) => channel.sendToQueue(queue, Buffer.from(JSON.stringify(body)), { persistent: true, contentType: 'application/json', ...options });
  for (let i = 0; i < 40; ++i) publish('orders', { order: 1000 + i, items: [{ sku: 'A-17', count: 2 }], total: 129.5 }, { messageId: `order-${i}` });
  for (let i = 0; i < 12; ++i) publish('payments', { payment: i }, { headers: { tenant: 'north' } });
  for (let i = 0; i < 25; ++i) publish(LONG, { export: i });
  for (let i = 0; i < 6; ++i) publish('mails', { to: `somebody${i}@example.org` });
  for (let i = 0; i < 30; ++i) publish('thumbnails', { image: i }, { priority: i % 10 });
  await channel.waitForConfirms();

  const has_words = await connection.createConfirmChannel().then(async (probe) => {
    let refused = false;
    probe.on('error', () => { refused = true; });
    try { await probe.checkExchange('amq.retry'); await probe.close(); } catch { refused = true; }
    return !refused;
  });
  await reject(channel, 'orders', 24, has_words);
  await reject(channel, 'mails', 4, false);
  // Two deliveries each, then over the limit: dead letters.
  for (let i = 0; i < 24; ++i) {
    const message = await until('a message of payments', () => channel.get('payments'));
    channel.nack(message, false, true);
  }
  await until('dead letters', async () => (await channel.checkQueue('failed')).messageCount >= 12);

  // A client that works all the time, and one that only holds what it got.
  const worker = await amqp.connect(url, { clientProperties: { connection_name: 'worker 1 of the image pipeline' } });
  const work = await worker.createChannel();
  await work.prefetch(20);
  await work.consume('busy', (message) => { if (message) work.ack(message); }, { consumerTag: 'worker-1' });
  const holder = await amqp.connect(url.replace('guest:guest', 'app:secret'), { clientProperties: { connection_name: 'app that hangs' } });
  const hold = await holder.createChannel();
  await hold.prefetch(5);
  await hold.consume('orders', () => {}, { consumerTag: 'ctag-hangs', exclusive: false });
  let stopped = false;
  const timer = setInterval(() => {
    for (let i = 0; i < 20 && !stopped; ++i) publish('busy', { tick: i });
    channel.publish('events', 'order.confirmed.unheard', Buffer.from('{}'));
  }, 100);
  for (const one of [connection, worker, holder]) one.on('error', () => {});
  return {
    has_words,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await Promise.allSettled([connection.close(), worker.close(), holder.close()]);
    },
  };
}

module.exports = { Api, LONG, seed, until };
