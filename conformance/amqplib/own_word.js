'use strict';
// amq.retry from Node.js (retry-spec 35), as the README shows it. Usage: node own_word.js AMQP_URL. A line "PASS|FAIL
// amqplib-own-word: name" for each check. Every wait is for an event, with a deadline.

const fs = require('fs');
const path = require('path');
const amqp = require('amqplib');

const DEADLINE_MS = 60000;
const HOUR_MS = 3600000;

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

function deliveries(channel, queue) {
  const ready = [], waiting = [];
  channel.consume(queue, (m) => { const taker = waiting.shift(); if (taker) taker(m); else ready.push(m); });
  return (what) => ready.length > 0 ? Promise.resolve(ready.shift())
                                    : within(new Promise((resolve) => waiting.push(resolve)), what);
}

function readmeExample() {
  const page = fs.readFileSync(path.join(__dirname, '..', '..', 'README.md'), 'utf8');
  const found = /<!-- own-word: javascript -->\n+```\w+\n([^]*?)```/.exec(page);
  check(found, 'the README has no example for JavaScript');
  return new Function('channel', 'message', found[1]);
}

const checks = {
  async 'the example of the README: a delay for this message, with the error'(connection) {
    const channel = await connection.createConfirmChannel();
    const queue = 'js-example';
    await channel.assertQueue(queue, {arguments: {'x-delayed-retry-min': 50}});
    channel.sendToQueue(queue, Buffer.from('m'));
    const next = deliveries(channel, queue);
    readmeExample()(channel, await next('first delivery'));
    await within(channel.waitForConfirms(), 'the confirm');
    const {messageCount} = await channel.checkQueue(queue);
    check(messageCount === 0, `${messageCount} messages are ready`);
  },
  async 'a delay and a text, with numbers and strings as amqplib sends them'(connection) {
    const channel = await connection.createConfirmChannel();
    const {queue} = await channel.assertQueue('', {exclusive: true, arguments: {'x-delayed-retry-min': HOUR_MS}});
    channel.sendToQueue(queue, Buffer.from('m'));
    const next = deliveries(channel, queue);
    const first = await next('first delivery');
    const said = performance.now();
    channel.publish('amq.retry', String(first.fields.deliveryTag), Buffer.alloc(0),
                    {headers: {'x-retry-delay': 200, 'x-retry-error': 'no connection'}});
    const second = await next('redelivery');
    check(performance.now() - said >= 199, `came back after ${performance.now() - said} ms`);
    check(second.properties.headers['x-last-error'] === 'no connection', 'x-last-error');
    check(second.properties.headers['x-delivery-count'] === 1, 'x-delivery-count');
  },
  async 'a permanent failure'(connection) {
    const channel = await connection.createChannel();
    const {queue: graves} = await channel.assertQueue('', {exclusive: true});
    const {queue} = await channel.assertQueue('', {exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: graves,
                                                   arguments: {'x-delayed-retry-min': HOUR_MS}});
    channel.sendToQueue(queue, Buffer.from('m'));
    const next = deliveries(channel, queue), grave = deliveries(channel, graves);
    channel.publish('amq.retry', String((await next('delivery')).fields.deliveryTag), Buffer.alloc(0),
                    {headers: {'x-retry-permanent': true, 'x-retry-error': 'malformed'}});
    const dead = await grave('the dead letter');
    check(dead.properties.headers['x-last-error'] === 'malformed', 'x-last-error');
    check(dead.properties.headers['x-death'][0].reason === 'rejected', 'reason');
  },
  async 'a wrong tag and a bad header close the channel and settle nothing'(connection) {
    for (const [key, headers, part] of [['99', {}, 'unknown delivery tag 99'],
                                        ['1', {'x-retry-delay': 'soon'}, 'x-retry-delay'],
                                        ['1', {'x-retry-delay': 1.5}, 'x-retry-delay']]) {
      const channel = await connection.createChannel();
      const closed = within(new Promise((resolve) => channel.on('error', resolve)), 'channel.close');
      const {queue} = await channel.assertQueue('', {exclusive: true, arguments: {'x-delayed-retry-min': HOUR_MS}});
      channel.sendToQueue(queue, Buffer.from('m'));
      await deliveries(channel, queue)('delivery');
      channel.publish('amq.retry', key, Buffer.alloc(0), {headers});
      const error = await closed;
      check(error.code === 406 && error.message.includes(part), error.message);
      const again = await connection.createChannel();
      const returned = await deliveries(again, queue)('the message again');
      check(returned.properties.headers['x-last-error'] === undefined, 'settled all the same');
      await again.close();
    }
  },
};

async function main() {
  let failed = 0;
  const connection = await amqp.connect(process.argv[2]);
  for (const [name, run] of Object.entries(checks)) {
    try {
      await run(connection);
      console.log(`PASS amqplib-own-word: ${name}`);
    } catch (error) {
      ++failed;
      console.log(`FAIL amqplib-own-word: ${name} -- ${error.message}`);
    }
  }
  await connection.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log(`FAIL amqplib-own-word: ${error.message}`);
  process.exit(1);
});
