// Publishing one message, to an exchange or straight to a queue.
import { path, post } from '../js/api.js';
import { Form, done, failed } from '../js/dialog.js';
import { Area, Check, Pairs, Text, object_of, useForm } from '../js/form.js';
import { html } from '../js/lib.js';

const PROPERTIES = {
  content_type: 'for example application/json', correlation_id: '', reply_to: '', message_id: '', app_id: '', type: '',
  priority: '0 to 255', expiration: 'ms after which it expires', timestamp: 'seconds since 1970', content_encoding: '',
  user_id: 'must be the user that publishes',
};
const TEXTS = new Set(['content_type', 'correlation_id', 'reply_to', 'message_id', 'app_id', 'type', 'expiration', 'content_encoding', 'user_id']);

/** With `queue` the message goes to that queue, through the default exchange. */
export function Publish({ close, vhost, exchange, queue }) {
  const [v, change] = useForm({ key: queue ?? '', persistent: true, payload: '', base64: false, headers: [], properties: [] });
  const send = async () => {
    const properties = object_of(v.properties);
    for (const [key, value] of Object.entries(properties)) if (TEXTS.has(key)) properties[key] = String(value);
    const answer = await post(path`exchanges/${vhost}/${queue === undefined ? exchange : 'amq.default'}/publish`, {
      routing_key: v.key, payload: v.payload, payload_encoding: v.base64 ? 'base64' : 'string',
      properties: { ...properties, delivery_mode: v.persistent ? 2 : 1, headers: object_of(v.headers) },
    });
    if (answer.routed) done('The message is published.');
    else failed('Published, but no queue took it: no binding fits the routing key, or the queue refuses more.');
  };
  return html`
    <${Form} close=${close} action="Publish" send=${send}>
      ${queue === undefined && html`<${Text} label="Routing key" value=${v.key} onChange=${(key) => change({ key })} maxlength="255" />`}
      <${Area} label="Payload" value=${v.payload} onChange=${(payload) => change({ payload })} rows="6" data-first />
      <${Check} label="the payload is base64" value=${v.base64} onChange=${(base64) => change({ base64 })} />
      <${Check} label="persistent" hint="in a durable queue it survives a restart" value=${v.persistent} onChange=${(persistent) => change({ persistent })} />
      <${Pairs} label="Headers" rows=${v.headers} onChange=${(headers) => change({ headers })} />
      <${Pairs} label="Properties" rows=${v.properties} onChange=${(properties) => change({ properties })} known=${PROPERTIES} />
    <//>`;
}
