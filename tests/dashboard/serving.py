"""A server of the page in a process of its own, and clients that do as they like."""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit


@contextmanager
def served(*logs: Path, port=0):
    """Yield the link and the process, as `tune(..., dashboard=True)` starts it."""
    module = [sys.executable, "-m", "autotune.dashboard", "--port", str(port), "--"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    process = subprocess.Popen([*module, *map(str, logs)], **pipes)
    try:
        yield json.loads(process.stdout.readline())["link"], process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(20)


@contextmanager
def proxied(link, folder):
    """Yield the link to a proxy that serves a server's page in a folder of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, link, folder), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/{folder}/"
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening, link, folder):
    with suppress(OSError):  # it was closed
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_pass_on, args=(client, link, folder), daemon=True).start()


def _pass_on(client, link, folder):
    """Pass on one request without the folder in its path, and all that follows."""
    head = b""
    with client, connected(link) as server, suppress(OSError):
        while b"\r\n\r\n" not in head:
            if not (part := client.recv(1 << 16)):
                return
            head += part
        first, _, rest = head.partition(b"\r\n")
        method, path, version = first.split()
        if not path.startswith(f"/{folder}/".encode()):
            client.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if b"upgrade: websocket" not in rest.lower():
            rest = b"Connection: close\r\n" + rest.replace(b"Connection: keep-alive\r\n", b"")
        server.sendall(b" ".join([method, path[len(folder) + 1 :], version]) + b"\r\n" + rest)
        server.settimeout(None)
        threading.Thread(target=_copy, args=(client, server), daemon=True).start()
        _copy(server, client)


def _copy(source, target):
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def resident_bytes(process):
    """Return the memory that a process has."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def descriptors(process):
    """Return how many files and sockets a process has open."""
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def connected(link, receive_bytes=None):
    """Return a socket to a server."""
    parts = urlsplit(link)
    made = socket.socket()
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(20)
    made.connect((parts.hostname, parts.port))
    return made


def asked(link, path="/", **headers):
    """Send one request exactly as it is given; return status, headers and body."""
    given = {"Host": urlsplit(link).netloc, **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items() if v is not None)]
    answer = b""
    with connected(link) as made, suppress(ConnectionError):  # what came before it broke counts
        made.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        while part := made.recv(1 << 16):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    found = dict(line.split(": ", 1) for line in rest)
    return int(first.split()[1]), found, body


class Socket:
    """A WebSocket that is read only when somebody asks for it."""

    def __init__(self, link, receive_bytes=None, **headers):
        host = urlsplit(link).netloc
        given = {"Host": host, "Origin": f"http://{host}", **headers}
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /live HTTP/1.1", *(f"{k}: {v}" for k, v in given.items() if v is not None)]
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        self.plain = connected(link, receive_bytes)
        self.plain.sendall("\r\n".join([*lines, f"Sec-WebSocket-Key: {key}", "", ""]).encode())
        self.stream = self.plain.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline().strip():  # its headers
            pass

    def send(self, message):
        """Send a text, or whatever JSON makes of anything else."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        size = len(data)
        if size < 126:
            head = bytes([0x81, 0x80 | size])
        elif size < 1 << 16:
            head = b"\x81\xfe" + size.to_bytes(2, "big")
        else:
            head = b"\x81\xff" + size.to_bytes(8, "big")
        self.plain.sendall(head + bytes(4) + data)  # a mask of zeros changes nothing

    def receive(self):
        """Return the next message; None when the server ended the connection."""
        with suppress(ConnectionError):
            return self._received()
        return None

    def _received(self):
        while True:
            head = self.stream.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return None
            size = head[1] & 127
            if size > 125:
                size = int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
            data = self.stream.read(size)
            if head[0] & 15 == 1:
                return json.loads(data)

    def view(self, revision=0):
        """Return the next view of at least that revision."""
        while (told := self.receive()) is not None:
            if told["type"] == "view" and told["revision"] >= revision:
                return told
        return None

    def close(self):
        """End it without a word."""
        self.stream.close()
        self.plain.close()
