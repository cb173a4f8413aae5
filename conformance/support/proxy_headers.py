"""Headers of the PROXY protocol, good and bad."""
import socket
import struct

START = b"AMQP\0\0\x09\x01"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def v2(family, addresses, command=1, more=b"", length=None):
    body = addresses + more
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, family, len(body) if length is None else length) + body


def tcp4(source, destination, source_port, destination_port):
    return socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack(">HH", source_port, destination_port)


def tcp6(source, destination, source_port, destination_port):
    return (socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination) +
            struct.pack(">HH", source_port, destination_port))


FIELDS = b"\x02\0\x0bhost.exampl" + b"\x04\0\x05\0\0\0\0\0"
# What it is called, its bytes, and the client's address and port (None: the socket's own).
GOOD = (
    ("1, TCP4", b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672\r\n", ("192.0.2.7", 51000)),
    ("1, TCP6", b"PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n", ("2001:db8::7", 1)),
    ("1, the longest", b"PROXY TCP6 " + b" ".join([b"ffff:f:f:f:f:f:f:ffff"] * 2) + b" 65535 65535\r\n",
     ("ffff:f:f:f:f:f:f:ffff", 65535)),
    ("1, UNKNOWN", b"PROXY UNKNOWN\r\n", None),
    ("1, UNKNOWN with more", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ("2, TCP4", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 50008, 5672)), ("192.0.2.8", 50008)),
    ("2, TCP6", v2(0x21, tcp6("2001:db8::8", "2001:db8::1", 50009, 5672)), ("2001:db8::8", 50009)),
    ("2, IPv4 within IPv6", v2(0x21, tcp6("::ffff:192.0.2.9", "::1", 50010, 5672)), ("192.0.2.9", 50010)),
    ("2, further fields", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 50011, 5672), more=FIELDS), ("192.0.2.8", 50011)),
    ("2, LOCAL", v2(0, b"", command=0), None),
    ("2, LOCAL with addresses", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 1, 2), command=0), None),
    ("2, no family", v2(0, b""), None),
)
BAD = (
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000\r\n", "less than a protocol, two addresses and two ports"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672 9\r\n", "more than a protocol"),
    (b"PROXY TCP4 192.0.2.7  198.51.100.1 51000 5672\r\n", "more than a protocol"),
    (b"PROXY TCP4 192.0.2.300 198.51.100.1 51000 5672\r\n", "an address that is none of TCP4"),
    (b"PROXY TCP4 2001:db8::7 2001:db8::1 51000 5672\r\n", "an address that is none of TCP4"),
    (b"PROXY TCP6 192.0.2.7 198.51.100.1 51000 5672\r\n", "an address that is none of TCP6"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 5672\r\n", "a port that is not"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 5672\r\n", "a port that is not"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 01 5672\r\n", "a port that is not"),
    (b"PROXY UDP4 192.0.2.7 198.51.100.1 1 5672\r\n", "none of TCP4, TCP6 and UNKNOWN"),
    (b"PROXY \r\n", "none of TCP4, TCP6 and UNKNOWN"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672\n", "does not end with CRLF"),
    (b"PROXY UNKNOWN " + b"x" * 200, "more than 107 bytes"),
    (b"proxy TCP4 192.0.2.7 198.51.100.1 51000 5672\r\n", "no PROXY header at all"),
    (START, "no PROXY header at all"),
    (b"\x16\x03\x01\x02\0", "no PROXY header at all"),
    (SIGNATURE[:-1] + b"X" + b"\x21\x11\0\x0c" + b"\0" * 12, "no PROXY header at all"),
    (SIGNATURE + b"\x11\x11\0\x0c" + b"\0" * 12, "a version that is not 2"),
    (SIGNATURE + b"\x22\x11\0\x0c" + b"\0" * 12, "neither LOCAL nor PROXY"),
    (v2(0x12, tcp4("192.0.2.8", "198.51.100.1", 1, 2)), "neither TCP over IPv4 nor TCP over IPv6"),
    (v2(0x31, b"\0" * 216), "neither TCP over IPv4 nor TCP over IPv6"),
    (v2(0x11, b"\0" * 11), "less bytes than its addresses need"),
    (v2(0x21, b"\0" * 12), "less bytes than its addresses need"),
    (v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 1, 2), length=65535), "more than 4096 bytes"),
)
