'use strict';
// What the scripts of this folder share: a broker of their own ($TARRYMQ) that can be restarted, checks, inboxes with a
// deadline. A line "PASS|FAIL SUITE: NAME" for each check. Nothing waits for a time: every wait is for an event.

const {spawn} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {freePort} = require('../support/ports.js');

const DEADLINE_MS = 60000;

function check(condition, why) {
  if (!condition) throw new Error(why);
}

function within(promise, what, ms = DEADLINE_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What arrives, to be awaited one by one. */
class Inbox {
  constructor() {
    this.ready = [];
    this.waiting = [];
  }
  put(item) {
    const entry = {item, at: performance.now()};
    const taker = this.waiting.shift();
    if (taker) taker(entry); else this.ready.push(entry);
  }
  next(what) {
    if (this.ready.length > 0) return Promise.resolve(this.ready.shift());
    return within(new Promise((resolve) => this.waiting.push(resolve)), what);
  }
}

class Broker {
  static async open() {
    const broker = new Broker();
    broker.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tarrymq-conformance-'));
    [broker.amqp, broker.http] = [await freePort(), await freePort()];
    broker.url = `amqp://guest:guest@127.0.0.1:${broker.amqp}/%2F`;
    await broker.start();
    return broker;
  }
  start() {
    const log = fs.openSync(path.join(this.folder, 'broker.log'), 'a');
    this.process = spawn(process.env.TARRYMQ, [
      '--data-dir', path.join(this.folder, 'data'), '--amqp-port', this.amqp, '--http-port', this.http,
    ], {stdio: ['ignore', 'pipe', log]});
    fs.closeSync(log);
    this.ended = new Promise((resolve) => this.process.on('exit', (code, signal) => resolve(code ?? signal)));
    const ready = new Promise((resolve, reject) => {
      let text = '';
      this.process.stdout.on('data', (data) => {
        text += data;
        if (text.includes(' ready: ')) resolve();
      });
      this.ended.then((status) => reject(new Error(`the broker ended with ${status}: ${this.logEnd()}`)));
    });
    return within(ready, 'the broker');
  }
  /** A clean stop. */
  async stop() {
    this.process.kill('SIGTERM');
    const status = await within(this.ended, "the broker's end");
    check(status === 0, `the broker ended with ${status}: ${this.logEnd()}`);
  }
  /** As a crash does it. */
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
  logEnd() {
    return fs.readFileSync(path.join(this.folder, 'broker.log'), 'utf8').split('\n').slice(-15).join('\n');
  }
}

/** `checks`: name to async function(broker). Ends the process. */
async function run(suite, checks) {
  let broker;
  let failed = 0;
  // A library whose timers are ours to wait for must not hold up the end.
  const end = async (status) => {
    if (broker) {
      await broker.kill();
      fs.rmSync(broker.folder, {recursive: true, force: true});
    }
    process.exit(status);
  };
  process.on('unhandledRejection', (error) => {
    console.log(`FAIL ${suite}: unhandled -- ${String(error && error.stack).replace(/\s+/g, ' ').slice(0, 300)}`);
    end(1);
  });
  broker = await Broker.open();
  for (const [name, call] of Object.entries(checks)) {
    try {
      await within(call(broker), 'the check', 4 * DEADLINE_MS);
      console.log(`PASS ${suite}: ${name}`);
    } catch (error) {
      ++failed;
      console.log(`FAIL ${suite}: ${name} -- ${String(error && error.stack).replace(/\s+/g, ' ').slice(0, 300)}`);
    }
  }
  if (failed) process.stderr.write(`-- the broker's log, its end:\n${broker.logEnd()}\n`);
  await end(failed ? 1 : 0);
}

const RETRY = {'x-delayed-retry-min': 100, 'x-delayed-retry-multiplier': 2, 'x-delivery-limit': 3};
const RETRY_DELAYS_MS = [100, 200, 400];

module.exports = {Broker, Inbox, RETRY, RETRY_DELAYS_MS, check, run, within};
