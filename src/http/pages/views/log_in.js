// The log-in page.
import { farewell, log_in } from '../js/api.js';
import { html, useEffect, useRef, useState } from '../js/lib.js';
import { useStore } from '../js/use.js';

export function LogIn() {
  const why = useStore(farewell);
  const [user, set_user] = useState('');
  const [password, set_password] = useState('');
  const [problem, set_problem] = useState('');
  const [busy, set_busy] = useState(false);
  const first = useRef(null);
  useEffect(() => first.current.focus(), []);

  async function submit(event) {
    event.preventDefault();
    set_busy(true);
    set_problem('');
    try {
      await log_in(user, password);
    } catch (error) {
      set_problem(error.status === 401 ? 'Unknown user or wrong password.'
        : error.status === 403 ? `This user may not see these pages: ${error.message}. An administrator gives it a tag, for example "management".`
        : error.message);
      set_busy(false);
    }
  }
  return html`
    <main class="log-in">
      <form onSubmit=${submit}>
        <h1>TarryMQ</h1>
        ${why && html`<p class="note" role="status">${why}</p>`}
        <div class="field"><label for="user">User</label>
          <input id="user" ref=${first} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required
            value=${user} onInput=${(e) => set_user(e.target.value)} /></div>
        <div class="field"><label for="password">Password</label>
          <input id="password" type="password" name="password" autocomplete="current-password"
            value=${password} onInput=${(e) => set_password(e.target.value)} /></div>
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
        <button class="primary" disabled=${busy}>Log in</button>
        <p class="quiet">The log-in lasts until this tab is closed.</p>
      </form>
    </main>`;
}
