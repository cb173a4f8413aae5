#!/usr/bin/python3
"""The functional tests of RabbitMQ's Java client, from Debian's source package, with Debian's build of the client. Usage:
java_client_suite.py AMQP_URL. See skips/java-client.txt for those that are left out."""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import sources  # noqa: E402
from report import Skip, check, play, skip_list  # noqa: E402

JARS = ["amqp-client", "junit4", "hamcrest-all", "mockito-core", "slf4j-api", "slf4j-nop", "hamcrest"]
SUITE_S = 500
PACKAGE = "com/rabbitmq/client/test/functional"
# Not to be compiled here, or without tests of its own.
NO_CLASSES = ("Metrics", "FunctionalTests", "ExchangeDeletePredeclared", "Nowait")


def also_between_calls(root):
    """The tests publish what is refused, and then want the channel's close in the next call. A quick broker has closed it before
    that call: the client says the same with another exception."""
    wanted = re.compile(r"\} catch \(IOException (\w+)\) \{\s*checkShutdownSignal\(([^,;]+), \1\);\s*\}")
    for path in glob.glob(os.path.join(root, PACKAGE, "*.java")):
        with open(path) as file:
            text = file.read()
        if "AlreadyClosedException" in text:
            continue
        with open(path, "w") as file:
            file.write(wanted.sub(r"\g<0> catch (com.rabbitmq.client.AlreadyClosedException \1) "
                                  r"{ checkShutdownSignal(\2, (com.rabbitmq.client.ShutdownSignalException) \1); }", text))


def times_longer(root, times, name, pattern):
    """What a test does between two moments must fit between them on a busy machine, too."""
    path = os.path.join(root, PACKAGE, name)
    with open(path) as file:
        text = file.read()
    text, count = re.subn(pattern, lambda m: m.group(1) + str(times * int(m.group(2))), text)
    check(count > 0, "%s has no %s" % (name, pattern))
    with open(path, "w") as file:
        file.write(text)


def give_it_time(root):
    """Dead letters come to their queue when they come, which the tests ask a moment after what killed them; and they allow a
    broker and themselves 50 to 300 ms. What must not be there yet, or no longer, is asked as before."""
    arrived = """
    private static GetResponse arrived(Channel channel, String queue) throws IOException {
        for (int i = 0; i < 600; i++) {
            GetResponse response = channel.basicGet(queue, true);
            if (response != null) return response;
            try { Thread.sleep(100); } catch (InterruptedException e) { }
        }
        return null;
    }

    private static void consumeN(Channel channel,"""
    sources.edit(root, [("GetResponse getResponse =\n                channel.basicGet(queue, true);",
                         "GetResponse getResponse = arrived(channel, queue);"),
                        ("channel.basicGet(DLQ, true)", "arrived(channel, DLQ)"),
                        ("\n    private static void consumeN(Channel channel,", arrived),
                        ("latency + epsilon)", "latency + 60 * TTL)"), ("targetTime + epsilon)", "targetTime + 60 * TTL)"),
                        ("Thread.sleep(millis)", "Thread.sleep(5 * millis)")], PACKAGE + "/DeadLetterExchange.java")
    for name, old, new in (("ConsumerPriorities", "nextDelivery(100)", "nextDelivery(60000)"),
                           ("QosTests", "nextDelivery(1000)", "nextDelivery(60000)"),
                           ("BasicConsume", "latch.await(1,", "latch.await(60,"),
                           ("ConsumerCancelNotification", "latch.await(2,", "latch.await(60,"),
                           ("QueueSizeLimit", "Thread.sleep(100)", "Thread.sleep(1000)")):
        sources.edit(root, [(old, new)], "%s/%s.java" % (PACKAGE, name))
    for name in ("TTLHandling.java", "PerMessageTTL.java"):
        times_longer(root, 5, name, r"((?:Thread\.sleep|declareAndBindQueue|nextDelivery)\(|this\.sessionTTL = )(\d+)")
    times_longer(root, 2, "QueueLease.java", r"((?:QUEUE_EXPIRES|SHOULD_EXPIRE_WITHIN) = )(\d+)")


def prepare(tree, folder):
    """Compiles the tests; their class names and the class path."""
    jars = ["/usr/share/java/%s.jar" % name for name in JARS]
    missing = [jar for jar in jars if not os.path.exists(jar)]
    if missing:
        raise Skip("not installed: " + ", ".join(missing))
    root = os.path.join(tree, "src", "test", "java")
    os.remove(os.path.join(root, PACKAGE, "Metrics.java"))
    port = 'setPort(Integer.getInteger("amqp.port"));'
    # The port is the protocol's in the tests; the broker's version must not be taken for an old RabbitMQ's.
    sources.edit(root, [("ConnectionFactory connectionFactory = new ConnectionFactory();",
                         "ConnectionFactory connectionFactory = new ConnectionFactory(); connectionFactory." + port),
                        ("String currentVersion = connection", "if (true) return true; String currentVersion = connection")],
                 "com/rabbitmq/client/test/TestUtils.java")
    sources.edit(root, [("AMQP.PROTOCOL.PORT", 'Integer.getInteger("amqp.port")')], PACKAGE + "/ConnectionOpen.java")
    for name in ("FrameMax", "UnexpectedFrames"):
        sources.edit(root, [("extends ConnectionFactory {", "extends ConnectionFactory { { %s }" % port)],
                     "%s/%s.java" % (PACKAGE, name))
    sources.edit(root, [("\tMetrics.class,", "")] if "\tMetrics.class," in open(os.path.join(root, PACKAGE, "FunctionalTests.java")).read()
                 else [("Metrics.class", "")], PACKAGE + "/FunctionalTests.java")
    also_between_calls(root)
    give_it_time(root)
    files = [path for path in sorted(glob.glob(os.path.join(root, PACKAGE, "*.java")))
             if os.path.basename(path)[:-5] not in NO_CLASSES]
    out = os.path.join(folder, "classes")
    os.makedirs(out)
    path = ":".join([out] + jars)
    sources.run(["javac", "-nowarn", "-d", out, "-cp", path, "-sourcepath", root, *files,
                 os.path.join(HERE, "java", "Lines.java")], 120)
    classes = []
    for path_of_class in files:
        with open(path_of_class) as file:
            text = file.read()
        name = os.path.basename(path_of_class)[:-5]
        if not re.search(r"\babstract class %s\b" % name, text) and not name.endswith("Base"):
            classes.append(name)
    return classes, path


def suite(report, folder):
    url = urllib.parse.urlparse(sys.argv[1])
    classes, path = prepare(sources.unpack("java-client", folder), folder)
    left_out = {}
    for pattern, reason in skip_list(os.path.join(HERE, "skips", "java-client.txt")):
        name, _, method = pattern.partition(".")
        fits = fnmatch.filter(classes, name)
        check(fits, "%s fits no class" % pattern)
        if method == "*":
            classes = [c for c in classes if c not in fits]
            report.say("SKIP", pattern, reason)
        else:
            left_out.update((c + "." + method, reason) for c in fits)
    command = ["java", "-Xmx256m", "-Damqp.port=%d" % url.port, "-cp", path, "Lines"]
    command += [PACKAGE.replace("/", ".") + "." + name for name in classes] + ["-"] + sorted(left_out)
    done = subprocess.run(["timeout", "-k", "5", str(SUITE_S), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    for name, reason in left_out.items():
        report.say("SKIP", name, reason)
    for line in done.stdout.decode(errors="replace").splitlines():
        told = re.match(r"(PASS|FAIL|SKIP) (\S+)(?: -- (.*))?$", line)
        if told:
            report.say(told.group(1), told.group(2), told.group(3) or "")
    if done.returncode != 0 or report.passed < 150:
        report.say("FAIL", "the suite", "ended with %d after %d tests: %s"
                   % (done.returncode, report.passed, done.stdout[-300:].decode(errors="replace")))


play("java-client-suite", suite)
