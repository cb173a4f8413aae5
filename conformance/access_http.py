#!/usr/bin/python3
"""Who may do what over HTTP: every route of the description for nobody, a wrong password, each tag, a user without the vhost
and users who lack a right; requests that come from another site; headers. With a broker of its own.
"""
import base64
import http.client
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client  # noqa: E402

DEADLINE_S = 60
ALL, NONE = ".*", "^$"
LEVELS = ("management", "policymaker", "monitoring", "administrator")
WRITES = ("PUT", "POST", "DELETE")
RETRIES = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 1000}
# Which tag a route needs: the first pattern that fits "METHOD /path" of the description.
NEEDS = [(re.compile(pattern + "$"), level) for pattern, level in (
    (r"GET /api/openapi.json", "anyone"),
    (r"(GET|POST) /api/definitions.*", "administrator"),
    (r"\w+ /api/(users|permissions|topic-permissions|user-limits).*", "administrator"),
    (r"\w+ /api/vhosts/{vhost}/(permissions|topic-permissions|deletion/protection|start/{node})", "administrator"),
    (r"(PUT|DELETE) /api/vhosts/{vhost}", "administrator"),
    (r"(PUT|POST|DELETE) /api/vhost-limits/.*", "administrator"),
    (r"(PUT|DELETE) /api/(global-parameters|operator-policies)/.*", "administrator"),
    (r"PUT /api/cluster-name", "administrator"),
    (r"PUT /api/feature-flags/.*", "administrator"),
    (r"POST /api/(rebalance/queues|backup|drain)", "administrator"),
    (r"GET /api/auth/hash_password/{password}", "administrator"),
    (r"GET /api/(nodes|logs|backup|drain).*", "monitoring"),
    (r"\w+ /api/auth/attempts.*", "monitoring"),
    (r"GET /metrics.*", "monitoring"),
    (r"\w+ /api/(policies|operator-policies|parameters|global-parameters).*", "policymaker"),
    (r"\w+ /api/.*", "management"))]
# Who has what of a tag's rights.
GRANTS = {"management": {"management"}, "policymaker": {"management", "policymaker"},
          "monitoring": {"management", "monitoring"}, "administrator": set(LEVELS)}


class World:
    def __init__(self, one):
        self.broker = one
        for tag in LEVELS:
            self.user(tag, tag, ALL, ALL, ALL)
        self.user("untagged", "", ALL, ALL, ALL)
        self.user("outsider", "management")
        self.user("outsider-policymaker", "policymaker")
        self.user("outsider-monitoring", "monitoring")
        for name, rights in (("no-configure", (NONE, ALL, ALL)), ("no-write", (ALL, NONE, ALL)), ("no-read", (ALL, ALL, NONE))):
            self.user(name, "management", *rights)
        self.make()

    def make(self):
        for path, body in (("queues/%2F/q", {}), ("queues/%2F/r", {"arguments": RETRIES}), ("exchanges/%2F/x", {"type": "topic"}), ("exchanges/%2F/y", {"type": "topic"}),
                           ("policies/%2F/p", {"pattern": "^none", "definition": {"max-length": 5}})):
            self.must("PUT", "/api/" + path, body)
        self.must("POST", "/api/bindings/%2F/e/x/q/q", {"routing_key": "k"})

    def must(self, method, path, body=None, user="guest", password=None):
        status, _, answer = self.call(method, path, body, user, password)
        check(status < 300, "%s %s: %d %s" % (method, path, status, answer))
        return json.loads(answer) if answer else None

    def user(self, name, tags, *rights):
        self.must("PUT", "/api/users/" + name, {"password": "pw-" + name, "tags": tags})
        if rights:
            self.must("PUT", "/api/permissions/%2F/" + name, dict(zip(("configure", "write", "read"), rights)))

    def call(self, method, path, body=None, user=None, password=None, headers=None):
        """(status, headers, text)."""
        fields = {"Content-Type": "application/json", **(headers or {})}
        if user is not None:
            password = password or ("guest" if user == "guest" else "pw-" + user)
            fields["Authorization"] = "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.broker.http, timeout=DEADLINE_S)
        connection.request(method, path, None if body is None else json.dumps(body), fields)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return answer.status, answer.headers, text

    def operations(self):
        """(method, path as described, path with values) of all there are."""
        paths = self.must("GET", "/api/openapi.json")["paths"]
        check(len(paths) > 90, "only %d paths are described" % len(paths))
        for path, methods in sorted(paths.items()):
            for method in methods:
                yield method.upper(), path, with_values(method.upper(), path)


def with_values(method, path):
    """Reads name what is there; what would change something names what is not, but for the vhost."""
    own = path.startswith("/api/vhosts/{vhost}") and method in WRITES
    values = {"vhost": "none-such" if own else "%2F", "source": "x", "destination": "q" if "/q/" in path else "y",
              "component": "shovel", "node": "n", "within": "1", "unit": "days", "port": "5672", "protocol": "amqp",
              "limit_ms": "100000", "id": "1", "props": "none-such", "action": "discard", "limit": "max-connections"}
    if method == "GET":
        values.update(name="x" if "exchanges" in path else "q", queue="q", user="guest")
    return re.sub(r"{(\w+)}", lambda m: values.get(m.group(1), "none-such"), path)


def needed(method, path):
    return next(level for pattern, level in NEEDS if pattern.match("%s %s" % (method, path)))


# -- The checks

def who_is_nobody(world):
    """Without a log-in, with a wrong password, with a name that does not exist: the same 401 everywhere."""
    said = set()
    for method, described, path in world.operations():
        if needed(method, described) == "anyone":
            continue
        for user, password in ((None, None), ("administrator", "wrong"), ("nobody-of-that-name", "wrong"), ("", "x")):
            status, headers, text = world.call(method, path, {} if method in WRITES else None, user, password)
            check(status == 401, "%s %s as %s: %d %s" % (method, path, user, status, text))
            check(headers["WWW-Authenticate"].startswith("Basic realm="), "%s" % headers.items())
            said.add(text)
    check(said == {'{"error":"not_authorised","reason":"Login failed"}'}, "%s" % said)


def what_each_tag_may(world):
    for method, described, path in world.operations():
        level = needed(method, described)
        if level == "anyone":
            continue
        body = {} if method in WRITES else None
        status, _, text = world.call(method, path, body, "untagged")
        check(status == 403 and "Not management user" in text, "%s %s without a tag: %d %s" % (method, path, status, text))
        for tag in LEVELS:
            if (method, path) == ("POST", "/api/drain") and level in GRANTS[tag]:
                continue   # the broker would take its leave
            of_theirs = path.replace("username/none-such", "username/" + tag)   # each may close their own
            status, _, text = world.call(method, of_theirs, body, tag)
            if level in GRANTS[tag]:
                check(status not in (401, 403), "%s %s as %s: %d %s" % (method, path, tag, status, text))
                check(status != 500, "%s %s as %s: %d %s" % (method, path, tag, status, text))
            else:
                check(status == 403 and "the user's tags do not allow this" in text,
                      "%s %s as %s: %d %s" % (method, path, tag, status, text))


def without_the_vhost(world):
    """Who has no permissions in a vhost does nothing there, and does not see it; monitoring sees all."""
    world.make()
    where = re.compile("{vhost}")
    for method, described, path in world.operations():
        level = needed(method, described)
        if not where.search(described) or level == "administrator" or "/shovels/" in path or "federation" in path:
            continue
        if "quorum-queues-without-elected-leaders" in path:   # there are none, for anybody
            continue
        user = "outsider-policymaker" if level == "policymaker" else "outsider"
        status, _, text = world.call(method, path, {} if method in WRITES else None, user)
        check(status == 403, "%s %s as %s: %d %s" % (method, path, user, status, text))
    for method, described, path in world.operations():
        if method != "GET" or where.search(described) or re.search("{", described):
            continue
        if not re.match("/api/(queues|exchanges|bindings|consumers|connections|channels|policies|operator-policies|parameters|"
                        "vhosts|redrives|vhost-limits)", path):
            continue
        user = "outsider-policymaker" if needed(method, described) == "policymaker" else "outsider"
        client = Client(world.broker.amqp)
        answer = world.must(method, path, user=user)
        client.close()
        check(answer == [], "%s shows %s" % (path, json.dumps(answer)[:200]))
    for path in ("queues", "exchanges", "bindings", "queues/%2F/q", "vhosts"):
        check(world.must("GET", "/api/" + path, user="outsider-monitoring"), "%s: nothing for monitoring" % path)
    status, _, text = world.call("GET", "/api/overview", user="outsider")
    check(status == 200 and json.loads(text)["object_totals"]["queues"] == 0, "overview: %s" % text[:300])


def only_one(look):
    """What look() shows once those that were closed before are gone from it."""
    end = time.monotonic() + DEADLINE_S
    while len(shown := look()) != 1:
        check(time.monotonic() < end, "not one: %s" % shown)
        time.sleep(0.02)
    return shown


def others_connections(world):
    """A connection is its own user's and the administrator's to close, and monitoring's to see."""
    client = Client(world.broker.amqp)
    [shown] = only_one(lambda: [c for c in world.must("GET", "/api/connections") if c["user"] == "guest"])
    name = "/api/connections/" + shown["name"].replace(" ", "%20").replace(">", "%3E")
    for user, sees in (("management", False), ("policymaker", False), ("monitoring", True), ("administrator", True)):
        status, _, text = world.call("GET", name, user=user)
        check((status == 200) == sees, "GET as %s: %d %s" % (user, status, text))
        listed = [c["name"] for c in world.must("GET", "/api/connections", user=user)]
        check((shown["name"] in listed) == sees, "%s sees %s" % (user, listed))
        if user != "administrator":
            for path in (name, "/api/connections/username/guest"):
                status, _, text = world.call("DELETE", path, user=user)
                check(status in (401, 403, 404), "DELETE %s as %s: %d %s" % (path, user, status, text))
    client.sync()   # it is still there
    client.close()


def rights_in_the_vhost(world):
    """Operations on what is in a vhost, for users who lack one right: what AMQP refuses, in its words."""
    world.make()
    message = {"properties": {}, "routing_key": "k", "payload": "m", "payload_encoding": "string", "delay_ms": 1000}
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    refusal = "%s access to %s '%s' in vhost '/' refused for user '%s'"
    for method, path, body, needs in (
            ("PUT", "queues/%2F/q2", {}, [("configure", "queue", "q2")]),
            ("PUT", "queues/%2F/q3", {"arguments": {"x-dead-letter-exchange": "x"}},
             [("configure", "queue", "q3"), ("read", "queue", "q3"), ("write", "exchange", "x")]),
            ("PUT", "exchanges/%2F/x2", {"type": "direct"}, [("configure", "exchange", "x2")]),
            ("PUT", "exchanges/%2F/x3", {"type": "direct", "arguments": {"alternate-exchange": "x"}},
             [("configure", "exchange", "x3"), ("read", "exchange", "x3"), ("write", "exchange", "x")]),
            ("POST", "bindings/%2F/e/x/q/q", {"routing_key": "z"}, [("write", "queue", "q"), ("read", "exchange", "x")]),
            ("POST", "bindings/%2F/e/x/e/y", {"routing_key": "z"}, [("write", "exchange", "y"), ("read", "exchange", "x")]),
            ("DELETE", "bindings/%2F/e/x/q/q/k", None, [("write", "queue", "q"), ("read", "exchange", "x")]),
            ("POST", "exchanges/%2F/x/publish", message, [("write", "exchange", "x")]),
            ("POST", "exchanges/%2F/amq.default/publish", message, [("write", "exchange", "amq.default")]),
            ("POST", "queues/%2F/q/get", get, [("read", "queue", "q")]),
            ("GET", "queues/%2F/q/delayed", None, [("read", "queue", "q")]),
            ("POST", "queues/%2F/q/delayed/drop", {"all": True}, [("read", "queue", "q")]),
            ("POST", "queues/%2F/r/delayed", {"messages": [message]},
             [("write", "exchange", "amq.default"), ("read", "queue", "r")]),
            ("POST", "queues/%2F/q/redrive", {"target": "r"}, [("write", "exchange", "amq.default"), ("read", "queue", "q")]),
            ("PUT", "queues/%2F/r/retry", {"min": 2000}, [("configure", "queue", "r")]),
            ("DELETE", "queues/%2F/r/retry", None, [("configure", "queue", "r")]),
            ("DELETE", "queues/%2F/q/contents", None, [("read", "queue", "q")]),
            ("DELETE", "queues/%2F/q", None, [("configure", "queue", "q")]),
            ("DELETE", "exchanges/%2F/x", None, [("configure", "exchange", "x")])):
        for user in ("no-configure", "no-write", "no-read"):
            missing = [need for need in needs if need[0] == user[3:]]
            if not missing:
                continue
            status, _, text = world.call(method, "/api/" + path, body, user)
            check(status == 403 and refusal % (*missing[0], user) in text,
                  "%s %s as %s: %d %s" % (method, path, user, status, text))
        check(world.call("GET", "/api/queues/%2F/q", user="guest")[0] == 200, "the queue is gone")
    world.must("PUT", "/api/topic-permissions/%2F/management", {"exchange": "x", "write": "^a", "read": "^b"})
    for method, path, body, word in (("POST", "exchanges/%2F/x/publish", message, "write"),
                                     ("POST", "bindings/%2F/e/x/q/q", {"routing_key": "k2"}, "read")):
        status, _, text = world.call(method, "/api/" + path, body, "management")
        check(status == 403 and "%s access to topic 'k" % word in text, "%s: %d %s" % (path, status, text))
    world.must("DELETE", "/api/topic-permissions/%2F/management")


def a_policy_sends_nowhere_where_its_maker_may_not_write(world):
    """What a queue's or exchange's argument asks for, a policy does, too."""
    world.make()
    world.user("maker", "policymaker", ALL, "^open", ALL)
    for key in ("dead-letter-exchange", "alternate-exchange"):
        for exchange, right in (("open", True), ("x", False), ("", False)):
            status, _, text = world.call("PUT", "/api/policies/%2F/p", {"pattern": "^q", "definition": {key: exchange}}, "maker")
            named = exchange or "amq.default"
            check(status in (201, 204) if right else status == 403 and "write access to exchange '%s'" % named in text,
                  "%s = %r: %d %s" % (key, exchange, status, text))
    world.must("PUT", "/api/policies/%2F/p", {"pattern": "^q", "definition": {"dead-letter-exchange": "x"}})
    world.must("DELETE", "/api/policies/%2F/p")


def changes_count_at_once(world):
    """The next request goes by the new tags, permissions and password."""
    world.user("moody", "management", ALL, ALL, ALL)
    world.must("GET", "/api/queues/%2F/q", user="moody")
    world.must("DELETE", "/api/permissions/%2F/moody")
    check(world.call("GET", "/api/queues/%2F/q", user="moody")[0] == 403, "without permissions")
    world.user("moody", "", ALL, ALL, ALL)
    check(world.call("GET", "/api/whoami", user="moody")[0] == 403, "without a tag")
    world.must("PUT", "/api/users/moody", {"password": "another", "tags": "administrator"})
    check(world.call("GET", "/api/whoami", user="moody")[0] == 401, "the old password")
    world.must("GET", "/api/users", user="moody", password="another")
    world.must("DELETE", "/api/users/moody")
    check(world.call("GET", "/api/whoami", user="moody", password="another")[0] == 401, "who was deleted")


def refusals_take_their_time(world):
    """As long for a name that exists as for one that does not, never less than login_failure_delay_ms (here 200)."""
    for user, password in (("guest", "wrong"), ("nobody-of-that-name", "wrong"), ("guest", "")):
        began = time.monotonic()
        check(world.call("GET", "/api/whoami", user=user, password=password or " ")[0] == 401, "logged in")
        check(time.monotonic() - began >= 0.2, "%s was refused after %g s" % (user, time.monotonic() - began))


def other_sites(world):
    """What a browser does for another site changes nothing, whatever log-in it remembers; tools without those fields pass."""
    own = "http://127.0.0.1:%d" % world.broker.http
    for method, described, path in world.operations():
        if method not in WRITES:
            continue
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"Origin": own + "1"}, {"Origin": "http://127.0.0.1"},
                        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
                        {"Origin": own, "Sec-Fetch-Site": "cross-site"}):
            status, answer, text = world.call(method, path, {}, "guest", headers=headers)
            check(status == 403 and "another site" in text, "%s %s with %s: %d %s" % (method, path, headers, status, text))
            check(not any(name.lower().startswith("access-control-") for name in answer), "%s" % answer.items())
    for headers in ({}, {"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        status, _, text = world.call("PUT", "/api/queues/%2F/q-origin", {}, "guest", headers=headers)
        check(status in (201, 204), "with %s: %d %s" % (headers, status, text))
    status, answer, _ = world.call("OPTIONS", "/api/queues/%2F/q-origin", headers={
        "Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"})
    check(not any(name.lower().startswith("access-control-") for name in answer), "a preflight is granted: %s" % answer.items())


def headers_of_every_answer(world):
    for method, path, user in (("GET", "/", None), ("GET", "/api/whoami", "guest"), ("GET", "/api/whoami", None),
                               ("GET", "/api/none-such", "guest"), ("PATCH", "/api/queues", "guest"), ("GET", "/metrics", "guest"),
                               ("PUT", "/api/queues/%2F/q", "guest"), ("HEAD", "/", None)):
        status, headers, _ = world.call(method, path, {} if method == "PUT" else None, user)
        for name, value in (("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
                            ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin")):
            check(headers[name] == value, "%s %s (%d): %s: %s" % (method, path, status, name, headers[name]))
        policy = headers["Content-Security-Policy"]
        check("default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy,
              "%s %s: %s" % (method, path, policy))
        check("Set-Cookie" not in headers, "a cookie")
        check(headers["Strict-Transport-Security"] is None, "HSTS without TLS")


report = Report("access-http")
with scratch() as folder, Broker(folder) as one:
    everybody = World(one)
    report.run([(f.__name__.replace("_", " "), f) for f in (
        what_each_tag_may, without_the_vhost, others_connections, rights_in_the_vhost,
        a_policy_sends_nowhere_where_its_maker_may_not_write, changes_count_at_once,
        refusals_take_their_time, other_sites, headers_of_every_answer)], everybody)
with scratch() as folder, Broker(folder, "--login-failure-delay-ms", "0") as one:
    report.run([(who_is_nobody.__name__.replace("_", " "), who_is_nobody)], World(one))
report.end()
