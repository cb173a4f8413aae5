// What one does on the pages: declare, publish, get, reject, move, purge, delete; each seen afterwards by the API.
'use strict';
const amqp = require('amqplib');
const { log_in, open } = require('./browser.js');
const { until } = require('./seed.js');
const { equal, expect, none } = require('./walks.js');

const checks = [];
const check = (name, run) => checks.push({ name, run });
const button = (page, name) => page.getByRole('button', { name });
const in_dialog = (page, name) => page.locator('dialog').last().getByRole('button', { name });

async function admin(world, options) {
  const opened = await open(world.browser, world.base, options);
  await log_in(opened.page, world.base);
  return opened;
}
const queue = (api, name) => api.call('GET', `queues/%2F/${name}`);
const gone = async (api, name) => {
  const all = await api.call('GET', 'queues/%2F?columns=name');
  return !all.some((q) => q.name === name);
};

check('a queue with retries is declared, its message rejected, seen waiting, and the queue purged and deleted', async (world) => {
  const { page, troubles } = await admin(world, { expect_status: (r) => r.status() === 404 && r.url().includes('by-hand') });
  const { api, base } = world;
  await page.goto(base + '/#/queues');
  await button(page, 'Declare a queue').click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('by-hand');
  await dialog.getByLabel('retries').check();
  await dialog.getByLabel('First delay').fill('1h');
  await dialog.getByLabel('Queue for dead letters').fill('failed');
  await in_dialog(page, 'Declare').click();
  await page.getByText('Queue by-hand is there').waitFor();
  const { arguments: args } = await queue(api, 'by-hand');
  equal([args['x-delayed-retry-min'], args['x-dead-letter-routing-key'], args['x-delivery-limit']], [3600000, 'failed', 10], 'arguments');

  await page.goto(base + '/#/queues/%2F/by-hand');
  await button(page, 'Publish').click();
  await dialog.getByLabel('Payload', { exact: true }).fill('{"hand": "made"}');
  await in_dialog(page, 'Publish').click();
  await page.getByText('The message is published').waitFor();

  await page.goto(base + '/#/queues/%2F/by-hand?tab=messages');
  await button(page, 'Get').click();
  await page.locator('.card pre').getByText('"hand": "made"').waitFor();
  await until('the message back', async () => (await queue(api, 'by-hand')).messages_ready === 1);
  await page.getByLabel('And then').selectOption('reject_requeue_true');
  await button(page, 'Get …').click();
  await in_dialog(page, 'Reject them').click();
  await page.locator('.tabs .number').getByText('1', { exact: true }).waitFor();
  equal((await queue(api, 'by-hand')).messages_delayed, 1, 'messages that wait');

  await button(page, 'Purge').click();
  await in_dialog(page, 'Cancel').click();
  equal((await queue(api, 'by-hand')).messages_delayed, 1, 'messages after a purge that was not wanted');
  await button(page, 'Purge').click();
  await in_dialog(page, 'Purge it').click();
  await page.getByText('by-hand is purged').waitFor();
  await until('nothing waits', async () => (await queue(api, 'by-hand')).messages_delayed === 0);
  await button(page, 'Delete').click();
  await in_dialog(page, 'Delete it').click();
  await page.getByText('by-hand is deleted').waitFor();
  expect(await gone(api, 'by-hand'), 'the queue is still there');
  none(troubles);
});

check('an error is told in the words of the API, and the form stays', async (world) => {
  const { page } = await admin(world, { expect_status: (r) => r.status() === 400 });
  await page.goto(world.base + '/#/queues');
  await button(page, 'Declare a queue').click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('orders');
  await in_dialog(page, 'Declare').click();
  await dialog.locator('.problem').waitFor();
  const told = await dialog.locator('.problem').textContent();
  expect(/inequivalent arg/.test(told), `the reason is not told: ${told}`);
  equal(await dialog.getByLabel('Name', { exact: true }).inputValue(), 'orders', 'what was typed');
});

check('several queues are deleted at once, after one question', async (world) => {
  const { page, troubles } = await admin(world);
  for (const n of [1, 2, 3]) await world.api.call('PUT', `queues/%2F/heap.${n}`, {});
  await page.goto(world.base + '/#/queues?name=heap.');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 3);
  await page.getByLabel('All rows of this page').check();
  await button(page, 'Delete …').click();
  await in_dialog(page, 'Delete them').click();
  await page.getByText('3 queues deleted').waitFor();
  expect(await gone(world.api, 'heap.1'), 'they are still there');
  none(troubles);
});

check('an exchange is declared, bound, published to, unbound and deleted', async (world) => {
  // Its figures may be asked for once more while it goes.
  const { page, troubles } = await admin(world, { expect_status: (r) => r.status() === 404 && r.url().includes('by-hand') });
  const { api, base } = world;
  await api.call('PUT', 'queues/%2F/taker', { durable: true });
  await page.goto(base + '/#/exchanges');
  await button(page, 'Declare an exchange').click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('by-hand');
  await in_dialog(page, 'Declare').click();
  await page.getByText('Exchange by-hand is there').waitFor();
  await page.goto(base + '/#/exchanges/%2F/by-hand');
  await button(page, 'Bind').click();
  await dialog.getByLabel('Name', { exact: true }).fill('taker');
  await dialog.getByLabel('Routing key').fill('a.#');
  await in_dialog(page, 'Bind').click();
  await page.getByText('Bound.').waitFor();
  await button(page, 'Publish').click();
  await dialog.getByLabel('Routing key').fill('b');
  await in_dialog(page, 'Publish').click();
  await page.getByText('no queue took it').waitFor();
  await button(page, 'Publish').click();
  await dialog.getByLabel('Routing key').fill('a.b');
  await in_dialog(page, 'Publish').click();
  await page.getByText('The message is published').waitFor();
  await until('the message', async () => (await queue(api, 'taker')).messages_ready === 1);
  await button(page, 'Remove the binding a.#').click();
  await in_dialog(page, 'Remove').click();
  await page.getByText('The binding is removed').waitFor();
  await button(page, 'Delete').click();
  await in_dialog(page, 'Delete it').click();
  await page.getByText('Exchange by-hand is deleted').waitFor();
  await api.call('DELETE', 'queues/%2F/taker');
  none(troubles);
});

check('a user is added, granted a vhost, changed and deleted', async (world) => {
  const { page, troubles } = await admin(world);
  const { api, base } = world;
  await page.goto(base + '/#/users');
  await button(page, 'Add a user').click();
  const dialog = page.locator('dialog').last();
  await dialog.getByLabel('Name', { exact: true }).fill('night');
  await dialog.getByLabel('Password').fill('shift');
  await dialog.getByLabel('monitoring').check();
  await in_dialog(page, 'Add').click();
  await page.getByText('User night is added').waitFor();
  await button(page, 'Permissions of night').click();
  await in_dialog(page, 'Grant in a vhost').click();
  await in_dialog(page, 'Grant').last().click();
  await until('the permissions', async () => (await api.call('GET', 'users/night/permissions')).length === 1);
  await page.locator('dialog').nth(1).waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  await button(page, 'Change night').click();
  await page.locator('dialog').last().getByLabel('policymaker').check();
  await in_dialog(page, 'Save').click();
  await page.getByText('User night is saved').waitFor();
  const { tags } = await api.call('GET', 'users/night');
  equal([...tags].sort(), ['monitoring', 'policymaker'], 'tags');
  const who = await new api.constructor(base, 'night', 'shift').call('GET', 'whoami');
  equal(who.name, 'night', 'the password is kept by a change of tags');
  await button(page, 'Delete night').click();
  await in_dialog(page, 'Delete').last().click();
  await page.getByText('User night is deleted').waitFor();
  none(troubles);
});

check('a policy is added, changed and removed; one with retry keys is refused with the reason', async (world) => {
  const { page } = await admin(world, { expect_status: (r) => r.status() === 400 });
  const { api, base } = world;
  await page.goto(base + '/#/policies');
  await button(page, 'Add a policy').click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('by-hand');
  await dialog.getByLabel('Pattern').fill('^thumb');
  await dialog.getByLabel('Name 1', { exact: true }).fill('delayed-retry-min');
  await dialog.getByLabel('Value 1', { exact: true }).fill('500');
  await in_dialog(page, 'Put it in force').click();
  await dialog.locator('.problem').waitFor();
  await dialog.getByLabel('Name 1', { exact: true }).fill('max-length');
  await in_dialog(page, 'Put it in force').click();
  await page.getByText('The policy is in force').waitFor();
  const { definition } = await api.call('GET', 'policies/%2F/by-hand');
  equal(definition, { 'max-length': 500 }, 'definition');
  await button(page, 'Remove by-hand').click();
  await in_dialog(page, 'Remove it').click();
  await page.getByText('Policy by-hand is removed').waitFor();
});

check('a connection is closed with a reason', async (world) => {
  // Its figures may be asked for once more while it goes.
  const { page, troubles } = await admin(world, { expect_status: (r) => r.status() === 404 && r.url().includes('/connections/') });
  const client = await amqp.connect(world.broker.url, { clientProperties: { connection_name: 'to be closed' } });
  const told = new Promise((heard) => { client.on('error', heard); client.on('close', heard); });
  await page.goto(world.base + '/#/connections');
  await page.locator('tr', { hasText: 'to be closed' }).getByRole('link').click();
  await button(page, 'Close').click();
  await page.locator('dialog').getByLabel('Reason').fill('enough');
  await in_dialog(page, 'Close it').click();
  await page.getByText('The connection is closed').waitFor();
  const error = await told;
  expect(/enough/.test(error?.message ?? ''), `the client was told: ${error?.message}`);
  none(troubles);
});

check('what waits is redelivered now, and dropped', async (world) => {
  const { page, troubles } = await admin(world);
  const { api, base } = world;
  await page.goto(base + '/#/queues/%2F/mails?tab=waiting');
  await page.locator('.waiting-rows tbody tr').first().waitFor();
  const before = await queue(api, 'mails');
  await page.locator('.waiting-rows tbody input[type=checkbox]').first().check();
  await button(page, 'Redeliver now').click();
  await in_dialog(page, 'Redeliver now').click();
  await page.getByText('1 redelivered').waitFor();
  await until('it is ready', async () => (await queue(api, 'mails')).messages_ready === before.messages_ready + 1);
  await button(page, 'Drop').click();
  await in_dialog(page, 'Drop').click();
  await until('nothing waits', async () => (await queue(api, 'mails')).messages_delayed === 0);
  await page.getByText('Nothing waits').waitFor();
  none(troubles);
});

check('the schedule of a live queue is overridden and given back', async (world) => {
  const { page, troubles } = await admin(world);
  await page.goto(world.base + '/#/queues/%2F/orders?tab=retry');
  await button(page, 'Override').click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('First delay').fill('2m');
  await dialog.locator('.schedule').getByText('2 min', { exact: true }).first().waitFor();
  await in_dialog(page, 'Put it in force').click();
  await page.getByText('The override is in force').waitFor();
  equal((await world.api.call('GET', 'queues/%2F/orders/retry')).effective.min, 120000, 'first delay');
  await button(page, 'Remove it').click();
  await in_dialog(page, 'Remove it').click();
  await page.getByText('The override is removed').waitFor();
  equal((await world.api.call('GET', 'queues/%2F/orders/retry')).effective.min, 600000, 'first delay');
  none(troubles);
});

check('dead letters are redriven to where they died, and a queue moved to another', async (world) => {
  const { page, troubles } = await admin(world);
  const { api, base } = world;
  const before = (await queue(api, 'failed')).messages_ready;
  await page.goto(base + '/#/queues/%2F/payments?tab=dead');
  await page.locator('.letter').first().waitFor();
  await button(page, 'Redrive').first().click();
  const dialog = page.locator('dialog');
  await in_dialog(page, 'How many would it be?').click();
  await dialog.getByText(`${before} message`).waitFor();
  await dialog.getByLabel('At most').fill('3');
  await in_dialog(page, 'Redrive').click();
  await page.getByRole('heading', { name: 'Dead letters' }).waitFor();
  await page.locator('tbody tr', { hasText: 'failed' }).first().waitFor();
  await until('they are back', async () => (await queue(api, 'payments')).messages_ready === 3);
  await api.call('PUT', 'queues/%2F/aside', { durable: true });
  await page.goto(base + '/#/queues/%2F/payments');
  await button(page, 'Move').click();
  await dialog.getByLabel('To the queue').fill('aside');
  await in_dialog(page, 'Move').click();
  await until('they are moved', async () => (await queue(api, 'aside')).messages_ready === 3);
  await api.call('DELETE', 'queues/%2F/aside');
  none(troubles);
});

check('the log goes on by itself while one looks at it', async (world) => {
  const { page, troubles } = await admin(world);
  await page.goto(world.base + '/#/logs');
  await page.locator('.log .line').first().waitFor();
  const client = await amqp.connect(world.broker.url);
  client.on('error', () => {});
  for (const name of ['no-such-1', 'no-such-2']) {   // each refusal is a line
    const channel = await client.createChannel();
    channel.on('error', () => {});
    await channel.checkQueue(name).catch(() => {});
    await page.locator('.log .line', { hasText: `no queue '${name}'` }).waitFor();
  }
  // The newest line is in sight; it comes there a moment after it is drawn.
  await page.waitForFunction(() => {
    const e = document.querySelector('.log');
    return e.scrollHeight - e.scrollTop - e.clientHeight < 24;
  });
  await client.close();
  none(troubles);
});

module.exports = { checks };
