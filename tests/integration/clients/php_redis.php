<?php
// The whole life of jobs through php-redis (rawCommand).
declare(strict_types=1);

[$host, $port] = explode(':', getenv('WEIR_RESP') ?: '127.0.0.1:7379');
$failed = 0;

function connect(): Redis
{
    global $host, $port;
    $r = new Redis();
    $tls = getenv('WEIR_TLS'); // the folder of `weir tls self-signed`
    $ssl = $tls ? ['stream' => ['cafile' => "$tls/ca.crt", 'local_cert' => "$tls/client.crt",
        'local_pk' => "$tls/client.key"]] : [];
    $r->connect(($tls ? 'tls://' : '') . $host, (int) $port, 10.0, null, 0, 20.0, $ssl);
    if (getenv('WEIR_TOKEN')) {
        $r->auth(getenv('WEIR_TOKEN'));
    }
    return $r;
}

$r = connect();

function call(...$words)
{
    global $r;
    return $r->rawCommand(...array_map('strval', $words));
}

function pairs(array $reply): array
{
    $map = [];
    for ($i = 0; $i + 1 < count($reply); $i += 2) {
        $map[$reply[$i]] = $reply[$i + 1];
    }
    return $map;
}

function grants($reply): array
{
    $names = ['id', 'token', 'hook', 'args', 'attempt', 'queue', 'group', 'priority', 'attempts',
        'fence', 'lease_ms', 'created_ms'];
    return array_map(fn ($row) => array_combine($names, $row), $reply ?: []);
}

function same($got, $wanted, string $what): void
{
    if ($got !== $wanted) {
        $both = json_encode($got) . ', wanted ' . json_encode($wanted);
        throw new RuntimeException("$what is $both");
    }
}

function refuses(string $name, ...$words): void
{
    try {
        $reply = call(...$words);
    } catch (RedisException $e) {
        if (!str_starts_with($e->getMessage(), "$name ")) {
            throw $e;
        }
        return;
    }
    throw new RuntimeException(implode(' ', $words) . ' was answered with ' . json_encode($reply));
}

function ok($reply): bool
{
    return $reply === true || $reply === 'OK';
}

$steps = [
    'a job is added, found, claimed and finished with a result' => function () {
        $id = call('ENQUEUE', 'mail', '{"to":"ü"}', 'QUEUE', 'one', 'GROUP', 'g', 'PRIORITY', 7);
        $view = pairs(call('JOB', $id));
        same($view['status'], 'pending', 'status');
        same($view['args'], '{"to":"ü"}', 'args');
        $got = grants(call('CLAIM', 'w', 'MAX', 1, 'QUEUES', 'one'));
        same($got[0]['id'], $id, 'id');
        same(ok(call('EXTEND', $id, $got[0]['token'], 60000)), true, 'extend');
        same(ok(call('PROGRESS', $id, $got[0]['token'], 'half')), true, 'progress');
        same(pairs(call('JOB', $id))['progress'], 'half', 'progress');
        same(ok(call('COMPLETE', $id, $got[0]['token'], 'the result')), true, 'complete');
        $view = pairs(call('JOB', $id));
        same($view['status'], 'complete', 'status');
        same($view['result'], 'the result', 'result');
    },
    'many jobs are added in one command' => function () {
        $ids = call('ENQUEUEMANY', 'QUEUE', 'many', 'JOBS', 'a', '1', 'b', '2', 'c', '3');
        $got = grants(call('CLAIM', 'w', 'MAX', 10, 'QUEUES', 'many'));
        same(array_column($got, 'id'), $ids, 'ids');
        foreach ($got as $g) {
            same(ok(call('COMPLETE', $g['id'], $g['token'])), true, 'complete');
        }
    },
    'a delayed job comes when it is due' => function () {
        $begin = hrtime(true);
        $id = call('ENQUEUE', 'later', '', 'QUEUE', 'delayed', 'IN', 1500);
        $got = grants(call('CLAIM', 'w', 'QUEUES', 'delayed')); // of a slow machine it is due already
        same(!$got || (hrtime(true) - $begin) / 1e6 >= 1500, true, 'early');
        $got = $got ?: grants(call('CLAIM', 'w', 'WAIT', 10000, 'QUEUES', 'delayed'));
        same($got[0]['id'], $id, 'id');
        same((hrtime(true) - $begin) / 1e6 >= 1500, true, 'time');
        call('COMPLETE', $id, $got[0]['token']);
    },
    'completing one job and claiming the next is one round trip' => function () {
        [$a, $b] = call('ENQUEUEMANY', 'QUEUE', 'chain', 'JOBS', 'h', '1', 'h', '2');
        $one = grants(call('CLAIM', 'w', 'QUEUES', 'chain'))[0];
        $more = ['CLAIM', 'w', 'MAX', 1, 'QUEUES', 'chain'];
        $two = grants(call('COMPLETE', $a, $one['token'], 'r', ...$more));
        same($two[0]['id'], $b, 'id');
        same(grants(call('COMPLETE', $b, $two[0]['token'], ...$more)), [], 'rest');
    },
    'a failing job is tried until its attempts are used up' => function () {
        $id = call('ENQUEUE', 'h', 'x', 'QUEUE', 'fail', 'ATTEMPTS', 2);
        $one = grants(call('CLAIM', 'w', 'QUEUES', 'fail'))[0];
        same(call('FAIL', $id, $one['token'], 'boom', 'RETRYIN', 1), 'pending', 'status');
        $two = grants(call('CLAIM', 'w', 'WAIT', 5000, 'QUEUES', 'fail'))[0];
        same($two['attempt'], 2, 'attempt');
        same(call('FAIL', $id, $two['token'], 'boom'), 'failed', 'status');
    },
    'a released job comes back and a canceled one does not' => function () {
        $id = call('ENQUEUE', 'h', 'x', 'QUEUE', 'rel', 'ATTEMPTS', 1);
        $one = grants(call('CLAIM', 'w', 'QUEUES', 'rel'))[0];
        same(ok(call('RELEASE', $id, $one['token'])), true, 'release');
        $two = grants(call('CLAIM', 'w', 'QUEUES', 'rel'))[0];
        same($two['attempt'], 1, 'attempt');
        same(ok(call('CANCEL', $id)), true, 'cancel');
        $story = array_map(fn ($e) => pairs($e)['event'], call('EVENTS', $id));
        same($story, ['created', 'started', 'released', 'started', 'canceled'], 'events');
    },
    'jobs are listed by filter and page by page' => function () {
        $words = [];
        for ($i = 0; $i < 25; $i++) {
            array_push($words, 'lister', "needle$i");
        }
        $ids = call('ENQUEUEMANY', 'QUEUE', 'list', 'GROUP', 'lg', 'JOBS', ...$words);
        $seen = [];
        $cursor = '';
        do {
            $more = $cursor === '' ? [] : ['CURSOR', $cursor];
            $page = pairs(call('JOBS', 'QUEUE', 'list', 'LIMIT', 10, ...$more));
            foreach ($page['jobs'] as $row) {
                $seen[] = pairs($row)['id'];
            }
            $cursor = (string) $page['cursor'];
        } while ($cursor !== '');
        same($seen, array_reverse($ids), 'ids');
        same(count(pairs(call('JOBS', 'GROUP', 'lg', 'STATUS', 'pending'))['jobs']), 25, 'count');
        same(count(pairs(call('JOBS', 'QUEUE', 'list', 'MATCH', 'needle7'))['jobs']), 1, 'count');
    },
    'a paused queue hands out nothing until it is resumed' => function () {
        $id = call('ENQUEUE', 'h', 'x', 'QUEUE', 'stopgo');
        same(ok(call('PAUSE', 'stopgo')), true, 'pause');
        same(grants(call('CLAIM', 'w', 'QUEUES', 'stopgo')), [], 'paused');
        $names = array_map(fn ($q) => pairs($q)['name'], call('QUEUES'));
        same(in_array('stopgo', $names, true), true, 'listed');
        same(ok(call('RESUME', 'stopgo')), true, 'resume');
        same(grants(call('CLAIM', 'w', 'QUEUES', 'stopgo'))[0]['id'], $id, 'id');
    },
    'wrong requests are refused and the connection goes on' => function () {
        $id = call('ENQUEUE', 'h', 'x', 'QUEUE', 'wrong');
        $got = grants(call('CLAIM', 'w', 'QUEUES', 'wrong'))[0];
        refuses('NOTOWNER', 'COMPLETE', $id, str_repeat('0', 32));
        refuses('BADARG', 'COMPLETE', $id, 'zz');
        refuses('NOTFOUND', 'JOB', 999999999);
        refuses('UNKNOWN', 'NOSUCH');
        refuses('SYNTAX', 'ENQUEUE', 'h');
        same(ok(call('COMPLETE', $id, $got['token'])), true, 'complete');
    },
];

foreach ($steps as $sentence => $step) {
    try {
        $step();
        echo "ok - php-redis: $sentence\n";
    } catch (Throwable $e) {
        $failed++;
        echo "not ok - php-redis: $sentence: " . str_replace("\n", ' ', $e->getMessage()) . "\n";
    }
}
exit($failed ? 1 : 0);
