'use strict';
// @cloudamqp/amqp-client: its session with recovery, and its channels.
const {AMQPClient, AMQPSession} = require('@cloudamqp/amqp-client');
const {Inbox, RETRY, RETRY_DELAYS_MS, check, run, within} = require('./bench');

const checks = {
  async 'low level: confirms, prefetch, get, ack, a channel error with its code'(broker) {
    const client = new AMQPClient(broker.url);
    const connection = await client.connect();
    const channel = await connection.channel();
    await channel.confirmSelect();
    await channel.queueDeclare('low', {durable: true});
    const tags = await Promise.all(Array.from({length: 50}, (_, i) =>
      channel.basicPublish('', 'low', `m${i}`, {deliveryMode: 2, headers: {i, text: 'é', list: [1, 'a', null], deep: {yes: true}}})));
    check(tags.length === 50, 'confirms');
    await channel.prefetch(5);
    const inbox = new Inbox();
    const consumer = await channel.basicConsume('low', {noAck: false}, (m) => inbox.put(m));
    for (let i = 0; i < 50; ++i) {
      const {item} = await inbox.next(`m${i}`);
      check(item.bodyString() === `m${i}`, `out of order: ${item.bodyString()}`);
      const {headers} = item.properties;
      check(headers.i === i && headers.text === 'é' && headers.list[1] === 'a' && headers.deep.yes === true, JSON.stringify(headers));
      await item.ack();
    }
    await channel.basicCancel(consumer.tag);
    check(await channel.basicGet('low') === null, 'something is left');
    await channel.queueDelete('low');
    const other = await connection.channel();
    const error = await other.queueDeclare('no.such.queue', {passive: true}).then(() => null, (e) => e);
    check(error && /404|NOT_FOUND|no queue/.test(error.message), `error ${error}`);
    await connection.close();
  },

  async 'session: publish, subscribe, rpc'(broker) {
    const session = await AMQPSession.connect(broker.url);
    const inbox = new Inbox();
    const queue = await session.queue('high', {durable: true});
    await queue.subscribe({prefetch: 10}, (m) => inbox.put(m.bodyString()));
    await queue.publish('hello', {deliveryMode: 2});
    check((await inbox.next('a delivery')).item === 'hello', 'body');
    await session.rpcServer('rpc', (m) => `processed:${m.bodyString()}`);
    const reply = await session.rpcCall('rpc', 'x', {timeout: 20000});
    check(reply.bodyString() === 'processed:x', 'reply');
    const topics = await session.topicExchange('events');
    await (await session.queue('all', {durable: true})).bind('events', 'user.#');
    await topics.publish('signed up', {routingKey: 'user.created.now'});
    const all = new Inbox();
    await (await session.queue('all', {durable: true})).subscribe((m) => all.put(m.bodyString()));
    check((await all.next('an event')).item === 'signed up', 'event');
    await session.stop();
  },

  async 'session: after a restart it subscribes again, and nothing confirmed is lost'(broker) {
    let connects = 0;
    let again;
    const reconnected = new Promise((resolve) => again = resolve);
    const session = await AMQPSession.connect(broker.url, {
      reconnectInterval: 100, maxReconnectInterval: 500,
      onconnect: () => {
        if (++connects === 2) again();
      },
    });
    const inbox = new Inbox();
    const queue = await session.queue('restart', {durable: true});
    await queue.subscribe({prefetch: 5}, async (m) => {
      inbox.put(m);
      if (connects === 1) await new Promise(() => {});   // never done, as in a worker that the restart meets at work
    });
    await queue.publish('one', {deliveryMode: 2});
    await inbox.next('the delivery before');
    await broker.stop();
    await broker.start();
    await within(reconnected, 'the reconnect');
    const {item} = await inbox.next('the redelivery');
    check(item.bodyString() === 'one' && item.redelivered, `${item.bodyString()} ${item.redelivered}`);
    await queue.publish('two', {deliveryMode: 2});
    check((await inbox.next('a delivery after')).item.bodyString() === 'two', 'two');
    await session.stop();
  },

  async 'session: a callback that throws is retried with growing delays, then dead-lettered'(broker) {
    const session = await AMQPSession.connect(broker.url);
    const dead = await session.queue('dead', {durable: true});
    const work = await session.queue('work', {
      durable: true, arguments: {...RETRY, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'dead'},
    });
    const tries = [];
    await work.subscribe((m) => {
      tries.push({at: performance.now(), count: m.properties.headers?.['x-delivery-count'] ?? 0});
      throw new Error('not today');
    });
    const graves = new Inbox();
    await dead.subscribe((m) => graves.put(m));
    await work.publish('poison', {deliveryMode: 2});
    const {item} = await graves.next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'delivery_limit', 'reason');
    check(Number(tries.at(-1).count) === 3 && tries.length === 4, `tries ${tries.map((t) => t.count)}`);
    for (let n = 1; n < tries.length; ++n) {
      const gap = tries[n].at - tries[n - 1].at;
      check(gap >= RETRY_DELAYS_MS[n - 1], `delay ${n} was ${gap} ms`);
    }
    await session.stop();
  },
};

run('cloudamqp', checks);
