// Logging in, who sees what, the keyboard, light and dark, lists, and that a refresh takes nothing away from the reader.
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const amqp = require('amqplib');
const { Broker, free_port } = require('./broker.js');
const { log_in, open } = require('./browser.js');

function expect(condition, why) {
  if (!condition) throw new Error(why);
}
const equal = (found, wanted, what) =>
  expect(JSON.stringify(found) === JSON.stringify(wanted), `${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
const none = (troubles) => equal(troubles, [], 'troubles');
const menu = (page) => page.locator('.menu a').allTextContents();
/** The next `n` answers of the API to this path. */
async function answers(page, part, n) {
  for (let i = 0; i < n; ++i) await page.waitForResponse((r) => r.url().includes('/api/' + part));
}
const names = (page) => page.locator('tbody tr td.heading a').allTextContents();

const checks = [];
const check = (name, run) => checks.push({ name, run });

check('a wrong password is told by the page, and by no dialog of the browser', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base, { expect_status: (r) => r.status() === 401 });
  await page.goto(base + '/');
  await page.getByLabel('User').fill('guest');
  await page.getByLabel('Password').fill('wrong');
  const [answer] = await Promise.all([page.waitForResponse((r) => r.url().endsWith('/api/whoami')), page.keyboard.press('Enter')]);
  equal(answer.status(), 401, 'status');
  equal(answer.headers()['www-authenticate'], undefined, 'the header that makes a browser ask');
  await page.getByText('Unknown user or wrong password').waitFor();
  none(troubles);
});

check('a user without a tag is told why it may not look', async ({ browser, base }) => {
  const { page } = await open(browser, base, { expect_status: () => true });
  await page.goto(base + '/');
  await page.getByLabel('User').fill('app');
  await page.getByLabel('Password').fill('secret');
  await page.keyboard.press('Enter');
  await page.getByText('Not management user').waitFor();
});

check('the log-in lasts for the tab, and is forgotten after it', async ({ browser, base }) => {
  const { context, page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + '/#/queues');
  await page.reload();
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  equal(await context.cookies(), [], 'cookies');
  equal(await page.evaluate(() => Object.keys(localStorage).filter((k) => /auth|pass|user/i.test(k))), [], 'kept beyond the tab');
  const other = await context.newPage();
  await other.goto(base + '/');
  await other.getByLabel('User').waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('User').waitFor();
  equal(await page.evaluate(() => sessionStorage.getItem('tarrymq.authorization')), null, 'kept after the log-out');
  // A look that comes due before the page is gone asks nobody: it would count as a failed log-in.
  const late = await page.evaluate(async () => {
    const { get } = await import(new URL('api.js', document.querySelector('script[type=module]').src).href);
    return get('overview').catch((error) => error.message);
  });
  equal(late, 'You are logged out.', 'a call after the log-out');
  none(troubles);
});

check('a password that is changed meanwhile ends the session with a word', async ({ browser, base, api }) => {
  await api.call('PUT', 'users/passing', { password: 'one', tags: 'monitoring' });
  const { page } = await open(browser, base, { expect_status: (r) => r.status() === 401 });
  await log_in(page, base, 'passing', 'one');
  await api.call('PUT', 'users/passing', { password: 'two', tags: 'monitoring' });
  await page.getByText('the user or the password has changed').waitFor();
  await api.call('DELETE', 'users/passing');
});

check('what the tags do not allow is not shown', async ({ browser, base }) => {
  const all = ['Overview', 'Connections', 'Channels', 'Consumers', 'Exchanges', 'Queues', 'Retries', 'Dead letters', 'Policies', 'Users', 'Vhosts', 'Logs'];
  for (const [user, missing] of [['guest', []], ['maker', ['Users', 'Logs']], ['watcher', ['Policies', 'Users']], ['tenant', ['Policies', 'Users', 'Logs']]]) {
    const { page, context, troubles } = await open(browser, base);
    await log_in(page, base, user, user === 'guest' ? 'guest' : 'secret');
    equal(await menu(page), all.filter((name) => !missing.includes(name)), `menu of ${user}`);
    await page.goto(base + '/#/vhosts');
    await page.locator('tbody tr').first().waitFor();
    equal(await page.getByRole('button', { name: 'Add a vhost' }).count(), user === 'guest' ? 1 : 0, `button of ${user}`);
    await page.goto(base + '/#/');
    await page.getByText('Messages a second').waitFor();
    equal(await page.getByText('Definitions').count(), user === 'guest' ? 1 : 0, `definitions for ${user}`);
    if (user === 'tenant') {
      await page.goto(base + '/#/queues');
      await page.getByText('There is no queue yet').waitFor();
    }
    none(troubles);
    await context.close();
  }
});

check('a refresh keeps focus, selection, scroll and what is picked', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + '/#/queues?size=100');
  await page.getByLabel('Select ["/","orders"]').check();
  const field = page.getByLabel('Filter queues');
  await field.fill('r');
  await page.waitForFunction(() => location.hash.includes('name=r'));
  // The list that fits is drawn.
  await page.waitForFunction(() => [...document.querySelectorAll('tbody td.heading a')].every((a) => a.textContent.includes('r')));
  await field.evaluate((e) => e.setSelectionRange(0, 1));
  await page.evaluate(() => {
    scrollTo(0, 300);
    globalThis.seen = [document.activeElement, document.querySelectorAll('tbody tr')[5], scrollY];
  });
  const before = await page.locator('tr', { has: page.getByRole('link', { name: 'orders', exact: true }) }).textContent();
  await answers(page, 'queues?', 2);
  await page.waitForFunction((text) => [...document.querySelectorAll('tr')].some((r) => r.querySelector('td.heading')?.textContent === 'orders' && r.textContent !== text), before);
  const after = await page.evaluate(() => {
    const [focused, row, y] = globalThis.seen;
    const now = document.activeElement;
    return [now === focused, now.selectionStart, now.selectionEnd, row.isConnected, scrollY === y, y > 0,
      document.querySelectorAll('tr.picked').length];
  });
  equal(after, [true, 0, 1, true, true, true, 1], 'focus, selection from, to, same row, same scroll, scrolled, picked');
  none(troubles);
});

check('lists are sorted, filtered and paged by the API, and the address tells it', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  const asked = [];
  page.on('request', (r) => { if (r.url().includes('/api/queues?')) asked.push(Object.fromEntries(new URL(r.url()).searchParams)); });
  await log_in(page, base);
  await page.goto(base + '/#/queues?size=25');
  await page.getByText('page 1 of 4').waitFor();
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByText('page 2 of 4').waitFor();
  await page.getByLabel('Filter queues').fill('shard.01');
  await page.getByText('10 of ').waitFor();
  equal((await names(page)).length, 10, 'queues that fit');
  await page.locator('th .sort', { hasText: 'Queue' }).click();
  await page.waitForFunction(() => document.querySelector('tbody a').textContent === 'shard.019');
  equal(await page.locator('th[aria-sort]').getAttribute('aria-sort'), 'descending', 'aria-sort');
  const last = asked[asked.length - 1];
  equal([last.page, last.page_size, last.sort, last.sort_reverse, last.name], ['1', '25', 'name', 'true', 'shard.01'], 'what the API was asked');
  await page.getByLabel('regex').check();
  await page.getByLabel('Filter queues').fill('^(audit|busy)$');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 2);
  await page.getByLabel('Filter queues').fill('(');
  await page.getByText('invalid regular expression').waitFor();
  troubles.splice(0, troubles.length, ...troubles.filter((t) => !t.startsWith('400 ')));
  await page.reload();
  await page.getByText('invalid regular expression').waitFor();
  equal(await page.getByLabel('Filter queues').inputValue(), '(', 'the filter after a reload');
});

check('everything can be reached with the keyboard', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  const stops = [];
  for (let i = 0; i < 24; ++i) {
    await page.keyboard.press('Tab');
    stops.push(await page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return [e.getAttribute('aria-label') ?? e.textContent.trim(), style.outlineStyle !== 'none' && style.outlineWidth !== '0px'];
    }));
  }
  const reached = stops.map(([name]) => name);
  equal(reached[0], 'To the content', 'the first stop');
  for (const name of ['TarryMQ', 'Refresh', 'Light or dark', 'Log out', 'Queues', 'Logs']) expect(reached.includes(name), `${name} is not reached: ${reached}`);
  equal(stops.filter(([, seen]) => !seen).map(([name]) => name), [], 'stops whose focus is not seen');

  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  await page.locator('tbody tr').first().waitFor();
  await page.keyboard.press('/');
  equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Filter queues', 'after /');
  await page.keyboard.type('orders/?g');   // typed, no keys of the page
  equal(await page.getByLabel('Filter queues').inputValue(), 'orders/?g', 'what was typed');
  await page.getByRole('button', { name: 'Declare a queue' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  for (let i = 0; i < 30; ++i) {
    await page.keyboard.press('Tab');
    // The browser's own buttons may come between; the page behind may not.
    expect(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null), 'the focus left the dialog');
  }
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  equal(await page.evaluate(() => document.activeElement.textContent), 'Declare a queue …', 'the focus after the dialog');
  await page.keyboard.press('?');
  await page.getByText('closes a dialog').waitFor();
  none(troubles);
});

check('light and dark follow the system, until somebody chooses', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base, { scheme: 'dark' });
  await log_in(page, base);
  /** Waits until the page is so: what is chosen is drawn a moment later. */
  const is = (dark) => page.waitForFunction((wanted) => {
    const sum = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0);
    return wanted ? sum < 150 : sum > 600;
  }, dark);
  await is(true);
  await page.emulateMedia({ colorScheme: 'light' });
  await is(false);
  await page.getByLabel('Light or dark').selectOption('dark');
  await is(true);
  await page.reload();
  await page.locator('.menu').waitFor();
  await is(true);
  await page.getByLabel('Light or dark').selectOption('');
  await is(false);
  none(troubles);
});

check('one vhost at a time, if one likes', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.getByLabel('Virtual host').selectOption('tenant');
  await page.goto(base + '/#/queues');
  await page.getByText('There is no queue yet').waitFor();
  await page.goto(base + '/#/exchanges');
  await page.locator('tbody tr').first().waitFor();
  equal([...new Set(await page.locator('tbody td:nth-child(2)').allTextContents())], ['tenant'], 'vhosts of the exchanges shown');
  none(troubles);
});

check('an alarm is told on every page, and on the overview with what it means', async (world) => {
  const broker = await Broker.make(['--disk-free-min-bytes', '1000000000000000']);
  try {
    const { page, troubles } = await open(world.browser, broker.base);
    await log_in(page, broker.base);
    await page.getByText('The disk is nearly full').waitFor();
    equal(await page.getByRole('alert').count(), 1, 'alerts on the overview');
    for (const where of ['queues', 'retries', 'logs']) {
      await page.goto(`${broker.base}/#/${where}`);
      await page.getByText('Publishers are blocked: the disk is nearly full').waitFor();
    }
    none(troubles);
  } finally {
    await broker.end();
  }
});

/** Files of a certificate authority of its own: ca.crt, and NAME.crt, NAME.key for each name. */
function certificates(folder, ...names) {
  const at = (name) => path.join(folder, name);
  const openssl = (...words) => execFileSync('openssl', words, { stdio: 'pipe' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', '-x509', ...key, '-keyout', at('ca.key'), '-out', at('ca.crt'), '-days', '30', '-subj', '/O=Shop/CN=ca');
  for (const name of names) {
    openssl('req', ...key, '-keyout', at(name + '.key'), '-out', at(name + '.csr'), '-subj', `/O=Shop/CN=${name}`);
    openssl('x509', '-req', '-in', at(name + '.csr'), '-CA', at('ca.crt'), '-CAkey', at('ca.key'), '-CAcreateserial', '-days', '30', '-out', at(name + '.crt'));
  }
  return at;
}

check('a connection tells its TLS, and whose certificate came with it', async ({ browser }) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tarrymq-pages-'));
  const at = certificates(folder, 'localhost', 'worker');
  const port = await free_port();
  const broker = await Broker.make(['--amqps-port', String(port), '--tls-cert', at('localhost.crt'), '--tls-key', at('localhost.key'),
    '--tls-verify', 'peer', '--tls-ca', at('ca.crt')]);
  try {
    const bare = await amqp.connect(broker.url, { clientProperties: { connection_name: 'bare' } });
    const own = await amqp.connect(`amqps://guest:guest@127.0.0.1:${port}/%2F`, { clientProperties: { connection_name: 'secured' },
      servername: 'localhost', ca: [fs.readFileSync(at('ca.crt'))], cert: fs.readFileSync(at('worker.crt')), key: fs.readFileSync(at('worker.key')) });
    const { page, troubles } = await open(browser, broker.base);
    await log_in(page, broker.base);
    const tls_of = async (client) => {
      await page.goto(broker.base + '/#/connections');
      const row = page.locator('tbody tr', { hasText: client });
      const listed = await row.locator('td:nth-child(6)').textContent();
      await row.getByRole('link').click();
      await page.getByText('What the client says of itself').waitFor();
      const facts = await page.locator('.facts > div').evaluateAll((rows) => Object.fromEntries(rows.map((r) => [...r.children].map((c) => c.textContent))));
      return [listed, ...['TLS', 'Name asked for', 'Certificate of', 'Signed by'].map((name) => facts[name]), /^\d{4}-.*Z - \d{4}-.*Z$/.test(facts.Valid)];
    };
    equal(await tls_of('bare'), ['none', 'none', undefined, undefined, undefined, false], 'without');
    equal(await tls_of('secured'), ['TLSv1.3', 'TLSv1.3, TLS_AES_256_GCM_SHA384', 'localhost', 'CN=worker,O=Shop', 'CN=ca,O=Shop', true], 'with');
    none(troubles);
    await Promise.all([bare.close(), own.close()]);
  } finally {
    await broker.end();
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

check('a page of what waits that is gone leads to the first one', async ({ browser, base }) => {
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + '/#/queues/%2F/orders?tab=waiting&page=99');
  await page.locator('.waiting-rows').waitFor();
  expect(!page.url().includes('page=99'), page.url());
  none(troubles);
});

check('a long name pushes no column of the list of queues off the screen', async ({ browser, base, api }) => {
  const name = 'l' + 'o'.repeat(220) + 'ng', policy = 'p' + 'o'.repeat(120) + 'licy';
  await api.call('PUT', `policies/%2F/${policy}`, { pattern: `^${name}$`, definition: { 'max-length': 5 }, 'apply-to': 'queues' });
  await api.call('PUT', `queues/%2F/${name}`, { durable: true, arguments: { 'x-delayed-retry-min': 1000 } });
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + `/#/queues?name=${name}`);
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 2);
  const [inside, frame] = await page.locator('.table-frame').evaluate((e) => [e.scrollWidth, e.clientWidth]);
  expect(inside <= frame, `the table is ${inside} wide in a frame of ${frame}`);
  await api.call('DELETE', `queues/%2F/${name}`);
  await api.call('DELETE', `policies/%2F/${policy}`);
  none(troubles);
});

check('a dead letter with a long stack trace takes a few lines until one wants more', async ({ browser, base, api }) => {
  const trace = 'IllegalStateException: no\n' + Array.from({ length: 60 }, (_, i) => `\tat com.example.deep.Handler.line${i}(Handler.java:${i})`).join('\n');
  await api.call('PUT', 'queues/%2F/traces', { durable: true });
  await api.call('POST', 'exchanges/%2F/amq.default/publish', { routing_key: 'traces', payload: 'x', payload_encoding: 'string', properties: { headers: { 'x-last-error': trace } } });
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  await page.goto(base + '/#/queues/%2F/traces?tab=dead');
  const letter = page.locator('.letter').first();
  await letter.waitFor();
  const height = async () => (await letter.boundingBox()).height;
  expect(await height() < 150, `it is ${await height()} high`);
  await letter.getByRole('button', { name: 'More' }).click();
  await letter.getByText('line59').waitFor();
  expect(await height() > 600, `more is ${await height()} high`);
  await api.call('DELETE', 'queues/%2F/traces');
  none(troubles);
});

check('rows with the same dead-letter queue ask for it once a round', async ({ browser, base, api }) => {
  for (let i = 0; i < 20; ++i) await api.call('PUT', `queues/%2F/giver.${i}`, { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'failed' } });
  const { page, troubles } = await open(browser, base);
  await log_in(page, base);
  let asked = 0;
  page.on('request', (request) => { if (request.url().endsWith('/api/queues/%2F/failed?columns=messages_ready')) ++asked; });
  await page.goto(base + '/#/dead-letters?name=giver.');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 20 && document.querySelectorAll('.targets').length === 20);
  await answers(page, 'queues?', 2);
  expect(asked > 0 && asked < 20, `it was asked ${asked} times`);
  for (let i = 0; i < 20; ++i) await api.call('DELETE', `queues/%2F/giver.${i}`);
  none(troubles);
});

module.exports = { checks, answers, equal, expect, none };
