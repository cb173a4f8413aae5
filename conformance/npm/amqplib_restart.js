'use strict';
// amqplib has no recovery of its own: its users connect again when the connection says that it closed.
const amqp = require('amqplib');
const {Inbox, RETRY, RETRY_DELAYS_MS, check, run, within} = require('./bench');

async function connect(broker) {
  const connection = await amqp.connect(broker.url);
  connection.on('error', () => {});   // what counts is 'close', which follows
  const closed = new Promise((resolve) => connection.on('close', resolve));
  return {connection, closed};
}

const checks = {
  async 'a stopped broker says 320, and what was confirmed and not acknowledged is there after it starts again'(broker) {
    const {connection, closed} = await connect(broker);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue('restart', {durable: true});
    for (let i = 0; i < 20; ++i) channel.sendToQueue('restart', Buffer.from(`m${i}`), {persistent: true});
    await channel.waitForConfirms();
    await channel.prefetch(5);
    const before = new Inbox();
    await channel.consume('restart', (m) => before.put(m));
    channel.ack((await before.next('a delivery')).item);
    for (let i = 0; i < 5; ++i) await before.next('a delivery');   // the last of them: the acknowledgement was taken
    await broker.stop();
    const reason = await within(closed, 'close');
    check(reason && reason.code === 320, `closed for ${reason}`);
    await broker.start();

    const again = await connect(broker);
    const second = await again.connection.createChannel();
    const after = new Inbox();
    await second.consume('restart', (m) => after.put(m));
    for (let i = 1; i < 20; ++i) {
      const {item} = await after.next(`m${i}`);
      check(item.content.toString() === `m${i}`, `${item.content} in the place of m${i}`);
      if (i < 6) check(item.fields.redelivered, `m${i} is not marked as redelivered`);
      second.ack(item);
    }
    await again.connection.close();
  },

  async 'a retry that waits keeps its delay and its count over kill -9'(broker) {
    const {connection, closed} = await connect(broker);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue('graves', {durable: true});
    await channel.assertQueue('retries', {durable: true, deadLetterExchange: '', deadLetterRoutingKey: 'graves',
      arguments: {...RETRY, 'x-delayed-retry-min': 1000, 'x-delayed-retry-multiplier': 1}});
    channel.sendToQueue('retries', Buffer.from('poison'), {persistent: true});
    await channel.waitForConfirms();
    const inbox = new Inbox();
    await channel.consume('retries', (m) => inbox.put(m));
    const first = (await inbox.next('the first delivery')).item;
    const rejected = performance.now();
    channel.nack(first);
    await channel.checkQueue('retries');   // answered after the rejection was taken
    const second = (await inbox.next('the second delivery')).item;
    check(performance.now() - rejected >= 1000, 'it came early');
    check(second.properties.headers['x-delivery-count'] === 1, 'count');
    const again = performance.now();
    channel.nack(second);
    await channel.checkQueue('retries');
    await broker.kill();
    await within(closed, 'close');
    await broker.start();
    const {connection: next} = await connect(broker);
    const other = await next.createChannel();
    const after = new Inbox();
    await other.consume('retries', (m) => after.put(m));
    const third = (await after.next('the third delivery')).item;
    // A kill right behind the rejection may take that along; then it is back at once, with the count it had.
    const count = third.properties.headers['x-delivery-count'];
    check(count === 1 || (count === 2 && performance.now() - again >= 1000), `count ${count}`);
    other.nack(third, false, false);
    const graves = new Inbox();
    await other.consume('graves', (m) => graves.put(m), {noAck: true});
    const {item} = await graves.next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'rejected', 'reason');
    await next.close();
  },

  async 'the delays of a queue with retries, then the dead letter'(broker) {
    const {connection} = await connect(broker);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue('dead', {durable: true});
    await channel.assertQueue('work', {durable: true, deadLetterExchange: '', deadLetterRoutingKey: 'dead', arguments: RETRY});
    channel.sendToQueue('work', Buffer.from('poison'), {persistent: true});
    const inbox = new Inbox();
    const graves = new Inbox();
    await channel.consume('work', (m) => inbox.put(m));
    await channel.consume('dead', (m) => graves.put(m), {noAck: true});
    let rejected;
    for (let n = 0; n <= RETRY_DELAYS_MS.length; ++n) {
      const {item, at} = await inbox.next(`delivery ${n + 1}`);
      if (n > 0) check(at - rejected >= RETRY_DELAYS_MS[n - 1], `delay ${n} was ${at - rejected} ms`);
      rejected = performance.now();
      channel.nack(item);
    }
    const {item} = await graves.next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'delivery_limit', 'reason');
    await connection.close();
  },
};

run('amqplib-restart', checks);
