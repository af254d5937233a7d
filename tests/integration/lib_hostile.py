"""Servers that are none: they speak just enough of the handshakes of MySQL and PostgreSQL to lead a
client astray, and keep every byte they were sent.

A fake gets a function that plays one connection; what it raises because the client went away is
the end of that play.  `heard` is all that came on a connection, in the clear where it was
encrypted; `after` is what came after the last thing that was asked of the client."""
import contextlib
import hashlib
import os
import socket
import ssl
import struct
import threading

NONCE = bytes(range(65, 85))  # 20 bytes without a zero

# Capabilities of MySQL's greeting.
LONG_PASSWORD, CONNECT_WITH_DB, LOCAL_FILES, PROTOCOL_41 = 0x1, 0x8, 0x80, 0x200
SSL, SECURE, PLUGIN_AUTH = 0x800, 0x8000, 0x80000
MODERN = LONG_PASSWORD | CONNECT_WITH_DB | LOCAL_FILES | PROTOCOL_41 | SECURE | PLUGIN_AUTH


class Talk:
    """One connection, from the side of the server."""

    def __init__(self, sock):
        self.socket, self.heard, self.after = sock, b"", b""
        self.is_over = threading.Event()

    def send(self, data):
        self.after = b""
        self.socket.sendall(data)

    def exactly(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise EOFError
            self.heard += more
            self.after += more
            got += more
        return got

    def leave(self):
        """Ends the play, and the connection with it."""
        raise EOFError

    def rest(self):
        """All that the client still has to say; it ends the talk when it has nothing."""
        with contextlib.suppress(OSError, EOFError):
            while True:
                self.exactly(1)

    def encrypt(self, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class MysqlTalk(Talk):
    number = 0

    def packet(self, payload):
        self.send(struct.pack("<I", len(payload))[:3] + bytes([self.number]) + payload)
        self.number = (self.number + 1) % 256

    def read(self):
        head = self.exactly(4)
        self.number = (head[3] + 1) % 256
        return self.exactly(struct.unpack("<I", head[:3] + b"\0")[0])

    def greet(self, plugin="mysql_native_password", flags=MODERN, version=b"8.0.99-fake"):
        tail = b"" if not flags & PLUGIN_AUTH else plugin.encode() + b"\0"
        self.packet(b"\x0a" + version + b"\0" + struct.pack("<I", 7) + NONCE[:8] + b"\0"
                    + struct.pack("<H", flags & 0xffff) + b"\x2d" + struct.pack("<H", 2)
                    + struct.pack("<H", flags >> 16) + bytes([21]) + bytes(10) + NONCE[8:] + b"\0"
                    + tail)

    def login(self, certificate=None, **options):
        """Greets and returns the login packet, over TLS if there is a certificate."""
        self.greet(flags=MODERN | (SSL if certificate else 0), **options)
        got = self.read()
        if certificate:
            self.encrypt(certificate)
            got = self.read()
        return got

    def switch(self, plugin, data=NONCE + b"\0"):
        self.packet(b"\xfe" + plugin.encode() + b"\0" + data)

    def ok(self):
        self.packet(b"\0\0\0\2\0\0\0")


def text_column(name):
    def put(text):
        return bytes([len(text)]) + text
    return (put(b"def") + put(b"") * 3 + put(name) + put(name) + b"\x0c\x2d\0" + struct.pack("<I", 99)
            + b"\xfd\0\0\0\0\0")


class PostgresTalk(Talk):
    def message(self, kind, payload):
        self.send(self.pack(kind, payload))

    @staticmethod
    def pack(kind, payload):
        return kind + struct.pack(">I", len(payload) + 4) + payload

    def start(self, answer=b"N", certificate=None):
        """Reads up to the startup packet; TLS is refused, or spoken if there is a certificate."""
        while True:
            size = struct.unpack(">I", self.exactly(4))[0]
            body = self.exactly(size - 4)
            if struct.unpack(">I", body[:4])[0] != 80877103:
                return body
            self.send(b"S" if certificate else answer)
            if certificate:
                self.encrypt(certificate)

    def ask(self, kind, data=b""):
        self.message(b"R", struct.pack(">I", kind) + data)

    def read(self):
        kind = self.exactly(1)
        return kind, self.exactly(struct.unpack(">I", self.exactly(4))[0] - 4)

    def ready(self):
        self.send(self.pack(b"R", struct.pack(">I", 0)) + self.pack(b"Z", b"I"))


class Fake:
    """Listens on a port of loopback, or on a path, and plays every connection that comes."""

    def __init__(self, kind, play, path=None):
        self.kind, self.play, self.talks = kind, play, []
        if path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen()
            self.port = 0
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            talk = self.kind(near)
            self.talks.append(talk)
            threading.Thread(target=self._one, args=(talk,), daemon=True).start()

    def _one(self, talk):
        with contextlib.suppress(OSError, EOFError):
            self.play(talk)
            talk.rest()
        with contextlib.suppress(OSError):
            talk.socket.close()
        talk.is_over.set()

    def heard(self):
        """All bytes of all connections that are over, and of those that are not."""
        return b"".join(t.heard for t in self.talks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Closing alone would leave the thread in its accept, and the port taken.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def sha2_proof(password):
    """What caching_sha2_password sends first: no password can be had from it but by trying."""
    once = hashlib.sha256(password.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + NONCE).digest()
    return bytes(a ^ b for a, b in zip(once, mask))
