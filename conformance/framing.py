#!/usr/bin/python3
"""Framing on a bare socket. Usage: framing.py AMQP_URL.

What a client sends is one string of bytes per case, from the protocol header on. It is sent in one write, byte by byte
and cut at places that differ from case to case; the answers must be the same, frame by frame, and those of the case.
"""
import os
import random
import socket
import struct
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(HERE, "..", "tests", "support")]
from report import Fail, Report  # noqa: E402
from wire import long, short, table  # noqa: E402

DEADLINE_S = 60
HEADER = b"AMQP\0\0\x09\x01"
FRAME_MAX = 4096  # what these clients tune to


def frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel, cls, mid, args=b""):
    return frame(1, channel, struct.pack(">HH", cls, mid) + args)


def header(channel, size, cls=60, flags=0, properties=b""):
    return frame(2, channel, struct.pack(">HHQH", cls, 0, size, flags) + properties)


def body(channel, data):
    return frame(3, channel, data)


def publish(channel, key):
    return method(channel, 60, 40, b"\0\0" + short("") + short(key) + b"\0")


def declare(channel, queue, flags=4):  # exclusive
    return method(channel, 50, 10, b"\0\0" + short(queue) + bytes([flags]) + table(None))


def get(channel, queue):
    return method(channel, 60, 70, b"\0\0" + short(queue) + b"\1")  # without acknowledgement


HEARTBEAT = frame(8, 0, b"")
START_OK = method(0, 10, 11, table({}) + short("PLAIN") + long(b"\0guest\0guest") + short("en_US"))
TUNE_OK = method(0, 10, 31, struct.pack(">HIH", 10, FRAME_MAX, 0))
OPEN = method(0, 10, 40, short("/") + short("") + b"\0")
CLOSE = method(0, 10, 50, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0))
HANDSHAKE = HEADER + START_OK + TUNE_OK + OPEN
SHAKEN = ["10.10", "10.30", "10.41"]


def channel(number):
    return method(number, 20, 10, short(""))


CHANNEL_CLOSE_OK_1 = method(1, 20, 41)


def one_write(s, data, _):
    s.sendall(data)


def byte_by_byte(s, data, _):
    for i in range(len(data)):
        s.sendall(data[i:i + 1])


def cut_anywhere(s, data, seed):
    cuts = random.Random(seed)
    while data:
        n = min(len(data), cuts.choice((1, 2, 3, 7, 8, 9, 64, 500, 5000)))
        s.sendall(data[:n])
        data = data[n:]


def transcript(address, how, data, seed):
    """What the broker answers until it closes the socket, in short words; a close of the connection is answered."""
    s = socket.create_connection(address, timeout=DEADLINE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        how(s, data, seed)
    except OSError:
        pass  # it has closed: what it had to say is still there to be read
    said, buffer = [], b""
    try:
        while True:
            more = s.recv(1 << 16)
            if not more:
                break
            buffer += more
            if buffer.startswith(b"AMQP"):
                if len(buffer) < 8:
                    continue
                said.append("header")
                buffer = buffer[8:]
            while len(buffer) >= 7:
                kind, number, size = struct.unpack_from(">BHI", buffer)
                if len(buffer) < size + 8:
                    break
                payload, end, buffer = buffer[7:7 + size], buffer[7 + size], buffer[size + 8:]
                if end != 0xce:
                    raise Fail("a frame of the broker ends with %d" % end)
                word = words(kind, number, payload)
                said.append(word)
                if word.startswith("10.50"):
                    s.sendall(method(0, 10, 51))
    except socket.timeout:
        raise Fail("still open after %s" % said)
    except ConnectionResetError:
        said.append("reset")
    finally:
        s.close()
    if buffer:
        raise Fail("left over: %r" % buffer)
    return said


def words(kind, number, payload):
    prefix = "%d:" % number if number else ""
    if kind == 1:
        cls, mid = struct.unpack_from(">HH", payload)
        text = "%s%d.%d" % (prefix, cls, mid)
        if (cls, mid) in ((10, 50), (20, 40)):
            text += " %d" % struct.unpack_from(">H", payload, 4)[0]
        return text
    if kind == 2:
        return prefix + "header"
    if kind == 3:
        return prefix + "body " + payload.decode("latin-1")
    return prefix + "frame of type %d" % kind


def refused(code, *before):
    """The connection is closed with `code`, after `before`."""
    return SHAKEN + list(before) + ["10.50 %d" % code]


OK1 = "1:20.11"
GOT1 = ["1:60.71", "1:header"]

# name, bytes, answers
CASES = (
    ("a message in one body frame",
     HANDSHAKE + channel(1) + declare(1, "f1") + publish(1, "f1") + header(1, 5) + body(1, b"hello") + get(1, "f1") + CLOSE,
     SHAKEN + [OK1, "1:50.11"] + GOT1 + ["1:body hello", "10.51"]),
    ("a message in many body frames, an empty one among them",
     HANDSHAKE + channel(1) + declare(1, "f2") + publish(1, "f2") + header(1, 5) +
     body(1, b"he") + body(1, b"") + body(1, b"l") + body(1, b"lo") + get(1, "f2") + CLOSE,
     SHAKEN + [OK1, "1:50.11"] + GOT1 + ["1:body hello", "10.51"]),
    ("an empty message has no body frame",
     HANDSHAKE + channel(1) + declare(1, "f3") + publish(1, "f3") + header(1, 0) + get(1, "f3") + CLOSE,
     SHAKEN + [OK1, "1:50.11"] + GOT1 + ["10.51"]),
    ("a frame of exactly frame_max",
     HANDSHAKE + channel(1) + declare(1, "f4") + publish(1, "f4") + header(1, FRAME_MAX - 8) +
     body(1, b"x" * (FRAME_MAX - 8)) + get(1, "f4") + CLOSE,
     SHAKEN + [OK1, "1:50.11"] + GOT1 + ["1:body " + "x" * (FRAME_MAX - 8), "10.51"]),
    ("a payload of exactly frame_max",
     HANDSHAKE + channel(1) + declare(1, "f4") + publish(1, "f4") + header(1, FRAME_MAX) +
     body(1, b"x" * FRAME_MAX) + get(1, "f4") + CLOSE,
     SHAKEN + [OK1, "1:50.11"] + GOT1 + ["1:body " + "x" * (FRAME_MAX - 8), "1:body " + "x" * 8, "10.51"]),
    ("contents of two channels and heartbeats interleaved",
     HANDSHAKE + channel(1) + channel(2) + declare(1, "f5") + publish(1, "f5") + publish(2, "f5") + HEARTBEAT + header(2, 2) +
     header(1, 3) + body(1, b"a") + body(2, b"bb") + HEARTBEAT + body(1, b"aa") + get(1, "f5") + get(1, "f5") + CLOSE,
     SHAKEN + [OK1, "2:20.11", "1:50.11"] + GOT1 + ["1:body bb"] + GOT1 + ["1:body aaa", "10.51"]),
    ("methods of one channel between the content of another",
     HANDSHAKE + channel(1) + channel(2) + declare(1, "f6") + publish(2, "f6") + declare(1, "f6") + header(2, 1) +
     declare(1, "f6") + body(2, b"b") + get(1, "f6") + CLOSE,
     SHAKEN + [OK1, "2:20.11"] + ["1:50.11"] * 3 + GOT1 + ["1:body b", "10.51"]),
    ("another protocol header is answered with the right one",
     b"AMQP\1\1\x09\x01" + START_OK, ["header"]),
    ("the protocol header of 0-9 starts the same", b"AMQP\1\1\0\x09" + HANDSHAKE[8:] + CLOSE, SHAKEN + ["10.51"]),
    ("HTTP is answered with the right header", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ["header"]),
    ("a frame with a bad end octet",
     HANDSHAKE + channel(1) + frame(1, 1, struct.pack(">HH", 20, 40), b"\xcd") + channel(2), refused(501, OK1)),
    ("a frame over frame_max",
     HANDSHAKE + channel(1) + publish(1, "q") + header(1, FRAME_MAX + 1) + body(1, b"x" * (FRAME_MAX + 1)), refused(501, OK1)),
    ("a frame that announces 4 GB", HANDSHAKE + channel(1) + struct.pack(">BHI", 3, 1, 0xffffffff), refused(501, OK1)),
    ("a frame over 4096 bytes before tune", HEADER + frame(1, 0, b"\0\x0a\0\x0b" + b"\0" * 4100), ["10.10", "10.50 501"]),
    ("a frame of type 0", HANDSHAKE + frame(0, 0, b""), refused(501)),
    ("a frame of type 4", HANDSHAKE + frame(4, 0, b""), refused(501)),
    ("a frame of type 206", HANDSHAKE + frame(206, 1, b"xx"), refused(501)),
    ("a heartbeat with a payload", HANDSHAKE + frame(8, 0, b"x"), refused(501)),
    ("a heartbeat on a channel", HANDSHAKE + channel(1) + frame(8, 1, b""), refused(505, OK1)),
    ("a method frame without room for a method", HANDSHAKE + channel(1) + frame(1, 1, b"\0\x3c\0"), refused(501, OK1)),
    ("a method whose arguments are cut off", HANDSHAKE + channel(1) + method(1, 50, 10, b"\0\0\x05abc"), refused(501, OK1)),
    ("an argument table longer than the frame",
     HANDSHAKE + channel(1) + method(1, 50, 10, b"\0\0" + short("q") + b"\0" + struct.pack(">I", 100)), refused(501, OK1)),
    ("an unknown class", HANDSHAKE + channel(1) + method(1, 77, 10), refused(540, OK1)),
    ("an unknown method of a known class", HANDSHAKE + channel(1) + method(1, 60, 77), refused(540, OK1)),
    ("a method that only a server sends", HANDSHAKE + channel(1) + method(1, 60, 72, short("")), refused(503, OK1)),
    ("a method on a channel that is not open", HANDSHAKE + declare(3, "q"), refused(504)),
    ("a publish on a channel that is not open", HANDSHAKE + publish(3, "q") + header(3, 0), refused(504)),
    ("content on a channel that is not open", HANDSHAKE + header(3, 0), refused(504)),
    ("an acknowledgement on a channel that is not open", HANDSHAKE + method(3, 60, 80, struct.pack(">QB", 1, 0)), refused(504)),
    ("opening a channel twice", HANDSHAKE + channel(1) + channel(1), refused(504, OK1)),
    ("a channel above channel_max", HANDSHAKE + channel(65535) + CLOSE, SHAKEN + ["65535:20.11", "10.51"]),
    ("more channels than channel_max", HANDSHAKE + b"".join(channel(n) for n in range(100, 1200, 100)),
     refused(530, *[f"{n}:20.11" for n in range(100, 1100, 100)])),
    ("channel.open on channel 0", HANDSHAKE + channel(0), refused(504)),
    ("a connection method on a channel", HANDSHAKE + channel(1) + method(1, 10, 40, short("/") + short("") + b"\0"),
     refused(503, OK1)),
    ("connection.open twice", HANDSHAKE + OPEN, refused(504)),
    ("a body frame without a publish", HANDSHAKE + channel(1) + body(1, b"x"), refused(505, OK1)),
    ("a header frame without a publish", HANDSHAKE + channel(1) + header(1, 0), refused(505, OK1)),
    ("a body frame where the header is due", HANDSHAKE + channel(1) + publish(1, "q") + body(1, b"x"), refused(505, OK1)),
    ("a second header frame", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 1) + header(1, 1), refused(505, OK1)),
    ("a method where the header is due", HANDSHAKE + channel(1) + publish(1, "q") + get(1, "q"), refused(505, OK1)),
    ("a publish where the body is due", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 1) + publish(1, "q"),
     refused(505, OK1)),
    ("a header of another class", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 0, cls=50), refused(505, OK1)),
    ("more body than the header says", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 2) + body(1, b"abc"),
     refused(505, OK1)),
    ("more body in a second frame", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 2) + body(1, b"a") + body(1, b"bc"),
     refused(505, OK1)),
    ("properties that are cut off", HANDSHAKE + channel(1) + publish(1, "q") + header(1, 0, flags=1 << 15, properties=b"\x09a"),
     refused(501, OK1)),
    ("a header table with an unknown field type",
     HANDSHAKE + channel(1) + publish(1, "q") + header(1, 0, flags=1 << 13, properties=long(b"\1a?\0")), refused(501, OK1)),
    ("a channel error leaves the other channels alone, and what came after it on that channel is thrown away",
     HANDSHAKE + channel(1) + channel(2) + declare(2, "f7") + get(1, "no-such-queue") + publish(1, "f7") + header(1, 1) +
     body(1, b"1") + declare(1, "f7") + header(1, 3) + publish(2, "f7") + header(2, 1) + body(2, b"2") + get(2, "f7") +
     get(2, "f7") + CHANNEL_CLOSE_OK_1 + channel(1) + get(1, "f7") + CLOSE,
     SHAKEN + [OK1, "2:20.11", "2:50.11", "1:20.40 404", "2:60.71", "2:header", "2:body 2", "2:60.72", OK1, "1:60.72",
               "10.51"]),
    ("a publish into no exchange fails its channel once, however many follow",
     HANDSHAKE + channel(1) + (method(1, 60, 40, b"\0\0" + short("none") + short("k") + b"\0") + header(1, 1) + body(1, b"x")) * 3 +
     channel(2) + CLOSE,
     SHAKEN + [OK1, "1:20.40 404", "2:20.11", "10.51"]),
    ("a connection error ends everything: what follows is thrown away",
     HANDSHAKE + channel(1) + declare(1, "f8") + header(1, 0) + declare(1, "f9") + HEARTBEAT + publish(1, "f8") + frame(9, 9, b""),
     refused(505, OK1, "1:50.11")),
    ("methods after connection.close are thrown away",
     HANDSHAKE + channel(1) + CLOSE + declare(1, "q"), SHAKEN + [OK1, "10.51"]),
)


def play(address, seed, data, expected):
    for how in (one_write, byte_by_byte, cut_anywhere):
        said = transcript(address, how, data, seed)
        if said and said[-1] == "reset":  # the broker had thrown away what it closed over
            said.pop()
        if said != expected:
            raise Fail("%s: %s, expected %s" % (how.__name__, said, expected))


def main():
    url = urllib.parse.urlparse(sys.argv[1])
    address = (url.hostname, url.port or 5672)
    report = Report("framing")
    report.run([(name, lambda seed=seed, data=data, expected=expected: play(address, seed, data, expected))
                for seed, (name, data, expected) in enumerate(CASES)])
    report.end()


main()
