'use strict';
// @golevelup/nestjs-rabbitmq in an application of NestJS: decorated handlers, error behaviours, RPC over direct reply-to.
require('reflect-metadata');
const {Injectable, Module} = require('@nestjs/common');
const {NestFactory} = require('@nestjs/core');
const {AmqpConnection, MessageHandlerErrorBehavior, Nack, RabbitMQModule, RabbitRPC, RabbitSubscribe} =
  require('@golevelup/nestjs-rabbitmq');
const {Inbox, RETRY, RETRY_DELAYS_MS, check, run, within} = require('./bench');

const seen = {};   // by handler
const inbox = (name) => seen[name] ??= new Inbox();

class Handlers {
  plain(body) {
    inbox('plain').put(body);
  }
  requeued(body, message) {
    inbox('requeued').put(message);
    throw new Error('not today');
  }
  nacked(body, message) {
    inbox('nacked').put(message);
    return new Nack(false);
  }
  graves(body, message) {
    inbox('graves').put(message);
  }
  sum({a, b}) {
    return {sum: a + b};
  }
}

/** As TypeScript writes it for `@Decorator(...) method() {}`. */
function decorate(method, decorator) {
  decorator(Handlers.prototype, method, Object.getOwnPropertyDescriptor(Handlers.prototype, method));
}
const durable = {durable: true};
decorate('plain', RabbitSubscribe({exchange: 'app', routingKey: 'plain.*', queue: 'plain', queueOptions: durable}));
decorate('requeued', RabbitSubscribe({
  exchange: 'app', routingKey: 'requeued', queue: 'requeued', errorBehavior: MessageHandlerErrorBehavior.REQUEUE,
  queueOptions: {...durable, deadLetterExchange: 'dead', arguments: RETRY},
}));
decorate('nacked', RabbitSubscribe({
  exchange: 'app', routingKey: 'nacked', queue: 'nacked', queueOptions: {...durable, deadLetterExchange: 'dead'},
}));
decorate('graves', RabbitSubscribe({exchange: 'dead', routingKey: '#', queue: 'graves', queueOptions: durable}));
decorate('sum', RabbitRPC({exchange: 'app', routingKey: 'sum', queue: 'sum', queueOptions: durable}));
Injectable()(Handlers);

async function open(broker) {
  class App {}
  Module({
    imports: [RabbitMQModule.forRoot({
      uri: broker.url, prefetchCount: 5, exchanges: [{name: 'app', type: 'topic'}, {name: 'dead', type: 'topic'}],
      connectionInitOptions: {wait: true, timeout: 30000}, connectionManagerOptions: {reconnectTimeInSeconds: 0.2},
    })],
    providers: [Handlers],
  })(App);
  const app = await NestFactory.createApplicationContext(App, {logger: false});
  await app.init();
  return {app, amqp: app.get(AmqpConnection)};
}

const checks = {
  async 'publish and a handler, RPC'(broker) {
    const {app, amqp} = await open(broker);
    await amqp.publish('app', 'plain.one', {n: 1});
    check((await inbox('plain').next('the message')).item.n === 1, 'body');
    const answers = await Promise.all(Array.from({length: 20}, (_, i) => amqp.request(
      {exchange: 'app', routingKey: 'sum', payload: {a: i, b: 1}, timeout: 20000})));
    check(answers.every((answer, i) => answer.sum === i + 1), JSON.stringify(answers));
    await app.close();
  },

  async 'REQUEUE on a queue with retries: growing delays, then the dead letters'(broker) {
    const {app, amqp} = await open(broker);
    await amqp.publish('app', 'requeued', {poison: true});
    let before;
    for (let n = 0; n <= RETRY_DELAYS_MS.length; ++n) {
      const {item, at} = await inbox('requeued').next(`delivery ${n + 1}`);
      check((item.properties.headers['x-delivery-count'] || 0) === n, `count ${item.properties.headers['x-delivery-count']}`);
      if (n > 0) check(at - before >= RETRY_DELAYS_MS[n - 1], `delay ${n} was ${at - before} ms`);
      before = at;
    }
    const {item} = await inbox('graves').next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'delivery_limit', 'reason');
    await app.close();
  },

  async 'Nack without requeue goes to the dead letters at once'(broker) {
    const {app, amqp} = await open(broker);
    await amqp.publish('app', 'nacked', {bad: true});
    await inbox('nacked').next('the delivery');
    const {item} = await inbox('graves').next('the dead letter');
    check(item.properties.headers['x-death'][0].reason === 'rejected' && item.properties.headers['x-death'][0].queue === 'nacked',
          JSON.stringify(item.properties.headers));
    await app.close();
  },

  async 'a restart: handlers, publishes and RPC go on'(broker) {
    const {app, amqp} = await open(broker);
    const lost = new Promise((resolve) => amqp.managedConnection.once('disconnect', resolve));
    const back = new Promise((resolve) => lost.then(() => amqp.managedConnection.once('connect', resolve)));
    await broker.stop();
    await within(lost, 'disconnect');
    const kept = amqp.publish('app', 'plain.kept', {n: 2});
    await broker.start();
    await within(back, 'the reconnect');
    await within(kept, 'what was published while it was down');
    check((await inbox('plain').next('the message after')).item.n === 2, 'body');
    const answer = await amqp.request({exchange: 'app', routingKey: 'sum', payload: {a: 1, b: 2}, timeout: 20000});
    check(answer.sum === 3, JSON.stringify(answer));
    await app.close();
  },
};

run('nestjs-rabbitmq', checks);
