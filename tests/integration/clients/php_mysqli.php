<?php
// PHP's mysqli (mysqlnd): what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py.
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function connect(): mysqli
{
    $db = mysqli_init();
    $db->options(MYSQLI_OPT_LOCAL_INFILE, true);
    $db->real_connect(getenv('DB_HOST'), getenv('DB_USER'), getenv('DB_PASSWORD'), getenv('DB_NAME'),
        (int) getenv('DB_PORT'));
    $db->set_charset('utf8mb4');
    return $db;
}

function say(string $fact, $value): void
{
    echo "$fact: $value\n";
}

function line(array $row): string
{
    return implode('|', array_map(fn ($v) => $v ?? 'NULL', $row));
}

function one(mysqli $db, string $sql)
{
    return $db->query($sql)->fetch_row()[0];
}

function failure(callable $fn): string
{
    try {
        $fn();
    } catch (mysqli_sql_exception $error) {
        return $error->getCode() . ' ' . $error->getSqlState();
    }
    return 'no error';
}

function sets(mysqli $db, string $sql): string
{
    $out = array();
    try {
        $db->multi_query($sql);
        do {
            $result = $db->store_result();
            if ($result) {
                $out[] = implode("\n", array_map('line', $result->fetch_all()));
            }
        } while ($db->more_results() && $db->next_result());
    } catch (mysqli_sql_exception $error) {
        $out[] = $error->getCode();
    }
    return implode('/', $out);
}

function statements(mysqli $db): void
{
    say('text', line($db->query("SELECT 1+1, 'héllo', NULL, ''")->fetch_row()));
    $s = $db->prepare('SELECT ? + 1, ?, ?');
    $s->execute(array(41, "it's", null));
    say('prepared', line($s->get_result()->fetch_row()));
    say('kinds', bin2hex(serialize($db->query('SELECT * FROM kinds')->fetch_all())));
    $s = $db->prepare('SELECT * FROM kinds');
    $s->execute();
    say('kinds_prepared', bin2hex(serialize($s->get_result()->fetch_all())));
    $db->query("INSERT INTO notes (body) VALUES ('first')");
    say('new_row', $db->affected_rows . ' ' . $db->insert_id);
    $all = array_column($db->query('SELECT seq FROM seq_1_to_1000', MYSQLI_USE_RESULT)->fetch_all(), 0);
    say('many_rows', count($all) . ' ' . array_sum($all));
    $s = $db->prepare('SELECT seq FROM seq_1_to_1000');
    $s->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
    $s->execute();
    $s->bind_result($value);
    for ($n = $sum = 0; $s->fetch(); $n++) {
        $sum += $value;
    }
    $s->close();
    say('cursor', "$n $sum");
    $db->query("SELECT 1 + 'x'");
    say('warnings', $db->warning_count . ' ' . $db->get_warnings()->message);
    say('statistics', explode(':', $db->stat())[0]);
}

function transactions(mysqli $db): void
{
    $counts = array();
    foreach (array('rollback', 'commit') as $end) {
        $db->begin_transaction();
        $db->query('INSERT INTO up VALUES (1)');
        $db->$end();
        $counts[] = one($db, 'SELECT COUNT(*) FROM up');
    }
    say('transaction', implode(' ', $counts));
    $db->autocommit(false);
    $db->savepoint('a');
    $db->query('INSERT INTO up VALUES (2)');
    $db->query('ROLLBACK TO a');
    $db->commit();
    $db->autocommit(true);
    say('savepoint', one($db, 'SELECT COUNT(*) FROM up'));
    $db->query('DELETE FROM up');
}

function sizes(mysqli $db): void
{
    $s = $db->prepare('INSERT INTO notes (body) VALUES (?)');
    $s->execute(array(str_repeat('x', 1 << 20)));
    $text = one($db, 'SELECT body FROM notes ORDER BY id DESC LIMIT 1');
    say('big', strlen($text) . ' ' . md5($text));
    $null = null;
    $s->bind_param('b', $null);
    for ($i = 0; $i < 16; $i++) {
        $s->send_long_data(0, str_repeat('x', 1 << 16));
    }
    $s->execute();
    $text = one($db, 'SELECT body FROM notes ORDER BY id DESC LIMIT 1');
    say('long_data', strlen($text) . ' ' . md5($text));
}

function uploads(mysqli $db): void
{
    $load = fn ($name) => $db->query("LOAD DATA LOCAL INFILE '" . getenv('DB_FILES') . "/$name' INTO TABLE up");
    $load('rows.tsv');
    say('infile', implode(' ', $db->query('SELECT COUNT(*), SUM(n) FROM up')->fetch_row()));
    $db->query('DELETE FROM up');
    $load('empty.tsv');
    say('infile_empty', one($db, 'SELECT COUNT(*) FROM up'));
}

function several(mysqli $db): void
{
    say('multi', sets($db, 'SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a'));
    say('multi_error', sets($db, 'SELECT 1; SELECT * FROM nothing; SELECT 3'));
    say('call', sets($db, 'CALL two()'));
    say('errors', implode(', ', array_map(fn ($sql) => failure(fn () => $db->query($sql)), array(
        'INSERT INTO counter VALUES (1, 1)', 'SELEKT', 'SELECT * FROM nothing'))));
}

function kills(mysqli $db): void
{
    $victim = connect();
    $me = $victim->thread_id;
    $victim->query('SELECT SLEEP(600)', MYSQLI_ASYNC);
    do {
        $found = $db->query("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = $me AND INFO LIKE "
            . "'SELECT SLEEP%'");
    } while (!$found->num_rows);
    $db->query("KILL QUERY $me");
    $error = failure(fn () => $victim->reap_async_query());
    say('kill_query', $error . ', then ' . one($victim, 'SELECT 1'));
    $db->query("KILL $me");
    $error = failure(fn () => @$victim->query('SELECT 1'));
    say('kill_connection', preg_match('/^20(06|13)/', $error) ? 'gone' : "alive: $error");
}

function sessions(mysqli $db): void
{
    $db->change_user('other', getenv('DB_PASSWORD'), getenv('DB_NAME'));
    say('change_user', one($db, 'SELECT CURRENT_USER()'));
}

// A transaction that is repeated until it is let through.
function busy(): void
{
    $db = connect();
    while (true) {
        try {
            $db->begin_transaction();
            $db->query('UPDATE counter SET n = n + 1');
            $db->commit();
            break;
        } catch (mysqli_sql_exception $error) {
            say('refused', $error->getCode() . ' ' . $error->getSqlState() . ' ' . $error->getMessage());
            $db->rollback();
        }
    }
    echo "done\n";
}

if ($argv[1] === 'busy') {
    busy();
    exit;
}
$db = connect();
foreach (array('statements', 'transactions', 'sizes', 'uploads', 'several', 'kills', 'sessions') as $part) {
    $part($db);
}
