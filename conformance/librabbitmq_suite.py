#!/usr/bin/python3
"""librabbitmq's own tests with those that need a broker ("system tests"), and its example programs, built from Debian's
source. Usage: librabbitmq_suite.py AMQP_URL."""
import os
import re
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import sources  # noqa: E402
from report import check, play  # noqa: E402


def example(build, name, *arguments):
    done = subprocess.run([os.path.join(build, "examples", name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    check(done.returncode == 0, "%s ended with %d: %s" % (name, done.returncode, done.stdout[-200:]))
    return done.stdout.decode(errors="replace")


def background(build, name, *arguments):
    # Line by line: what it has said must reach us before its end.
    return subprocess.Popen(["stdbuf", "-oL", os.path.join(build, "examples", name), *map(str, arguments)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def listens(build, at):
    """amqp_listen shows what amqp_sendstring publishes to amq.direct; it never ends by itself."""
    # A queue that is there before: amqp_bind binds it, so that nothing depends on who is first.
    import pika
    connection = pika.BlockingConnection(pika.ConnectionParameters(at[0], int(at[1])))
    channel = connection.channel()
    queue = channel.queue_declare("conformance.examples", durable=False).method.queue
    example(build, "amqp_exchange_declare", *at, "conformance.examples", "direct")
    example(build, "amqp_bind", *at, "conformance.examples", "key", queue)
    example(build, "amqp_sendstring", *at, "conformance.examples", "key", "hello")
    listener = background(build, "amqp_listenq", *at, queue)
    try:
        text = b""
        while b"hello" not in text:
            line = listener.stdout.readline()
            check(line, "amqp_listenq ended: %r" % text)
            text += line
        check(b"exchange conformance.examples routingkey key" in text, "said %r" % text)
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()
    example(build, "amqp_unbind", *at, "conformance.examples", "key", queue)
    example(build, "amqp_sendstring", *at, "conformance.examples", "key", "nobody")
    channel = connection.channel()
    # What the killed listener had not acknowledged is back; nothing has come after the unbind.
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if not method:
            break
        bodies.append(body)
    check(b"nobody" not in bodies, "got %r" % bodies)
    channel.queue_delete(queue)
    channel.exchange_delete("conformance.examples")
    connection.close()


def produces(build, at):
    """5000 messages at 2500 a second; the example's own report says how many."""
    said = example(build, "amqp_producer", *at, 2500, 5000)
    check("total" in said.lower() and "5000" in said, "said %r" % said[-200:])


def suite(report, folder):
    url = urllib.parse.urlparse(sys.argv[1])
    tree = sources.unpack("librabbitmq", folder)
    # The broker's address is written into the test.
    sources.edit(tree, [('"localhost", AMQP_PROTOCOL_PORT', '"%s", %d' % (url.hostname, url.port))],
                 "tests/test_basic.c")
    build = os.path.join(folder, "build")
    sources.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DRUN_SYSTEM_TESTS=ON", "-DENABLE_SSL_SUPPORT=OFF",
                 "-DBUILD_TOOLS=OFF", "-DBUILD_EXAMPLES=ON", "-DCMAKE_BUILD_TYPE=Debug"], 60)
    sources.run(["cmake", "--build", build, "-j", "2"], 200)
    done = subprocess.run(["ctest", "--timeout", "120", "--output-on-failure"], cwd=build, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    output = done.stdout.decode(errors="replace")
    results = re.findall(r"Test +#\d+: (\S+) \.+ *(\S+)", output)
    if not any(name == "basic" for name, _ in results):
        report.say("FAIL", "the suite", "no system test in it: " + output[-300:])
    for name, verdict in results:
        report.say("PASS" if verdict == "Passed" else "FAIL", name, "" if verdict == "Passed" else output[-600:])
    at = (url.hostname, url.port)
    report.run((("examples: declare, bind, send, listen, unbind", lambda: listens(build, at)),
                ("example: a producer of 5000", lambda: produces(build, at))))


play("librabbitmq-suite", suite)
