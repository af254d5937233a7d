"""The shop's database: a private MariaDB in a folder of its own, a connection to it, and the storm.

MariaDB comes from Debian's mariadb-server-core.  Its client library is one that weir itself is
linked with, so it is called as it is, through ctypes, and nothing else has to be installed.  A call
of it lets go of Python's lock, so threads that wait for the database wait at the same time.

    shop.py SOCKET CLIENTS ROWS     the storm: so many clients, until the standard input ends

The storm is a process of its own, which a slow query of it cannot hold up anybody else in.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

USER = "shop"
REPORT_USER = "report"  # sends the reports of demo/door
ORDERS = 2000
QUERY_S = (0.3, 0.7)    # how long a heavy query sleeps; so the storm is over soon after its end
START_S = 60        # longest time for MariaDB to be there
SCRIPTS = "/usr/share/mysql/mysql_%s.sql"
TABLES = ("system_tables", "performance_tables", "system_tables_data")
SCHEMA = (
    "FLUSH PRIVILEGES;",
    "CREATE USER %s@localhost;" % USER,
    "GRANT ALL ON *.* TO %s@localhost;" % USER,
    "CREATE USER %s@localhost;" % REPORT_USER,
    "GRANT ALL ON *.* TO %s@localhost;" % REPORT_USER,
    "CREATE DATABASE shop;",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40), touched INT NOT NULL"
    " DEFAULT 0) ENGINE=InnoDB;",
    "INSERT INTO shop.orders (id, note) SELECT seq, MD5(seq) FROM seq_1_to_%d;" % ORDERS,
)


class DatabaseError(Exception):
    """MariaDB did not start, or refused a query."""


def die_with_parent():
    """For a child of the main thread: nothing is left when the demo is killed.  An interrupt from
    the terminal does not reach it (start_new_session), so that it is ended in order."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


# ---------------------------------------------------------------- the server


class MariaDB:
    """A server in an empty folder, on a unix socket only."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = os.path.join(folder, "mariadb.sock")
        self.log_path = os.path.join(folder, "mariadb.log")
        program = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            raise DatabaseError("mariadbd is missing; tools/deps demo installs it")
        data = os.path.join(folder, "mariadb")
        os.makedirs(os.path.join(data, "mysql"))
        args = [program, "--no-defaults", "--datadir=" + data]
        if os.geteuid() == 0:
            args.append("--user=root")
        self.log = open(self.log_path, "ab")
        self._fill(args)
        # Commits are not synced: the disk is not what this is about.
        self.process = subprocess.Popen(
            args + ["--skip-networking", "--socket=" + self.socket,
                    "--pid-file=" + os.path.join(folder, "mariadb.pid"), "--max-connections=400",
                    "--innodb-flush-log-at-trx-commit=2", "--thread-cache-size=200",
                    "--performance-schema=off"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            preexec_fn=die_with_parent, start_new_session=True)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _fill(self, args):
        """The system tables, as mariadb-install-db makes them; that one needs the whole package."""
        sql = b"USE mysql;\n"
        for name in TABLES:
            with open(SCRIPTS % name, "rb") as f:
                sql += f.read()
        for line in SCHEMA:
            sql += line.encode() + b"\n"
        done = subprocess.run(args + ["--bootstrap"], input=sql, stdout=self.log, stderr=self.log,
                              timeout=START_S, check=False)
        if done.returncode != 0:
            raise DatabaseError("MariaDB did not make its tables: " + self.last_words())

    def _wait(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                Connection(self.socket).close()
                return
            except DatabaseError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise DatabaseError("MariaDB did not start: " + self.last_words()) from None
                time.sleep(0.01)

    def last_words(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-500:]

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()     # nobody wants its data any more
            self.process.wait()
        self.log.close()


# ---------------------------------------------------------------- a connection

_lib = None


def library():
    global _lib
    if _lib is None:
        lib = ctypes.CDLL("libmariadb.so.3")
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for name, result, args in (
                ("mysql_init", pointer, [pointer]),
                ("mysql_real_connect", pointer,
                 [pointer, text, text, text, text, ctypes.c_uint, text, ctypes.c_ulong]),
                ("mysql_real_query", ctypes.c_int, [pointer, text, ctypes.c_ulong]),
                ("mysql_store_result", pointer, [pointer]),
                ("mysql_fetch_row", ctypes.POINTER(text), [pointer]),
                ("mysql_free_result", None, [pointer]),
                ("mysql_close", None, [pointer]),
                ("mysql_error", text, [pointer])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, args
        lib.mysql_server_init(0, None, None)    # not safe from several threads at once
        _lib = lib
    return _lib


class Connection:
    """For one thread at a time."""

    def __init__(self, socket, user=USER):
        self.lib = library()
        self.handle = self.lib.mysql_init(None)
        if not self.lib.mysql_real_connect(self.handle, None, user.encode(), None, b"shop", 0,
                                           socket.encode(), 0):
            why = self._why()
            self.close()
            raise DatabaseError(why)

    def _why(self):
        return self.lib.mysql_error(self.handle).decode(errors="replace")

    def query(self, sql):
        """The first value of the first row, as text; None when there is none."""
        sql = sql.encode()
        if self.lib.mysql_real_query(self.handle, sql, len(sql)):
            raise DatabaseError(self._why())
        result = self.lib.mysql_store_result(self.handle)
        if not result:
            return None
        row = self.lib.mysql_fetch_row(result)
        value = row[0].decode(errors="replace") if row and row[0] is not None else None
        self.lib.mysql_free_result(result)
        return value

    def close(self):
        if self.handle:
            self.lib.mysql_close(self.handle)
            self.handle = None


# ---------------------------------------------------------------- the storm


class Storm:
    """Heavy queries from outside of weir, as a bad release or a report without an index sends."""

    def __init__(self, database, clients, rows):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), database.socket, str(clients), str(rows)],
            stdin=subprocess.PIPE, preexec_fn=die_with_parent, start_new_session=True)

    def end(self):
        """What is running in the database goes on to its end, which is soon."""
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(30)


def rage(socket, rows, is_over):
    """Each note of some orders is compared with that of every order, without an index.  Most of the
    time a query sleeps, so that 150 of them leave the machine to the others; to the database they
    all run."""
    sql = ("SELECT SLEEP(%g + %g * RAND()), (SELECT COUNT(*) FROM orders a JOIN orders b"
           " ON a.note > b.note WHERE a.id <= %d)" % (QUERY_S[0], QUERY_S[1] - QUERY_S[0], rows))
    connection = Connection(socket)
    while not is_over.is_set():
        connection.query(sql)
    connection.close()


def main():
    socket, clients, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    is_over = threading.Event()
    library()
    threads = [threading.Thread(target=rage, args=(socket, rows, is_over), daemon=True)
               for _ in range(clients)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
