"""A small AMQP 0-9-1 client on a plain socket, for tests that need to see and count every frame.

Standard library only. One connection, blocking; `poll` reads what is there and returns events. It is deliberately dumb:
no recovery, no threads, so that a test's ledger is the only memory.
"""
import collections
import select
import socket
import struct
import time

Delivery = collections.namedtuple("Delivery", "tag redelivered exchange key headers body consumer")
Confirm = collections.namedtuple("Confirm", "tag multiple ok")
Returned = collections.namedtuple("Returned", "code body")
Closed = collections.namedtuple("Closed", "code text connection")
Method = collections.namedtuple("Method", "channel cls mid args")


class Unconfirmed:
    """The publishes of a channel whose confirm is still to come. Confirms of several queues come in any order, so that a
    later one may name a lower tag."""

    def __init__(self):
        self.sent, self._low, self._early = 0, 1, set()   # all below _low are confirmed, and those in _early

    def __len__(self):
        return self.sent + 1 - self._low - len(self._early)

    def settle(self, confirm):
        if confirm.multiple:
            self._low = max(self._low, confirm.tag + 1)
            self._early = {tag for tag in self._early if tag > confirm.tag}
        elif confirm.tag >= self._low:
            self._early.add(confirm.tag)
        while self._low in self._early:
            self._early.remove(self._low)
            self._low += 1


class Gone(Exception):
    """The peer cut the connection or refused it."""


def short(s):
    b = s.encode() if isinstance(s, str) else s
    return bytes([len(b)]) + b


def long(b):
    return struct.pack(">I", len(b)) + b


def field(v):
    if isinstance(v, bool):
        return b"t" + bytes([v])
    if isinstance(v, int):
        return b"l" + struct.pack(">q", v)
    if isinstance(v, str):
        return b"S" + long(v.encode())
    if isinstance(v, bytes):  # type and value as they are to be on the wire
        return v
    if isinstance(v, float):
        return b"d" + struct.pack(">d", v)
    if isinstance(v, list):
        return b"A" + long(b"".join(map(field, v)))
    if isinstance(v, dict):
        return b"F" + table(v)
    if v is None:
        return b"V"
    raise TypeError(v)


def table(d):
    return long(b"".join(short(k) + field(v) for k, v in (d or {}).items()))


def _value(b, o):
    kind, o = chr(b[o]), o + 1
    sizes = {"t": "?", "b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "L": "Q", "T": "Q",
             "f": "f", "d": "d"}
    if kind in sizes:
        f = ">" + sizes[kind]
        return struct.unpack_from(f, b, o)[0], o + struct.calcsize(f)
    if kind in "Sx":
        n = struct.unpack_from(">I", b, o)[0]
        raw = b[o + 4:o + 4 + n]
        return (raw.decode("utf-8", "replace") if kind == "S" else raw), o + 4 + n
    if kind == "F":
        return untable(b, o)
    if kind == "A":
        n = struct.unpack_from(">I", b, o)[0]
        o, end, out = o + 4, o + 4 + n, []
        while o < end:
            v, o = _value(b, o)
            out.append(v)
        return out, o
    if kind == "D":
        return struct.unpack_from(">BI", b, o), o + 5
    if kind == "V":
        return None, o
    raise ValueError("field type %r" % kind)


def untable(b, o=0):
    n = struct.unpack_from(">I", b, o)[0]
    o, end, out = o + 4, o + 4 + n, {}
    while o < end:
        name = b[o + 1:o + 1 + b[o]].decode()
        out[name], o = _value(b, o + 1 + b[o])
    return out, o


class Wire:
    def __init__(self, port, host="127.0.0.1", timeout=60.0, channel_max=100, vhost="/", user="guest", password="guest",
                 capabilities=None, before=b""):
        """`before`: bytes that come before AMQP, as a proxy's."""
        try:
            self.s = socket.create_connection((host, port), timeout=timeout)
        except OSError as e:
            raise Gone(str(e))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.readable = select.poll()   # select() stops at descriptor 1024
        self.readable.register(self.s, select.POLLIN)
        self.buf, self.out = bytearray(), bytearray()
        self.content = {}
        self._write(before + b"AMQP\0\0\x09\x01")
        self.expect(0, 10, 10)
        properties = {"capabilities": dict.fromkeys(capabilities, True)} if capabilities else {}
        secret = long(b"\0" + user.encode() + b"\0" + password.encode())
        self.call(0, 10, 11, table(properties) + short("PLAIN") + secret + short("en_US"), (10, 30))
        self.method(0, 10, 31, struct.pack(">HIH", channel_max, 131072, 0))
        self.call(0, 10, 40, short(vhost) + short("") + b"\0", (10, 41))

    # -- writing

    def _write(self, data):
        try:
            self.s.sendall(data)
        except OSError as e:
            raise Gone(str(e))

    def method(self, ch, cls, mid, args=b"", flush=True):
        p = struct.pack(">HH", cls, mid) + args
        self.out += struct.pack(">BHI", 1, ch, len(p)) + p + b"\xce"
        if flush:
            self.flush()

    def flush(self):
        if self.out:
            data, self.out = bytes(self.out), bytearray()
            self._write(data)

    def call(self, ch, cls, mid, args, answer, timeout=60.0):
        self.method(ch, cls, mid, args)
        return self.expect(ch, *answer, timeout=timeout)

    def publish(self, ch, exchange, key, body, headers=None, persistent=True, flush=False, mandatory=False, priority=None):
        self.method(ch, 60, 40, b"\0\0" + short(exchange) + short(key) + bytes([mandatory]), flush=False)
        flags = (1 << 13 if headers else 0) | (1 << 12 if persistent else 0) | (1 << 11 if priority is not None else 0)
        p = struct.pack(">HHQH", 60, 0, len(body), flags)
        p += (table(headers) if headers else b"") + (b"\2" if persistent else b"")
        p += b"" if priority is None else bytes([priority])
        self.out += struct.pack(">BHI", 2, ch, len(p)) + p + b"\xce"
        for o in range(0, len(body), 131064):
            part = body[o:o + 131064]
            self.out += struct.pack(">BHI", 3, ch, len(part)) + part + b"\xce"
        if flush:
            self.flush()

    # -- reading

    def expect(self, ch, cls, mid, timeout=60.0):
        end = time.monotonic() + timeout
        while True:
            answer = None
            for e in self.poll(max(0.0, end - time.monotonic())):
                if isinstance(e, Closed):
                    raise Gone("closed: %d %s" % (e.code, e.text))
                if answer is None and isinstance(e, Method) and (e.channel, e.cls, e.mid) == (ch, cls, mid):
                    answer = e.args
                else:
                    self.early.append(e)
            if answer is not None:
                return answer
            if time.monotonic() > end:
                raise Gone("no answer %d.%d in %g s" % (cls, mid, timeout))

    early = None

    def poll(self, timeout):
        """Events that came within `timeout` (returns as soon as there are some)."""
        if self.early is None:
            self.early = []
        end = time.monotonic() + timeout
        while True:
            events = self._parse()
            if events:
                return events
            left = end - time.monotonic()
            if left <= 0:
                return []
            try:
                if not self.readable.poll(left * 1000):
                    return []
                more = self.s.recv(1 << 18)
            except OSError as e:
                raise Gone(str(e))
            if not more:
                raise Gone("cut")
            self.buf += more

    def take_early(self):
        out, self.early = self.early or [], []
        return out

    def _parse(self):
        events, o, b = [], 0, self.buf
        while len(b) - o >= 7:
            kind, ch, n = struct.unpack_from(">BHI", b, o)
            if len(b) - o < n + 8:
                break
            p = bytes(b[o + 7:o + 7 + n])
            o += n + 8
            e = self._frame(kind, ch, p)
            if e is not None:
                events.append(e)
        del b[:o]
        return events

    def _frame(self, kind, ch, p):
        if kind == 1:
            cls, mid = struct.unpack_from(">HH", p)
            if (cls, mid) in ((60, 60), (60, 71), (60, 50)):
                self.content[ch] = [(mid, p[4:]), None, None]
                return None
            if (cls, mid) in ((60, 80), (60, 120)):
                tag, bits = struct.unpack_from(">QB", p, 4)
                return Confirm(tag, bool(bits & 1), mid == 80)
            if (cls, mid) in ((10, 50), (20, 40)):
                return Closed(struct.unpack_from(">H", p, 4)[0], p[7:7 + p[6]].decode("utf-8", "replace"), cls == 10)
            return Method(ch, cls, mid, p[4:])
        if kind == 2:
            size = struct.unpack_from(">Q", p, 4)[0]
            c = self.content[ch]
            c[1], c[2] = (size, p), b""
            return self._complete(ch) if size == 0 else None
        if kind == 3:
            c = self.content[ch]
            c[2] += p
            return self._complete(ch) if len(c[2]) >= c[1][0] else None
        return None

    def _complete(self, ch):
        (mid, a), (_, header), body = self.content.pop(ch)
        flags = struct.unpack_from(">H", header, 12)[0]
        o = 14
        for bit in (15, 14):
            if flags & (1 << bit):
                o += 1 + header[o]
        headers = untable(header, o)[0] if flags & (1 << 13) else {}
        if mid == 50:
            return Returned(struct.unpack_from(">H", a)[0], body)
        consumer = ""
        if mid == 60:
            consumer, a = a[1:1 + a[0]].decode(), a[1 + a[0]:]
        tag, red = struct.unpack_from(">QB", a)
        n = a[9]
        exchange, key = a[10:10 + n].decode(), a[11 + n:11 + n + a[10 + n]].decode()
        return Delivery(tag, bool(red), exchange, key, headers, body, consumer)

    # -- what tests do all the time

    def open(self, ch=1):
        self.call(ch, 20, 10, short(""), (20, 11))
        return ch

    def declare(self, ch, name, args=None, durable=True):
        a = self.call(ch, 50, 10, b"\0\0" + short(name) + bytes([2 if durable else 0]) + table(args), (50, 11))
        return struct.unpack_from(">II", a, 1 + a[0])

    def depth(self, ch, name):
        a = self.call(ch, 50, 10, b"\0\0" + short(name) + b"\1" + table(None), (50, 11))
        return struct.unpack_from(">I", a, 1 + a[0])[0]

    def confirm(self, ch):
        self.call(ch, 85, 10, b"\0", (85, 11))

    def qos(self, ch, count):
        self.call(ch, 60, 10, struct.pack(">IHB", 0, count, 0), (60, 11))

    def consume(self, ch, queue, tag="c", no_ack=False):
        self.call(ch, 60, 20, b"\0\0" + short(queue) + short(tag) + bytes([2 if no_ack else 0]) + table(None), (60, 21))

    def ack(self, ch, tag, multiple=False, flush=True):
        self.method(ch, 60, 80, struct.pack(">QB", tag, multiple), flush)

    def nack(self, ch, tag, requeue=True, multiple=False, flush=True):
        self.method(ch, 60, 120, struct.pack(">QB", tag, multiple | requeue << 1), flush)

    def close(self):
        self.s.close()
