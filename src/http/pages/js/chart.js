// Charts, drawn by uPlot. Colours come from the style sheet, so that light and dark are decided in one place.
import { short_count } from './format.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './lib.js';
import { theme } from './theme_switch.js';
import { useStore } from './use.js';

const HEIGHT = 190;
const two = (n) => String(n).padStart(2, '0');

function colour_of(element, name) {
  element.style.color = `var(--${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = '';
  return found;
}

/** Marks of the time axis: seconds only where they tell something, the day at its begin. `x` in seconds. */
function time_marks(_, splits, __, ___, step) {
  return splits.map((x) => {
    const d = new Date(x * 1000);
    const midnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0;
    if (step >= 86400 || midnight) return `${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    if (step < 1) return `${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, '0')}`;
    return `${two(d.getHours())}:${two(d.getMinutes())}` + (step < 60 ? `:${two(d.getSeconds())}` : '');
  });
}

function options(width, lines, colours, { unit, bars }) {
  const axis = { stroke: colours.quiet, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: '12px system-ui' };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, values: time_marks, space: 70, size: 30, grid: { show: false } },
      { ...axis, size: 52, values: (_, ticks) => ticks.map((v) => (bars && v % 1 !== 0 ? '' : short_count(v) + (unit && v !== 0 ? unit : ''))) },
    ],
    series: [{}, ...lines.map((line, i) => ({
      label: line.label, stroke: colours.lines[i], width: 1.75, points: { show: false }, spanGaps: false,
      dash: line.dash ? [6, 4] : undefined,
      ...(bars ? { paths: window.uPlot.paths.bars({ size: [0.92, 60], align: 1 }), fill: colours.lines[i], width: 0 } : {}),
    }))],
  };
}

/**
 * times: ms, ascending. lines: [{label, colour, values, dash?}], `colour` a name of the style sheet. `say(v)`: a value
 * as text. Below it a legend with the value under the pointer, else the last one.
 */
export function Chart({ title, times, lines, unit = '', say, bars = false, none }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const [at, set_at] = useState(null);
  const colours = useStore(theme);
  const names = lines.map((l) => l.label + l.colour).join();
  const data = [times.map((t) => t / 1000), ...lines.map((l) => l.values)];
  const latest = useRef(data);
  latest.current = data;
  const enough = times.length > (bars ? 0 : 1);

  useLayoutEffect(() => {
    if (!enough) return undefined;
    const element = frame.current;
    const found = {
      quiet: colour_of(element, 'quiet'), line: colour_of(element, 'line'), lines: lines.map((l) => colour_of(element, l.colour)),
    };
    const made = new window.uPlot({
      ...options(element.clientWidth, lines, found, { unit, bars }),
      hooks: { setCursor: [(u) => set_at(u.cursor.idx ?? null)] },
    }, latest.current, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, colours, enough, unit, bars]);
  useEffect(() => plot.current?.setData(latest.current), [times, ...lines.map((l) => l.values)]);

  const shown = at !== null && at < times.length ? at : times.length - 1;
  const said = (line) => {
    const value = line.values[shown];
    return value === null || value === undefined ? '–' : say(value);
  };
  const when = enough && at !== null && times[shown] !== undefined ? new Date(times[shown]).toLocaleTimeString('en-GB') : '';
  return html`
    <figure class="chart">
      <figcaption><span>${title}</span> <span class="quiet">${bars && at === null ? '' : when}</span></figcaption>
      ${enough ? html`<div ref=${frame} class="plot" role="img"
            aria-label="${title}: ${lines.map((l) => `${l.label} ${said(l)}`).join(', ')}"></div>`
        : html`<div class="plot waiting">${none ?? 'The first figures come in a few seconds.'}</div>`}
      ${!(bars && at === null) && html`<ul class="legend">${lines.map((line) => html`
        <li key=${line.label}><span class="mark ${line.colour} ${line.dash ? 'dash' : ''}"></span>${line.label}
          <b>${enough ? said(line) : '–'}</b></li>`)}</ul>`}
    </figure>`;
}
