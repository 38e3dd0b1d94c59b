"""Reaches out: other machines, this machine's services, sockets of the host."""

import socket

VARIANTS = [
    "tcp 127.0.0.1 5432",
    "tcp 127.0.0.1 22",
    "tcp 127.0.0.1 8000",
    "tcp 169.254.169.254 80",
    "tcp 1.1.1.1 53",
    "udp 8.8.8.8 53",
    "name pypi.org",
    "unix /var/run/docker.sock",
    "unix /run/dbus/system_bus_socket",
    "raw",
    "packet",
    "vsock",
]


def attack(desk, variant):
    kind, *words = variant.split()
    socket.setdefaulttimeout(1.0)
    if kind in ("tcp", "udp"):
        link = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        link.connect((words[0], int(words[1])))
        link.send(b"left")
        if kind == "udp":
            link.recv(10)
        desk.tool("read_file", {"path": "LEAK network"})
    elif kind == "name":
        socket.getaddrinfo(words[0], 80)
        desk.tool("read_file", {"path": "LEAK name"})
    elif kind == "unix":
        socket.socket(socket.AF_UNIX).connect(words[0])
        desk.tool("read_file", {"path": "LEAK host socket"})
    else:
        family = {
            "raw": socket.AF_INET,
            "packet": getattr(socket, "AF_PACKET", 17),
            "vsock": getattr(socket, "AF_VSOCK", 40),
        }[kind]
        socket.socket(family, socket.SOCK_RAW if kind != "vsock" else socket.SOCK_STREAM)
        desk.tool("read_file", {"path": f"LEAK {kind}"})
