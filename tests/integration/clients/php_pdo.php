<?php
// PHP's PDO with pdo_mysql: what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py.
function connect(): PDO
{
    $where = 'mysql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_NAME')
        . ';charset=utf8mb4';
    return new PDO($where, getenv('DB_USER'), getenv('DB_PASSWORD'), array(
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => false,
        PDO::MYSQL_ATTR_LOCAL_INFILE => true, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_NUM));
}

function say(string $fact, $value): void
{
    echo "$fact: $value\n";
}

function line(array $row): string
{
    return implode('|', array_map(fn ($v) => $v ?? 'NULL', $row));
}

function one(PDO $db, string $sql)
{
    return $db->query($sql)->fetchColumn();
}

function failure(callable $fn): string
{
    try {
        $fn();
    } catch (PDOException $error) {
        return $error->errorInfo[1] . ' ' . $error->errorInfo[0];
    }
    return 'no error';
}

// Several statements in one text need emulated preparation, which sends them as a query.
function sets(PDO $db, string $sql): string
{
    $out = array();
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
    try {
        $s = $db->query($sql);
        do {
            if ($s->columnCount()) {
                $out[] = implode("\n", array_map('line', $s->fetchAll()));
            }
        } while ($s->nextRowset());
    } catch (PDOException $error) {
        $out[] = $error->errorInfo[1];
    }
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
    return implode('/', $out);
}

function statements(PDO $db): void
{
    $s = $db->prepare('SELECT ? + 1, ?, ?');
    $s->execute(array(41, "it's", null));
    say('prepared', line($s->fetch()));
    $s = $db->prepare('SELECT * FROM kinds');
    $s->execute();
    say('kinds_prepared', bin2hex(serialize($s->fetchAll())));
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
    say('text', line($db->query("SELECT 1+1, 'héllo', NULL, ''")->fetch()));
    say('kinds', bin2hex(serialize($db->query('SELECT * FROM kinds')->fetchAll())));
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
    $n = $db->exec("INSERT INTO notes (body) VALUES ('first')");
    say('new_row', $n . ' ' . $db->lastInsertId());
    $all = $db->query('SELECT seq FROM seq_1_to_1000')->fetchAll(PDO::FETCH_COLUMN);
    say('many_rows', count($all) . ' ' . array_sum($all));
    $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
    $n = $sum = 0;
    foreach ($db->query('SELECT seq FROM seq_1_to_1000') as $row) {
        $n++;
        $sum += $row[0];
    }
    say('cursor', "$n $sum");
    $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
}

function transactions(PDO $db): void
{
    $counts = array();
    foreach (array('rollBack', 'commit') as $end) {
        $db->beginTransaction();
        $db->exec('INSERT INTO up VALUES (1)');
        $db->$end();
        $counts[] = one($db, 'SELECT COUNT(*) FROM up');
    }
    say('transaction', implode(' ', $counts));
    foreach (array('BEGIN', 'SAVEPOINT a', 'INSERT INTO up VALUES (2)', 'ROLLBACK TO a', 'COMMIT') as $sql) {
        $db->exec($sql);
    }
    say('savepoint', one($db, 'SELECT COUNT(*) FROM up'));
    $db->exec('DELETE FROM up');
}

function sizes(PDO $db): void
{
    $db->prepare('INSERT INTO notes (body) VALUES (?)')->execute(array(str_repeat('x', 1 << 20)));
    $text = one($db, 'SELECT body FROM notes ORDER BY id DESC LIMIT 1');
    say('big', strlen($text) . ' ' . md5($text));
}

function uploads(PDO $db): void
{
    $load = fn ($name) => $db->exec("LOAD DATA LOCAL INFILE '" . getenv('DB_FILES') . "/$name' INTO TABLE up");
    $load('rows.tsv');
    say('infile', implode(' ', $db->query('SELECT COUNT(*), SUM(n) FROM up')->fetch()));
    $db->exec('DELETE FROM up');
    $load('empty.tsv');
    say('infile_empty', one($db, 'SELECT COUNT(*) FROM up'));
}

function several(PDO $db): void
{
    say('multi', sets($db, 'SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a'));
    say('multi_error', sets($db, 'SELECT 1; SELECT * FROM nothing; SELECT 3'));
    say('call', sets($db, 'CALL two()'));
    say('errors', implode(', ', array_map(fn ($sql) => failure(fn () => $db->query($sql)), array(
        'INSERT INTO counter VALUES (1, 1)', 'SELEKT', 'SELECT * FROM nothing'))));
}

// PDO has no query that runs on: another process runs it.
function kills(PDO $db): void
{
    $victim = connect();
    $me = one($victim, 'SELECT CONNECTION_ID()');
    $killer = proc_open(array(PHP_BINARY, __FILE__, 'kill', $me), array(1 => array('pipe', 'w')), $pipes);
    $error = failure(fn () => $victim->query('SELECT SLEEP(600)'));
    fgets($pipes[1]);
    say('kill_query', $error . ', then ' . one($victim, 'SELECT 1'));
    proc_close($killer);
    $db->exec("KILL $me");
    $error = failure(fn () => @$victim->query('SELECT 1'));
    say('kill_connection', preg_match('/^20(06|13)/', $error) ? 'gone' : "alive: $error");
}

function kill(int $id): void
{
    $db = connect();
    do {
        $found = one($db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = $id AND INFO LIKE "
            . "'SELECT SLEEP%'");
    } while (!$found);
    $db->exec("KILL QUERY $id");
    echo "killed\n";
}

// A transaction that is repeated until it is let through.
function busy(): void
{
    $db = connect();
    while (true) {
        try {
            $db->beginTransaction();
            $db->prepare('UPDATE counter SET n = n + ?')->execute(array(1));
            $db->commit();
            break;
        } catch (PDOException $error) {
            say('refused', $error->errorInfo[1] . ' ' . $error->errorInfo[0] . ' ' . $error->errorInfo[2]);
            if ($db->inTransaction()) {
                $db->rollBack();
            }
        }
    }
    echo "done\n";
}

if ($argv[1] === 'busy') {
    busy();
    exit;
}
if ($argv[1] === 'kill') {
    kill((int) $argv[2]);
    exit;
}
$db = connect();
foreach (array('statements', 'transactions', 'sizes', 'uploads', 'several', 'kills') as $part) {
    $part($db);
}
