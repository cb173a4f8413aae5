#!/usr/bin/python3
"""Tools made for RabbitMQ's management API, unchanged, against ours: rabbitmqadmin as RabbitMQ ships it, Debian's Nagios
checks, curl, and Prometheus' own parser. Usage: http_tools.py (starts brokers of its own from $TARRYMQ)."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import ROOT, Broker, scratch  # noqa: E402
from report import Fail, Report, Skip, check  # noqa: E402
from sources import run as bounded  # noqa: E402

KEPT = os.path.join(ROOT, "build", "conformance", "rabbitmqadmin")
IN_PACKAGE = "usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"


def rabbitmqadmin_script():
    """The script of Debian's package rabbitmq-server, taken out of it without installing a broker."""
    if os.path.exists(KEPT):
        return KEPT
    os.makedirs(os.path.dirname(KEPT), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bounded(["apt-get", "download", "-q", "rabbitmq-server"], 120, cwd=folder)
        package = glob.glob(os.path.join(folder, "rabbitmq-server_*.deb"))
        check(package, "apt-get download left no package")
        bounded(["dpkg-deb", "-x", package[0], folder], 60)
        script = glob.glob(os.path.join(folder, IN_PACKAGE))
        check(script, "the package holds no rabbitmqadmin")
        with open(script[0]) as source, open(KEPT + ".new", "w") as kept:
            kept.write(source.read())
    os.replace(KEPT + ".new", KEPT)
    return KEPT


class World:
    def __init__(self, broker, folder):
        self.broker, self.folder = broker, folder
        self.admin_script = None

    def admin(self, *words, user="guest", password="guest", vhost="/"):
        """Runs rabbitmqadmin; its output."""
        if self.admin_script is None:
            self.admin_script = rabbitmqadmin_script()
        done = subprocess.run([sys.executable, self.admin_script, "-P", str(self.broker.http), "-u", user, "-p", password,
                               "-V", vhost, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        text = done.stdout.decode(errors="replace")
        check(done.returncode == 0 and "***" not in text, "rabbitmqadmin %s: %s" % (" ".join(words), text))
        return text

    def rows(self, what, *columns):
        text = self.admin("-f", "raw_json", "list", what, *columns)
        return [] if text.startswith("No items") else json.loads(text)

    def get(self, path):
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.broker.http, path))
        request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()


    def send(self, method, path, body=None):
        """Status and text."""
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.broker.http, path), method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


def until(what, look, holds):
    """What look() gives as soon as it holds: figures and lists follow what a client was told."""
    end = time.monotonic() + 60
    while not holds(seen := look()):
        check(time.monotonic() < end, "%s: %s" % (what, seen))
        time.sleep(0.05)
    return seen


def admin_lists(world):
    for what in ("users", "vhosts", "connections", "exchanges", "bindings", "permissions", "channels", "parameters",
                 "consumers", "queues", "policies", "operator_policies", "vhost_limits", "nodes"):
        world.admin("list", what)
        world.admin("-d", "3", "-f", "long", "list", what)
    check("TarryMQ" in world.get("/api/overview"), "no overview")
    world.admin("show", "overview")
    check([r["name"] for r in world.rows("users", "name")] == ["guest"], "users")


def admin_declares(world):
    world.admin("declare", "queue", "name=a q", "durable=true", 'arguments={"x-max-length": 5}')
    world.admin("declare", "exchange", "name=x", "type=topic")
    world.admin("declare", "binding", "source=x", "destination=a q", "routing_key=k.#")
    world.admin("declare", "policy", "name=p", "pattern=^a", 'definition={"message-ttl": 60000}', "priority=3")
    world.admin("declare", "operator_policy", "name=op", "pattern=^a", 'definition={"max-length": 3}')
    world.admin("declare", "vhost", "name=other", "tracing=true")
    world.admin("declare", "user", "name=u", "password=pw", "tags=management")
    world.admin("declare", "permission", "vhost=other", "user=u", "configure=.*", "write=.*", "read=.*")
    world.admin("declare", "vhost_limit", "vhost=other", "name=max-queues", "value=1")
    try:
        world.admin("declare", "parameter", "component=mine", "name=n", 'value={"a": 1}')
    except Fail as refused:
        check("'mine' not found" in str(refused), "refused otherwise: %s" % refused)
    else:
        raise Fail("a parameter of a component that is not there was taken")
    queue = world.rows("queues")[0]
    check(queue["name"] == "a q" and queue["policy"] == "p" and queue["operator_policy"] == "op", "queue: %s" % queue)
    check({"source": "x", "destination": "a q", "routing_key": "k.#"} in
          world.rows("bindings", "source", "destination", "routing_key"), "no binding")
    check(world.rows("vhost_limits") == [{"vhost": "other", "value": {"max-queues": 1}}], "limits")
    world.admin("declare", "queue", "name=one", user="u", password="pw", vhost="other")
    try:
        world.admin("declare", "queue", "name=two", user="u", password="pw", vhost="other")
    except Fail as refused:
        check("queue limit" in str(refused), "refused otherwise: %s" % refused)
    else:
        raise Fail("a second queue went over the limit of 1")


def admin_messages(world):
    world.admin("publish", "routing_key=a q", "payload=first")
    world.admin("publish", "exchange=x", "routing_key=k.1", "payload=second", 'properties={"delivery_mode": 2}')
    check("first" in world.admin("get", "queue=a q", "count=2"), "get shows nothing")
    check("second" in world.admin("get", "queue=a q", "count=2", "ackmode=ack_requeue_false"), "get takes nothing")
    world.admin("publish", "routing_key=a q", "payload=third")
    world.admin("purge", "queue", "name=a q")
    until("purge left something", lambda: world.rows("queues", "name", "messages"), lambda rows: rows[0]["messages"] == 0)


def messages_move(world):
    """As the pages of RabbitMQ and tools like them do it: a shovel that ends with the queue's length."""
    source, target = "to move/from %2F", "to move/to"
    for name in (source, target):
        world.admin("declare", "queue", "name=" + name, "durable=true")
    for i in range(30):
        world.admin("publish", "routing_key=" + source, "payload=%d" % i) if i % 10 == 0 else world.send(
            "POST", "/api/exchanges/%2F/amq.default/publish",
            {"routing_key": source, "payload": str(i), "payload_encoding": "string", "properties": {"delivery_mode": 2}})
    value = {"src-protocol": "amqp091", "src-uri": "amqp:///%2F", "src-queue": source, "dest-protocol": "amqp091",
             "dest-uri": "amqp://guest:guest@127.0.0.1:%d/%%2F" % world.broker.amqp, "dest-queue": target,
             "src-prefetch-count": 1000, "add-forward-headers": False, "ack-mode": "on-confirm", "src-delete-after": "queue-length"}
    path = "/api/parameters/shovel/%2F/Move%20from%20" + urllib.parse.quote(source, safe="")
    body = {"component": "shovel", "vhost": "/", "name": "Move from " + source, "value": value}
    for wrong, word in (({"dest-uri": "amqp://elsewhere.example"}, "another broker"), ({"dest-queue": "nowhere"}, "no queue 'nowhere'"),
                        ({"dest-exchange": "x"}, "'dest-exchange'"), ({"src-delete-after": "never"}, "queue-length")):
        status, text = world.send("PUT", path, dict(body, value=dict(value, **wrong)))
        check(status == 400 and word in text, "%s: %d %s" % (wrong, status, text))
    status, text = world.send("PUT", path, body)
    check(status == 201, "%d %s" % (status, text))
    counts = lambda: {row["name"]: row["messages"] for row in world.rows("queues", "name", "messages") if row["name"] in (source, target)}
    until("they do not move", counts, lambda found: found == {source: 0, target: 30})
    status, text = world.send("POST", "/api/queues/%2F/" + urllib.parse.quote(target, safe="") + "/get",
                              {"count": 100, "ackmode": "ack_requeue_false", "encoding": "auto"})
    check([m["payload"] for m in json.loads(text)] == [str(i) for i in range(30)], "others, or in another order: " + text[:200])
    status, text = world.send("DELETE", path)
    check(status == 404, "the parameter stayed: %d" % status)
    for name in (source, target):
        world.admin("delete", "queue", "name=" + name)


def admin_definitions(world):
    file = os.path.join(world.folder, "all.json")
    world.admin("export", file)
    with open(file) as exported:
        first = json.load(exported)
    for what, *name in (("queue", "name=a q"), ("exchange", "name=x"), ("policy", "name=p"), ("operator_policy", "name=op"),
                        ("vhost", "name=other"), ("user", "name=u")):
        world.admin("delete", what, *name)
    check(world.rows("queues") == [], "queues are left")
    world.admin("import", file)
    again = os.path.join(world.folder, "again.json")
    world.admin("export", again)
    with open(again) as exported:
        check(json.load(exported) == first, "export, delete, import, export: not the same")


def admin_closes_connections(world):
    import pika
    connection = pika.BlockingConnection(pika.URLParameters(world.broker.url))
    connection.channel()
    [client] = until("one connection", lambda: world.rows("connections", "name"), lambda rows: len(rows) == 1)
    until("one channel", lambda: world.rows("channels"), lambda rows: len(rows) == 1)
    name = client["name"]
    world.admin("close", "connection", "name=" + name)
    try:
        connection.process_data_events(time_limit=60)
        raise Fail("the connection is still there")
    except pika.exceptions.ConnectionClosedByBroker as closed:
        check(closed.reply_code == 320, "code %d" % closed.reply_code)


def fields_of_what_is_open(world):
    """What dashboards and exporters read of a connection, its channel, its consumer and its queue."""
    import pika
    connection = pika.BlockingConnection(pika.URLParameters(world.broker.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    queue = channel.queue_declare("", exclusive=True).method.queue
    stamped = pika.BasicProperties(timestamp=1700000000, delivery_mode=2)
    for _ in range(3):
        channel.basic_publish("", queue, b"m", stamped)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="c", arguments={"x-priority": 7})
    connection.process_data_events(0)
    def look():
        of = {what: json.loads(world.get("/api/" + what)) for what in ("connections", "channels", "consumers")}
        return of, json.loads(world.get("/api/queues/%2F/" + queue))

    def settled(seen):
        of, one = seen
        return (all(len(of[what]) == 1 for what in of) and of["channels"][0]["message_stats"].get("deliver") == 1 and
                one["messages_unacknowledged"] == 1 and one["message_bytes_persistent"] == 3 and one["consumer_capacity"] < 1 and
                one.get("head_message_timestamp") and of["connections"][0]["send_pend"] == 0)

    of, one = until("all is counted", look, settled)
    stats = of["channels"][0]["message_stats"]
    client = of["connections"][0]
    check(client["host"] == "127.0.0.1" and client["port"] == world.broker.amqp, client)
    check(client["recv_cnt"] > 0 and client["send_cnt"] > 0 and client["send_pend"] == 0, client)
    check(stats["deliver_no_ack"] == 0 and stats["redeliver"] == 0 and stats["deliver_get"] == 1, stats)
    check(of["consumers"][0]["arguments"] == {"x-priority": 7}, of["consumers"])
    owner = {"name": client["name"], "peer_host": "127.0.0.1", "peer_port": client["peer_port"]}
    check(one["exclusive"] and one["owner_pid_details"] == owner, one)
    check(one["head_message_timestamp"] == 1700000000 and one["message_bytes_persistent"] == 3, one)
    node = json.loads(world.get("/api/overview"))["node"]
    sums = {a["protocol"]: a for a in json.loads(world.get("/api/auth/attempts/" + node))}
    check(sums["amqp091"]["auth_attempts_succeeded"] > 0 and sums["http"]["auth_attempts"] > 0, sums)
    sources = json.loads(world.get("/api/auth/attempts/%s/source" % node))
    check({"127.0.0.1"} == {s["remote_address"] for s in sources} and {"guest"} <= {s["username"] for s in sources}, sources)
    connection.close()


def nagios(world, name, *more, status=0):
    program = "/usr/bin/check_rabbitmq_" + name
    if not os.path.exists(program):
        raise Skip("nagios-plugins-rabbitmq is not installed")
    done = subprocess.run([program, "-H", "127.0.0.1", "--port", str(world.broker.http), *more], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)
    text = done.stdout.decode(errors="replace")
    check(done.returncode == status, "%s: status %d, %s" % (name, done.returncode, text))
    return text


def nagios_checks(world):
    world.admin("declare", "queue", "name=watched", "durable=true")
    for i in range(3):
        world.admin("publish", "routing_key=watched", "payload=m")
    until("three messages", lambda: world.rows("queues", "name", "messages"), lambda rows: {"name": "watched", "messages": 3} in rows)
    nagios(world, "aliveness")
    nagios(world, "overview")
    nagios(world, "overview", "-c", "2,-1,-1", status=2)
    nagios(world, "objects")
    nagios(world, "connections")
    nagios(world, "queue", "--queue", "watched")
    nagios(world, "queue", "--queue", "watched", "-c", "1,-1,-1,-1", status=2)
    # They take a figure of 0 for one that is missing: somebody is connected.
    import pika
    client = pika.BlockingConnection(pika.ConnectionParameters(port=world.broker.amqp))
    for name in ("watermark", "partition", "server"):
        nagios(world, name, "--node", "localhost")   # it makes rabbit@localhost of it
    client.close()


def curl_examples(world):
    """Those of the README, as they stand there."""
    with open(os.path.join(ROOT, "README.md")) as file:
        lines = [line.strip() for line in file if line.strip().startswith("curl ")]
    check(len(lines) >= 4, "the README has %d curl lines" % len(lines))
    world.admin("declare", "queue", "name=orders", "durable=true", 'arguments={"x-delayed-retry-min": 500}')
    for line in lines:
        command = line.replace("15672", str(world.broker.http)).replace("curl ", "curl -f ", 1)
        done = subprocess.run(["/bin/bash", "-c", command], cwd=world.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        check(done.returncode == 0, "%s: status %d, %s" % (line, done.returncode, done.stdout.decode(errors="replace")))


def prometheus_parses(world):
    try:
        from prometheus_client.parser import text_string_to_metric_families as parse
    except ImportError:
        raise Skip("python3-prometheus-client is not installed")
    world.admin("declare", "queue", 'name=a "quoted\\name', "durable=true", 'arguments={"x-delayed-retry-min": 1000}')
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics&vhost=/"):
        families = {family.name: family for family in parse(world.get(path))}
        check(families, path + " is empty")
        if "detailed" in path:
            continue
        for name in ("tarrymq_queue_messages_delayed", "tarrymq_retries_scheduled", "tarrymq_retries_redelivered",
                     "tarrymq_retries_postponed", "rabbitmq_queue_messages_ready", "rabbitmq_connections",
                     "rabbitmq_identity_info", "rabbitmq_global_messages_received"):
            check(name in families, "%s has no %s" % (path, name))
    labels = [s.labels.get("queue") for s in families["tarrymq_detailed_queue_messages_ready"].samples]
    check('a "quoted\\name' in labels, "labels: %s" % labels)


def dashboard_names(world):
    """Every figure that the dashboard of config/ draws is one that the broker has."""
    with open(os.path.join(ROOT, "config", "grafana-dashboard.json")) as file:
        text = file.read()
    json.loads(text)
    names = set(re.findall(r"\btarrymq_[a-z_]+", text))
    there = world.get("/metrics") + world.get("/metrics/per-object")
    missing = [n for n in sorted(names) if "\n" + n.removesuffix("_bucket") not in there]
    check(names and not missing, "not there: %s" % missing)


def main():
    report = Report("http-tools")
    with scratch() as folder, Broker(folder) as broker:
        world = World(broker, folder)
        report.run([
            ("rabbitmqadmin lists everything", admin_lists),
            ("rabbitmqadmin declares, limits and policies take effect", admin_declares),
            ("rabbitmqadmin publishes, gets, purges", admin_messages),
            ("messages are moved by a shovel that ends with the queue's length", messages_move),
            ("rabbitmqadmin exports, deletes, imports, exports the same", admin_definitions),
            ("rabbitmqadmin closes a connection", admin_closes_connections),
            ("fields of connections, channels, consumers and queues", fields_of_what_is_open),
            ("Nagios' checks", nagios_checks),
            ("curl, as in the README", curl_examples),
            ("Prometheus' parser", prometheus_parses),
            ("the figures of the Grafana dashboard", dashboard_names),
        ], world)
    report.end()


if __name__ == "__main__":
    main()
