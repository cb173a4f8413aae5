'use strict';
// As tests/support/ports.py, by the same names: a port that no client is given by the kernel, ours until this process ends.
const fs = require('node:fs');
const net = require('node:net');

const FIRST = 10000, LAST = 65535;
const NOT_OURS = [15671, 15672, 15692];
const kept = new Map();   // port to the server whose name keeps it

function candidates() {
  let low = 32768, high = 60999;
  try {
    [low, high] = fs.readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/).map(Number);
  } catch { /* not Linux's */ }
  const all = Array.from({length: LAST - FIRST}, (_, i) => FIRST + i);
  const ports = all.filter((port) => (port < low || port > high) && !NOT_OURS.includes(port));
  return ports.length > 1000 ? ports : all;
}

/** The server that listens there, or null. */
function listening(...where) {
  return new Promise((resolve) => {
    const server = net.createServer().on('error', () => resolve(null));
    server.listen(...where, () => resolve(server));
  });
}

async function freePort() {
  const ports = candidates();
  for (;;) {
    const port = ports[Math.floor(Math.random() * ports.length)];
    if (kept.has(port)) continue;
    const name = await listening(`\0tarrymq-test-port-${port}`);
    if (!name) continue;
    name.unref();
    const server = await listening(port, '127.0.0.1');
    if (server) {
      kept.set(port, name);
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
    name.close();
  }
}

module.exports = {freePort};
