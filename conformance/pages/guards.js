// What other sites may do to somebody who uses these pages: nothing. And what the pages say when the broker is away.
'use strict';
const http = require('http');
const { log_in, open } = require('./browser.js');
const { equal, expect, none } = require('./walks.js');

const checks = [];
const check = (name, run) => checks.push({ name, run });

/** A site at another port with one page; {base, close()}. */
function site(html) {
  return new Promise((ready) => {
    const server = http.createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(html));
    server.listen(0, '127.0.0.1', () => ready({ base: `http://localhost:${server.address().port}`, close: () => server.close() }));
  });
}

check('another site can do nothing, even to a browser that knows the password', async ({ browser, base, api }) => {
  const other = await site(`<!doctype html><form id="form" method="post" enctype="text/plain" action="${base}/api/exchanges/%2F/amq.default/publish">
    <input name='{"routing_key":"orders","payload":"x","payload_encoding":"string","properties":{},"a":"' value='"}'></form>`);
  // As after somebody logged in by the browser's own dialog: it sends the password with whatever it asks there.
  const context = await browser.newContext({ httpCredentials: { username: 'guest', password: 'guest', origin: base, send: 'always' } });
  const page = await context.newPage();
  await page.goto(other.base + '/');
  const said = await page.evaluate(async (to) => {
    const tried = [];
    for (const [method, path, options] of [['DELETE', 'queues/%2F/orders', {}], ['PUT', 'queues/%2F/evil', { body: '{}' }],
      ['POST', 'queues/%2F/orders/get', { mode: 'no-cors', body: '{"count":1}' }], ['GET', 'overview', {}]]) {
      try {
        const answer = await fetch(`${to}/api/${path}`, { method, credentials: 'include', ...options });
        tried.push(`${method}: ${answer.type} ${answer.status}`);
      } catch { tried.push(`${method}: refused`); }
    }
    return tried;
  }, base);
  equal(said, ['DELETE: refused', 'PUT: refused', 'POST: refused', 'GET: refused'], 'what a script of another site got');
  const before = (await api.call('GET', 'queues/%2F/audit')).message_stats?.publish ?? 0;
  expect(before >= 0, 'no figures');
  const [answer] = await Promise.all([page.waitForNavigation(), page.evaluate(() => document.getElementById('form').submit())]);
  equal(answer.status(), 403, 'a form of another site');
  const names = (await api.call('GET', 'queues/%2F?columns=name')).map((q) => q.name);
  expect(names.includes('orders') && !names.includes('evil'), 'another site has changed something');
  other.close();
});

check('the pages cannot be framed', async ({ browser, base }) => {
  const other = await site(`<!doctype html><iframe src="${base}/"></iframe>`);
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(other.base + '/');
  const frame = page.frames().find((f) => f !== page.mainFrame());
  expect(!frame || !(await frame.content().catch(() => '')).includes('id="app"'), 'they are shown in a frame');
  other.close();
});

check('what is stored cannot become script', async ({ browser, base, api }) => {
  const name = '<img src=x onerror="globalThis.owned=1"><script>owned=1</script>';
  await api.call('PUT', `queues/%2F/${encodeURIComponent(name)}`, { durable: true, arguments: { 'x-note': name } });
  await api.call('POST', 'exchanges/%2F/amq.default/publish', { routing_key: name, payload: name, payload_encoding: 'string', properties: { headers: { [name]: name } } });
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + '/#/queues?name=onerror');
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { name }).waitFor();
  await page.goto(base + `/#/queues/%2F/${encodeURIComponent(name)}?tab=messages`);
  await page.getByRole('button', { name: 'Get', exact: true }).click();
  await page.locator('.card').first().waitFor();
  equal(await page.evaluate(() => globalThis.owned ?? 0), 0, 'it ran');
  await api.call('DELETE', `queues/%2F/${encodeURIComponent(name)}`);
  none(troubles);
});

check('while the broker is away the pages say so, and go on by themselves when it is back', async ({ browser, base, broker, seeded }) => {
  const { page } = await open(browser, base, { expect_status: () => true });
  await log_in(page, base);
  await page.goto(base + '/#/queues');
  await page.locator('tbody tr').first().waitFor();
  await seeded.stop();
  equal(await broker.stop(), 0, 'exit status of the broker');
  await page.getByText('The broker does not answer').first().waitFor();
  expect(await page.locator('tbody tr').count() > 0, 'the last figures are gone');
  await broker.start();
  await page.getByText('The broker does not answer').first().waitFor({ state: 'detached' });
  await page.locator('tbody tr').first().waitFor();
});

check('a call that never ends does not go unseen', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  await page.clock.install();
  await log_in(page, base);
  await page.goto(base + '/#/queues');
  await page.locator('tbody tr').first().waitFor();
  const held = [];
  await page.route(/\/api\//, (route) => held.push(route));   // as from a process that stands still
  await page.clock.fastForward(6000);                         // the next looks are due: they hang
  const end = Date.now() + 20000;
  while (held.length === 0 && Date.now() < end) await page.evaluate(() => new Promise((go) => requestAnimationFrame(go)));
  expect(held.length > 0, 'nothing was asked');
  await page.clock.fastForward(20000);
  await page.getByText('The broker does not answer; what is shown is from').waitFor();
  await page.getByText('It is asked again every 2 s.').waitFor();
  expect(await page.locator('tbody tr').count() > 0, 'the last figures are gone');
  await page.unroute(/\/api\//);
  await page.clock.fastForward(6000);
  await page.getByText('The broker does not answer').first().waitFor({ state: 'detached' });
  none(troubles);
});

check('after a log-out nobody finds a question that another one began', async ({ browser, base, api }) => {
  await api.call('PUT', 'users/leaver', { password: 'first', tags: 'administrator' });
  await api.call('PUT', 'permissions/%2F/leaver', { configure: '.*', write: '.*', read: '.*' });
  const { page } = await open(browser, base, { expect_status: () => true });
  await log_in(page, base, 'leaver', 'first');
  await page.goto(base + '/#/queues/%2F/failed');
  await page.getByRole('button', { name: 'Purge' }).click();
  await page.locator('dialog').waitFor();
  await api.call('PUT', 'users/leaver', { password: 'second', tags: 'administrator' });
  await page.getByText('You were logged out').waitFor();
  await page.getByLabel('User').fill('guest');
  await page.getByLabel('Password').fill('guest');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'failed' }).waitFor();
  equal(await page.locator('dialog').count(), 0, 'dialogs');
  await api.call('DELETE', 'users/leaver');
});

module.exports = { checks };
