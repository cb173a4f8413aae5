'use strict';
// amqp-connection-manager: channels with a set-up that is played again after each reconnect, publishes that are kept meanwhile.
const manager = require('amqp-connection-manager');
const {Inbox, RETRY, RETRY_DELAYS_MS, check, run, within} = require('./bench');

const connect = (broker) => manager.connect([broker.url], {heartbeatIntervalInSeconds: 5, reconnectTimeInSeconds: 0.2});

const checks = {
  async 'confirmed publishes, prefetch, acks'(broker) {
    const connection = connect(broker);
    const wrapper = connection.createChannel({json: true, setup: (c) => c.assertQueue('plain', {durable: true})});
    await wrapper.waitForConnect();
    await Promise.all(Array.from({length: 100}, (_, i) => wrapper.sendToQueue('plain', {i}, {persistent: true})));
    const inbox = new Inbox();
    await wrapper.consume('plain', (m) => inbox.put(m), {prefetch: 7});
    for (let i = 0; i < 7; ++i) await inbox.next(`m${i}`).then((got) => inbox.held = [...(inbox.held || []), got.item]);
    const depth = await wrapper.checkQueue('plain');
    check(inbox.ready.length === 0 && depth.messageCount === 93, `${inbox.ready.length} over the prefetch, ${depth.messageCount} ready`);
    inbox.held.forEach((m) => wrapper.ack(m));
    for (let i = 7; i < 100; ++i) {
      const {item} = await inbox.next(`m${i}`);
      check(JSON.parse(item.content).i === i, `out of order: ${item.content}`);
      wrapper.ack(item);
    }
    await connection.close();
  },

  async 'a restart: consumers are set up again, what is published meanwhile is kept and confirmed'(broker) {
    const connection = connect(broker);
    const inbox = new Inbox();
    const wrapper = connection.createChannel({
      json: true, publishTimeout: 30000,
      setup: async (channel) => {
        await channel.assertQueue('restart', {durable: true});
        await channel.prefetch(10);
        await channel.consume('restart', (m) => {
          if (m) inbox.put({m, channel});   // null: cancelled
        });
      },
    });
    await wrapper.waitForConnect();
    await wrapper.sendToQueue('restart', {n: 1}, {persistent: true});
    const first = (await inbox.next('the delivery before')).item;
    const lost = new Promise((resolve) => connection.once('disconnect', resolve));
    await broker.stop();
    const {err} = await within(lost, 'disconnect');
    check(!err || /320|CONNECTION_FORCED|closed/i.test(String(err)), `disconnected for ${err}`);
    const kept = Promise.all([2, 3].map((n) => wrapper.sendToQueue('restart', {n}, {persistent: true})));
    await broker.start();
    await within(kept, 'the confirms of what was published while it was down');
    const seen = [];
    for (let i = 0; i < 3; ++i) {
      const {m, channel} = (await inbox.next('a delivery after')).item;
      seen.push([JSON.parse(m.content).n, m.fields.redelivered]);
      channel.ack(m);
    }
    check(JSON.stringify(seen.sort()) === '[[1,true],[2,false],[3,false]]', `seen ${JSON.stringify(seen)}`);
    check(first.m.fields.redelivered === false, 'the first delivery');
    await connection.close();
  },

  async 'retries with growing delays, then the dead letter'(broker) {
    const connection = connect(broker);
    const wrapper = connection.createChannel({
      setup: async (c) => {
        await c.assertQueue('dead', {durable: true});
        await c.assertQueue('work', {durable: true, deadLetterExchange: '', deadLetterRoutingKey: 'dead', arguments: RETRY});
      },
    });
    await wrapper.waitForConnect();
    const inbox = new Inbox();
    const graves = new Inbox();
    await wrapper.consume('work', (m) => inbox.put(m));
    await wrapper.consume('dead', (m) => graves.put(m), {noAck: true});
    await wrapper.sendToQueue('work', Buffer.from('poison'), {persistent: true});
    let rejected;
    for (let n = 0; n <= RETRY_DELAYS_MS.length; ++n) {
      const {item, at} = await inbox.next(`delivery ${n + 1}`);
      check((item.properties.headers['x-delivery-count'] || 0) === n, 'count');
      if (n > 0) check(at - rejected >= RETRY_DELAYS_MS[n - 1], `delay ${n} was ${at - rejected} ms`);
      rejected = performance.now();
      wrapper.nack(item);
    }
    check((await graves.next('the dead letter')).item.properties.headers['x-death'][0].reason === 'delivery_limit', 'reason');
    await connection.close();
  },

  async 'reject-publish: the promise of the publish is rejected'(broker) {
    const connection = connect(broker);
    const wrapper = connection.createChannel({
      setup: (c) => c.assertQueue('full', {durable: true, maxLength: 1, arguments: {'x-overflow': 'reject-publish'}}),
    });
    await wrapper.waitForConnect();
    await wrapper.sendToQueue('full', Buffer.from('fits'));
    const outcome = await within(wrapper.sendToQueue('full', Buffer.from('does not')).then(() => 'confirmed', (e) => e), 'an answer');
    check(outcome instanceof Error && /nacked/.test(outcome.message), `outcome ${outcome}`);
    await connection.close();
  },
};

run('amqp-connection-manager', checks);
