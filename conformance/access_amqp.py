#!/usr/bin/python3
"""Who may do what over AMQP: every operation for users who lack a right, with the refusal in RabbitMQ's words; log-ins that
are refused, and what happens to those who are there when their rights change. With brokers of its own.
"""
import base64
import json
import os
import re
import struct
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client, exchange_declare, publish_args, queue_declare  # noqa: E402
from wire import Closed, Delivery, Gone, short, table  # noqa: E402

DEADLINE_S = 60
ALL, NONE = ".*", "^$"
# Users who lack one right, and one who has none of them (but may open the vhost).
USERS = {"all": (ALL, ALL, ALL), "no-configure": (NONE, ALL, ALL), "no-write": (ALL, NONE, ALL), "no-read": (ALL, ALL, NONE),
         "bare": (NONE, NONE, NONE)}
RIGHTS = ("configure", "write", "read")


class World:
    """A broker, what the operations work on, and the users."""

    def __init__(self, one):
        self.broker = one
        self.owner = Client(one.amqp)
        for name, rights in USERS.items():
            self.user(name, *rights)
        self.user("stranger")
        self.user("topics", ALL, ALL, ALL)
        self.http("PUT", "topic-permissions/%2F/topics",
                  {"exchange": "amq.topic", "write": "^a[.]", "read": "^b[.]"})
        for name in ("x", "x-other", "x-doomed"):
            self.owner.exchange(name, "fanout", flags=0)
        for name in ("q", "q-doomed"):
            self.owner.temp(name=name, flags=0)
        self.owner.bind("q", "x", "bound")
        self.owner.bind_exchange("x-other", "x", "bound")

    def http(self, method, path, body=None):
        request = urllib.request.Request("http://127.0.0.1:%d/api/%s" % (self.broker.http, path), method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                                                  "Content-Type": "application/json"})
        answer = urllib.request.urlopen(request, timeout=DEADLINE_S).read()
        return json.loads(answer) if answer else None

    def user(self, name, *rights, vhost="%2F"):
        self.http("PUT", "users/" + name, {"password": "pw-" + name, "tags": ""})
        if rights:
            self.rights(name, *rights, vhost=vhost)

    def rights(self, name, configure, write, read, vhost="%2F"):
        self.http("PUT", "permissions/%s/%s" % (vhost, name), {"configure": configure, "write": write, "read": read})

    def client(self, user, **options):
        return Client(self.broker.amqp, user=user, password="pw-" + user, **options)


def bind_args(destination, source, key="k"):
    return b"\0\0" + short(destination) + short(source) + short(key) + b"\0" + table(None)


def unbind_queue_args(queue, exchange, key):
    return b"\0\0" + short(queue) + short(exchange) + short(key) + table(None)


DLX, ALTERNATE = {"x-dead-letter-exchange": "x-other"}, {"alternate-exchange": "x-other"}
DLX_DEFAULT = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
RETRIES = {"x-dead-letter-exchange": "x-other", "x-delayed-retry-type": "all", "x-delayed-retry-min": 1000}
GET, CONSUME, PUBLISH = (60, 70), (60, 20), (60, 40)
# name, (class, method), arguments, (answer: class, method; None: none), what it needs: [(right, kind, name)] in the order in
# which they are looked at.
OPERATIONS = (
    ("exchange.declare", (40, 10), exchange_declare("x-new", "direct"), (40, 11), [("configure", "exchange", "x-new")]),
    ("exchange.declare of what is there", (40, 10), exchange_declare("x", "fanout", flags=0), (40, 11),
     [("configure", "exchange", "x")]),
    ("exchange.declare with an alternate", (40, 10), exchange_declare("x-new2", "direct", ALTERNATE), (40, 11),
     [("configure", "exchange", "x-new2"), ("read", "exchange", "x-new2"), ("write", "exchange", "x-other")]),
    ("exchange.declare, passive", (40, 10), exchange_declare("x", "fanout", flags=1), (40, 11), []),
    ("exchange.bind", (40, 30), bind_args("x-other", "x"), (40, 31), [("write", "exchange", "x-other"), ("read", "exchange", "x")]),
    ("exchange.unbind", (40, 40), bind_args("x-other", "x", "bound"), (40, 51),
     [("write", "exchange", "x-other"), ("read", "exchange", "x")]),
    ("exchange.delete", (40, 20), b"\0\0" + short("x-doomed") + b"\0", (40, 21), [("configure", "exchange", "x-doomed")]),
    ("queue.declare", (50, 10), queue_declare("q-new", flags=0), (50, 11), [("configure", "queue", "q-new")]),
    ("queue.declare, exclusive", (50, 10), queue_declare("q-own"), (50, 11), [("configure", "queue", "q-own")]),
    ("queue.declare of what is there", (50, 10), queue_declare("q", flags=0), (50, 11), [("configure", "queue", "q")]),
    ("queue.declare with a dead-letter exchange", (50, 10), queue_declare("q-dlx", DLX, flags=0), (50, 11),
     [("configure", "queue", "q-dlx"), ("read", "queue", "q-dlx"), ("write", "exchange", "x-other")]),
    ("queue.declare that dead-letters to the default exchange", (50, 10), queue_declare("q-dlx2", DLX_DEFAULT, flags=0),
     (50, 11), [("configure", "queue", "q-dlx2"), ("read", "queue", "q-dlx2"), ("write", "exchange", "amq.default")]),
    ("queue.declare with retries", (50, 10), queue_declare("q-retry", RETRIES, flags=0), (50, 11),
     [("configure", "queue", "q-retry"), ("read", "queue", "q-retry"), ("write", "exchange", "x-other")]),
    ("queue.declare, passive", (50, 10), queue_declare("q", flags=1), (50, 11), []),
    ("queue.bind", (50, 20), bind_args("q", "x"), (50, 21), [("write", "queue", "q"), ("read", "exchange", "x")]),
    ("queue.unbind", (50, 50), unbind_queue_args("q", "x", "bound"), (50, 51), [("write", "queue", "q"), ("read", "exchange", "x")]),
    ("queue.purge", (50, 30), b"\0\0" + short("q") + b"\0", (50, 31), [("read", "queue", "q")]),
    ("queue.delete", (50, 40), b"\0\0" + short("q-doomed") + b"\0", (50, 41), [("configure", "queue", "q-doomed")]),
    ("basic.get", GET, b"\0\0" + short("q") + b"\1", (60, 72), [("read", "queue", "q")]),
    ("basic.consume", CONSUME, b"\0\0" + short("q") + short("tag") + b"\2" + table(None), (60, 21), [("read", "queue", "q")]),
    ("basic.publish", PUBLISH, publish_args("x-other", ""), None, [("write", "exchange", "x-other")]),
    ("basic.publish to the default exchange", PUBLISH, publish_args("", "nowhere"), None, [("write", "exchange", "amq.default")]),
)


def first_refusal(needs, rights):
    """What is said to who has `rights` (configure, write, read); None if nothing is missing."""
    for right, kind, name in needs:
        if rights[RIGHTS.index(right)] == NONE:
            return right, kind, name
    return None


def play(client, operation):
    """Does it, and waits until it is done. Gone with what the broker says when it refuses."""
    _, method, arguments, answer, _ = operation
    if method == PUBLISH:
        client.method(1, *PUBLISH, arguments, flush=False)
        head = struct.pack(">HHQH", 60, 0, 1, 0)
        client.out += struct.pack(">BHI", 2, 1, len(head)) + head + b"\xce" + struct.pack(">BHI", 3, 1, 1) + b"m\xce"
        client.flush()
        client.sync()
    else:
        client.call(1, *method, arguments, answer)


def matrix(world):
    """Each operation by each user: refused to who lacks a right it needs, done for the others."""
    for user in ("bare", "no-configure", "no-write", "no-read", "all"):   # who may everything comes last
        for operation in OPERATIONS:
            name, needs = operation[0], operation[4]
            missing = first_refusal(needs, USERS[user])
            client = world.client(user)
            try:
                play(client, operation)
                check(missing is None, "%s: %s was done, without %s" % (user, name, missing))
                # Not just cut: its exclusive queue is gone when it hears the close-ok.
                client.call(0, 10, 50, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), (10, 51))
                client.close()
                restore(world, name)
            except Gone as gone:
                check(missing, "%s: %s: %s" % (user, name, gone))
                expected = "closed: 403 ACCESS_REFUSED - %s access to %s '%s' in vhost '/' refused for user '%s'" % (
                    *missing, user)
                check(str(gone) == expected, "%s: %s: %s, not %s" % (user, name, gone, expected))


def restore(world, name):
    """What the next user finds is what the first one found."""
    owner = world.owner
    for queue in ("q-new", "q-dlx", "q-dlx2", "q-retry"):
        if name.startswith("queue.declare"):
            owner.call(1, 50, 40, b"\0\0" + short(queue) + b"\0", (50, 41))
    for exchange in ("x-new", "x-new2"):
        owner.call(1, 40, 20, b"\0\0" + short(exchange) + b"\0", (40, 21))
    owner.exchange("x-doomed", "fanout", flags=0)
    owner.temp(name="q-doomed", flags=0)
    owner.bind("q", "x", "bound")
    owner.bind_exchange("x-other", "x", "bound")


def nothing_was_done_that_was_refused(world):
    """After all those refusals by users without rights nothing is new, and nothing is missing."""
    owner = world.owner
    before = json.dumps([world.http("GET", path) for path in ("definitions", "bindings")], sort_keys=True)
    for operation in OPERATIONS:
        if operation[4]:
            client = world.client("bare")
            try:
                play(client, operation)
                check(False, operation[0] + " was done")
            except Gone:
                pass
    owner.sync()
    after = json.dumps([world.http("GET", path) for path in ("definitions", "bindings")], sort_keys=True)
    check(before == after, "something changed")


def topics(world):
    """Routing keys of topic exchanges: as publishes and as bindings."""
    def refused(word, key):
        return "403 ACCESS_REFUSED - %s access to topic '%s' in exchange 'amq.topic' in vhost '/' refused for user 'topics'" % (
            word, key)
    client = world.client("topics")
    queue = client.temp()
    client.bind(queue, "amq.topic", "b.#")
    client.send("amq.topic", "a.1")
    client.send("amq.topic", "a.1")   # from the cache of routes
    client.sync()
    for word, key, act in (("write", "c.1", lambda: client.send("amq.topic", "c.1") or client.sync()),
                           ("read", "a.#", lambda: client.bind(queue, "amq.topic", "a.#"))):
        try:
            act()
            check(False, "%s of %s was allowed" % (word, key))
        except Gone as gone:
            check(str(gone) == "closed: " + refused(word, key), "%s" % gone)
        client.method(1, 20, 41)
        client.open(1)
    client.close()


def told(port, **options):
    """What a client hears whose log-in is refused, and after how long."""
    began = time.monotonic()
    try:
        Client(port, **options)
    except Gone as gone:
        return str(gone), time.monotonic() - began
    return None, 0


def log_ins(world):
    """Wrong password, unknown user, no password: one answer for all, and after one time."""
    port = world.broker.amqp
    secret = {"capabilities": ["authentication_failure_close"]}
    heard = set()
    for user, password in (("all", "wrong"), ("nobody-of-that-name", "wrong"), ("all", ""), ("", ""), ("guest", "Guest"),
                           ("all\0guest", "guest"), ("x" * 200, "y" * 50)):
        said, after = told(port, user=user, password=password, **secret)
        check(said and after >= 0.2, "%r: %s after %g s" % (user, said, after))
        heard.add(said)
        said, after = told(port, user=user, password=password)
        check(said and "closed" not in said and after >= 0.2, "%r: %s after %g s" % (user, said, after))
    check(heard == {"closed: 403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the "
                    "broker logfile."}, "%s" % heard)
    for user, why in (("all", "wrong password"), ("nobody-of-that-name", "there is no such user")):
        world.broker.logged("log-in of user '%s' from 127.0.0.1 refused: %s" % (user, why))


def names_write_no_log_lines(world):
    """A name with a line end in it is no way to write into the log."""
    said, _ = told(world.broker.amqp, user="x\n2026-01-01T00:00:00.000+0000 info main: forged\x1b[2J", password="y")
    check(said, "logged in")
    world.broker.logged(r"\\x0a2026-01-01.*refused")
    with open(world.broker.log_path, errors="replace") as log:
        lines = log.read().split("\n")
    check(not any(line.startswith("2026-01-01") or "\x1b" in line for line in lines), "a forged line: %s" % lines[-5:])


def vhosts(world):
    world.http("PUT", "vhosts/other", {})
    for user, vhost, text in (
            ("stranger", "/", "access to vhost '/' refused for user 'stranger'"),
            ("all", "other", "access to vhost 'other' refused for user 'all'"),
            ("all", "none-such", "vhost none-such not found"), ("all", "", "vhost  not found")):
        said, _ = told(world.broker.amqp, user=user, password="pw-" + user, vhost=vhost)
        check(said == "closed: 530 NOT_ALLOWED - " + text, "%s at %s: %s" % (user, vhost, said))
    world.user("stranger", NONE, NONE, NONE)
    world.client("stranger").close()   # a permission that permits nothing opens the vhost
    world.http("DELETE", "permissions/%2F/stranger")
    said, _ = told(world.broker.amqp, user="stranger", password="pw-stranger")
    check("530" in said, "%s" % said)


def rights_change_while_connected(world):
    """The next operation goes by what is allowed now, whatever was cached; and back again."""
    world.user("moody", ALL, ALL, ALL)
    client = world.client("moody")
    queue = client.temp()
    for _ in range(3):
        client.send("", queue)
        client.send("x-other", "k")
    check(client.get(queue) is not None, "no message")
    changes = (
        ((ALL, NONE, ALL), lambda: client.send("", queue) or client.sync(), "write access to exchange 'amq.default'"),
        ((ALL, NONE, ALL), lambda: client.send("x-other", "k") or client.sync(), "write access to exchange 'x-other'"),
        ((ALL, ALL, NONE), lambda: client.get(queue), "read access to queue '%s'" % queue),
        ((ALL, ALL, NONE), lambda: client.call(1, *CONSUME, b"\0\0" + short(queue) + short("") + b"\2" + table(None), (60, 21)),
         "read access to queue '%s'" % queue),
        ((NONE, ALL, ALL), lambda: client.temp(), "configure access to queue 'amq.gen-"))
    for rights, act, text in changes:
        world.rights("moody", *rights)
        said = ""
        try:
            act()
        except Exception as error:   # a Gone of the channel's close, or what the client makes of it
            said = str(error)
        check("403" in said and text in said, "%s: %s" % (text, said or "was done"))
        client.method(1, 20, 41)
        client.open(1)
        world.rights("moody", ALL, ALL, ALL)
        client.send("", queue)
        client.send("x-other", "k")
        client.sync()
    # The same for the topic rights of a route that is cached.
    for _ in range(2):
        client.send("amq.topic", "t.1")
    client.sync()
    world.http("PUT", "topic-permissions/%2F/moody", {"exchange": "amq.topic", "write": "^u", "read": ALL})
    client.send("amq.topic", "t.1")
    try:
        client.sync()
        check(False, "a topic that is not allowed any more")
    except Gone as gone:
        check("write access to topic 't.1'" in str(gone), "%s" % gone)
    client.close()


def a_tag_counts_while_connected(world):
    """Who may publish in the name of others is asked at each such publish, whatever the tags were at the log-in."""
    world.user("actor", ALL, ALL, ALL)
    client = world.client("actor")
    queue = client.temp()
    for tags, may in (("", False), ("impersonator", True), ("", False)):
        world.http("PUT", "users/actor", {"password": "pw-actor", "tags": tags})
        client.send("", queue, flags=1 << 4, properties=short("somebody"))
        try:
            client.sync()
            check(may, "without the tag")
        except Gone as gone:
            check(not may and "user_id property set to 'somebody' but authenticated user was 'actor'" in str(gone), "%s" % gone)
            client.method(1, 20, 41)
            client.open(1)
    client.close()


def closed_with(client, code, pattern):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        client.kept += client.take_early() + client.poll(0.1)
        for event in client.kept:
            if isinstance(event, Closed):
                check(event.connection and event.code == code and re.search(pattern, event.text), "%s" % (event,))
                return
    check(False, "not closed; came: %s" % client.kept)


def who_is_deleted_is_thrown_out(world):
    world.user("leaver", ALL, ALL, ALL)
    client = world.client("leaver")
    queue = client.temp()
    client.consume(1, queue, "t")
    world.http("DELETE", "users/leaver")
    closed_with(client, 320, "user 'leaver' (is|was) deleted")
    check(told(world.broker.amqp, user="leaver", password="pw-leaver")[0], "who was deleted logs in")
    world.http("PUT", "vhosts/doomed", {})
    world.user("tenant", ALL, ALL, ALL, vhost="doomed")
    client = world.client("tenant", vhost="doomed")
    world.http("DELETE", "vhosts/doomed")
    closed_with(client, 320, "vhost 'doomed' (is|was) deleted")


def a_consumer_of_who_may_not_read_any_more_gets_no_more_queues(world):
    """What it consumes it goes on to consume, as with RabbitMQ: rights are looked at when something is asked for."""
    world.user("reader", ALL, ALL, ALL)
    client = world.client("reader")
    queue = client.temp()
    client.consume(1, queue, "t", no_ack=True)
    world.rights("reader", ALL, ALL, NONE)
    world.owner.sync()
    client.send("", queue)
    check(client.next(Delivery).body == b"m", "no delivery")
    client.close()


def passwords_change(world):
    world.user("changer", ALL, ALL, ALL)
    world.client("changer").close()
    world.http("PUT", "users/changer", {"password": "another", "tags": ""})
    check(told(world.broker.amqp, user="changer", password="pw-changer")[0], "the old password")
    Client(world.broker.amqp, user="changer", password="another").close()
    world.http("PUT", "users/changer", {"password_hash": "", "tags": ""})   # none: nobody logs in with a password
    for password in ("", "another", "pw-changer"):
        check(told(world.broker.amqp, user="changer", password=password)[0], "without a password: %r" % password)


report = Report("access-amqp")
with scratch() as folder, Broker(folder) as one:
    everybody = World(one)
    report.run([(f.__name__.replace("_", " "), f) for f in (
        matrix, nothing_was_done_that_was_refused, topics, log_ins, names_write_no_log_lines, vhosts, rights_change_while_connected,
        a_tag_counts_while_connected, who_is_deleted_is_thrown_out,
        a_consumer_of_who_may_not_read_any_more_gets_no_more_queues, passwords_change)], everybody)
report.end()
