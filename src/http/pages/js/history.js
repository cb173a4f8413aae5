// Figures over time, for charts: from the broker's own samples, or, where it gives none, from what this tab has seen.
import { useMemo, useRef } from './lib.js';

const KEPT = 900;   // looks of this tab
const seen = new Map();

/** The ranges one may choose: name, seconds back, seconds between two points. */
export const RANGES = { '10m': ['10 min', 600, 5], '1h': ['1 h', 3600, 60], '24h': ['24 h', 86400, 600] };

/** Parameters that ask the API for samples of the range. */
export function sample_query(range) {
  const [, age, step] = RANGES[range];
  return { msg_rates_age: age, msg_rates_incr: step, lengths_age: age, lengths_incr: step };
}

/** Remembers what an object said at `at`; returns what this tab knows of it. */
function remember(key, at, values) {
  if (!seen.has(key)) {
    if (seen.size > 40) seen.delete(seen.keys().next().value);
    seen.set(key, []);
  }
  const list = seen.get(key);
  if (at > (list[list.length - 1]?.at ?? 0)) list.push({ at, values });
  if (list.length > KEPT) list.shift();
  return list;
}

/** Ascending [{at, value}] of a `..._details`, or null if it holds no samples. */
function samples_of(details) {
  if (!Array.isArray(details?.samples) || details.samples.length < 2) return null;
  return details.samples.map((s) => ({ at: s.timestamp, value: s.sample })).sort((a, b) => a.at - b.at);
}

/** Per second, from a counter that only grows but at a restart. */
function rates_between(samples) {
  return samples.slice(1).map((now, i) => {
    const before = samples[i];
    const seconds = (now.at - before.at) / 1000;
    return { at: now.at, value: seconds > 0 && now.value >= before.value ? (now.value - before.value) / seconds : null };
  });
}

/** Several lines over one time axis: what lies within half a step of a point is the point's. */
function over_one_axis(lists) {
  const longest = lists.reduce((a, b) => (b.length > a.length ? b : a), []);
  const times = longest.map((s) => s.at);
  const half = times.length > 1 ? (times[1] - times[0]) / 2 : 500;
  const columns = lists.map((list) => {
    if (list === longest) return list.map((s) => s.value);
    let i = 0;
    return times.map((at) => {
      while (i < list.length - 1 && Math.abs(list[i + 1].at - at) <= Math.abs(list[i].at - at)) ++i;
      return list[i] && Math.abs(list[i].at - at) <= half ? list[i].value : null;
    });
  });
  return { times, columns };
}

/**
 * {times, columns} for `wanted`: [{value: object -> number now, details: object -> ..._details, rate: bool}].
 * `rate`: the details' samples count up, and what is shown is their growth a second; `value` is that rate already.
 */
export function useHistory(key, live, range, wanted) {
  const last = useRef({ at: 0, range: '', result: { times: [], columns: wanted.map(() => []) } });
  return useMemo(() => {
    if (!live.data) return last.current.result;
    if (live.at === last.current.at && range === last.current.range) return last.current.result;
    const list = remember(key, live.at, wanted.map((w) => w.value(live.data)));
    const own = wanted.map((w) => samples_of(w.details?.(live.data)));
    let result;
    if (own.some((samples) => samples !== null)) {
      result = over_one_axis(own.map((samples, i) => (samples === null ? [] : wanted[i].rate ? rates_between(samples) : samples)));
    } else {
      const since = live.at - RANGES[range][1] * 1000;
      const recent = list.filter((s) => s.at >= since);
      result = { times: recent.map((s) => s.at), columns: wanted.map((_, i) => recent.map((s) => s.values[i] ?? null)) };
    }
    last.current = { at: live.at, range, result };
    return result;
  }, [key, live.at, range]);
}
