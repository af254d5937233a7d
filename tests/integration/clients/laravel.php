<?php
// Laravel's database library (illuminate/database): what it sees of the server at DB_HOST:DB_PORT, and
// its own retries.  See mysql_clients.py.
use Illuminate\Database\Capsule\Manager;
use Illuminate\Database\QueryException;

require 'Illuminate/Database/autoload.php';

$manager = new Manager();
$manager->addConnection(array('driver' => 'mysql', 'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT'),
    'database' => getenv('DB_NAME'), 'username' => getenv('DB_USER'), 'password' => getenv('DB_PASSWORD'),
    'charset' => 'utf8mb4', 'collation' => 'utf8mb4_general_ci'));
$db = $manager->getConnection();

function say(string $fact, $value): void
{
    echo "$fact: $value\n";
}

function line(object $row): string
{
    return implode('|', array_map(fn ($v) => $v ?? 'NULL', array_values((array) $row)));
}

// transaction() itself runs the closure again, up to 1,000 times, when the error is one of concurrency;
// the closure only tells what it saw.
function busy($db): void
{
    $db->transaction(function ($db) {
        try {
            $db->update('UPDATE counter SET n = n + ?', array(1));
        } catch (QueryException $error) {
            say('refused', $error->errorInfo[1] . ' ' . $error->errorInfo[0] . ' ' . $error->errorInfo[2]);
            throw $error;
        }
    }, 1000);
    echo "done\n";
}

if ($argv[1] === 'busy') {
    busy($db);
    exit;
}
say('text', line($db->selectOne("SELECT 1+1, 'héllo', NULL, ''")));
say('prepared', line($db->selectOne('SELECT ? + 1 AS a, ? AS b, ? AS c', array(41, "it's", null))));
$counts = array();
$db->beginTransaction();
$db->insert('INSERT INTO up VALUES (1)');
$db->rollBack();
$counts[] = $db->table('up')->count();
$db->transaction(fn ($db) => $db->table('up')->insert(array('n' => 1)));
$counts[] = $db->table('up')->count();
say('transaction', implode(' ', $counts));
$db->transaction(function ($db) {
    $db->beginTransaction(); // inside another one: a savepoint
    $db->table('up')->insert(array('n' => 2));
    $db->rollBack();
});
say('savepoint', $db->table('up')->count());
