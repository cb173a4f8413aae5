// How each page looks: at both widths, light and dark, with nothing wrong on the console, nothing wider than the screen,
// and nothing that a reader of screens or somebody with weak eyes would miss (axe).
'use strict';
const fs = require('fs');
const path = require('path');
const { ROOT } = require('./broker.js');
const { log_in, open } = require('./browser.js');
const { LONG } = require('./seed.js');

const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const FOLDER = process.env.SCREENSHOTS || path.join(ROOT, 'build', 'screenshots');
const at = (...parts) => parts.map(encodeURIComponent).join('/');

/** name, address behind #/, what is there once it is drawn, more to do first. */
const PAGES = [
  ['overview', '', 'text=Most ready'],
  ['connections', 'connections', 'text=worker 1 of the image pipeline'],
  ['connection', async (api) => at('connections', (await api.call('GET', 'connections'))[0].name), 'text=What the client says of itself'],
  ['channels', 'channels', '.badges >> text=confirm'],
  ['consumers', 'consumers', 'text=worker-1'],
  ['exchanges', 'exchanges', 'text=amq.topic'],
  ['exchange', at('exchanges', '/', 'events'), 'text=order.#'],
  ['queues', 'queues?size=25', 'text=audit'],
  ['queue', at('queues', '/', 'orders'), '.u-over >> nth=0'],
  ['queue-waiting', at('queues', '/', 'orders') + '?tab=waiting', '.waiting-rows', (page) => page.getByRole('button', { name: 'More' }).first().click()],
  ['queue-retry', at('queues', '/', 'orders') + '?tab=retry', '.schedule'],
  ['queue-messages', at('queues', '/', 'thumbnails') + '?tab=messages', 'text=Get messages', async (page) => {
    await page.getByLabel('How many').fill('2');
    await page.getByRole('button', { name: 'Get', exact: true }).click();
    await page.locator('.card').first().waitFor();
  }],
  ['queue-dead', at('queues', '/', 'payments') + '?tab=dead', '.letter', (page) => page.getByRole('button', { name: 'More' }).first().click()],
  ['queue-bindings', at('queues', '/', 'orders') + '?tab=bindings', 'text=order.#'],
  ['queue-companion', at('queues', '/', 'amq.retry-orders'), 'text=not due yet'],
  ['queue-with-a-long-name', at('queues', '/', LONG), '.u-over >> nth=0'],
  ['retries', 'retries', 'text=payments'],
  ['retries-calculator', 'retries?tab=calculator', '.schedule'],
  ['dead-letters', 'dead-letters?size=25', 'text=payments'],
  ['redrives', 'dead-letters?tab=redrives', '.tabs'],
  ['policies', 'policies', 'text=^orders'],
  ['operator-policies', 'policies?tab=operator', 'text=no-longer-than'],
  ['users', 'users', 'text=watcher'],
  ['vhosts', 'vhosts', 'td >> text=one customer'],
  ['logs', 'logs', '.log .line >> nth=0'],
  ['nothing-here', 'no-such-page', 'text=There is no such page'],
  ['no-such-queue', at('queues', '/', 'gone'), 'text=not there'],
  ['dialog-declare-queue', 'queues', 'text=audit', async (page) => {
    await page.getByRole('button', { name: 'Declare a queue' }).click();
    await page.getByLabel('retries').check();
    await page.locator('dialog .schedule').waitFor();
  }],
  ['dialog-publish', at('queues', '/', 'orders'), 'text=Publish', (page) => page.getByRole('button', { name: 'Publish' }).click()],
  ['dialog-purge', at('queues', '/', 'orders'), 'text=Purge', (page) => page.getByRole('button', { name: 'Purge' }).click()],
  ['dialog-redrive', at('queues', '/', 'payments') + '?tab=dead', '.letter', (page) => page.getByRole('button', { name: 'Redrive' }).first().click()],
];
const LOOKS = [['wide', 'light'], ['narrow', 'dark'], ['wide', 'dark'], ['narrow', 'light']];

async function violations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.map((v) => `axe ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target.join(' ')} (${(n.any[0] ?? n.all[0] ?? n.none[0])?.message ?? ''})`).join('; ')}`);
}

/** What is wider than the screen, but for what scrolls by itself. */
const too_wide = (page) => page.evaluate(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll('main *, header *, dialog *')].filter((e) => e.getBoundingClientRect().right > width + 1)
    .slice(0, 3).map((e) => `wider than the screen: ${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`);
});

async function shoot(page, name) {
  fs.mkdirSync(FOLDER, { recursive: true });
  // Of a list that is longer than a few screens the first ones tell.
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const { width } = page.viewportSize();
  await page.screenshot({ path: path.join(FOLDER, name + '.png'), fullPage: true, clip: { x: 0, y: 0, width, height: Math.min(height, 2600) } });
}

/** All pages in one look; [[page, trouble]]. */
async function look(world, size, scheme) {
  const { context, page, troubles } = await open(world.browser, world.base, { size, scheme,
    expect_status: (response) => response.status() === 404 && response.url().includes('/gone') });
  const found = [];
  const settle = async (name, extra) => {
    await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'));
    const alerts = await page.locator('.problem').allTextContents();
    const all = [...troubles.splice(0), ...alerts.map((t) => 'told: ' + t), ...await too_wide(page)];
    if (extra) all.push(...await violations(page));
    await shoot(page, `${name}-${size}-${scheme}`);
    found.push(...all.map((text) => `${name} ${size} ${scheme}: ${text}`));
  };
  const with_axe = (size === 'wide') === (scheme === 'light');
  await page.goto(world.base + '/');
  await page.getByLabel('User').waitFor();
  await settle('log-in', with_axe);
  await log_in(page, world.base);
  for (const [name, address, there, more] of PAGES) {
    try {
      const hash = typeof address === 'string' ? address : await address(world.api);
      await page.keyboard.press('Escape');   // of the page before, a dialog
      await page.goto(world.base + '/#/' + hash);
      await page.locator(there).first().waitFor();
      if (more) await more(page);
      await settle(name, with_axe);
    } catch (error) {
      found.push(`${name} ${size} ${scheme}: ${error.message.split('\n').slice(0, 2).join(' ')}`);
      await shoot(page, `${name}-${size}-${scheme}`);
    }
  }
  if (size === 'narrow') {
    await page.keyboard.press('Escape');
    await page.goto(world.base + '/#/');
    await page.getByRole('button', { name: 'Menu' }).click();
    await settle('menu', with_axe);
  }
  await context.close();
  return found;
}

module.exports = {
  checks: LOOKS.map(([size, scheme]) => ({
    name: `every page looks right: ${size}, ${scheme}`,
    async run(world) {
      const found = await look(world, size, scheme);
      if (found.length) throw new Error(`${found.length} troubles: ${found.join('\n')}`);
    },
  })),
};
