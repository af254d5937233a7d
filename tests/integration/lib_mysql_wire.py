"""A MySQL client that sees every byte, written apart from weir's own code.

    c = Raw(("127.0.0.1", 3307))
    c.login("shop", "secret", database="shop", caps=CAPS | DEPRECATE_EOF)
    reply = c.query("SELECT 1")          reply.rows, reply.error, reply.status
    c.heard                              all packets of the server so far, headers included

It sends any payload, cut at any place, and reads replies by the rules of the protocol: it knows
where a reply ends, which flags the server reported, and which packets came on the way.
"""
import hashlib
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import expect, until  # noqa: E402

MAX = 0xFFFFFF  # payload of a packet; a packet of this size is continued in the next one

# Capabilities.
LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, WITH_DB, COMPRESS = 1, 2, 4, 8, 1 << 5
LOCAL_FILES, PROTOCOL_41, SSL, TRANSACTIONS = 1 << 7, 1 << 9, 1 << 11, 1 << 13
SECURE, MULTI_STATEMENTS, MULTI_RESULTS, PS_MULTI_RESULTS = 1 << 15, 1 << 16, 1 << 17, 1 << 18
PLUGIN_AUTH, CONNECT_ATTRS, PLUGIN_LENENC = 1 << 19, 1 << 20, 1 << 21
SESSION_TRACK, DEPRECATE_EOF, OPTIONAL_METADATA, ZSTD = 1 << 23, 1 << 24, 1 << 25, 1 << 26
CAPS = (LONG_FLAG | LOCAL_FILES | PROTOCOL_41 | TRANSACTIONS | SECURE | MULTI_STATEMENTS
        | MULTI_RESULTS | PS_MULTI_RESULTS | PLUGIN_AUTH | PLUGIN_LENENC | CONNECT_ATTRS)
# What a door that reads the stream takes out of the greeting.
CLEARED = COMPRESS | SSL | OPTIONAL_METADATA | ZSTD
# MariaDB's own; sent in the last four of the reserved bytes, when LONG_PASSWORD is not set.
PROGRESS, BULK, EXT_METADATA, CACHE_METADATA = 1, 4, 8, 16

# Commands.
QUIT, INIT_DB, QUERY, FIELD_LIST, REFRESH, STATISTICS = 1, 2, 3, 4, 7, 9
PROCESS_INFO, PROCESS_KILL, DEBUG, PING, CHANGE_USER = 10, 12, 13, 14, 17
PREPARE, EXECUTE, LONG_DATA, CLOSE, RESET_STMT, SET_OPTION, FETCH = 22, 23, 24, 25, 26, 27, 28
RESET, BULK_EXECUTE = 31, 0xfa

# Status flags.
IN_TRANS, AUTOCOMMIT, MORE_RESULTS, CURSOR_EXISTS, LAST_ROW = 1, 2, 8, 0x40, 0x80
LAST_PREPARED = 0xFFFFFFFF  # MariaDB: the statement that was prepared last


class Gone(Exception):
    """The connection was closed by the other side."""


class Failure:
    """An ERR packet."""

    def __init__(self, payload):
        self.number = struct.unpack_from("<H", payload, 1)[0]
        has_state = payload[3:4] == b"#"
        self.state = payload[4:9].decode() if has_state else ""
        self.text = payload[9 if has_state else 3:].decode("utf-8", "replace")

    def is_weir(self):
        return self.text.startswith("weir:")

    def __repr__(self):
        return "%d (%s): %s" % (self.number, self.state, self.text)


class Reply:
    """rows: of all result sets, cells as bytes or None (text protocol) or raw (binary).
    sets: how many result sets and OKs there were.  status: the flags of the last OK or EOF."""

    def __init__(self):
        self.rows, self.sets, self.error, self.status = [], 0, None, None
        self.affected = self.statement = self.columns = self.params = 0


def lenenc(n):
    if n < 251:
        return bytes([n])
    if n < 1 << 16:
        return b"\xfc" + struct.pack("<H", n)
    if n < 1 << 24:
        return b"\xfd" + struct.pack("<I", n)[:3]
    return b"\xfe" + struct.pack("<Q", n)


def string(data):
    return lenenc(len(data)) + data


def take_int(data, at):
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {0xfc: 2, 0xfd: 3, 0xfe: 8}[first]
    return int.from_bytes(data[at + 1:at + 1 + size], "little"), at + 1 + size


def cells(payload, n):
    """A row of the text protocol."""
    row, at = [], 0
    for _ in range(n):
        if payload[at] == 0xfb:
            row.append(None)
            at += 1
            continue
        size, at = take_int(payload, at)
        row.append(payload[at:at + size])
        at += size
    return row


def scramble(password, salt):
    """The answer of mysql_native_password."""
    if not password:
        return b""
    one = hashlib.sha1(password.encode()).digest()
    two = hashlib.sha1(salt + hashlib.sha1(one).digest()).digest()
    return bytes(a ^ b for a, b in zip(one, two))


def frames(payload, seq=0):
    """The packets of a payload."""
    out, at = [], 0
    while True:
        part = payload[at:at + MAX]
        out.append(struct.pack("<I", len(part))[:3] + bytes([seq & 255]) + part)
        at += MAX
        seq += 1
        if len(part) < MAX:
            return out


class Raw:
    """address: (host, port) or the path of a unix socket.  source: the address to come from.  first:
    bytes to send before the greeting is read, or a list of them, each in a packet of its own."""

    def __init__(self, address, seconds=60, first=b"", source=None):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(seconds)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, seconds, source and (source, 0))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in first if isinstance(first, list) else [first]:
            self.socket.sendall(part)
        self.first_seq = 1
        self.buffer, self.heard, self.seq = b"", [], 0
        self.caps = self.ext = self.status = self.reports = 0
        self.infile = {}  # name -> content, for LOAD DATA LOCAL
        self.statements = []  # ids of those that were prepared
        self._greet()

    def close(self, reset=False):
        """reset: the other side sees a reset connection, not an end of the stream."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- packets

    def _exactly(self, n):
        if len(self.buffer) < n:
            parts, have = [self.buffer], len(self.buffer)
            while have < n:
                try:
                    chunk = self.socket.recv(max(1 << 16, min(n - have, 1 << 22)))
                except ConnectionError as error:
                    raise Gone(str(error)) from None
                if not chunk:
                    raise Gone("end of stream")
                parts.append(chunk)
                have += len(chunk)
            self.buffer = b"".join(parts)
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def payload(self):
        """The next payload of the server, put together from its packets.  A report of progress
        looks like an error and may come anywhere in a reply; it is counted and passed over."""
        while True:
            data = self._payload()
            if not (self.ext & PROGRESS and data[:3] == b"\xff\xff\xff"):
                return data
            self.reports += 1

    def _payload(self):
        parts = []
        while True:
            head = self._exactly(4)
            size = head[0] | head[1] << 8 | head[2] << 16
            self.seq = head[3] + 1
            data = self._exactly(size)
            if self.heard is not None:
                self.heard.append(head + data)
            if not parts and size < MAX:
                return data
            parts.append(data)
            if size < MAX:
                return b"".join(parts)

    def send(self, payload, seq=0):
        self.socket.sendall(b"".join(frames(payload, seq)))

    # --- the login

    def _greet(self):
        g = self.payload()
        if g[:1] == b"\xff":
            raise Gone(repr(Failure(g)))
        end = g.index(b"\0", 1)
        self.version = g[1:end].decode()
        self.thread = struct.unpack_from("<I", g, end + 1)[0]
        at = end + 5
        self.salt = g[at:at + 8] + g[at + 27:at + 39]
        low, = struct.unpack_from("<H", g, at + 9)
        high, = struct.unpack_from("<H", g, at + 14)
        self.server_caps = low | high << 16
        self.server_ext, = struct.unpack_from("<I", g, at + 23)
        self.plain_greeting = mask_greeting(g, end, at)

    def login_payload(self, user, password="", database=None, caps=CAPS, ext=0, attrs=None):
        self.caps, self.ext = (caps | WITH_DB if database else caps), ext
        listed = b"".join(string(k.encode()) + string(v.encode()) for k, v in (attrs or {}).items())
        return (struct.pack("<IIB19xI", self.caps, 1 << 30, 45, ext) + user.encode() + b"\0"
                + string(scramble(password, self.salt))
                + (database.encode() + b"\0" if database else b"")
                + b"mysql_native_password\0"
                + (string(listed) if self.caps & CONNECT_ATTRS else b""))

    def login(self, user, password="", **options):
        self.send(self.login_payload(user, password, **options), self.first_seq)
        error = self.finish_login(password)
        expect(error is None, "login of %s: %s" % (user, error))
        return self

    def start_tls(self, context, caps=CAPS, name=None):
        """Asks for TLS; the login follows in it, with the same capabilities: MariaDB takes those of
        this packet."""
        self.send(struct.pack("<IIB23x", caps | SSL, 1 << 30, 45), 1)
        expect(not self.buffer, "bytes before the handshake")
        self.socket = context.wrap_socket(self.socket, server_hostname=name)
        self.first_seq = 2
        return self

    def finish_login(self, password=""):
        """Reads up to the OK or ERR; the error or None."""
        while True:
            p = self.payload()
            if p[0] == 0:
                self._ok(p)
                return None
            if p[0] == 0xff:
                return Failure(p)
            expect(p[0] == 0xfe, "not a packet of the login: %r" % p[:20])
            plugin, _, rest = p[1:].partition(b"\0")
            expect(plugin == b"mysql_native_password", "plugin %r" % plugin)
            self.salt = rest[:20]
            self.send(scramble(password, self.salt), self.seq)

    def change_user(self, user, password="", database=""):
        answer = scramble(password, self.salt)
        self.send(bytes([CHANGE_USER]) + user.encode() + b"\0" + bytes([len(answer)]) + answer
                  + database.encode() + b"\0" + struct.pack("<H", 45) + b"mysql_native_password\0"
                  + (b"\0" if self.caps & CONNECT_ATTRS else b""))
        return self.finish_login(password)

    # --- replies

    def _ok(self, p, reply=None):
        affected, at = take_int(p, 1)
        _, at = take_int(p, at)
        self.status, = struct.unpack_from("<H", p, at)
        if reply:
            reply.affected += affected
        return self.status

    def _is_end(self, p):
        if p[0] != 0xfe:
            return False
        return len(p) < MAX if self.caps & DEPRECATE_EOF else len(p) < 9

    def _end(self, p):
        """The flags of an EOF, or of the OK that replaces it."""
        if self.caps & DEPRECATE_EOF:
            return self._ok(p)
        self.status, = struct.unpack_from("<H", p, 3)
        return self.status

    def reply(self, command=QUERY, is_binary=False):
        """One whole reply to QUERY, EXECUTE, BULK_EXECUTE, PING, INIT_DB, RESET, ..."""
        r = Reply()
        while True:
            p = self.payload()
            r.sets += 1
            if p[0] == 0xff:
                r.error = Failure(p)
                return r
            if p[0] == 0:
                r.status = self._ok(p, r)
            elif p[0] == 0xfe and command in (SET_OPTION, DEBUG):
                r.status = self._end(p)
            elif p[0] == 0xfb:
                self._upload(p[1:].decode())
                continue
            else:
                self._result_set(p, r, is_binary)
                if r.error:
                    return r
            if not r.status & MORE_RESULTS:
                return r

    def _result_set(self, p, r, is_binary):
        n, at = take_int(p, 0)
        has_columns = not (self.ext & CACHE_METADATA) or p[at] == 1
        r.columns = n
        for _ in range(n if has_columns else 0):
            self.payload()
        if not self.caps & DEPRECATE_EOF:
            r.status = self._end(self.payload())
            if r.status & CURSOR_EXISTS:
                return
        self._rows(r, n, is_binary)

    def _rows(self, r, n, is_binary):
        while True:
            p = self.payload()
            if p[0] == 0xff:
                r.error = Failure(p)
                return
            if self._is_end(p):
                r.status = self._end(p)
                return
            r.rows.append(p if is_binary else cells(p, n))

    def _upload(self, name):
        """Sends the file the server asked for: a list of payloads, or its bytes in one."""
        content = self.infile.get(name, b"")
        for part in content if isinstance(content, list) else [content] if content else []:
            for frame in frames(part, self.seq):
                self.socket.sendall(frame)
                self.seq += 1
        self.socket.sendall(b"\0\0\0" + bytes([self.seq & 255]))

    def prepare_reply(self):
        r = Reply()
        p = self.payload()
        if p[0] == 0xff:
            r.error = Failure(p)
            return r
        r.statement, r.columns, r.params = struct.unpack_from("<IHH", p, 1)
        self.statements.append(r.statement)
        for n in (r.params, r.columns):
            for _ in range(n):
                self.payload()
            if n and not self.caps & DEPRECATE_EOF:
                r.status = self._end(self.payload())
        return r

    def list_reply(self):
        """Of FIELD_LIST: definitions up to an EOF; of FETCH: rows up to an EOF."""
        r = Reply()
        self._rows(r, 0, True)
        return r

    # --- commands

    def query(self, sql):
        self.send(bytes([QUERY]) + (sql if isinstance(sql, bytes) else sql.encode()))
        return self.reply()

    def command(self, command, body=b""):
        self.send(bytes([command]) + body)
        return self.reply(command)

    def ping(self):
        return self.command(PING)

    def prepare(self, sql):
        self.send(bytes([PREPARE]) + sql.encode())
        return self.prepare_reply()

    def execute(self, statement, *values, flags=0):
        self.send(execute_payload(statement, *values, flags=flags))
        return self.reply(EXECUTE, is_binary=True)

    def good(self, sql):
        r = self.query(sql)
        expect(r.error is None, "%s: %s" % (sql, r.error))
        return r


def execute_payload(statement, *values, flags=0):
    """Values are bytes, int or None."""
    out = struct.pack("<BIBI", EXECUTE, statement, flags, 1)
    if not values:
        return out
    return out + binary_values(values)


def binary_values(values):
    nulls = bytearray((len(values) + 7) // 8)
    types, data = b"", b""
    for i, value in enumerate(values):
        if value is None:
            nulls[i // 8] |= 1 << i % 8
            types += b"\x06\0"
        elif isinstance(value, int):
            types += b"\x08\0"
            data += struct.pack("<q", value)
        else:
            types += b"\xfd\0"
            data += string(value)
    return bytes(nulls) + b"\1" + types + data


def mask_greeting(g, end, at):
    """What of a greeting does not differ from one connection to the next, nor through a door."""
    m = bytearray(g)
    m[end + 1:end + 5] = bytes(4)     # thread id
    m[at:at + 8] = bytes(8)           # salt
    m[at + 27:at + 39] = bytes(12)
    low, high = struct.unpack_from("<H", m, at + 9)[0], struct.unpack_from("<H", m, at + 14)[0]
    caps = (low | high << 16) & ~CLEARED
    struct.pack_into("<H", m, at + 9, caps & 0xFFFF)
    struct.pack_into("<H", m, at + 14, caps >> 16)
    return bytes(m)


# ---------------------------------------------------------------- cuts


def unread(diag, mine, peer):
    """Bytes that the kernel holds for the other end of a connection on this machine."""
    ends = struct.pack("!HH", peer[1], mine[1]) + b"".join(
        socket.inet_aton(host) + bytes(12) for host, _ in (peer, mine))
    diag.send(struct.pack("=IHHIIBBBBI", 72, SOCK_DIAG_BY_FAMILY, 1, 0, 0, socket.AF_INET,
                          socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
              + ends + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF))
    answer = diag.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] != SOCK_DIAG_BY_FAMILY:
        return 0  # the other end is gone
    return struct.unpack_from("=I", answer, 72)[0]


SOCK_DIAG_BY_FAMILY = 20  # a message of netlink, which finds one socket without a walk over all
NETLINK_SOCK_DIAG = 4


def wait_read(s, seconds=60):
    """Returns when the program at the other end has read all that was sent: the next bytes come
    to it in a read of their own."""
    mine, peer = s.getsockname(), s.getpeername()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as diag:
        for _ in range(1000):
            if not unread(diag, mine, peer):
                return
            os.sched_yield()
        until(lambda: not unread(diag, mine, peer), seconds, "the other end reads what was sent")
