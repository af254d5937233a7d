#!/usr/bin/python3
# weir-test: timeout=300 long
"""Real MySQL clients through weir's MySQL door.

    tests/integration/mysql_clients.py [mariadb_cli libmariadb mysql2 php_mysqli php_pdo pymysql
                                        perl_dbd_mariadb perl_dbd_mysql java laravel]

Each client's script prints what it saw, a line `fact: value` each.  Direct and through the door, in
enforce mode at normal level, it must see the same; what it must see stands in FACTS.  At critical
level a client of a deferrable class gets the documented error, and its retry succeeds once the level
falls.  Drivers do not retry by themselves: their scripts do.  Laravel's transactions do.

A client that is not installed is a failure, since a test that did not run proves nothing.
"""
import atexit
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, die_with_parent  # noqa: E402
from lib_mysql_door import DATABASE, SharedBed, maria  # noqa: E402
from harness import equal, expect, main, test  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "clients")
JAR = "/usr/share/java/mariadb-java-client.jar"
JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")  # what starts soon
ERROR = (1213, "40001")  # what a refused client sees by default
CLASSES = {"etl": 'user = "etl" tier = "deferrable" wait = "50ms"',
           "shop": 'user = "shop" tier = "critical"'}
door = SharedBed(classes=CLASSES)


def md5(n):
    return "%d %s" % (n, hashlib.md5(b"x" * n).hexdigest())


# What a client must see; None: whatever it sees direct.
FACTS = {
    "text": "2|h\u00e9llo|NULL|",
    "prepared": "42|it's|NULL",
    "kinds": None,
    "kinds_prepared": None,
    "new_row": "1 1",                       # changed rows, number of the new row
    "transaction": "0 1",                   # rows after ROLLBACK, after COMMIT
    "savepoint": "1",
    "many_rows": "1000 500500",             # rows, sum
    "cursor": "1000 500500",                # by a cursor of the server, or row by row
    "big": md5(1 << 20),
    "huge": md5(17 << 20),
    "long_data": md5(1 << 20),
    "bulk": "100 5050",
    "infile": "1000 500500",
    "infile_empty": "0",
    "infile_missing": "refused, then 1",
    "infile_off": "refused, then 1",
    "multi": "1/2|3/4",
    "multi_error": "1/1146",
    "call": "1|a/2|b",
    "errors": "1062 23000, 1064 42000, 1146 42S02",
    "warnings": None,
    "kill_query": "1317 70100, then 1",
    "kill_connection": "gone",
    "cancel": "1317 70100, then 1",         # the driver's own way, such as Ctrl-C or a timeout
    "change_user": "other@127.0.0.1",
    "reset": "NULL",
    "fields": "id body",                    # COM_FIELD_LIST
    "statistics": "Uptime",
    "ping": "alive",
    "pipelined": "1/2/3",
}
COMMON = ("text kinds new_row transaction savepoint many_rows big infile infile_empty "
          "multi_error errors kill_query kill_connection")
CLIENTS = {
    "mariadb_cli": ["bash", "mariadb_cli.sh"],
    "libmariadb": ["libmariadb.c"],
    "mysql2": ["node", "mysql2.js"],
    "php_mysqli": ["php", "-d", "mysqli.allow_local_infile=1", "php_mysqli.php"],
    "php_pdo": ["php", "php_pdo.php"],
    "pymysql": ["/usr/bin/python3", "pymysql_client.py"],
    "perl_dbd_mariadb": ["perl", "perl_dbd.pl", "MariaDB"],
    "perl_dbd_mysql": ["perl", "perl_dbd.pl", "mysql"],
    "java": ["Jdbc.java"],
    "laravel": ["php", "laravel.php"],
}
# The facts that each script tells beside COMMON, or all it tells where COMMON is not among them.
TELLS = {
    "mariadb_cli": COMMON + " multi call warnings infile_missing infile_off cancel prepared statistics",
    "libmariadb": COMMON + " prepared kinds_prepared cursor huge long_data bulk infile_missing multi call "
                           "change_user reset fields statistics ping warnings",
    "mysql2": COMMON + " prepared kinds_prepared cursor multi call change_user reset ping pipelined",
    "php_mysqli": COMMON + " prepared kinds_prepared cursor long_data multi call change_user statistics warnings",
    "php_pdo": COMMON + " prepared kinds_prepared cursor multi call",
    "pymysql": COMMON + " prepared cursor huge multi call ping warnings",
    "perl_dbd_mariadb": COMMON + " prepared kinds_prepared call ping",
    "perl_dbd_mysql": COMMON + " prepared kinds_prepared cursor call ping",
    "java": COMMON + " prepared kinds_prepared cursor bulk multi call cancel ping",
    "laravel": "text prepared transaction savepoint",
}

TABLES = """
CREATE OR REPLACE TABLE notes (id INT PRIMARY KEY AUTO_INCREMENT, body LONGTEXT);
CREATE OR REPLACE TABLE up (n INT);
CREATE OR REPLACE TABLE counter (id INT PRIMARY KEY, n INT);
INSERT INTO counter VALUES (1, 0);
CREATE OR REPLACE TABLE kinds (
        a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT UNSIGNED, e DECIMAL(20,6), f FLOAT, g DOUBLE,
        h CHAR(5), i VARCHAR(20), j TEXT, k VARBINARY(20), l DATE, m DATETIME(6), n TIME(3), o YEAR,
        p ENUM('x', 'y'), q SET('r', 's'), t JSON, u INT NULL);
INSERT INTO kinds VALUES (-128, 65535, -8388608, 18446744073709551615, -12345678901234.567890, 1.5, -2.25e100,
        'ab', 'gr\u00fcezi \U0001f600', REPEAT('t', 300), x'00ff275c', '1999-12-31', '2001-02-03 04:05:06.789012',
        '-12:34:56.789', 2026, 'y', 'r,s', '{"a": [1, null]}', NULL);
CREATE OR REPLACE PROCEDURE two() BEGIN SELECT 1, 'a'; SELECT 2, 'b'; END;
"""


def fresh():
    """The same tables for each run."""
    with maria().connect(database=DATABASE) as c:
        for sql in re.split(r";\n", TABLES.strip()):
            c(sql.rstrip(";") if "BEGIN" not in sql else sql)


def files(folder):
    for name, text in (("rows.tsv", "".join("%d\n" % i for i in range(1, 1001))), ("empty.tsv", "")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)


def command(name):
    """What starts a client's script."""
    words = CLIENTS[name]
    if words[0] == "libmariadb.c":
        return [os.path.join(built(name), name)]
    if words[0] == "Jdbc.java":
        return ["java", *JAVA, "-cp", JAR + ":" + built(name), "Jdbc"]
    return [os.path.join(SCRIPTS, w) if os.path.exists(os.path.join(SCRIPTS, w)) else w for w in words]


@functools.lru_cache(None)
def built(name):
    """The folder with the program of a script that must be compiled."""
    folder = tempfile.mkdtemp(prefix=name + ".", dir=os.environ.get("TMPDIR"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = os.path.join(SCRIPTS, CLIENTS[name][0])
    words = {"libmariadb": ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-g", source,
                            "-lmariadb", "-lcrypto", "-lpthread", "-o", os.path.join(folder, name)],
             "java": ["javac", *("-J" + word for word in JAVA), "-proc:none", "-cp", JAR, "-d", folder,
                      source]}[name]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    equal(done.returncode, 0, done.stdout[-1500:])
    return folder


def environment(folder, address, user):
    return {**os.environ, "DB_HOST": address[0], "DB_PORT": str(address[1]), "DB_USER": user,
            "DB_PASSWORD": PASSWORD, "DB_NAME": DATABASE, "DB_FILES": folder, "LC_ALL": "C.UTF-8"}


def run(name, folder, address, user="shop"):
    """{fact: value} as the client saw it."""
    fresh()
    done = subprocess.run(command(name) + ["all"], env=environment(folder, address, user),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=240, cwd=folder)
    out = done.stdout.decode("utf-8", "replace")
    expect(done.returncode == 0, "%s ended with %d: %s %s" % (
        name, done.returncode, out[-300:], done.stderr.decode("utf-8", "replace")[-600:]))
    return dict(line.split(": ", 1) for line in out.splitlines() if re.match(r"\w+: ", line))


def told(name, facts, where):
    equal(sorted(facts), sorted(TELLS[name].split()), "%s, %s: facts" % (name, where))
    for fact, value in facts.items():
        if FACTS[fact] is not None:
            equal(value, FACTS[fact], "%s, %s: %s" % (name, where, fact))


def refused_and_retried(name, folder, bed):
    """While the operator pauses, it is told why; afterwards it gets through."""
    fresh()
    bed.hold()
    client = subprocess.Popen(command(name) + ["busy"], stdin=subprocess.DEVNULL,
                              env=environment(folder, bed.address, "etl"), cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
    try:
        line = client.stdout.readline()
        found = re.match(r"refused: (\d+) (\S+) (.*)", line)
        expect(found, "%s said %r: %s" % (name, line, client.stderr.read() if not line else ""))
        equal((int(found.group(1)), found.group(2)), ERROR, name)
        expect(re.match(r"weir: .*class=etl .*; try restarting transaction", found.group(3)), line)
        equal(bed.database.ask("SELECT n FROM shop.counter"), [["0"]], "what was refused did not run")
        bed.free()
        rest, trouble = client.communicate(timeout=120)
    finally:
        client.kill()
        bed.free()
    expect(client.returncode == 0 and rest.splitlines()[-1:] == ["done"], rest[-300:] + trouble[-600:])
    equal(bed.database.ask("SELECT n FROM shop.counter"), [["1"]], "it ran once")


def sees_the_same(name, folder):
    direct = run(name, folder, ("127.0.0.1", maria().port))
    told(name, direct, "direct")
    through = run(name, folder, door().address)
    equal(sorted(through), sorted(direct), name + " through the door: facts")
    for fact, value in direct.items():
        equal(through[fact], value, "%s through the door: %s" % (name, fact))


def check_client(name):
    @test("%s sees the same through the door as direct" % name)
    def _(folder):
        files(folder)
        sees_the_same(name, folder)

    @test("%s is told that weir refused it during a pause, and its retry runs once" % name)
    def _(folder):
        files(folder)
        refused_and_retried(name, folder, door())


for client in CLIENTS:
    check_client(client)


@test("weir ends well after all of them")
def ends(_):
    door.end()


if __name__ == "__main__":
    main()
