// Light, dark, or as the system says.
import { keep, store } from './lib.js';

const kept = keep.get(localStorage, 'theme');
const system = matchMedia('(prefers-color-scheme: dark)');

/** "light", "dark" or "" (the system's). */
export const choice = store(kept === 'light' || kept === 'dark' ? kept : '');
const effective = () => choice.read() || (system.matches ? 'dark' : 'light');
/** What is drawn: "light" or "dark". Charts watch it. */
export const theme = store(effective());

system.addEventListener('change', () => theme.write(effective()));
choice.watch((wanted) => {
  keep.set(localStorage, 'theme', wanted || null);
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
  theme.write(effective());
});
