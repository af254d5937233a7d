"""Real database servers on loopback for tests: MariaDB and PostgreSQL from Debian, each in a folder
of its own, and `weir probe` as a process whose samples can be waited for.

Clients go through the C libraries by ctypes, which lets go of Python's lock while a query runs: a
thread per connection can hold a query or a row lock for as long as it likes."""
import atexit
import contextlib
import ctypes
import fcntl
import functools
import glob
import hashlib
import json
import os
import pwd
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import HANG_S, ROOT, WEIR, Skip, Watch, expect, until  # noqa: E402

PASSWORD = "s3cret-of-the-probe"
_alive = []


# Below what the kernel gives to programs that ask for any port: none of these is given by chance.
PORTS = range(12000, 32000)
PORT_LOCKS = "/tmp/weir-test-ports"
_ports = []  # files whose locks keep other tests from these ports until this process ends


def free_port():
    """A port for a server that must be told one.  No other test gets it, as long as this runs."""
    os.makedirs(PORT_LOCKS, exist_ok=True)
    with contextlib.suppress(PermissionError):
        os.chmod(PORT_LOCKS, 0o777)
    for port in random.sample(PORTS, 1000):
        with contextlib.suppress(OSError), contextlib.ExitStack() as undo:
            lock = undo.enter_context(open("%s/%d" % (PORT_LOCKS, port), "a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as s:
                s.bind(("0.0.0.0", port))
            _ports.append(lock)
            undo.pop_all()
            return port
    raise AssertionError("no free port between %d and %d" % (PORTS[0], PORTS[-1]))


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def prepared(program, make):
    """A folder with the data of a new server, made once for each version of the program and kept
    below build/: setting a server up takes seconds, copying it does not."""
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout
    key = hashlib.sha256(version + str(os.getuid()).encode()).hexdigest()[:12]
    place = os.path.join(ROOT, "build", "servers", "%s-%s" % (os.path.basename(program), key))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(place):
            with tempfile.TemporaryDirectory(prefix="new.", dir=os.environ.get("TMPDIR")) as new:
                make(new + "/data")
                copy_folder(new + "/data", place + ".new")
            os.rename(place + ".new", place)
    return place


def copy_folder(source, to):
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", source, to], check=True)


@atexit.register
def _end_all():
    for server in list(_alive):
        server.kill()


def is_stopped(pid):
    """All of its threads: until the one that takes the signal has its turn, the others go on."""
    states = set()
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError), open("/proc/%d/task/%s/stat" % (pid, task)) as f:
            states.add(f.read().rpartition(")")[2].split()[0])
    return states <= {"T", "Z"}


class Database:
    """What both have: a process that can be paused, killed and started again."""

    def __init__(self, name):
        self.name, self.port, self.process = name, free_port(), None
        self.folder = tempfile.mkdtemp(prefix="%s." % name, dir=os.environ.get("TMPDIR"))

    def start(self, seconds=HANG_S):
        self.launch()
        return self.wait_ready(seconds)

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(self.argv(), stdout=log, stderr=log, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent,
                                            **self.identity())
        if self not in _alive:
            _alive.append(self)

    def wait_ready(self, seconds=HANG_S):
        deadline = time.monotonic() + seconds
        while True:
            expect(self.process.poll() is None, "%s ended: %s" % (self.name, self.log()[-800:]))
            try:
                self.connect().close()
                return self
            except RuntimeError as error:
                expect(time.monotonic() < deadline, "%s is not ready: %s" % (self.name, error))
                time.sleep(0.05)

    def identity(self):
        return {}

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(self.process.pid), HANG_S, "a server that stands still")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def halt(self):
        """Gone at once, and its data stays."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(HANG_S)

    def kill(self):
        self.halt()
        if self in _alive:
            _alive.remove(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *statements, **options):
        with self.connect(**options) as c:
            for statement in statements:
                rows = c(statement)
            return rows

    def load(self, n, sql):
        return Load(self, n, sql)


class Load:
    """n connections in one query each; ends with the block."""

    def __init__(self, database, n, sql):
        self.connections = [database.connect() for _ in range(n)]
        self.ids = [c.id() for c in self.connections]
        self.database = database
        self.threads = [threading.Thread(target=self._run, args=(c, sql)) for c in self.connections]

    @staticmethod
    def _run(connection, sql):
        try:
            connection(sql)
        except RuntimeError:
            pass  # it was ended from outside, as was meant

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        with self.database.connect() as c:
            for i in self.ids:
                c(self.database.END % i)
        for t in self.threads:
            t.join()
        for c in self.connections:
            c.close()


# ---------------------------------------------------------------- MariaDB


class MariaConnection:
    try:
        lib = ctypes.CDLL("libmariadb.so.3")
    except OSError:
        lib = None
    for _name, _kind in (("mysql_init", ctypes.c_void_p), ("mysql_real_connect", ctypes.c_void_p),
                         ("mysql_error", ctypes.c_char_p), ("mysql_store_result", ctypes.c_void_p),
                         ("mysql_num_fields", ctypes.c_uint), ("mysql_thread_id", ctypes.c_ulong),
                         ("mysql_fetch_row", ctypes.POINTER(ctypes.c_char_p))):
        if lib:
            getattr(lib, _name).restype = _kind

    def __init__(self, port, user, password, host="127.0.0.1", database=None):
        expect(self.lib, "libmariadb3 is not installed")
        self.db = ctypes.c_void_p(self.lib.mysql_init(None))
        if not self.lib.mysql_real_connect(self.db, host.encode(), user.encode(), password.encode(),
                                           database and database.encode(),
                                           ctypes.c_uint(port), None, ctypes.c_ulong(0)):
            error = self.lib.mysql_error(self.db).decode()
            self.close()
            raise RuntimeError(error)

    def id(self):
        return self.lib.mysql_thread_id(self.db)

    def __call__(self, sql):
        if self.lib.mysql_query(self.db, sql.encode()):
            raise RuntimeError(self.lib.mysql_error(self.db).decode())
        result = self.lib.mysql_store_result(self.db)
        if not result:
            return []
        result = ctypes.c_void_p(result)
        n, rows = self.lib.mysql_num_fields(result), []
        while True:
            row = self.lib.mysql_fetch_row(result)
            if not row:
                break
            rows.append([row[i] and row[i].decode() for i in range(n)])
        self.lib.mysql_free_result(result)
        return rows

    def close(self):
        if self.db:
            self.lib.mysql_close(self.db)
        self.db = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Maria(Database):
    END = "KILL %d"
    PROGRAM = "/usr/sbin/mariadbd"

    def __init__(self, name, *options):
        if not os.path.exists(self.PROGRAM):
            raise Skip("mariadbd is not installed")
        super().__init__(name)
        self.data = os.path.join(self.folder, "data")
        self.socket = os.path.join(self.folder, "s")
        self.options = options
        copy_folder(prepared(self.PROGRAM, self._fill), self.data)
        self.start()

    @staticmethod
    def _fill(data):
        """The system tables, as mariadb-install-db makes them; that one is a shell script around
        this and wants more packages."""
        os.mkdir(data)
        sql = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
        for name in ("mysql_system_tables.sql", "mysql_performance_tables.sql",
                     "mysql_system_tables_data.sql", "maria_add_gis_sp_bootstrap.sql"):
            with open("/usr/share/mysql/" + name, "rb") as f:
                sql += f.read()
        done = subprocess.run([Maria.PROGRAM, "--no-defaults", "--bootstrap",
                               "--datadir=" + data, "--user=" + whoami(), "--log-warnings=0",
                               "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
                               "--enforce-storage-engine="],
                              input=sql, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect(done.returncode == 0, done.stdout.decode(errors="replace")[-800:])

    def argv(self):
        return [self.PROGRAM, "--no-defaults", "--datadir=" + self.data,
                "--socket=" + self.socket, "--pid-file=" + self.folder + "/pid",
                "--user=" + whoami(), "--bind-address=127.0.0.1", "--port=%d" % self.port,
                "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve",
                "--performance-schema=off",
                # Default thresholds follow it: the tests know those of a small server.
                "--thread-pool-size=4"] + list(self.options)

    def connect(self, user="root", password="", database=None):
        return MariaConnection(self.port, user, password, database=database)

    def follow(self, primary):
        """Makes this one a replica of the other."""
        self.ask("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', "
                 "MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos" % primary.port, "START SLAVE")


def whoami():
    return pwd.getpwuid(os.getuid()).pw_name


# ---------------------------------------------------------------- PostgreSQL


class PostgresConnection:
    try:
        lib = ctypes.CDLL("libpq.so.5")
    except OSError:
        lib = None
    for _name, _kind in (("PQconnectdb", ctypes.c_void_p), ("PQexec", ctypes.c_void_p),
                         ("PQerrorMessage", ctypes.c_char_p), ("PQgetvalue", ctypes.c_char_p)):
        if lib:
            getattr(lib, _name).restype = _kind

    def __init__(self, **settings):
        expect(self.lib, "libpq5 is not installed")
        words = " ".join("%s='%s'" % x for x in settings.items() if x[1] is not None)
        self.db = ctypes.c_void_p(self.lib.PQconnectdb(words.encode()))
        if self.lib.PQstatus(self.db) != 0:
            error = self.lib.PQerrorMessage(self.db).decode()
            self.close()
            raise RuntimeError(error)

    def id(self):
        return self.lib.PQbackendPID(self.db)

    def __call__(self, sql):
        result = ctypes.c_void_p(self.lib.PQexec(self.db, sql.encode()))
        try:
            if self.lib.PQresultStatus(result) not in (1, 2):
                raise RuntimeError(self.lib.PQerrorMessage(self.db).decode())
            return [[self.lib.PQgetvalue(result, r, c).decode()
                     for c in range(self.lib.PQnfields(result))]
                    for r in range(self.lib.PQntuples(result))]
        finally:
            self.lib.PQclear(result)

    def stop_after(self, *statements):
        """Sends them as the beginning of a pipeline whose rest never comes."""
        expect(self.lib.PQenterPipelineMode(self.db), "no pipeline")
        for sql in statements:
            expect(self.lib.PQsendQueryParams(self.db, sql.encode(), 0, None, None, None, None, 0), sql)
        expect(self.lib.PQsendFlushRequest(self.db) and self.lib.PQflush(self.db) == 0, "not sent")

    def close(self):
        if self.db:
            self.lib.PQfinish(self.db)
        self.db = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Postgres(Database):
    END = "SELECT pg_terminate_backend(%d)"
    BIN = max(glob.glob("/usr/lib/postgresql/*/bin/"), default="/usr/bin/")

    def __init__(self, name, copy_of=None):
        if not os.path.exists(self.BIN + "postgres"):
            raise Skip("postgresql is not installed")
        super().__init__(name)
        self.data = os.path.join(self.folder, "data")
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(self.folder, "postgres", "postgres")
            self.open_way()
        if copy_of:
            self.run("pg_basebackup", "-h", copy_of.folder, "-p", str(copy_of.port), "-U",
                     "postgres", "-D", self.data, "-R", "-X", "stream", "-c", "fast")
        else:
            copy_folder(prepared(self.BIN + "postgres", self._fill), self.data)
        self.start()

    def _fill(self, data):
        if os.getuid() == 0:
            shutil.chown(os.path.dirname(data), "postgres", "postgres")
        self.run("initdb", "-D", data, "-U", "postgres", "--auth-local=trust",
                 "--auth-host=scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C")

    def open_way(self):
        """Other users must be able to pass through the folders above, which are the test's own."""
        path = os.path.dirname(self.folder)
        while path not in ("/", "/tmp"):
            mode = os.stat(path).st_mode & 0o7777
            if not mode & 0o1:
                os.chmod(path, mode | 0o11)
            path = os.path.dirname(path)

    def identity(self):
        if os.getuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def run(self, program, *args):
        done = subprocess.run([self.BIN + program] + list(args), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder,
                              **self.identity())
        expect(done.returncode == 0, done.stdout.decode(errors="replace")[-800:])

    def argv(self):
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "fsync": "off",
                    "unix_socket_directories": self.folder, "shared_buffers": "16MB",
                    "max_connections": 60, "max_prepared_transactions": 2,
                    "log_min_messages": "warning"}
        return [self.BIN + "postgres", "-D", self.data] + [
            x for key, value in settings.items() for x in ("-c", "%s=%s" % (key, value))]

    def connect(self, user="postgres", password=None, database="postgres", **settings):
        host = "127.0.0.1" if password else self.folder
        return PostgresConnection(host=host, port=self.port, user=user, password=password,
                                  dbname=database, **settings)

    def halt(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)  # a kill would leave its memory segments
            self.process.wait(HANG_S)

    def pause(self):
        """Its sessions are processes of their own."""
        self._signal(signal.SIGSTOP)

    def go_on(self):
        self._signal(signal.SIGCONT)

    def crash(self):
        """Kills the server and all its sessions.  A session that is still there keeps the shared
        memory, and then the server refuses to start."""
        for pidfd in self._signal(signal.SIGKILL):
            expect(select.select([pidfd], [], [], HANG_S)[0], "a session that was killed ends")
            os.close(pidfd)
        self.process.wait(HANG_S)

    def _signal(self, sig):
        """Signals the server and its sessions; returns a descriptor of each for SIGKILL.  The server
        is stopped first: it must not start a session while they are counted."""
        super().pause()
        pid = self.process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            pids = [pid] + [int(x) for x in f.read().split()]
        pidfds = []
        for each in pids:
            with contextlib.suppress(ProcessLookupError):
                if sig == signal.SIGKILL:
                    pidfds.append(os.pidfd_open(each))
                os.kill(each, sig)
        return pidfds


# ---------------------------------------------------------------- a network that can be cut


class Wire:
    """Forwards a port.  After cut() nothing passes any more, and nobody is told: no connection is
    refused or closed, as with a firewall that drops packets.  With `answer_bytes` no more than that
    comes back on a connection."""

    def __init__(self, to_port, answer_bytes=None):
        self.to_port, self.is_cut, self.answer_bytes = to_port, False, answer_bytes
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(near)
            if self.is_cut:
                continue
            far = socket.create_connection(("127.0.0.1", self.to_port))
            self.sockets.append(far)
            for a, b, most in ((near, far, None), (far, near, self.answer_bytes)):
                threading.Thread(target=self._copy, args=(a, b, most), daemon=True).start()

    def _copy(self, a, b, most):
        try:
            while most is None or most > 0:
                data = a.recv(65536 if most is None else most)
                if self.is_cut:
                    return
                if most is not None:
                    most -= len(data)
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                b.sendall(data)
        except OSError:
            pass

    def cut(self):
        self.is_cut = True

    def mend(self):
        self.is_cut = False

    def close(self):
        for s in self.sockets:
            s.close()


# ---------------------------------------------------------------- weir probe


def write_config(folder, text):
    path = os.path.join(folder, "weir.conf")
    secret = os.path.join(folder, "password")
    with open(secret, "w") as f:
        f.write(PASSWORD + "\n")
    os.chmod(secret, 0o600)
    with open(path, "w") as f:
        f.write(text.replace("SECRET", secret))
    return path


def probe_once(folder, config, env=None):
    """(exit code, {metric: sample})"""
    done = subprocess.run([WEIR, "probe", "-c", write_config(folder, config), "--once", "--json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=HANG_S, env=env and dict(os.environ, **env))
    expect(PASSWORD not in (done.stdout + done.stderr).decode(), "the password was printed")
    expect(done.stdout, done.stderr.decode())
    return done.returncode, {s["metric"]: s for s in json.loads(done.stdout)["metrics"]}


class Probe:
    """`weir probe --watch`; the last sample of each metric, and waiting for one."""

    def __init__(self, folder, config):
        self.process = subprocess.Popen(
            [WEIR, "probe", "-c", write_config(folder, config), "--watch", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=die_with_parent, text=True, bufsize=1)
        self.last, self.news, self.usage = {}, threading.Condition(), None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        _alive.append(self)

    def _read(self):
        for line in self.process.stdout:
            expect(PASSWORD not in line, "the password was printed")
            sample = json.loads(line)
            sample["came"] = time.monotonic()
            with self.news:
                self.last[sample["metric"]] = sample
                self.news.notify_all()

    def wait(self, metric, condition, seconds=HANG_S, what=""):
        """The first sample from now on that fulfils the condition."""
        watch = Watch()
        with self.news:
            def is_there():
                s = self.last.get(metric)
                return s and s["came"] >= watch.begin and condition(s)
            while not self.news.wait_for(is_there, 0.1):
                if watch.is_over(seconds):
                    raise AssertionError("%s: %s did not come in %s s; last: %s" % (
                        metric, what or "what was expected", seconds, self.last.get(metric)))
            return self.last[metric]

    def value(self, metric, condition, seconds=HANG_S):
        return self.wait(metric, lambda s: s["value"] is not None and condition(s["value"]),
                         seconds, "the value")["value"]

    def error(self, metric, words, seconds=HANG_S):
        return self.wait(metric, lambda s: s["error"] and words in s["error"], seconds,
                         "the error '%s'" % words)["error"]

    def kill(self):
        """Ends it; what it used of the processor, in seconds."""
        if self in _alive:
            _alive.remove(self)
            self.process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = status
            expect(status == 0, "weir probe ended with status %d" % status)
            self.thread.join(5)
            self.process.stdout.close()
            expect(PASSWORD not in self.process.stderr.read(), "the password was printed")
            self.process.stderr.close()
            self.usage = usage.ru_utime + usage.ru_stime
        return self.usage

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


@functools.lru_cache(None)
def probed_maria(name="db1"):
    """A MariaDB, one of each name for the whole script, that weir's probe may ask."""
    m = Maria(name)
    m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT PROCESS ON *.* TO weir@'127.0.0.1'")
    return m
