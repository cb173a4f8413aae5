'use strict';
// TarryMQ with amqplib. Usage: node client.js AMQP_URL PACKAGE. A line "PASS|FAIL name" for each check; exit status 1
// after a failure. Nothing waits for a time: every wait is for an event, with a deadline.

const url = process.argv[2];
const packageName = process.argv[3] || 'amqplib';
const amqp = require(packageName);

const DEADLINE_MS = 60000;
const RETRY = {limit: 5, min: 50, multiplier: 2, max: 3000};
const EXAMPLE_DELAYS_MS = [50, 100, 200, 400, 800];

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${DEADLINE_MS} ms`)), DEADLINE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function check(condition, why) {
  if (!condition) throw new Error(why);
}

/** Deliveries of one consumer, to be awaited one by one. */
class Inbox {
  static async open(channel, queue, options) {
    const inbox = new Inbox();
    const {consumerTag} = await channel.consume(queue, (m) => inbox.put(m), options);
    inbox.tag = consumerTag;
    return inbox;
  }
  constructor() {
    this.ready = [];
    this.waiting = [];
  }
  put(message) {
    const entry = {message, at: performance.now()};
    const taker = this.waiting.shift();
    if (taker) taker(entry); else this.ready.push(entry);
  }
  next(what) {
    if (this.ready.length > 0) return Promise.resolve(this.ready.shift());
    return within(new Promise((resolve) => this.waiting.push(resolve)), what);
  }
}

function countOf(message) {
  return message.properties.headers['x-delivery-count'];
}

const checks = {
  async 'publish with confirms, consume, ack'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue} = await channel.assertQueue('', {exclusive: true});
    for (let i = 0; i < 100; ++i) channel.sendToQueue(queue, Buffer.from(`m${i}`), {persistent: true});
    await within(channel.waitForConfirms(), 'confirms');
    await channel.prefetch(10);
    const inbox = await Inbox.open(channel, queue);
    for (let i = 0; i < 100; ++i) {
      const {message} = await inbox.next(`delivery ${i}`);
      check(message.content.toString() === `m${i}`, `expected m${i}, got ${message.content}`);
      check(message.fields.redelivered === false, 'redelivered at the first delivery');
      channel.ack(message);
    }
    await channel.cancel(inbox.tag);
    const {messageCount} = await channel.checkQueue(queue);
    check(messageCount === 0, `${messageCount} messages are left`);
    await channel.close();
  },

  async 'nack with requeue on a plain queue redelivers at once'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue} = await channel.assertQueue('', {exclusive: true});
    channel.sendToQueue(queue, Buffer.from('m'));
    await within(channel.waitForConfirms(), 'confirms');
    const inbox = await Inbox.open(channel, queue);
    channel.nack((await inbox.next('first delivery')).message);
    const {message} = await inbox.next('redelivery');
    check(message.fields.redelivered === true, 'not marked as redelivered');
    channel.ack(message);
    await channel.close();
  },

  async 'the example: limit 5, doubled delays, then the dead letter'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue: dead} = await channel.assertQueue('', {exclusive: true});
    const {queue} = await channel.assertQueue('', {exclusive: true, arguments: {
      'x-delivery-limit': RETRY.limit, 'x-delayed-retry-min': RETRY.min, 'x-delayed-retry-max': RETRY.max,
      'x-delayed-retry-multiplier': RETRY.multiplier, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead}});
    channel.sendToQueue(queue, Buffer.from('poison'));
    await within(channel.waitForConfirms(), 'confirms');
    const inbox = await Inbox.open(channel, queue);
    const graves = await Inbox.open(channel, dead);
    let rejectedAt;
    for (let n = 0; n <= RETRY.limit; ++n) {
      const {message, at} = await inbox.next(`delivery ${n + 1}`);
      check(countOf(message) === (n === 0 ? undefined : n), `x-delivery-count of delivery ${n + 1}: ${countOf(message)}`);
      if (n > 0) {
        const delay = at - rejectedAt;
        check(delay >= EXAMPLE_DELAYS_MS[n - 1], `delay ${n} was ${delay} ms, not ${EXAMPLE_DELAYS_MS[n - 1]}`);
      }
      rejectedAt = performance.now();
      channel.nack(message, false, true);
    }
    const {message} = await graves.next('dead letter');
    const death = message.properties.headers['x-death'][0];
    check(death.reason === 'delivery_limit', `reason ${death.reason}`);
    check(death.queue === queue && Number(death.count) === 1, `x-death ${JSON.stringify(death)}`);
    channel.ack(message);
    await channel.close();
  },

  async 'nack without requeue dead-letters at once'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue: dead} = await channel.assertQueue('', {exclusive: true});
    const {queue} = await channel.assertQueue('', {exclusive: true, arguments: {
      'x-delayed-retry-min': 3600000, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead}});
    channel.sendToQueue(queue, Buffer.from('m'));
    await within(channel.waitForConfirms(), 'confirms');
    const inbox = await Inbox.open(channel, queue);
    const graves = await Inbox.open(channel, dead);
    channel.nack((await inbox.next('delivery')).message, false, false);
    const {message} = await graves.next('dead letter');
    const {reason} = message.properties.headers['x-death'][0];
    check(reason === 'rejected', `reason ${reason}`);
    await channel.close();
  },

  async 'a mandatory message without a queue is returned'(connection) {
    const channel = await connection.createConfirmChannel();
    const returned = new Promise((resolve) => channel.once('return', resolve));
    channel.publish('', 'no.such.queue.anywhere', Buffer.from('back'), {mandatory: true});
    const message = await within(returned, 'basic.return');
    check(message.fields.replyCode === 312, `reply code ${message.fields.replyCode}`);
    check(message.content.toString() === 'back', 'another body came back');
    await within(channel.waitForConfirms(), 'confirm of the returned message');
    await channel.close();
  },

  async 'a body of 1 MiB goes through unchanged'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue} = await channel.assertQueue('', {exclusive: true});
    const body = Buffer.alloc(1 << 20);
    for (let i = 0; i < body.length; ++i) body[i] = (i * 31 + (i >> 8)) & 0xff;
    channel.sendToQueue(queue, body, {persistent: true});
    await within(channel.waitForConfirms(), 'confirms');
    const inbox = await Inbox.open(channel, queue);
    const {message} = await inbox.next('delivery');
    check(message.content.equals(body), 'the body has changed');
    channel.ack(message);
    await channel.close();
  },

  async 'an error closes the channel with its code, and the connection goes on'(connection) {
    const channel = await connection.createChannel();
    const failed = new Promise((resolve) => channel.once('error', resolve));
    const asked = channel.checkQueue('no.such.queue.anywhere').then(() => null, (e) => e);
    const error = await within(failed, 'channel error');
    await asked;
    check(error.code === 404, `code ${error.code}`);
    const next = await connection.createChannel();
    await next.close();
  },
};

async function main() {
  let failed = 0;
  const connection = await within(amqp.connect(url), 'connect');
  let broken = null;
  connection.on('error', (e) => { broken = e; });
  for (const [name, run] of Object.entries(checks)) {
    try {
      await within(run(connection), name);
      console.log(`PASS ${packageName}: ${name}`);
    } catch (e) {
      ++failed;
      console.log(`FAIL ${packageName}: ${name}: ${(broken || e).message}`);
    }
  }
  await within(connection.close(), 'connection.close').catch((e) => {
    ++failed;
    console.log(`FAIL ${packageName}: close: ${e.message}`);
  });
  process.exit(failed ? 1 : 0);
}

main().catch((e) => {
  console.log(`FAIL ${packageName}: ${e.message}`);
  process.exit(1);
});
