// A browser that looks at the pages of one broker, and what it may never see there.
'use strict';
const fs = require('fs');
const path = require('path');
const { chromium } = require('playwright-core');

const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };

function program() {
  const found = PROGRAMS.find((file) => fs.existsSync(file));
  if (!found) throw new Error(`no browser: none of ${PROGRAMS.join(', ')} (tools/setup installs one)`);
  return found;
}

const start = () => chromium.launch({ executablePath: program(), args: ['--no-sandbox', '--force-color-profile=srgb'], timeout: 120000 });

const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.html': 'text/html; charset=utf-8' };

/** For work on the pages: assets from a folder of the tree instead of those in the broker (PAGES_FROM). */
async function assets_from(context, folder) {
  await context.route(/\/($|assets\/)/, async (route) => {
    const url = new URL(route.request().url());
    const name = url.pathname === '/' ? 'index.html' : url.pathname.split('/').slice(3).join('/');
    const file = path.join(folder, name);
    if (!fs.existsSync(file)) return route.fulfill({ status: 404, body: 'no such asset' });
    return route.fulfill({ body: fs.readFileSync(file), contentType: TYPES[path.extname(file)], headers: {
      'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'" } });
  });
}

/**
 * A page in a context of its own. `troubles` collects what must not be: errors of scripts, of the policy (CSP), requests
 * to elsewhere, unexpected answers. {size: 'wide'|'narrow', scheme: 'light'|'dark'}.
 */
async function open(browser, base, { size = 'wide', scheme = 'light', expect_status = () => false } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: scheme, reducedMotion: 'reduce', timezoneId: 'UTC' });
  const page = await context.newPage();
  const troubles = [];
  page.setDefaultTimeout(60000);
  page.on('pageerror', (error) => troubles.push(`script: ${error.message}`));
  page.on('console', (message) => {
    // A refused call of the API is told by the page; Chromium tells it on the console too.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) troubles.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(base + '/') && !request.url().startsWith('blob:')) troubles.push(`a request to elsewhere: ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400 && !expect_status(response)) troubles.push(`${response.status()} ${response.request().method()} ${response.url()}`);
  });
  if (process.env.PAGES_FROM) await assets_from(context, process.env.PAGES_FROM);
  return { context, page, troubles };
}

async function log_in(page, base, user = 'guest', password = 'guest') {
  await page.goto(base + '/');
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await page.locator('.menu').waitFor({ state: 'attached' });
}

module.exports = { SIZES, log_in, open, start };
