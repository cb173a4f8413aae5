#!/usr/bin/python3
"""Kills the daemon with SIGKILL while clients declare, bind and delete queues without waiting for the answers.

    tests/crash/declare_loop.py --broker build/release/tarrymq --kills 10 [--seed N] [--seconds-between 0.5]

Each of two clients keeps up to 300 methods in flight on two channels of one connection; a third publishes persistent
messages with confirms into queues whose declaration it may not have heard of being answered. It must hold that after each start
  - a queue whose declaration was answered is there, unless its deletion was sent, and its answered binding is there: a
    message published to it through the exchange arrives;
  - a queue whose deletion was answered is gone, unless its declaration was sent again;
  - a confirmed message is in its queue;
  - answers came in the order of the methods, and the daemon calls nothing damaged.
Prints a line a round and a last line `PASS ...` or `FAIL ...`; the exit status follows.
"""
import argparse
import collections
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from process import Broker  # noqa: E402
from wire import Closed, Confirm, Gone, Method, Unconfirmed, Wire, short, table  # noqa: E402

EXCHANGE = "made"
IN_FLIGHT = 300
ANSWERS = {(50, 10): (50, 11), (50, 20): (50, 21), (50, 40): (50, 41)}


class Ledger:
    """What is known of each queue: `sent` and `answered` count its changes."""

    def __init__(self):
        self.lock = threading.Lock()
        self.queues = collections.defaultdict(lambda: {"sent": [], "answered": 0})
        self.recent = collections.deque(maxlen=400)   # names whose declaration was sent, not all of them answered
        self.confirmed = collections.Counter()        # by queue that is never deleted
        self.faults = []
        self.answers = 0

    def fault(self, text):
        with self.lock:
            self.faults.append(text)


def declarer(port, ledger, rng, prefix, stop):
    """Declares, binds, and deletes one in four; the methods of one queue go by one channel."""
    try:
        w = Wire(port)
        w.open(1)
        w.open(2)
        owed = {1: collections.deque(), 2: collections.deque()}
        n = 0
        while not stop.is_set():
            while sum(map(len, owed.values())) < IN_FLIGHT:
                n += 1
                name, ch = "%s-%d" % (prefix, n), 1 + n % 2
                steps = [((50, 10), short(name) + b"\2" + table(None)),
                         ((50, 20), short(name) + short(EXCHANGE) + short(name) + b"\0" + table(None))]
                if rng.random() < 0.25:
                    steps.append(((50, 40), short(name) + b"\0"))
                    if rng.random() < 0.3:
                        steps.append(steps[0])
                with ledger.lock:
                    ledger.queues[name]["sent"] = [step[0] for step in steps]
                    if len(steps) == 2:
                        ledger.recent.append(name)
                for (cls, mid), args in steps:
                    w.method(ch, cls, mid, b"\0\0" + args, flush=False)
                    owed[ch].append((name, (cls, mid)))
            w.flush()
            for e in w.poll(0.05):
                if isinstance(e, Closed):
                    if e.code != 320:
                        ledger.fault("closed: %d %s" % (e.code, e.text))
                    return
                name, method = owed[e.channel].popleft()
                if not isinstance(e, Method) or ANSWERS[method] != (e.cls, e.mid):
                    ledger.fault("%s answers %s of %s" % (e, method, name))
                with ledger.lock:
                    ledger.queues[name]["answered"] += 1
                    ledger.answers += 1
    except Gone:
        pass


def publisher(port, ledger, rng, stop):
    """Into queues that were declared a moment ago by somebody else and may not be there yet: then it is returned, not stored."""
    try:
        w = Wire(port)
        w.open()
        w.confirm(1)
        unconfirmed, sent, returned = Unconfirmed(), {}, set()
        while not stop.is_set():
            with ledger.lock:
                names = list(ledger.recent)
            for _ in range(4 if names and len(unconfirmed) < 20 else 0):  # each new queue is a new file
                unconfirmed.sent += 1
                sent[unconfirmed.sent] = rng.choice(names)
                w.publish(1, "", sent[unconfirmed.sent], b"%d" % unconfirmed.sent, mandatory=True)
            w.flush()
            for e in w.poll(0.005):
                if isinstance(e, Closed):
                    return
                if not isinstance(e, Confirm):
                    returned.add(int(e.body))
                    continue
                before = {t for t in sent if t <= e.tag} if e.multiple else {e.tag}
                unconfirmed.settle(e)
                for tag in before & sent.keys():
                    name = sent.pop(tag)
                    if e.ok and tag not in returned:
                        with ledger.lock:
                            ledger.confirmed[name] += 1
    except Gone:
        pass


def there(w, name):
    """The number of messages, or None."""
    w.method(1, 50, 10, b"\0\0" + short(name) + b"\1" + table(None))
    while True:
        for e in w.poll(10):
            if isinstance(e, Closed):
                w.method(1, 20, 41)
                w.open(1)
                return None
            if isinstance(e, Method):
                return int.from_bytes(e.args[1 + e.args[0]:5 + e.args[0]], "big")


def check_queue(w, ledger, name, entry, rng):
    sent, answered = entry["sent"], entry["answered"]
    count = there(w, name)
    certain = answered == len(sent)
    wanted = sent[-1] != (50, 40) if certain else answered > 0 and (50, 40) not in sent
    if certain and not wanted and count is not None:
        ledger.fault("%s was deleted and is there" % name)
    if wanted and count is None:
        return ledger.fault("%s was declared (%d of %d answered) and is not there" % (name, answered, len(sent)))
    if count is not None and count < ledger.confirmed[name]:
        ledger.fault("%s has %d messages, %d were confirmed" % (name, count, ledger.confirmed[name]))
    if wanted and answered >= 2 and len(sent) == 2 and rng.random() < 0.1:
        w.publish(1, EXCHANGE, name, b"through the binding", flush=True)
        if there(w, name) != count + 1:
            ledger.fault("%s has lost its binding" % name)


def round_of(broker, rng, number, seconds):
    ledger, stop = Ledger(), threading.Event()
    broker.start()
    w = Wire(broker.port)
    w.open()
    w.call(1, 40, 10, b"\0\0" + short(EXCHANGE) + short("direct") + b"\2" + table(None), (40, 11))
    w.close()
    threads = [threading.Thread(target=declarer, args=(broker.port, ledger, random.Random(rng.random()), "r%d-%s" % (number, c), stop))
               for c in "ab"]
    threads.append(threading.Thread(target=publisher, args=(broker.port, ledger, random.Random(rng.random()), stop)))
    for thread in threads:
        thread.start()
    time.sleep(seconds * (0.5 + rng.random()))
    own_end = broker.kill()
    stop.set()
    for thread in threads:
        thread.join()
    broker.start()
    w = Wire(broker.port)
    w.open()
    w.confirm(1)
    for name, entry in ledger.queues.items():
        check_queue(w, ledger, name, entry, rng)
    w.close()
    for end in filter(None, (own_end, broker.kill())):
        ledger.fault(end)
    if "damage" in broker.log():
        ledger.fault("the daemon speaks of damage: " + broker.log()[-300:])
    print("round %d: %d queues, %d answers, %d confirms, %d faults" % (
        number, len(ledger.queues), ledger.answers, sum(ledger.confirmed.values()), len(ledger.faults)), flush=True)
    return ledger.faults


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--broker", required=True)
    p.add_argument("--kills", type=int, default=10)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--seconds-between", type=float, default=0.5)
    o = p.parse_args()
    rng = random.Random(o.seed)
    for number in range(o.kills):
        broker = Broker(o.broker)  # each round with data of its own: they are many queues
        faults = round_of(broker, rng, number, o.seconds_between)
        for fault in faults[:20]:
            print("  " + fault)
        if faults:
            print("FAIL declare_loop seed %d: %d faults; data kept in %s" % (o.seed, len(faults), broker.dir))
            return 1
        broker.end()
    print("PASS declare_loop: %d kills, nothing lost that was answered" % o.kills)
    return 0


if __name__ == "__main__":
    sys.exit(main())
