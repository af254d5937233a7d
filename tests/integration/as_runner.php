<?php
/* Action Scheduler's queue runner as the database sees it: the same statements in the same order, and
 * what each failed statement leads to.  weir's guard works beside the real one; the tests run this one,
 * which records each callback and can be told how to behave.
 *
 *     php as_runner.php '{"socket": "...", "user": "...", "database": "wordpress", "prefix": "wp_"}'
 *
 * Options are in DEFAULTS below.  One line of JSON on the standard output per trouble, and one at the
 * end.  SIGTERM and SIGINT let the action that runs come to its end, release the claim and end the
 * runner.  Exit codes: 0, or 9 when an exception ended it as it would end a PHP request. */

error_reporting(E_ALL);
mysqli_report(MYSQLI_REPORT_OFF);       /* a failed statement returns false, as from $wpdb */

const DEFAULTS = [
    'host' => null, 'port' => 3306, 'socket' => null, 'user' => 'root', 'password' => '',
    'database' => 'wordpress', 'prefix' => 'wp_',
    'claim' => '3.8',           /* or '3.9.3': claims by JOIN ... FOR UPDATE SKIP LOCKED */
    'priority' => true,         /* the store has the column */
    'unique_key' => false,      /* the store has the column */
    'local_s' => 0,             /* the site's time zone, seconds east of UTC */
    'context' => 'WP CLI',
    'batch' => 25,
    'concurrent' => 1,          /* claims at once, of all runners */
    'time_limit' => 30,         /* seconds of one run(); the cleaner's periods are ten times as long */
    'cleaner' => true,
    'until' => 'signal',        /* or 'empty': ends when nothing is due */
    'pause_ms' => 100,          /* between two run() when nothing was done */
    'survive' => true,          /* false: an exception that leaves run() ends the process with 9 */
    'work' => [],               /* by hook, '*' for all others: {"ms": 5, "sql": "...", "throw": "why"} */
];
const RETENTION_S = 31 * 86400;
const CLEANUP_BATCH = 20;
const FAILING_AFTER = 5;        /* failures of a hook in a row that end a recurring series */
const MAX_ARGS = 191;           /* bytes; longer ones go to extended_args */
const SERVER_GONE = 2006;
const RECONNECTS = 5;

/* ---- the schedules, with the properties that are in their serialized form */

class ActionScheduler_NullSchedule
{
    public function next(int $now): ?int
    {
        return null;
    }
}

class ActionScheduler_SimpleSchedule
{
    protected $scheduled_timestamp;
    private $timestamp;

    public function next(int $now): ?int
    {
        return null;
    }
}

class ActionScheduler_IntervalSchedule
{
    protected $scheduled_timestamp;
    protected $first_timestamp;
    protected $recurrence;
    private $start_timestamp;
    private $interval_in_seconds;

    /** An action that runs before its date is followed by one at its date. */
    public function next(int $now): ?int
    {
        return $now > $this->scheduled_timestamp ? $now + $this->recurrence : $this->scheduled_timestamp;
    }

    public function moved(int $to): self
    {
        $copy = clone $this;
        $copy->scheduled_timestamp = $copy->start_timestamp = $to;
        return $copy;
    }
}

class ActionScheduler_CronSchedule
{
    protected $scheduled_timestamp;
    protected $first_timestamp;
    protected $recurrence;
    private $start_timestamp;
    private $cron;

    public function next(int $now): ?int
    {
        return $now > $this->scheduled_timestamp ? $this->recurrence->after($now)
            : $this->scheduled_timestamp;
    }

    public function moved(int $to): self
    {
        $copy = clone $this;
        $copy->scheduled_timestamp = $copy->start_timestamp = $to;
        return $copy;
    }
}

class CronExpression
{
    private $cronParts;
    private $fieldFactory;

    /** The next minute that matches; knows *, numbers, lists and steps of *. */
    public function after(int $now): int
    {
        for ($at = $now - $now % 60 + 60;; $at += 60) {
            $clock = array_map('intval', explode(' ', gmdate('i G j n w', $at)));
            $fits = true;
            foreach ($clock as $i => $value)
                $fits = $fits && self::fits($this->cronParts[$i], $value);
            if ($fits)
                return $at;
        }
    }

    private static function fits(string $field, int $value): bool
    {
        if (preg_match('~^\*(?:/(\d+))?$~', $field, $found))
            return $value % (int)($found[1] ?? 1) === 0;
        return in_array((string)$value, explode(',', $field), true);
    }
}

class CronExpression_FieldFactory
{
    private $fields;
}

class CronExpression_MinutesField {}
class CronExpression_HoursField {}
class CronExpression_DayOfMonthField {}
class CronExpression_MonthField {}
class CronExpression_DayOfWeekField {}

/* ---- the connection */

/** What $wpdb does: autocommit, no strict mode, no retry but that of a connection that was closed. */
class Db
{
    public ?mysqli $link = null;
    public int $deadlocks = 0;

    public function __construct(private array $o)
    {
        if (!$this->connect())
            fwrite(STDERR, "as_runner: " . mysqli_connect_error() . "\n") && exit(1);
    }

    private function connect(): bool
    {
        $link = mysqli_init();
        $host = $this->o['socket'] ? null : $this->o['host'];
        if (!@$link->real_connect($host, $this->o['user'], $this->o['password'], $this->o['database'],
                                  (int)$this->o['port'], $this->o['socket']))
            return false;
        $link->query("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_520_ci");
        $link->query("SET SESSION sql_mode='ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'");
        $this->link = $link;
        return true;
    }

    private function reconnect(): void
    {
        for ($i = 0; $i < RECONNECTS; $i++) {
            if ($this->connect())
                return;
            sleep(1);
        }
        tell('gone', 0, 'the database is gone');
        exit(9);
    }

    public function query(string $step, int $action, string $sql)
    {
        $result = $this->link->query($sql);
        if ($result === false && $this->link->errno === SERVER_GONE) {
            $this->reconnect();
            $result = $this->link->query($sql);
        }
        if ($result === false) {
            $this->deadlocks += $this->link->errno === 1213;
            tell($step, $action, $this->link->error, $this->link->errno);
        }
        return $result;
    }

    /** Changed rows; false when the statement failed. */
    public function change(string $step, int $action, string $sql)
    {
        return $this->query($step, $action, $sql) === false ? false : $this->link->affected_rows;
    }

    public function rows(string $step, int $action, string $sql): array
    {
        $result = $this->query($step, $action, $sql);
        return $result ? $result->fetch_all(MYSQLI_ASSOC) : [];
    }

    public function column(string $step, int $action, string $sql): array
    {
        return array_map(fn($row) => reset($row), $this->rows($step, $action, $sql));
    }

    public function text(?string $s): string
    {
        return $s === null ? 'NULL' : "'" . $this->link->real_escape_string($s) . "'";
    }
}

function tell(string $step, int $action, string $why, int $errno = 0): void
{
    echo json_encode(['trouble' => $step, 'action' => $action, 'errno' => $errno, 'why' => $why]), "\n";
    flush();
}

/* ---- the store: one function per statement of Action Scheduler's */

class Store
{
    private string $a, $claims, $groups, $logs, $order, $unkey;

    public function __construct(private Db $db, private array $o)
    {
        foreach (['a' => 'actions', 'claims' => 'claims', 'groups' => 'groups', 'logs' => 'logs'] as $k => $name)
            $this->$k = '`' . $o['prefix'] . 'actionscheduler_' . $name . '`';
        $this->order = 'ORDER BY ' . ($o['priority'] ? 'priority ASC, ' : '')
            . 'attempts ASC, scheduled_date_gmt ASC, action_id ASC';
        $this->unkey = $o['unique_key'] ? ', unique_key=NULL' : '';
    }

    private function now(int $shift_s = 0): string
    {
        return "'" . gmdate('Y-m-d H:i:s', time() + $shift_s) . "'";
    }

    private function nows(): string
    {
        return "last_attempt_gmt = {$this->now()}, last_attempt_local = {$this->now($this->o['local_s'])}";
    }

    public function log(int $id, string $message): void
    {
        $this->db->change('log', $id, "INSERT INTO {$this->logs}"
            . " (action_id, message, log_date_gmt, log_date_local) VALUES ($id, {$this->db->text($message)},"
            . " {$this->now()}, {$this->now($this->o['local_s'])})");
    }

    public function is_due(): bool
    {
        return (bool)$this->db->rows('due', 0, "SELECT a.action_id FROM {$this->a} a WHERE 1=1 AND a.status IN"
            . " ('pending') AND a.scheduled_date_gmt <= {$this->now()} ORDER BY a.scheduled_date_gmt ASC LIMIT 0, 5");
    }

    public function claim_count(): int
    {
        return (int)($this->db->column('gate', 0, "SELECT COUNT(DISTINCT claim_id) FROM {$this->a}"
            . " WHERE claim_id != 0 AND status IN ( 'pending', 'in-progress')")[0] ?? 0);
    }

    public function stake_claim(): int
    {
        $this->db->change('claim row', 0,
                          "INSERT INTO {$this->claims} (date_created_gmt) VALUES ({$this->now()})");
        $claim = (int)$this->db->link->insert_id;
        $set = "claim_id=$claim, {$this->nows()}";
        $which = "WHERE claim_id = 0 AND scheduled_date_gmt <= {$this->now()} AND status='pending'"
            . " {$this->order} LIMIT " . (int)$this->o['batch'];
        $sql = $this->o['claim'] === '3.8' ? "UPDATE {$this->a} SET $set $which"
            : "UPDATE {$this->a} t1 JOIN ( SELECT action_id FROM {$this->a} $which FOR UPDATE SKIP LOCKED ) t2"
            . " ON t1.action_id = t2.action_id SET $set";
        if ($this->db->change('claim', 0, $sql) === false)
            throw new RuntimeException("Unable to claim actions. Database error: {$this->db->link->error}.");
        return $claim;
    }

    /** The actions of a claim that are due; others were moved after they were claimed. */
    public function claimed(int $claim): array
    {
        $now = trim($this->now(), "'");
        $rows = $this->db->rows('claimed', 0, "SELECT action_id, scheduled_date_gmt FROM {$this->a}"
            . " WHERE claim_id = $claim {$this->order}");
        $due = array_filter($rows, fn($row) => $row['scheduled_date_gmt'] <= $now);
        return array_map(fn($row) => (int)$row['action_id'], array_values($due));
    }

    public function status(int $id): string
    {
        $status = $this->db->column('status', $id, "SELECT status FROM {$this->a} WHERE action_id=$id")[0] ?? null;
        if ($status === null)
            throw new InvalidArgumentException('Invalid action ID. No status found.');
        return $status;
    }

    public function fetch(int $id): ?array
    {
        return $this->db->rows('fetch', $id, "SELECT a.*, g.slug AS `group` FROM {$this->a} a LEFT JOIN"
            . " {$this->groups} g ON a.group_id=g.group_id WHERE a.action_id=$id")[0] ?? null;
    }

    public function start(int $id): void
    {
        if (!$this->db->change('start', $id, "UPDATE {$this->a} SET attempts = attempts+1, status='in-progress',"
                . " {$this->nows()} WHERE action_id = $id"))
            throw new Exception("Unable to update the status of action $id to in-progress.");
    }

    public function complete(int $id): void
    {
        if (!$this->db->change('complete', $id, "UPDATE {$this->a} SET status='complete', {$this->nows()}"
                . "{$this->unkey} WHERE action_id = $id"))
            throw new InvalidArgumentException("Unidentified action $id: we were unable to mark this action as"
                . " having completed. It may may have been deleted by another process.");
    }

    public function fail(int $id): void
    {
        if (!$this->db->change('fail', $id, "UPDATE {$this->a} SET status='failed'{$this->unkey}"
                . " WHERE action_id = $id"))
            throw new InvalidArgumentException("Unidentified action $id: we were unable to mark this action as"
                . " having failed. It may may have been deleted by another process.");
    }

    public function release(int $claim): void
    {
        $only = $this->o['claim'] === '3.8' ? '' : " AND status='pending'";
        $ids = $this->db->column('release ids', 0, "SELECT action_id FROM {$this->a} WHERE claim_id = $claim$only");
        $changed = !$ids ? 0 : $this->db->change('release', 0, "UPDATE {$this->a} SET claim_id = 0"
            . " WHERE action_id IN (" . implode(',', $ids) . ")");
        $this->db->change('claim row', 0, "DELETE FROM {$this->claims} WHERE claim_id = $claim");
        if ((int)$changed < count($ids))
            throw new RuntimeException("Unable to release actions from claim id $claim.");
    }

    /** At most CLEANUP_BATCH actions of a status that were last touched so long ago. */
    private function old(string $status, int $age_s, string $more = ''): array
    {
        return array_map('intval', $this->db->column('clean', 0, "SELECT a.action_id FROM {$this->a} a WHERE 1=1"
            . " AND a.status IN ('$status') AND a.last_attempt_gmt <= {$this->now(-$age_s)}$more LIMIT 0, "
            . CLEANUP_BATCH));
    }

    public function clean(int $period_s): void
    {
        foreach (['complete', 'canceled'] as $status)
            foreach ($this->old($status, RETENTION_S) as $id) {
                $this->db->change('delete', $id, "DELETE FROM {$this->a} WHERE action_id = $id");
                $this->db->change('delete', $id, "DELETE FROM {$this->logs} WHERE action_id = $id");
            }
        foreach ($this->old('pending', $period_s, ' AND a.claim_id != 0') as $id) {
            $this->db->change('reset', $id, "UPDATE {$this->a} SET claim_id = 0 WHERE action_id = $id");
            $this->log($id, 'action reset');
        }
        foreach ($this->old('in-progress', $period_s) as $id) {
            $this->fail($id);
            $this->log($id, "action marked as failed after $period_s seconds. Unknown error occurred. Check"
                . " server, PHP and database error logs to diagnose cause.");
        }
    }

    /** Are the oldest failures of a hook its oldest actions?  Action Scheduler ends such a series. */
    public function is_failing(string $hook): bool
    {
        $first = fn($more) => $this->db->column('failing', 0, "SELECT a.action_id FROM {$this->a} a WHERE 1=1"
            . " AND a.hook={$this->db->text($hook)}$more ORDER BY a.scheduled_date_gmt ASC LIMIT "
            . (FAILING_AFTER - 1) . ", 1")[0] ?? null;
        $failed = $first(" AND a.status IN ('failed')");
        return $failed !== null && $failed === $first('');
    }

    public function enqueue(array $action, $schedule, int $at): void
    {
        $group = $this->group((string)$action['group']);
        $args = $action['extended_args'] ?: $action['args'];
        $is_long = strlen($args) > MAX_ARGS;
        $values = [
            'hook' => $this->db->text($action['hook']), 'status' => "'pending'",
            'scheduled_date_gmt' => "'" . gmdate('Y-m-d H:i:s', $at) . "'",
            'scheduled_date_local' => "'" . gmdate('Y-m-d H:i:s', $at + $this->o['local_s']) . "'",
            'schedule' => $this->db->text(serialize($schedule)), 'group_id' => $group,
            'args' => $this->db->text($is_long ? md5($args) : $args),
            'extended_args' => $this->db->text($is_long ? $args : null),
        ];
        if ($this->o['priority'])
            $values['priority'] = (int)$action['priority'];
        $done = $this->db->change('enqueue', 0, "INSERT INTO {$this->a} ( `" . implode('`, `', array_keys($values))
            . "` ) SELECT " . implode(', ', $values) . " FROM DUAL WHERE ( SELECT NULL FROM DUAL ) IS NULL");
        if ($done)
            $this->log((int)$this->db->link->insert_id, 'action created');
    }

    private function group(string $slug): int
    {
        $found = $this->db->column('group', 0,
                                   "SELECT group_id FROM {$this->groups} WHERE slug={$this->db->text($slug)}");
        if ($found)
            return (int)$found[0];
        $this->db->change('group', 0, "INSERT INTO {$this->groups} (slug) VALUES ({$this->db->text($slug)})");
        return (int)$this->db->link->insert_id;
    }
}

/* ---- the runner */

class Runner
{
    public int $processed = 0, $claims = 0, $deaths = 0;
    private bool $is_over = false;
    private float $begin = 0;
    private int $done = 0;      /* actions of this run() */

    public function __construct(private Db $db, private Store $store, private array $o)
    {
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal)
            pcntl_signal($signal, function () { $this->is_over = true; });
        pcntl_sigprocmask(SIG_UNBLOCK, [SIGTERM, SIGINT]); /* blocked by the script that starts it */
    }

    /** As WP-Cron does, only more often: run() again and again, each on its own. */
    public function work(): int
    {
        while (!$this->is_over) {
            try {
                $n = $this->run();
            } catch (Exception $e) {
                $this->deaths++;
                tell('death', 0, $e->getMessage());
                if (!$this->o['survive'])
                    return 9;
                $n = 0;
            }
            if ($n > 0)
                continue;
            if ($this->o['until'] === 'empty' && !$this->store->is_due())
                break;
            usleep(1000 * (int)$this->o['pause_ms']);
        }
        return 0;
    }

    private function run(): int
    {
        $this->begin = microtime(true);
        $this->done = 0;
        if ($this->o['cleaner'])
            $this->store->clean(10 * (int)$this->o['time_limit']);
        if ($this->store->claim_count() >= $this->o['concurrent'])
            return 0;
        do {
            $n = $this->batch();
        } while ($n > 0 && !$this->is_limit_reached());
        return $this->done;
    }

    private function is_limit_reached(): bool
    {
        $elapsed = microtime(true) - $this->begin;
        return $this->is_over
            || $elapsed + 3 * $elapsed / max(1, $this->done) > (float)$this->o['time_limit'];
    }

    private function batch(): int
    {
        $claim = $this->store->stake_claim();
        $this->claims++;
        $n = 0;
        foreach ($this->store->claimed($claim) as $id) {
            if (!in_array($id, $this->store->claimed($claim), true))
                break;
            $this->process($id);
            $n++;
            $this->done++;
            if ($this->is_limit_reached())
                break;
        }
        $this->store->release($claim);
        return $n;
    }

    private function process(int $id): void
    {
        $action = null;
        $is_valid = false;
        $via = $this->o['context'];
        try {
            if ($this->store->status($id) !== 'pending') {
                $this->store->log($id, "action ignored via $via");
                return;
            }
            $is_valid = true;
            $this->store->log($id, "action started via $via");
            $action = $this->store->fetch($id);
            $this->store->start($id);
            $this->callback($action);
            $this->store->log($id, "action complete via $via");
            $this->store->complete($id);
            $this->processed++;
        } catch (Exception $e) {
            if ($is_valid) {
                $this->store->fail($id);
                $this->store->log($id, "action failed via $via: " . $e->getMessage());
            }
        }
        if ($action)
            $this->follow($id, $action);
    }

    private function callback(array $action): void
    {
        $id = (int)$action['action_id'];
        $this->db->change('ran', $id,
                          "INSERT INTO ran (action_id, pid, at) VALUES ($id, " . getmypid() . ", UTC_TIMESTAMP(6))");
        $work = $this->o['work'][$action['hook']] ?? $this->o['work']['*'] ?? [];
        if (isset($work['sql']))
            $this->db->query('callback', $id, $work['sql']);
        if (!empty($work['ms']))
            usleep(1000 * (int)$work['ms']);
        if (isset($work['throw']))
            throw new Exception($work['throw']);
    }

    /** A recurring action is followed by the next one, also when it failed. */
    private function follow(int $id, array $action): void
    {
        $schedule = unserialize($action['schedule']);
        $at = $schedule->next(time());
        if ($at === null)
            return;
        if ($this->store->status($id) === 'failed' && $this->store->is_failing($action['hook']))
            $this->store->log($id, 'This action appears to be consistently failing. A new instance will not be'
                . ' scheduled.');
        else
            $this->store->enqueue($action, $schedule->moved($at), $at);
    }
}

function main(array $argv): int
{
    $given = json_decode($argv[1] ?? '', true);
    if (!is_array($given) || array_diff_key($given, DEFAULTS)) {
        fwrite(STDERR, "usage: as_runner.php JSON, with any of: " . implode(', ', array_keys(DEFAULTS)) . "\n");
        return 2;
    }
    $o = array_merge(DEFAULTS, $given);
    $db = new Db($o);
    $runner = new Runner($db, new Store($db, $o), $o);
    $code = $runner->work();
    echo json_encode(['processed' => $runner->processed, 'claims' => $runner->claims,
                      'deaths' => $runner->deaths, 'deadlocks' => $db->deadlocks]), "\n";
    return $code;
}

exit(main($argv));
