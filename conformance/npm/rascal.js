'use strict';
// rascal: topology from a configuration, recovery strategies for failed messages, its own retries of connection and channel.
const rascal = require('rascal');
const {Inbox, RETRY, RETRY_DELAYS_MS, check, run, within} = require('./bench');

const config = (broker, vhost) => rascal.withDefaultConfig({
  vhosts: {'/': {
    connections: [{url: broker.url, retry: {min: 100, max: 300, factor: 1, strategy: 'exponential'}}],
    publicationChannelPools: {confirmPool: {max: 2, min: 1}, regularPool: {max: 2, min: 1}},
    ...vhost,
  }},
});

async function open(broker, vhost) {
  const bus = await rascal.BrokerAsPromised.create(config(broker, vhost));
  bus.problems = [];
  bus.on('error', (error) => bus.problems.push(error));   // a lost connection is told here, and mended
  return bus;
}

/** Calls back with each message. Without the listener for errors a lost connection would end the process. */
async function subscribe(bus, name, call) {
  const subscription = await bus.subscribe(name);
  subscription.on('error', (error) => bus.problems.push(error)).on('message', call);
}

/** The promise of what the publication says: success, return or error. */
async function published(bus, name, body, overrides) {
  const publication = await bus.publish(name, body, overrides);
  return within(new Promise((resolve, reject) => {
    publication.on('success', (id) => resolve(id)).on('return', (m) => reject(new Error('returned'))).on('error', reject);
  }), 'the confirm');
}

const plain = {
  exchanges: {orders: {type: 'topic'}},
  queues: {created: {options: {durable: true}}, parked: {options: {durable: true}}},
  bindings: ['orders[created.#] -> created'],
  publications: {order: {exchange: 'orders', routingKey: 'created.now', confirm: true},
                 nowhere: {exchange: 'orders', routingKey: 'no.such', confirm: true, options: {mandatory: true}},
                 park: {queue: 'parked', confirm: true}},
  subscriptions: {created: {queue: 'created', prefetch: 3}, parked: {queue: 'parked'}},
};

const checks = {
  async 'confirms, prefetch, a return'(broker) {
    const bus = await open(broker, plain);
    await Promise.all(Array.from({length: 30}, (_, i) => published(bus, 'order', {i})));
    const inbox = new Inbox();
    await subscribe(bus, 'created', (message, content, ackOrNack) => inbox.put({message, content, ackOrNack}));
    const seen = new Set();
    for (let i = 0; i < 30; ++i) {
      const {item} = await inbox.next(`order ${i}`);
      check(inbox.ready.length <= 2, `${inbox.ready.length + 1} at once with a prefetch of 3`);
      seen.add(item.content.i);
      item.ackOrNack();
    }
    check(seen.size === 30, `${seen.size} orders`);
    const outcome = await published(bus, 'nowhere', 'x').then(() => 'confirmed', (error) => error.message);
    check(outcome === 'returned', outcome);
    await bus.shutdown();
  },

  async 'republish with a deferral, then forward: the attempts are counted'(broker) {
    const bus = await open(broker, plain);
    const tries = [];
    await subscribe(bus, 'created', (message, content, ackOrNack) => {
      tries.push(message.properties.headers.rascal?.recovery?.created?.republished || 0);
      ackOrNack(new Error('not today'), [
        {strategy: 'republish', attempts: 2, defer: 50}, {strategy: 'forward', publication: 'park'}, {strategy: 'nack'},
      ]);
    });
    const parked = new Inbox();
    await subscribe(bus, 'parked', (message, content, ackOrNack) => {
      ackOrNack();
      parked.put({message, content});
    });
    await published(bus, 'order', {poison: true});
    const {item} = await parked.next('the forwarded message');
    check(item.content.poison === true && JSON.stringify(tries) === '[0,1,2]', `tries ${JSON.stringify(tries)}`);
    await bus.shutdown();
  },

  async 'nack with requeue on a queue with retries: growing delays, then the dead letters'(broker) {
    const bus = await open(broker, {
      exchanges: {dead: {type: 'fanout'}},
      queues: {graves: {}, work: {options: {durable: true, arguments: {...RETRY, 'x-dead-letter-exchange': 'dead'}}}},
      bindings: ['dead -> graves'],
      publications: {work: {queue: 'work', confirm: true}},
      subscriptions: {work: {queue: 'work', redeliveries: {limit: 100, counter: 'stub'}}, graves: {queue: 'graves'}},
    });
    const tries = [];
    const graves = new Inbox();
    await subscribe(bus, 'work', (message, content, ackOrNack) => {
      tries.push({at: performance.now(), count: message.properties.headers['x-delivery-count'] || 0});
      ackOrNack(new Error('not today'), {strategy: 'nack', requeue: true});
    });
    await subscribe(bus, 'graves', (message, content, ackOrNack) => {
      ackOrNack();
      graves.put(message);
    });
    await published(bus, 'work', 'poison');
    const {item} = await graves.next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'delivery_limit', 'reason');
    check(JSON.stringify(tries.map((t) => t.count)) === '[0,1,2,3]', `counts ${JSON.stringify(tries)}`);
    for (let n = 1; n < tries.length; ++n) {
      const gap = tries[n].at - tries[n - 1].at;
      check(gap >= RETRY_DELAYS_MS[n - 1], `delay ${n} was ${gap} ms`);
    }
    await bus.shutdown();
  },

  async 'delays by a queue with a TTL that dead-letters back'(broker) {
    const bus = await open(broker, {
      exchanges: {delay: {}, retry: {}},
      queues: {
        delayed: {options: {arguments: {'x-message-ttl': 150, 'x-dead-letter-exchange': 'retry'}}},
        again: {options: {durable: true}},
      },
      bindings: ['delay[a.#] -> delayed', 'retry[a.#] -> again'],
      publications: {delay: {exchange: 'delay', routingKey: 'a.b.c', confirm: true}},
      subscriptions: {again: {queue: 'again'}},
    });
    const inbox = new Inbox();
    await subscribe(bus, 'again', (message, content, ackOrNack) => {
      ackOrNack();
      inbox.put(message);
    });
    const began = performance.now();
    await published(bus, 'delay', 'x');
    const {item, at} = await inbox.next('the delayed message');
    check(at - began >= 150, `it took ${at - began} ms`);
    check(item.fields.routingKey === 'a.b.c' && item.properties.headers['x-death'][0].reason === 'expired', 'x-death');
    await bus.shutdown();
  },

  async 'a restart: subscriptions and publications go on'(broker) {
    const bus = await open(broker, plain);
    const inbox = new Inbox();
    await subscribe(bus, 'created', (message, content, ackOrNack) => inbox.put({message, content, ackOrNack}));
    await published(bus, 'order', {n: 1});
    await inbox.next('the delivery before');   // and never acknowledged
    const reconnected = new Promise((resolve) => bus.on('connect', resolve));
    await broker.stop();
    await broker.start();
    await within(reconnected, 'the reconnect');
    const again = (await inbox.next('the redelivery')).item;
    check(again.content.n === 1 && again.message.fields.redelivered, 'the redelivery');
    again.ackOrNack();
    await published(bus, 'order', {n: 2});
    const second = (await inbox.next('a delivery after')).item;
    check(second.content.n === 2, 'the second');
    second.ackOrNack();
    await bus.shutdown();
    check(bus.problems.length > 0, 'the restart went unseen');
  },
};

run('rascal', checks);
