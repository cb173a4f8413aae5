#!/usr/bin/python3
"""What a provider for Terraform does over the management API: makes a thing, reads it back, makes it again, changes it,
deletes it, and asks for what is gone. Bodies as the provider for RabbitMQ sends them, keys it does not know included.

Usage: provider.py (starts a broker of its own from $TARRYMQ)."""
import base64
import http.client
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check  # noqa: E402


class Api:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.location = None

    def call(self, method, path, body=None, status=None, user="guest:guest"):
        self.connection.request(method, "/api/" + path, None if body is None else json.dumps(body).encode(),
                                {"Authorization": "Basic " + base64.b64encode(user.encode()).decode(),
                                 "Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        self.location = answer.getheader("Location")
        check(status is None or answer.status == status,
              "%s %s: %d, expected %s: %s" % (method, path, answer.status, status, text[:300]))
        return json.loads(text) if text else None


def holds(found, expected, what):
    for key, value in expected.items():
        check(found.get(key) == value, "%s: %s is %r, not %r" % (what, key, found.get(key), value))


def whole_life(api, path, body, seen, changed=None, seen_changed=None):
    """Nothing, made, as it was told, made again, changed, deleted, nothing."""
    api.call("GET", path, status=404)
    api.call("PUT", path, body, 201)
    holds(api.call("GET", path, status=200), seen, path)
    api.call("PUT", path, body, 204)
    holds(api.call("GET", path, status=200), seen, path + " made again")
    if changed:
        api.call("PUT", path, changed, 204)
        holds(api.call("GET", path, status=200), seen_changed, path + " changed")
    api.call("DELETE", path, status=204)
    api.call("GET", path, status=404)
    api.call("DELETE", path, status=404)


def vhosts(api):
    whole_life(api, "vhosts/made", {"description": "d", "default_queue_type": "quorum", "tracing": False},
               {"name": "made", "description": "d", "default_queue_type": "quorum", "tracing": False},
               {"description": "other", "default_queue_type": "classic"}, {"description": "other"})


def users(api):
    whole_life(api, "users/made", {"password": "one", "tags": "management,monitoring", "name": "made"},
               {"name": "made", "tags": ["management", "monitoring"]},
               {"password": "two", "tags": ""}, {"tags": []})
    api.call("PUT", "users/login", {"password": "one", "tags": "management"}, 201)
    api.call("GET", "whoami", status=200, user="login:one")
    api.call("PUT", "users/login", {"password": "two", "tags": "management"}, 204)
    api.call("GET", "whoami", status=401, user="login:one")
    check(api.call("GET", "whoami", status=200, user="login:two")["name"] == "login", "whoami")


def permissions(api):
    api.call("PUT", "vhosts/v", {}, 201)
    whole_life(api, "permissions/v/login", {"configure": "^a", "write": ".*", "read": ""},
               {"user": "login", "vhost": "v", "configure": "^a", "write": ".*", "read": ""},
               {"configure": "", "write": "", "read": ".*"}, {"configure": "", "read": ".*"})
    path = "topic-permissions/v/login"
    check(api.call("GET", path, status=404) is not None, "no reason")
    for status in (201, 204):
        api.call("PUT", path, {"exchange": "amq.topic", "write": "^a", "read": ".*"}, status)
    found = api.call("GET", path, status=200)
    check(found == [{"user": "login", "vhost": "v", "exchange": "amq.topic", "write": "^a", "read": ".*"}], found)
    api.call("DELETE", path + "/amq.topic", status=204)
    api.call("GET", path, status=404)


def exchanges(api):
    whole_life(api, "exchanges/v/made", {"type": "topic", "durable": True, "auto_delete": False,
                                         "arguments": {"alternate-exchange": "amq.fanout"}},
               {"name": "made", "vhost": "v", "type": "topic", "durable": True, "auto_delete": False,
                "arguments": {"alternate-exchange": "amq.fanout"}})
    api.call("PUT", "exchanges/v/made", {"type": "topic", "durable": True}, 201)
    reason = api.call("PUT", "exchanges/v/made", {"type": "direct", "durable": True}, 400)["reason"]
    check("inequivalent arg 'type'" in reason, reason)
    # LavinMQ's flag for an exchange that delays.
    api.call("PUT", "exchanges/v/later", {"type": "direct", "durable": True, "delayed": True}, 201)
    check(api.call("GET", "exchanges/v/later", status=200)["arguments"] == {"x-delayed-exchange": True}, "it does not delay")


def queues(api):
    arguments = {"x-queue-type": "quorum", "x-message-ttl": 5000, "x-delayed-retry-min": 500, "x-delivery-limit": 3}
    whole_life(api, "queues/v/made", {"type": "quorum", "durable": True, "auto_delete": False, "arguments": arguments},
               {"name": "made", "vhost": "v", "type": "quorum", "durable": True, "auto_delete": False, "arguments": arguments})
    api.call("PUT", "queues/v/made", {"durable": True, "arguments": {}}, 201)
    reason = api.call("PUT", "queues/v/made", {"durable": True, "arguments": {"x-message-ttl": 5}}, 400)["reason"]
    check("inequivalent arg 'x-message-ttl'" in reason, reason)


def bindings(api):
    source = "bindings/v/e/made/q/made"
    check(api.call("GET", source, status=200) == [], "bound already")
    api.call("POST", source, {"routing_key": "a.#/b", "arguments": {"x": 1}}, 201)
    first = api.location
    api.call("POST", source, {"routing_key": "a.#/b", "arguments": {"x": 1}}, 201)
    check(api.location == first, "%s and %s" % (first, api.location))
    found = api.call("GET", source, status=200)
    check(len(found) == 1, found)
    holds(found[0], {"source": "made", "destination": "made", "destination_type": "queue", "routing_key": "a.#/b",
                     "arguments": {"x": 1}, "vhost": "v"}, "binding")
    path = source + "/" + found[0]["properties_key"].replace("%", "%25").replace("/", "%2F").replace("#", "%23")
    holds(api.call("GET", path, status=200), found[0], "binding by its key")
    check(any(b == found[0] for b in api.call("GET", "bindings/v", status=200)), "not in the vhost's list")
    api.call("DELETE", path, status=204)
    api.call("GET", path, status=404)
    api.call("DELETE", path, status=404)
    api.call("POST", "bindings/v/e/made/q/nobody", {"routing_key": "k"}, 404)


def policies(api):
    for kind in ("policies", "operator-policies"):
        body = {"vhost": "v", "name": "p", "pattern": "^made$", "definition": {"max-length": 10, "expires": 3600000},
                "priority": 3, "apply-to": "queues"}
        whole_life(api, kind + "/v/p", body, body, dict(body, priority=4, definition={"max-length": 7}),
                   dict(body, priority=4, definition={"max-length": 7}))
    api.call("PUT", "policies/v/p", {"pattern": "^made$", "definition": {"max-length": 10}}, 201)
    holds(api.call("GET", "queues/v/made"), {"policy": "p", "effective_policy_definition": {"max-length": 10}}, "queue")
    api.call("DELETE", "policies/v/p", status=204)
    holds(api.call("GET", "queues/v/made"), {"policy": None, "effective_policy_definition": {}}, "queue without it")
    reason = api.call("PUT", "policies/v/p", {"pattern": ".", "definition": {"delayed-retry-min": 5}}, 400)["reason"]
    check("override" in reason, reason)


def limits_and_parameters(api):
    for status in (204, 204):
        api.call("PUT", "vhost-limits/v/max-queues", {"value": 100}, status)
    check(api.call("GET", "vhost-limits/v") == [{"vhost": "v", "value": {"max-queues": 100}}], "limits")
    api.call("DELETE", "vhost-limits/v/max-queues", status=204)
    check(api.call("GET", "vhost-limits/v") == [], "limits are left")
    body = {"name": "n", "value": {"deep": [1, {"er": True}]}}
    whole_life(api, "global-parameters/n", body, body, dict(body, value="text"), dict(body, value="text"))
    api.call("GET", "parameters/mine/v/n", status=404)
    reason = api.call("PUT", "parameters/mine/v/n", dict(body, component="mine", vhost="v"), 400)["reason"]
    check("'mine' not found" in reason, reason)
    api.call("GET", "parameters/mine/v/n", status=404)


def everything_goes_with_its_vhost(api):
    api.call("DELETE", "vhosts/v", status=204)
    for path in ("queues/v/made", "exchanges/v/made", "permissions/v/login", "policies/v"):
        api.call("GET", path, status=404)


def main():
    report = Report("provider")
    with scratch() as folder, Broker(folder) as broker:
        report.run([
            ("a vhost", vhosts),
            ("a user, whose password changes", users),
            ("permissions and topic permissions", permissions),
            ("an exchange", exchanges),
            ("a queue", queues),
            ("a binding", bindings),
            ("policies and operator policies", policies),
            ("limits and parameters", limits_and_parameters),
            ("all goes with its vhost", everything_goes_with_its_vhost),
        ], Api(broker.http))
    report.end()


if __name__ == "__main__":
    main()
