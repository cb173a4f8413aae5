// The pages in a real browser, against a real broker. A line "PASS|FAIL pages: name" for each check; screenshots of every
// page at two widths, light and dark, go to build/screenshots (or $SCREENSHOTS).
//   node conformance/pages/run.js [GROUP|WORD...]    only these groups (looks, units, walks, acts, guards), or the checks with
//                                                    one of the words in their name
'use strict';
const { Broker } = require('./broker.js');
const { start } = require('./browser.js');
const { Api, seed } = require('./seed.js');

const CHECKS = ['looks', 'units', 'walks', 'acts', 'guards'].flatMap((group) =>
  require(`./${group}.js`).checks.map((check) => ({ ...check, group })));

async function main() {
  const words = process.argv.slice(2);
  const wanted = CHECKS.filter((c) => words.length === 0 || words.some((w) => c.group === w || c.name.includes(w)));
  const broker = await Broker.make();
  const browser = await start();
  let failed = 0;
  let seeded = null;
  try {
    const api = new Api(broker.base);
    seeded = await seed(api, broker.url);
    const world = { api, base: broker.base, broker, browser, seeded };
    for (const { name, run } of wanted) {
      const contexts = new Set(browser.contexts());
      try {
        await run(world);
        console.log(`PASS pages: ${name}`);
      } catch (error) {
        ++failed;
        console.log(`FAIL pages: ${name}: ${String(error.message).split('\n').slice(0, 6).join(' | ').slice(0, 1500)}`);
        if (process.env.VERBOSE) console.error(error.stack);
      }
      for (const context of browser.contexts()) if (!contexts.has(context)) await context.close();
    }
  } finally {
    await seeded?.stop();
    await browser.close();
    await broker.end();
  }
  return failed ? 1 : 0;
}

// The exit is said: a client that the broker has closed may leave a timer behind.
main().then((status) => process.exit(status), (error) => {
  console.log(`FAIL pages: ${String(error.message).split('\n')[0]}`);
  process.exit(1);
});
