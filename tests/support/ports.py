"""Ports of 127.0.0.1 for the servers that tests start.

None of those that the kernel gives to clients: there somebody else's connection may sit on a port before its server does,
and a client that tries again while its server is down may even reach itself. A port is this process's alone until it ends,
by a name (of an abstract socket) that the kernel gives to one only.
"""
import random
import socket

FIRST, LAST = 10000, 65535
NOT_OURS = {15671, 15672, 15692}   # where somebody's own broker may come
kept = {}   # port -> the socket whose name keeps it


def candidates():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low, high = map(int, file.read().split())
    except OSError:
        low, high = 32768, 60999
    ports = [port for port in range(FIRST, LAST) if not low <= port <= high and port not in NOT_OURS]
    return ports if len(ports) > 1000 else list(range(FIRST, LAST))


def keep(port):
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind("\0tarrymq-test-port-%d" % port)
    except OSError:
        name.close()
        return False
    kept[port] = name
    return True


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)   # as servers do: what closed lately is in nobody's way
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    ports = candidates()
    while True:
        port = random.choice(ports)
        if port in kept or not keep(port):
            continue
        if is_free(port):
            return port
        kept.pop(port).close()


def free_ports(count):
    return [free_port() for _ in range(count)]
