// Numbers, sizes, times as people read them. Everything that is unknown is a dash.
export const DASH = '–';
const whole = new Intl.NumberFormat('en');

const known = (n) => typeof n === 'number' && Number.isFinite(n);

/** 12,345 */
export const count = (n) => (known(n) ? whole.format(Math.round(n)) : DASH);

/** 1 message, 12,345 messages, – messages */
export const many = (n, one, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`;

/** Per second: 0, 0.42, 12.3, 1,234 */
export function rate(n) {
  if (!known(n)) return DASH;
  const size = Math.abs(n);
  if (size < 0.005) return '0';
  if (size < 10) return n.toFixed(2).replace(/0+$/, '').replace(/\.$/, '');
  return size < 100 ? n.toFixed(1) : whole.format(Math.round(n));
}

/** On axes: 950, 1.2k, 3.4M */
export function short_count(n) {
  if (!known(n)) return '';
  const size = Math.abs(n);
  for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (size >= unit) return String(Number((n / unit).toPrecision(3))) + name;
  }
  return String(Number(n.toPrecision(3)));
}

/** 512 B, 1.5 KiB, 20 MiB */
export function bytes(n) {
  if (!known(n)) return DASH;
  let unit = 0;
  let size = n;
  while (Math.abs(size) >= 1024 && unit < 5) { size /= 1024; ++unit; }
  const digits = unit === 0 || Math.abs(size) >= 100 ? 0 : 1;
  return `${size.toFixed(digits)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`;
}

/** Of ms, two units at most: 250 ms, 1.5 s, 2 min 5 s, 3 h 20 min, 4 d 2 h */
export function duration(ms) {
  if (!known(ms)) return DASH;
  if (ms < 0) return '-' + duration(-ms);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59950 && ms % 1000 !== 0) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = units.findIndex(([size]) => seconds >= size);
  const [size, name] = units[first];
  const main = Math.floor(seconds / size);
  const rest = units[first + 1];
  const more = rest ? Math.floor((seconds - main * size) / rest[0]) : 0;
  return `${main} ${name}` + (more > 0 ? ` ${more} ${rest[1]}` : '');
}

/** How far away an instant (ms) is: "in 4 s", "2 min ago", "now". */
export function from_now(at, now = Date.now()) {
  if (!known(at) || at === 0) return DASH;
  const left = at - now;
  if (Math.abs(left) < 500) return 'now';
  const text = duration(Math.max(1000, Math.round(Math.abs(left) / 1000) * 1000));
  return left > 0 ? `in ${text}` : `${text} ago`;
}

const two = (n) => String(n).padStart(2, '0');

/** 14:03:07, with the date if it is not today. Local time. */
export function clock(at) {
  if (!known(at) || at === 0) return DASH;
  const d = new Date(at);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString()
    ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

/** For a tooltip: the whole instant, in UTC. */
export const utc = (at) => (known(at) && at !== 0 ? new Date(at).toISOString().replace('T', ' ') : '');

/** A value of a table of arguments or headers. */
export const value_text = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 1).replace(/\n\s*/g, ' '));

/** Ms from what somebody typed: 500, 1.5s, 2m, 1h, 3 d. NaN if it is none of that. */
export function parse_duration(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h|d)?\s*$/.exec(text);
  if (!found) return NaN;
  return Math.round(Number(found[1]) * { ms: 1, s: 1e3, sec: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 }[found[2] ?? 'ms']);
}
