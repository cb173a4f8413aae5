#!/usr/bin/python3
"""tarrymqctl from outside: every command against a broker of its own. Usage: ctl.py (programs: $TARRYMQ and the
tarrymqctl beside it)."""
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import PROGRAM, Broker, free_ports, scratch  # noqa: E402
from report import Fail, Report, Skip, check  # noqa: E402

CTL = os.environ.get("TARRYMQCTL") or os.path.join(os.path.dirname(PROGRAM), "tarrymqctl")
WELL, REFUSED, USAGE, UNREACHABLE, FORBIDDEN, NOT_FOUND = range(6)


class World:
    def __init__(self, broker, folder):
        self.broker, self.folder = broker, folder

    def run(self, *words, status=WELL, stdin="", uri=None):
        """Output and errors; the status must be this one."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TARRYMQCTL_")}
        environment["TARRYMQCTL_URI"] = uri or "http://guest:guest@127.0.0.1:%d" % self.broker.http
        done = subprocess.run([CTL, *words], input=stdin.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment, timeout=60)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        check(done.returncode == status, "%s: status %d, expected %d; %s %s" % (" ".join(words), done.returncode, status, out, err))
        if status != WELL:
            check(err.strip(), "%s: no word on stderr" % " ".join(words))
        return out, err

    def json(self, *words):
        return json.loads(self.run("--format", "json", *words)[0])


def until(what, look, holds):
    """What look() gives as soon as it holds: figures and lists follow what a client was told."""
    end = time.monotonic() + 60
    while not holds(seen := look()):
        check(time.monotonic() < end, "%s: %s" % (what, seen))
        time.sleep(0.02)
    return seen


def counted(world, queue, key, count):
    until("%s of %s: %d" % (key, queue, count), lambda: world.json("list_queues", "name", key),
          lambda rows: {"name": queue, key: count} in rows)


def status_and_checks(world):
    out, _ = world.run("status")
    for word in ("TarryMQ", "Up for", "Queues", "Memory", "amqp 127.0.0.1:%d" % world.broker.amqp):
        check(word in out, "status does not say %r: %s" % (word, out))
    check(world.json("status")["overview"]["product_name"] == "TarryMQ", "status as JSON")
    world.run("ping")
    world.run("ping", "--no-login", uri="http://guest:wrong@127.0.0.1:%d" % world.broker.http)
    out, _ = world.run("log_tail")
    check("refused" not in out, "a ping without a log-in is one that failed: " + out)
    world.run("ping", "--no-login", uri="http://127.0.0.1:%d" % free_ports(1)[0], status=UNREACHABLE)
    for words in (("alive",), ("ready",), ("alarms",), ("retries",), ("retries", "1000"), ("port", str(world.broker.amqp))):
        check(world.run("check", *words)[0] == "ok\n", "check %s" % (words,))
    _, err = world.run("check", "port", "1", status=REFUSED)
    check("check failed" in err, err)
    out, _ = world.run("log_tail", "-n", "5")
    check(len(out.splitlines()) <= 5, "log_tail: %s" % out)


def queues(world):
    world.run("declare_queue", "work", "--arguments", '{"x-delayed-retry-min": 100000, "x-delivery-limit": 3}')
    world.run("create_queue", "other", "--type", "quorum", "--transient", status=REFUSED)
    world.run("declare_queue", "other", "--type", "quorum")
    world.run("publish", "work", "hello", "--properties", '{"headers": {"k": 1}}')
    world.run("publish", "work", "-", stdin="from stdin")
    counted(world, "work", "messages", 2)
    out, _ = world.run("list_queues", "name", "messages")
    lines = out.splitlines()
    check(lines[0].split() == ["name", "messages"] and ["work", "2"] in [line.split() for line in lines], out)
    check("amq.retry-work" in out, "no companion: " + out)
    check({"name": "work", "messages": 2} in world.json("list_queues", "name", "messages"), "as JSON")
    check(world.run("-q", "list_queues", "name", "--name", "oth")[0] == "other\n", "filter")
    _, err = world.run("list_queues", "name", "mesages", "message_stats.publish")
    check("none of these has a field 'mesages'" in err and "'name'" not in err, "a mistyped column: " + err)
    check(world.run("-q", "list_queues", "mesages")[1] == "", "remarks in spite of -q")
    got = world.json("get", "work", "-n", "5")
    check([m["payload"] for m in got] == ["hello", "from stdin"], got)
    world.run("get", "work", "--mode", "take")
    world.run("purge_queue", "work", "other")
    counted(world, "work", "messages", 0)
    world.run("publish", "nowhere", "x", status=REFUSED)
    world.run("declare_exchange", "topic", "news")
    world.run("bind", "news", "work", "a.#")
    check(any(b["source"] == "news" for b in world.json("list_bindings")), "bound")
    world.run("unbind", "news", "work", "a.#")
    world.run("unbind", "news", "work", "a.#", status=NOT_FOUND)
    world.run("delete_exchange", "news")
    world.run("delete_queue", "work", "other")
    _, err = world.run("delete_queue", "work", status=NOT_FOUND)
    check("work" in err, err)


def users(world):
    world.run("add_user", "kim", "secret", "--tags", "monitoring,policymaker")
    _, err = world.run("add_user", "kim", "secret", status=REFUSED)
    check("there already" in err, err)
    check({"name": "kim", "tags": ["monitoring", "policymaker"]} in world.json("list_users"), "listed")
    world.run("authenticate_user", "kim", "secret")
    world.run("authenticate_user", "kim", "wrong", status=FORBIDDEN)
    world.run("change_password", "kim", stdin="new\n")
    world.run("authenticate_user", "kim", "new")
    world.run("set_user_tags", "kim", "administrator")
    world.run("authenticate_user", "kim", "new")
    world.run("add_vhost", "v", "--description", "for kim", "--tags", "a,b")
    world.run("-p", "v", "set_permissions", "kim", "^q", "^q", ".*")
    check(world.json("list_user_permissions", "kim") == [{"vhost": "v", "configure": "^q", "write": "^q", "read": ".*"}], "rights")
    kim = "http://kim:new@127.0.0.1:%d" % world.broker.http
    world.run("-p", "v", "declare_queue", "q1", uri=kim)
    _, err = world.run("-p", "v", "declare_queue", "x1", uri=kim, status=FORBIDDEN)
    check("x1" in err, err)
    world.run("-p", "v", "set_topic_permissions", "kim", "amq.topic", "^{username}\\.", ".*")
    check(len(world.json("list_topic_permissions")) == 1, "topic permissions")
    world.run("-p", "v", "clear_topic_permissions", "kim")
    world.run("set_user_limits", "kim", '{"max-connections": 2}')
    check(world.json("list_user_limits") == [{"user": "kim", "value": {"max-connections": 2}}], "limits")
    world.run("clear_user_limits", "kim", "max-connections")
    world.run("-p", "v", "set_vhost_limits", '{"max-queues": 1}')
    world.run("-p", "v", "declare_queue", "q2", uri=kim, status=REFUSED)
    world.run("-p", "v", "clear_vhost_limits")
    world.run("-p", "v", "clear_permissions", "kim")
    world.run("enable_vhost_deletion_protection", "v")
    world.run("delete_vhost", "v", status=REFUSED)
    world.run("disable_vhost_deletion_protection", "v")
    world.run("delete_vhost", "v")
    world.run("clear_password", "kim")
    world.run("authenticate_user", "kim", "new", status=FORBIDDEN)
    world.run("delete_user", "kim")
    world.run("delete_user", "kim", status=NOT_FOUND)
    check(len(world.run("hash_password", "x")[0].strip()) == 48, "hash")


def policies(world):
    world.run("set_policy", "p", "^tmp", '{"max-length": 7}', "--priority", "2", "--apply-to", "queues")
    check(world.json("list_policies")[0]["definition"] == {"max-length": 7}, "policy")
    _, err = world.run("set_policy", "p", "^tmp", "nonsense", status=USAGE)
    check("JSON object" in err, err)
    _, err = world.run("set_policy", "p", "^tmp", '{"delayed-retry-min": 7}', status=REFUSED)
    check("override" in err, err)
    world.run("set_operator_policy", "o", "^tmp", '{"max-length": 5}')
    check(len(world.json("list_operator_policies")) == 1, "operator policy")
    world.run("clear_policy", "p")
    world.run("clear_operator_policy", "o")
    world.run("set_global_parameter", "g", '{"a": [1]}')
    check({"name": "g", "value": {"a": [1]}} in world.json("list_global_parameters"), "global parameter")
    world.run("clear_global_parameter", "g")
    _, err = world.run("set_parameter", "mine", "n", "text", status=REFUSED)
    check("'mine' not found" in err, err)
    world.run("clear_parameter", "mine", "n", status=NOT_FOUND)
    world.run("set_cluster_name", "night-shift")


def definitions(world):
    world.run("declare_queue", "kept", "--arguments", '{"x-delayed-retry-min": 500}')
    file = os.path.join(world.folder, "defs.json")
    world.run("export_definitions", file)
    first = json.load(open(file))
    check([q["name"] for q in first["queues"]] == ["kept"], "exported: %s" % first["queues"])
    world.run("delete_queue", "kept")
    world.run("import_definitions", file)
    check(json.loads(world.run("export_definitions", "-")[0]) == first, "not the same again")
    with open(file, "w") as broken:
        broken.write("[]")
    world.run("import_definitions", file, status=USAGE)
    world.run("import_definitions", os.path.join(world.folder, "none.json"), status=USAGE)
    dump = {"queues": [{"name": "s", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "stream"}}]}
    out, _ = world.run("import_definitions", "-", stdin=json.dumps(dump))
    check("not as in the file: queue 's'" in out, out)
    world.run("delete_queue", "kept")


def connections(world):
    import pika
    opened = [pika.BlockingConnection(pika.URLParameters(world.broker.url)) for _ in range(2)]
    names = [c["name"] for c in until("two connections", lambda: world.json("list_connections"), lambda rows: len(rows) == 2)]
    world.run("close_connection", names[0], "night work")
    world.run("close_all_connections", "--of-user", "guest")
    for connection in opened:
        try:
            connection.process_data_events(time_limit=60)
            raise Fail("still there")
        except pika.exceptions.ConnectionClosedByBroker as closed:
            check(closed.reply_code == 320, closed)
    until("both are gone", lambda: world.json("list_connections"), lambda rows: not rows)
    world.run("close_connection", names[0], status=NOT_FOUND)
    world.run("list_channels")
    world.run("list_consumers")


def retries(world):
    if "/api/retry-preview" not in json.loads(urllib.request.urlopen(
            "http://127.0.0.1:%d/api/openapi.json" % world.broker.http, timeout=20).read())["paths"]:
        raise Skip("this broker has no retry override yet")
    out, _ = world.run("retry_preview", "--min", "500", "--multiplier", "2", "--limit", "5")
    check("retry 5: 8.0 s later" in out, out)
    world.run("declare_queue", "r", "--arguments", '{"x-delayed-retry-min": 500, "x-delivery-limit": 2}')
    check(world.json("retry", "r")["effective"]["min"] == 500, "retry")
    world.run("retry_set", "r", status=USAGE)
    world.run("retry_set", "r", "--min", "700")
    check(world.json("retry", "r")["effective"]["min"] == 700, "override")
    world.run("retry_clear", "r")
    world.run("publish", "r", "m")
    world.run("retry_set", "r", "--min", "100000")
    world.run("get", "r", "--mode", "reject")
    waiting = until("one waits", lambda: world.json("list_delayed", "r"), lambda rows: len(rows) == 1)
    check(waiting[0]["attempt"] == 1, waiting)
    counted(world, "r", "messages_delayed", 1)
    out, _ = world.run("retry", "r")
    check("so far: 1 began to wait, 0 came due, 0 postponed, 1 wait now" in out and "dead-lettered: none" in out, out)
    waiting = world.json("list_delayed", "r")[0]
    shown = world.json("delayed_show", "r", waiting["id"])
    check(shown["id"] == waiting["id"] and shown["payload"] == waiting["payload"] and shown["attempt"] == 1, shown)
    world.run("delayed_show", "r", "1-0-1-0", status=NOT_FOUND)
    world.run("delayed_redeliver", "r", status=USAGE)
    check("1 messages" in world.run("delayed_redeliver", "r", "--all")[0], "redeliver")
    world.run("get", "r", "--mode", "reject")
    world.run("delayed_drop", "r", "--all")
    world.run("delete_queue", "r")


def redrives(world):
    world.run("declare_queue", "dead")
    world.run("declare_queue", "origin", "--arguments",
              '{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}')
    for i in range(3):
        world.run("publish", "origin", "m%d" % i)
    world.run("get", "origin", "-n", "3", "--mode", "dead-letter")
    counted(world, "dead", "messages_ready", 3)
    check(world.json("redrive", "dead", "--dry-run") == {"matched": 3}, "dry run")
    world.run("redrive", "dead", "--wait")
    counted(world, "origin", "messages_ready", 3)
    counted(world, "dead", "messages_ready", 0)
    check(len(world.json("list_redrives")) == 1, "listed")
    world.run("redrive_status", "no-such", status=NOT_FOUND)
    out, err = world.run("redrive", "origin", "--target", "nowhere", "--wait", status=REFUSED)
    check("stopped" in err and "nowhere" in err, "a redrive that was stopped: %s" % err)
    _, err = world.run("redrive", "nowhere", status=NOT_FOUND)
    check("no queue 'nowhere' in vhost '/'" in err, err)
    world.run("delete_queue", "dead", "origin")


def usage_and_errors(world):
    for words in ((), ("no_such_command",), ("list_queues", "--no-such-option"), ("add_user",), ("--format", "xml", "status"),
                  ("--uri", "ftp://x", "status")):
        world.run(*words, status=USAGE)
    _, err = world.run("list_queue", "name", status=USAGE)
    check("unknown command 'list_queue'" in err, err)
    _, err = world.run("-p", "nowhere", "list_queues", status=NOT_FOUND)
    check("no vhost 'nowhere'" in err, err)
    out, _ = world.run("delayed_drop", "--help")
    check("delivery_count_min" in out and "For example" in out, out)
    out, _ = world.run("--help")
    for word in ("list_queues", "Exit status", "TARRYMQCTL_URI", "Retries"):
        check(word in out, "help does not say " + word)
    check("messages_ready" in world.run("list_queues", "--help")[0], "help of a command")
    check("tarrymqctl" in world.run("--version")[0], "version")
    port = free_ports(1)[0]
    _, err = world.run("status", uri="http://127.0.0.1:%d" % port, status=UNREACHABLE)
    check(str(port) in err, err)
    _, err = world.run("--hostname", "::1", "--port", str(port), "status", status=UNREACHABLE)
    check("http://[::1]:%d: " % port in err and "malformed" not in err and "illegal" not in err, err)
    _, err = world.run("status", uri="http://guest:wrong@127.0.0.1:%d" % world.broker.http, status=FORBIDDEN)
    check("guest" in err, err)


def completion(world):
    script, _ = world.run("completion", "bash")
    test = script + '\nCOMP_WORDS=(tarrymqctl list_q); COMP_CWORD=1; _tarrymqctl; echo "${COMPREPLY[@]}"'
    test += '\nCOMP_WORDS=(tarrymqctl -p / list_queues --s); COMP_CWORD=4; _tarrymqctl; echo "${COMPREPLY[@]}"'
    out = subprocess.run(["/bin/bash", "-c", test], stdout=subprocess.PIPE, timeout=20).stdout.decode().splitlines()
    check(out[0] == "list_queues", out)
    check("--sort" in out[1], out)
    # Shells that are not there are left out.
    for shell, check_of_it in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
        script, _ = world.run("completion", shell)
        check("list_queues" in script and "sort" in script, shell)
        if shutil.which(shell):
            with open(os.path.join(world.folder, "completion." + shell), "w") as file:
                file.write(script)
            done = subprocess.run([shell, *check_of_it, file.name], stderr=subprocess.PIPE, timeout=20)
            check(done.returncode == 0 and not done.stderr, "%s: %s" % (shell, done.stderr))


def main():
    report = Report("tarrymqctl")
    with scratch() as folder, Broker(folder) as broker:
        report.run([(f.__name__.replace("_", " "), f) for f in
                    (status_and_checks, queues, users, policies, definitions, connections, retries, redrives,
                     usage_and_errors, completion)], World(broker, folder))
    report.end()


if __name__ == "__main__":
    main()
