"""The servers under test: how each is started, known to be ready, asked for its count, and ended.

A contender is a server with its settings plus the way the generator speaks to it.  Every
measurement gets a fresh server on an empty folder, so nobody carries the ballast of an earlier
one, and all folders lie on the same disk.
"""

import dataclasses
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time

READY_S = 120  # a recovery of five million jobs may take long; silence beyond it is a failure


@dataclasses.dataclass(frozen=True)
class Contender:
    key: str            # short, for --only and the JSON
    title: str          # as printed
    server: str         # weir, redis, beanstalkd, mariadb
    proto: str          # of the generator
    synced: bool        # on disk before the answer
    settings: tuple = ()
    gen: tuple = ()     # options of the generator
    works: tuple = ("put", "drain", "cycle")
    shapes: tuple = ()  # empty: all
    config: str = ""    # weir's configuration file
    needs: str = ""     # a command that an older weir may not know
    is_unix: bool = False  # over a Unix socket


NO_HISTORY = 'queue "bench" {\n        history = none\n}\n'
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
LOCK_SHAPES = ((1, 1), (8, 1), (64, 1))
ECHO_SHAPE = (64, 1)  # as bench/echo.c has it
# Workers, and jobs in a claim: Action Scheduler's default.
TABLE_SHAPES = ((1, 25), (8, 25), (64, 25))
BACKLOG = 100000    # jobs that wait in the queue meanwhile
# Every commit synced, and a buffer pool that holds everything.
MARIADB_SYNCED = ("--max-connections=300", "--innodb-flush-log-at-trx-commit=1",
                  "--innodb-buffer-pool-size=1G")

CONTENDERS = (
    Contender("weir", "weir", "weir", "weir", True, gen=("--next", "--batch"),
              works=("put", "drain", "cycle", "history", "json")),
    Contender("weir-3", "weir, three commands", "weir", "weir", True, works=("drain", "cycle")),
    Contender("weir-nohistory", "weir, history none", "weir", "weir", True,
              gen=("--next", "--batch"), works=("drain", "cycle", "json"), config=NO_HISTORY),
    Contender("list", "Redis list, always", "redis", "list", True, ALWAYS),
    Contender("stream", "Redis stream, always", "redis", "stream", True, ALWAYS),
    Contender("beanstalkd", "beanstalkd -f0", "beanstalkd", "beanstalk", True, ("-f0",)),
    Contender("list-lossy", "Redis list, everysec", "redis", "list", False, EVERYSEC),
    Contender("stream-lossy", "Redis stream, everysec", "redis", "stream", False, EVERYSEC),
    Contender("beanstalkd-lossy", "beanstalkd, 50 ms", "beanstalkd", "beanstalk", False),
    Contender("weir-claim32", "weir, CLAIM MAX 32", "weir", "weir", True, gen=("--batch",),
              works=("cycle",), shapes=((64, 32),)),
    Contender("weir-many", "weir, batch verbs", "weir", "weir", True,
              gen=("--many", "--batch", "--next"), works=("cycle",), shapes=((64, 32),)),
    Contender("list-many", "Redis list, batch verbs", "redis", "list", True, ALWAYS,
              gen=("--many", "--batch"), works=("cycle",), shapes=((64, 32),)),
    Contender("weir-lock", "weir", "weir", "weir-lock", True, works=("lock",), shapes=LOCK_SHAPES,
              needs="LOCK"),
    Contender("redis-lock", "Redis, always", "redis", "redis-lock", True, ALWAYS, works=("lock",),
              shapes=LOCK_SHAPES),
    Contender("redis-lock-lossy", "Redis, everysec", "redis", "redis-lock", False, EVERYSEC,
              works=("lock",), shapes=LOCK_SHAPES),
    Contender("weir-unix", "weir, Unix socket", "weir", "weir", True, gen=("--next", "--batch"),
              works=("cycle",), shapes=((64, 1),), is_unix=True),
    Contender("list-unix", "Redis list, always, Unix", "redis", "list", True, ALWAYS,
              works=("cycle",), shapes=((64, 1),), is_unix=True),
    Contender("weir-lock-unix", "weir, Unix socket", "weir", "weir-lock", True, works=("lock",),
              shapes=((64, 1),), needs="LOCK", is_unix=True),
    Contender("redis-lock-unix", "Redis, always, Unix", "redis", "redis-lock", True, ALWAYS,
              works=("lock",), shapes=((64, 1),), is_unix=True),
    Contender("weir-single", "weir, one by one", "weir", "weir", True, gen=("--batch", "--single"),
              works=("table", "backlog"), shapes=TABLE_SHAPES),
    Contender("mariadb", "MariaDB tables", "mariadb", "table", True, MARIADB_SYNCED,
              works=("table", "backlog"), shapes=TABLE_SHAPES),
    Contender("weir-25", "weir, 25 in one write", "weir", "weir", True, gen=("--batch",),
              works=("table", "backlog"), shapes=TABLE_SHAPES),
    Contender("weir-25-many", "weir, batch verbs", "weir", "weir", True,
              gen=("--many", "--batch", "--next"), works=("table",), shapes=TABLE_SHAPES),
)

# What each does for one job (depth 1) and for a batch of 32, printed with the results.
PATTERNS = """\
weir                    ENQUEUE; COMPLETE .. CLAIM MAX 1 (finish one, get the next)
                        x32: 32 ENQUEUE; 31 COMPLETE and one COMPLETE .. CLAIM MAX 32
weir, three commands    ENQUEUE; CLAIM MAX 1; COMPLETE          x32: 32 of each
weir, history none      as weir, in a queue that keeps no history
both, JSON payload      ENQUEUE .. GROUP shop; half of the COMPLETE have a result, 2 % are FAIL
weir, CLAIM MAX 32      32 ENQUEUE; one CLAIM MAX 32; 32 COMPLETE
weir, batch verbs       one ENQUEUEMANY of 32; 31 COMPLETE and one COMPLETE .. CLAIM MAX 32
Redis list              LPUSH; LMOVE to the worker's own list; LREM from its tail
                        x32: 32 of each (there is no batch claim that keeps the jobs)
Redis list, batch verbs one LPUSH of 32; 32 LMOVE; one DEL of the worker's list
Redis stream            XADD; XREADGROUP COUNT 1; XACK + XDEL in one write
                        x32: 32 XADD; XREADGROUP COUNT 32; one XACK and one XDEL of 32 ids
beanstalkd              put; reserve; delete                    x32: 32 of each

lock + unlock, each connection on names of its own, out of a thousand:
weir                    LOCK name 30000; UNLOCK name token
Redis                   SET name token NX PX 30000; EVALSHA of compare-and-delete

workers that claim 25 at a time:
MariaDB tables          Action Scheduler's tables and statements: INSERT action and log row;
                        INSERT claim, UPDATE .. JOIN (SELECT .. LIMIT 25 FOR UPDATE SKIP LOCKED);
                        each: re-read, UPDATE and log row at the start, the same at the end
weir, one by one        25 times ENQUEUE; CLAIM MAX 25; 25 times COMPLETE: a round trip for each
weir, 25 in one write   the same commands, 25 ENQUEUE or 25 COMPLETE in one write
weir, batch verbs       one ENQUEUEMANY of 25; 24 COMPLETE and one COMPLETE .. CLAIM MAX 25"""


class Broken(Exception):
    """A server did not start, answered wrongly, or lost or doubled a job."""


class Missing(Exception):
    """The server is an older one and does not know the command: no result, and no failure."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_line(proc, pattern, deadline):
    """The first line of the server's output that matches; lines are read as they come."""
    fd = proc.stdout.fileno()
    text = b""
    while True:
        if not select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
            raise Broken(f"no line like {pattern!r} from {proc.args[0]}")
        chunk = os.read(fd, 65536)
        if not chunk:
            raise Broken(f"{proc.args[0]} ended at start: {text.decode(errors='replace')[-500:]}")
        text += chunk
        found = re.search(pattern.encode() + rb".*\n", text)
        if found:
            return found.group().decode().strip()


def wait_for_port(proc, port, deadline):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if proc.poll() is not None or time.monotonic() > deadline:
                raise Broken(f"{proc.args[0]} does not listen") from None
            time.sleep(0.001)


class Server:
    """A running server; `with Server(...) as s` kills it and removes its folder at the end."""

    def __init__(self, contender, folder, weir):
        self.contender, self.folder, self.weir = contender, folder, weir
        self.proc = self.port = None
        # Outside the folder, which a server may want empty; Unix sockets have short names.
        self.socket_path = f"{folder}.sock" if contender.is_unix else None
        self.ready_s = self.ready_line = None

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        began = time.monotonic()
        getattr(self, "_start_" + self.contender.server)(began + READY_S)
        self.ready_s = time.monotonic() - began

    def kill(self):
        if self.proc:
            self.proc.send_signal(signal.SIGKILL)
            self.proc.wait()
            if self.proc.stdout:
                self.proc.stdout.close()
            self.proc = None

    def _spawn(self, args, stdout=subprocess.PIPE):
        with open(self.folder + ".log", "ab") as log:
            self.proc = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=stdout, stderr=log)

    def _start_weir(self, deadline):
        args = [self.weir, "serve", "--data", self.folder, "--resp",
                self.socket_path or "127.0.0.1:0", "--http", "127.0.0.1:0"]
        if self.contender.config:
            path = self.folder + ".conf"
            with open(path, "w", encoding="ascii") as f:
                f.write(self.contender.config)
            args += ["-c", path]
        self._spawn(args)
        self.ready_line = wait_for_line(self.proc, r"(?m)^ready .*resp=", deadline)
        if not self.socket_path:
            self.port = int(re.search(r"resp=\S*:(\d+)", self.ready_line).group(1))

    def _start_redis(self, deadline):
        self.port = free_port()
        # No rewrites in the background: they would only slow Redis down.
        where = ["--unixsocket", self.socket_path] if self.socket_path else []
        self._spawn(["redis-server", "--port", str(self.port), *where, "--bind", "127.0.0.1", "--save", "",
                     "--auto-aof-rewrite-percentage", "0", "--dir", self.folder,
                     *self.contender.settings])
        wait_for_line(self.proc, "Ready to accept connections", deadline)

    def _start_beanstalkd(self, deadline):
        self.port = free_port()
        self._spawn(["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), "-b", self.folder,
                     *self.contender.settings], stdout=subprocess.DEVNULL)
        wait_for_port(self.proc, self.port, deadline)
        # It listens before it has read its log, and answers only after.
        self.pending()

    def _start_mariadb(self, deadline):
        """No binary log; the contender's settings, else as is."""
        program = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            raise Broken("mariadbd is not installed")
        args = [program, "--no-defaults", "--datadir", self.folder, "--skip-name-resolve"]
        if os.geteuid() == 0:
            args.append("--user=root")
        if not os.path.exists(os.path.join(self.folder, "mysql")):
            self._fill_mariadb(args)
        self.port = free_port()
        self._spawn([*args, "--bind-address=127.0.0.1", f"--port={self.port}",
                     "--socket=mariadb.sock", "--pid-file=mariadb.pid", *self.contender.settings],
                    stdout=subprocess.DEVNULL)
        wait_for_port(self.proc, self.port, deadline)

    def _fill_mariadb(self, args):
        """The system tables, as mariadb-install-db makes them."""
        os.mkdir(os.path.join(self.folder, "mysql"))
        sql = b"USE mysql;\n"
        for name in ("system_tables", "performance_tables", "system_tables_data"):
            with open(f"/usr/share/mysql/mysql_{name}.sql", "rb") as f:
                sql += f.read()
        with open(self.folder + ".log", "ab") as log:
            subprocess.run([*args, "--bootstrap"], input=sql, stdout=log, stderr=log, check=True,
                           timeout=60)

    @property
    def http_port(self):
        """weir's."""
        return int(re.search(r"http=\S*:(\d+)", self.ready_line).group(1))

    def knows(self, command):
        """Without its arguments it is refused in either case, but not for the same reason."""
        return not re.search(r"no command|unknown command", self.call(command), re.IGNORECASE)

    def rss_bytes(self):
        with open(f"/proc/{self.proc.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) * 1024

    def pending(self):
        """Jobs the server says are ready, or locks that are held."""
        return getattr(self, "_pending_" + self.contender.proto.replace("-", "_"))()

    def connect(self):
        if not self.socket_path:
            return socket.create_connection(("127.0.0.1", self.port), timeout=READY_S)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(READY_S)
        s.connect(self.socket_path)
        return s

    def call(self, line):
        """One command, one reply: a line, or a length (RESP $n, beanstalkd OK n) and its bytes."""
        with self.connect() as s:
            s.sendall(line.encode() + b"\r\n")
            text, need = b"", None
            while need is None or len(text) < need:
                chunk = s.recv(65536)
                if not chunk:
                    raise Broken(f"{self.contender.title} closed the connection on {line}")
                text += chunk
                head = re.match(rb"(?:\$|OK )(\d+)\r\n", text)
                if head:
                    need = head.end() + int(head.group(1)) + 2
                elif b"\r\n" in text:
                    need = len(text)
            return text.decode(errors="replace")

    def _pending_list(self):
        return int(self.call("LLEN bench")[1:])

    def _pending_stream(self):
        return int(self.call("XLEN bench")[1:])

    def _pending_beanstalk(self):
        return int(re.search(r"current-jobs-ready: (\d+)", self.call("stats")).group(1))

    def _pending_weir(self):
        return int(re.search(r"jobs_ready:(\d+)", self.call("INFO")).group(1))

    def _pending_redis_lock(self):
        return int(self.call("DBSIZE")[1:])

    def _pending_weir_lock(self):
        return int(re.search(r"locks_held:(\d+)", self.call("INFO")).group(1))

    def log_text(self):
        try:
            with open(self.folder + ".log", encoding="utf-8", errors="replace") as f:
                return f.read()
        except OSError:
            return ""
