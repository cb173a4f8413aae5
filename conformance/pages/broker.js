// A broker of the test's own: $TARRYMQ (build/release/tarrymq) on free ports, its data thrown away in the end.
'use strict';
const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { freePort: free_port } = require('../support/ports.js');

const ROOT = path.resolve(__dirname, '..', '..');
const PROGRAM = process.env.TARRYMQ || path.join(ROOT, 'build', 'release', 'tarrymq');
const DEADLINE_MS = 60000;

class Broker {
  static async make(flags = []) {
    const broker = new Broker();
    broker.flags = flags;
    broker.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tarrymq-pages-'));
    broker.amqp = await free_port();
    broker.http = await free_port();
    broker.log = path.join(broker.folder, 'log');
    await broker.start();
    return broker;
  }

  get url() { return `amqp://guest:guest@127.0.0.1:${this.amqp}/%2F`; }
  get base() { return `http://127.0.0.1:${this.http}`; }

  start() {
    const log = fs.openSync(this.log, 'a');
    this.process = spawn(PROGRAM, ['--data-dir', path.join(this.folder, 'data'), '--amqp-port', String(this.amqp), '--http-port', String(this.http), ...this.flags],
      { stdio: ['ignore', 'pipe', log] });
    fs.closeSync(log);
    return new Promise((ready, failed) => {
      const timer = setTimeout(() => failed(new Error('the broker does not start')), DEADLINE_MS);
      this.process.on('exit', () => { clearTimeout(timer); failed(new Error('the broker ended: ' + fs.readFileSync(this.log, 'utf8').slice(-400))); });
      this.process.on('error', failed);
      this.process.stdout.on('data', (text) => {
        if (!String(text).includes(' ready: ')) return;
        clearTimeout(timer);
        ready();
      });
    });
  }

  /** SIGTERM and the exit status. */
  stop() {
    if (this.process.exitCode !== null) return Promise.resolve(this.process.exitCode);
    return new Promise((ended) => {
      const timer = setTimeout(() => this.process.kill('SIGKILL'), DEADLINE_MS);
      this.process.removeAllListeners('exit');
      this.process.on('exit', (status) => { clearTimeout(timer); ended(status); });
      this.process.kill('SIGTERM');
    });
  }

  async end() {
    await this.stop();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

module.exports = { Broker, ROOT, free_port };
