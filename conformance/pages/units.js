// What the pages make of figures, texts and samples; without a browser.
'use strict';
const path = require('path');
const { ROOT } = require('./broker.js');
const { equal } = require('./walks.js');

const load = async (name) => {
  const file = path.join(ROOT, 'src/http/pages/js', name);
  return import('data:text/javascript,' + encodeURIComponent(require('fs').readFileSync(file, 'utf8').replace(/^import .*$/gm, '')));
};

const checks = [];
const check = (name, run) => checks.push({ name, run });

check('figures are written as people read them', async () => {
  const f = await load('format.js');
  const all = (write, pairs) => { for (const [from, to] of pairs) equal(write(from), to, `${write.name}(${from})`); };
  all(f.count, [[0, '0'], [12345, '12,345'], [undefined, '–'], [null, '–'], [NaN, '–']]);
  equal([0, 1, 2, 1234, undefined].map((n) => f.many(n, 'message')), ['0 messages', '1 message', '2 messages', '1,234 messages', '– messages'], 'many');
  all(f.rate, [[0, '0'], [0.001, '0'], [0.42, '0.42'], [9.999, '10'], [10, '10.0'], [1234.4, '1,234'], [undefined, '–'], [-0.5, '-0.5']]);
  all(f.bytes, [[0, '0 B'], [1023, '1023 B'], [1536, '1.5 KiB'], [20 * 1024 * 1024, '20.0 MiB'], [undefined, '–']]);
  all(f.short_count, [[0, '0'], [950, '950'], [1200, '1.2k'], [3400000, '3.4M'], [0.25, '0.25']]);
  all(f.duration, [[0, '0 ms'], [250, '250 ms'], [1000, '1 s'], [1500, '1.5 s'], [59999, '1 min'], [125000, '2 min 5 s'], [3600000, '1 h'],
    [12000000, '3 h 20 min'], [352800000, '4 d 2 h'], [undefined, '–']]);
  equal(f.from_now(10000, 6000), 'in 4 s', 'soon');
  equal(f.from_now(6000, 126000), '2 min ago', 'past');
  equal(f.from_now(6000, 6100), 'now', 'now');
  equal(f.from_now(null), '–', 'never');
  for (const [text, ms] of [['500', 500], ['1.5s', 1500], ['2m', 120000], [' 1 h ', 3600000], ['3 d', 259200000]]) equal(f.parse_duration(text), ms, text);
  for (const text of ['', 'soon', '-5', '5 parsecs', '1e3']) equal(Number.isNaN(f.parse_duration(text)), true, `"${text}"`);
});

check('rows of a form become the table that they say', async () => {
  const { object_of, rows_of } = await load('form.js');
  const row = (key, value, kind = 'auto') => ({ key, value, kind });
  equal(object_of([row('n', '500'), row('t', 'true'), row('l', '["a"]'), row('w', 'drop-head'), row('s', '500', 'text'), row('', '')]),
    { n: 500, t: true, l: ['a'], w: 'drop-head', s: '500' }, 'object');
  for (const rows of [[row('', '1')], [row('a', '1'), row('a', '2')]]) {
    let told = '';
    try { object_of(rows); } catch (error) { told = error.message; }
    equal(told !== '', true, 'a row that is wrong is told');
  }
  equal(object_of(rows_of({ a: '5', b: 5, c: { d: [1] } })), { a: '5', b: 5, c: { d: [1] } }, 'there and back');
});

module.exports = { checks };
