#!/usr/bin/python3
"""bunny's own integration specs (Ruby) against a broker of this script's own; its vhosts and users are made over the
HTTP API. See skips/bunny.txt for those that are left out."""
import base64
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import sources  # noqa: E402
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from report import Fail, Report, Skip, check, skip_list  # noqa: E402

SUITE_S = 600   # most of it are pauses in the specs: 150 s at the least
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
READ = {"configure": "^---$", "write": "^---$", "read": ".*"}
# What its own before_build script does.
MADE = [
    ("vhosts/bunny_testbed", {}), ("vhosts/bunny_dqt_classic", {"default_queue_type": "classic"}),
    ("vhosts/bunny_dqt_quorum", {"default_queue_type": "quorum"}),
    ("users/bunny_gem", {"password": "bunny_password", "tags": ""}),
    ("users/bunny_reader", {"password": "reader_password", "tags": ""}),
    ("permissions/bunny_testbed/bunny_reader", READ)] + [
    ("permissions/%s/%s" % (v, u), ALL) for v in ("bunny_testbed", "bunny_dqt_classic", "bunny_dqt_quorum")
    for u in ("bunny_gem", "guest")]


def put(base, path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), method="PUT", headers={
        "Content-Type": "application/json", "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()})
    urllib.request.urlopen(request, timeout=20).close()


def with_tls(home):
    """The broker, and in `home` the certificates by the names that the specs read."""
    authority = Authority(home, "ca_certificate", end=".pem")
    cert, key = authority.sign("server", "server", "DNS:localhost,IP:127.0.0.1")
    for made, name in zip(authority.sign("client", "client"), ("client_certificate.pem", "client_key.pem")):
        os.rename(made, os.path.join(home, name))
    amqps = free_ports(1)[0]
    broker = Broker(home, "--amqps-port", str(amqps), "--tls-cert", cert, "--tls-key", key, "--tls-verify", "peer",
                    "--tls-ca", authority.cert)
    broker.amqps = amqps
    return broker


def suite(report, broker, folder, certificates):
    if not shutil.which("rspec"):
        raise Skip("ruby-rspec is not installed")
    tree = sources.unpack("bunny", folder)
    for path, body in MADE:
        put("http://127.0.0.1:%d/api/" % broker.http, path, body)
    helper = os.path.join(tree, "spec", "spec_helper.rb")
    sources.edit(tree, [("require 'bundler'", ""), ("Bundler.require(:default, :test)", "")], "spec/spec_helper.rb")
    check(os.path.exists(helper), "no spec_helper.rb")
    # The default ports, which most specs rely on.
    with open(os.path.join(tree, "port.rb"), "w") as file:
        file.write('require "amq/protocol/client"\n')
        for name, port in (("DEFAULT_PORT", broker.amqp), ("TLS_PORT", broker.amqps)):
            file.write('AMQ::Protocol.send(:remove_const, :%s)\nAMQ::Protocol.const_set(:%s, %d)\n' % (name, name, port))
        file.write('require "amq/uri"\nAMQ::URI.send(:remove_const, :AMQP_DEFAULT_PORTS)\n'
                   'AMQ::URI.const_set(:AMQP_DEFAULT_PORTS, {"amqp" => 5672, "amqps" => %d})\n' % broker.amqps)
    specs = sorted(os.path.relpath(p, tree) for pattern in ("higher_level_api/integration", "lower_level_api/integration", "issues")
                   for p in glob.glob(os.path.join(tree, "spec", pattern, "*_spec.rb")))
    single = {}
    for pattern, reason in skip_list(os.path.join(HERE, "skips", "bunny.txt")):   # FILE, or FILE @ TEXT
        path, at, text = pattern.partition("@")
        fits = [s for s in specs if os.path.basename(s) == path.strip()]
        check(fits, "%s fits no spec" % path)
        if at:
            single[text.strip()] = reason
        else:
            specs = [s for s in specs if s not in fits]
            report.say("SKIP", path, reason)
    result = os.path.join(folder, "result.json")
    done = subprocess.run(["timeout", "-k", "5", str(SUITE_S), "rspec", "-I", "lib", "-I", "spec", "-r", "./port.rb", "--format",
                           "json", "--out", result, *specs], cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=dict(os.environ, RABBITMQ_PORT=str(broker.amqp),
                                                             BUNNY_CERTIFICATE_DIR=certificates))
    # Cut off, it still writes what it has; that must not pass for the whole.
    check(done.returncode != 124, "not through after %d s" % SUITE_S)
    try:
        with open(result) as file:
            examples = json.load(file)["examples"]
    except (OSError, ValueError):
        report.say("FAIL", "the suite", "ended with %d: %s" % (done.returncode, done.stdout[-400:].decode(errors="replace")))
        return
    unused = set(single)
    for example in examples:
        name = "%s: %s" % (os.path.basename(example["file_path"]), example["full_description"])
        reasons = [(text, reason) for text, reason in single.items() if text in example["full_description"]]
        unused -= {text for text, _ in reasons}
        if reasons:
            report.say("SKIP", name, reasons[0][1])
        elif example["status"] == "failed":
            report.say("FAIL", name, example["exception"]["message"])
        else:
            report.say("PASS" if example["status"] == "passed" else "SKIP", name,
                       "" if example["status"] == "passed" else "pending in the suite itself")
    check(not unused, "fits no spec: %s" % unused)


def main():
    report = Report("bunny-suite")
    with scratch() as home, tempfile.TemporaryDirectory() as folder, with_tls(home) as broker:
        try:
            suite(report, broker, folder, home)
        except Skip as reason:
            report.say("SKIP", "the suite", reason)
        except Fail as reason:
            report.say("FAIL", "the suite", reason)
        if report.failed:
            print("-- the broker's log, its end:\n" + broker.log_end(), file=sys.stderr)
    report.end()


main()
