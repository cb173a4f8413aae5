// Which page is shown at which address.
import { resume, session } from './api.js';
import { Layout, Title } from './layout.js';
import { html, render, useEffect, useState } from './lib.js';
import { Empty } from './parts.js';
import { route } from './route.js';
import { useStore } from './use.js';
import { Channels } from '../views/channels.js';
import { Connection } from '../views/connection.js';
import { Connections } from '../views/connections.js';
import { Consumers } from '../views/consumers.js';
import { DeadLetters } from '../views/dead_letters.js';
import { Exchange } from '../views/exchange.js';
import { Exchanges } from '../views/exchanges.js';
import { LogIn } from '../views/log_in.js';
import { Logs } from '../views/logs.js';
import { Overview } from '../views/overview.js';
import { Policies } from '../views/policies.js';
import { Queue } from '../views/queue.js';
import { Queues } from '../views/queues.js';
import { Retries } from '../views/retries.js';
import { Users } from '../views/users.js';
import { Vhosts } from '../views/vhosts.js';

/** First part of the address -> [name, page for it alone, page for one thing below it, how many parts name that thing]. */
const PAGES = {
  '': ['Overview', Overview],
  connections: ['Connections', Connections, Connection, 1],
  channels: ['Channels', Channels],
  consumers: ['Consumers', Consumers],
  exchanges: ['Exchanges', Exchanges, Exchange, 2],
  queues: ['Queues', Queues, Queue, 2],
  retries: ['Retries', Retries],
  'dead-letters': ['Dead letters', DeadLetters],
  policies: ['Policies', Policies],
  users: ['Users', Users],
  vhosts: ['Vhosts', Vhosts],
  logs: ['Logs', Logs],
};

function Page() {
  const { parts } = useStore(route);
  const [first = '', ...rest] = parts;
  const [name, whole, one, length] = PAGES[first] ?? [];
  const below = rest.length > 0;
  useEffect(() => {
    document.title = `${below ? rest[rest.length - 1] + ' · ' : ''}${name ?? 'Not found'} · TarryMQ`;
  }, [parts.join('/')]);
  if (below && one && rest.length === length) return html`<${one} key=${parts.join('/')} of=${rest} />`;
  if (!below && whole) return html`<${whole} key=${first} />`;
  return html`<${Title}>Nothing here<//><${Empty}>There is no such page. <a href="#/">To the overview</a><//>`;
}

function App() {
  const who = useStore(session);
  const [known, know] = useState(false);
  useEffect(() => { resume().then(() => know(true)); }, []);
  if (who) return html`<${Layout}><${Page} /><//>`;
  return known ? html`<${LogIn} />` : null;
}

render(html`<${App} />`, document.getElementById('app'));
