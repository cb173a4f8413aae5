// Hooks over what lib.js has.
import { store, useEffect, useState } from './lib.js';

export function useStore(from) {
  const [value, set] = useState(from.read());
  useEffect(() => {
    set(from.read());   // it may have changed between the first drawing and now
    return from.watch((next) => set(() => next));
  }, [from]);
  return value;
}

/** True below the width at which tables become lists and the menu folds. The same number is in base.css. */
export function useNarrow() {
  const query = '(max-width: 760px)';
  const [narrow, set] = useState(matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => set(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, []);
  return narrow;
}

const second = store(Date.now());
setInterval(() => { if (!document.hidden) second.write(Date.now()); }, 1000);

/** Now, in ms; draws again every second. For what counts down. */
export const useNow = () => useStore(second);

/** `value`, once it has not changed for `ms`. */
export function useSettled(value, ms) {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
