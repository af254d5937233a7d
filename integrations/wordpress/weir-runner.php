<?php
/* Runs Action Scheduler's own queue, without HTTP and without WP-Cron:
 *
 *     php weir-runner.php /path/to/wordpress [HOST]                 its queue runner, once
 *     php weir-runner.php --reserved /path/to/wordpress [HOST]      the reserved runner, see below
 *
 * `weir work --wordpress NAME --path DIR` starts both.  HOST is the address of a site of a multisite:
 * a domain, a domain with a path, or both as a URL.  WEIR_PREFIX in the environment is the prefix that
 * the tables of this site must have: the actions of another one are not run.  PHP 7.4 or later.
 *
 * Action Scheduler by itself lets one runner claim at a time.  weir work decides how many there are, and
 * says in WEIR_RUNNERS how many there may be; what a plugin sets after that (priority 2 and later) holds.
 * The claim of the reserved runner does not count: it takes nobody's place.  WEIR_FIRST is a list of the
 * hooks whose actions go first, in JSON.
 *
 * The reserved runner stays and claims only actions of the hooks that its input names.  The input is
 * lines of JSON, each of which replaces the one before:
 *
 *     {"hooks": ["woocommerce_deliver_webhook"], "left": 17}
 *
 * "left" is the claim of a reserved runner that was killed; it is given back.  For each claim a line
 * "weir-claim: 17" is written, and "weir-claim: 0" when it was given back; what plugins print is dropped.
 * It ends with 0 when its input ends, and every few minutes, to give its memory back: whoever started it
 * starts the next one.
 *
 * Exit codes: 0, 2 with a sentence on the standard error when something is missing, 255 when PHP itself
 * ends with an error. */

function weir_runner_refuse(string $why): void
{
    fwrite(STDERR, "weir-runner: $why\n");
    exit(2);
}

if (PHP_SAPI !== 'cli')
    exit;   /* a web server must not run it, wherever the file is */
$weir_words = array_slice($argv, 1);
$weir_is_reserved = ($weir_words[0] ?? '') === '--reserved';
if ($weir_is_reserved)
    array_shift($weir_words);
if (count($weir_words) < 1 || count($weir_words) > 2 || $weir_words[0] === '' || $weir_words[0][0] === '-')
    weir_runner_refuse('usage: php weir-runner.php [--reserved] /path/to/wordpress [HOST]');
$weir_dir = $weir_words[0];
$weir_host = $weir_words[1] ?? '';

$weir_load = rtrim($weir_dir, '/') . '/wp-load.php';
if (!is_readable($weir_load))
    weir_runner_refuse("there is no WordPress in $weir_dir: $weir_load cannot be read");

/* What plugins expect of a request. */
function weir_runner_request(string $host): void
{
    $_SERVER['REQUEST_METHOD'] = 'GET';
    $_SERVER['REQUEST_URI'] = '/';
    $_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
    $_SERVER['REMOTE_ADDR'] = '127.0.0.1';
    unset($_SERVER['HTTP_HOST'], $_SERVER['SERVER_NAME']);
    if ($host === '')
        return;     /* a multisite takes its main site */
    $parts = parse_url(strpos($host, '://') === false ? "http://$host" : $host);
    if (empty($parts['host']))
        weir_runner_refuse("'$host' is no address of a site: allowed are HOST, HOST/PATH and"
            . ' https://HOST/PATH');
    $_SERVER['SERVER_NAME'] = $parts['host'];
    $_SERVER['HTTP_HOST'] = $parts['host'] . (isset($parts['port']) ? ":{$parts['port']}" : '');
    $_SERVER['REQUEST_URI'] = rtrim($parts['path'] ?? '', '/') . '/';
    if (($parts['scheme'] ?? '') === 'https') {
        $_SERVER['HTTPS'] = 'on';
        $_SERVER['SERVER_PORT'] = (string) ($parts['port'] ?? 443);
    }
}
weir_runner_request($weir_host);

/* WordPress ends with 0 when it cannot go on: an address that no site has, a database that does not
 * answer, maintenance.  That must not look like a queue without work. */
$weir_is_loaded = false;
register_shutdown_function(function () use (&$weir_is_loaded, $weir_dir, $weir_host) {
    $error = error_get_last();
    if ($weir_is_loaded || ($error && $error['type'] & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR)))
        return;
    weir_runner_refuse("the WordPress in $weir_dir ended while it was loading"
        . ($weir_host === '' ? '' : " the site $weir_host") . ': no site has this address, its database'
        . ' does not answer, or it is in maintenance');
});

define('DOING_CRON', true);     /* what runs here is background work, as in WP-Cron */
set_time_limit(0);
chdir(dirname($weir_load));
if ($weir_is_reserved)
    ob_start(function () { return ''; }, 4096);     /* the output is ours alone */
require $weir_load;
$weir_is_loaded = true;

$weir_prefix = (string) getenv('WEIR_PREFIX');
if ($weir_prefix !== '' && $wpdb->prefix !== $weir_prefix)
    weir_runner_refuse("the WordPress in $weir_dir" . ($weir_host === '' ? '' : " has at $weir_host")
        . ($weir_host === '' ? ' has' : '') . " the site with the prefix '{$wpdb->prefix}', and not"
        . " '$weir_prefix' as in weir.conf: the folder or the address is of another site");
if (!class_exists('ActionScheduler_QueueRunner'))
    weir_runner_refuse("the WordPress in $weir_dir has no Action Scheduler: no active plugin, such as"
        . ' WooCommerce, brings it');
if (!did_action('action_scheduler_init') && method_exists('ActionScheduler', 'is_initialized')
    && !ActionScheduler::is_initialized())
    weir_runner_refuse("Action Scheduler in $weir_dir is not ready: its tables are missing, or the"
        . ' database of WordPress does not answer');

/* The reserved runner has this lock of the database while it has a claim, so that others can tell. */
function weir_runner_lock(): string
{
    global $wpdb;
    return 'weir_reserved_' . md5(DB_NAME . '.' . $wpdb->prefix);
}

/* A query whose failure is an answer: no line in a log. */
function weir_runner_try_var(string $sql): ?string
{
    global $wpdb;
    $was = $wpdb->suppress_errors(true);
    $value = $wpdb->get_var($sql);
    $wpdb->suppress_errors($was);
    return $value;
}

/** Claims and runs actions of the hooks that its input names, until the input ends. */
final class Weir_Reserved_Runner
{
    const WAIT_US = 200000;     /* from one look for due actions to the next */
    const CLAIM = 5;            /* actions: few, so that a claim is short */
    const TRIES = 5;            /* of a claim or its end, which may lose a deadlock */
    const BURST_S = 30;         /* Action Scheduler's own time limit */
    const REST_S = 1;           /* after due actions that could not be claimed */
    const LIFE_S = 600;
    const SHORT_LIFE_S = 60;    /* when what it has cached cannot be dropped */
    const ROOM = 268435456;     /* bytes, when memory has no limit */
    const INDEX = 'hook_status_scheduled_date_gmt';

    private $hooks = array();
    private $input = '';
    private $is_leaving = false;
    private $claim = null;
    private $can_lock = true;   /* as far as is known, the database has GET_LOCK() */
    private $is_locked = false;
    private $store, $table, $index, $ends_at, $memory_max;
    private $rests_until = 0.0;

    public function __construct()
    {
        global $wpdb;
        $this->store = ActionScheduler::store();
        if (empty($wpdb->actionscheduler_actions))
            weir_runner_refuse('the actions of this site are not in the tables of Action Scheduler');
        $this->table = $wpdb->actionscheduler_actions;
        $this->index = $wpdb->get_row($wpdb->prepare(
            "SHOW INDEX FROM {$this->table} WHERE Key_name = %s", self::INDEX))
            ? ' FORCE INDEX (' . self::INDEX . ')' : '';
        $this->ends_at = time() + (self::can_forget() ? self::LIFE_S : self::SHORT_LIFE_S);
        $limit = wp_convert_hr_to_bytes((string) ini_get('memory_limit'));
        $used = memory_get_usage(true);
        $this->memory_max = $limit > 0 ? $used + max(0, $limit - $used) / 2 : $used + self::ROOM;
        stream_set_blocking(STDIN, false);
        if (function_exists('pcntl_async_signals') && function_exists('pcntl_signal')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, function () { $this->is_leaving = true; });
        }
        /* A callback may call exit(), and leave its claim behind. */
        register_shutdown_function(function () { $this->release(); });
    }

    public function run(): void
    {
        global $wpdb;
        while (!$this->is_over()) {
            $this->read(self::WAIT_US);
            $wpdb->queries = array();
            if ($this->hooks && !$this->is_leaving && microtime(true) >= $this->rests_until && $this->is_due())
                $this->work();
        }
    }

    /* While WordPress is updated, half of its files are new; afterwards all that is loaded is old. */
    private function is_over(): bool
    {
        return $this->is_leaving || time() >= $this->ends_at
            || memory_get_usage(true) > $this->memory_max
            || (function_exists('wp_is_maintenance_mode') && wp_is_maintenance_mode());
    }

    private function read(int $wait_us): void
    {
        $ready = array(STDIN);
        $none = null;
        $n = @stream_select($ready, $none, $none, 0, $wait_us);
        if ($n === false)
            usleep($wait_us);   /* a signal, which has set is_leaving, or no descriptor */
        if (!$n)
            return;
        $bytes = fread(STDIN, 65536);
        if (($bytes === '' || $bytes === false) && feof(STDIN))
            $this->is_leaving = true;
        $this->input .= (string) $bytes;
        while (($end = strpos($this->input, "\n")) !== false) {
            $this->take(substr($this->input, 0, $end));
            $this->input = substr($this->input, $end + 1);
        }
    }

    private function take(string $line): void
    {
        $told = json_decode($line, true);
        if (!is_array($told) || !isset($told['hooks']) || !is_array($told['hooks']))
            weir_runner_refuse('the input must be lines such as {"hooks": ["NAME", "NAME"]}');
        $this->hooks = array_values(array_filter($told['hooks'], function ($hook) {
            return is_string($hook) && $hook !== '';
        }));
        if (!empty($told['left']) && is_int($told['left'])) {
            $this->claim = new ActionScheduler_ActionClaim($told['left'], array());
            $this->release();
        }
    }

    /* A claim locks rows and writes; this does neither, and reads a row of an index for each hook. */
    private function is_due(): bool
    {
        global $wpdb;
        $parts = array();
        $now = gmdate('Y-m-d H:i:s');
        foreach ($this->hooks as $hook)
            $parts[] = $wpdb->prepare("(SELECT 1 FROM {$this->table}{$this->index} WHERE hook = %s"
                . " AND status = 'pending' AND scheduled_date_gmt <= %s AND claim_id = 0 LIMIT 1)", $hook, $now);
        $is_due = (bool) weir_runner_try_var(implode(' UNION ALL ', $parts) . ' LIMIT 1');
        if ($wpdb->last_error === '')
            return $is_due;
        if ($this->index === '')
            weir_runner_refuse("cannot look for due actions: {$wpdb->last_error}");
        $this->index = '';      /* somebody has dropped it */
        return false;
    }

    /* Claim after claim, as Action Scheduler does, until nothing is left. */
    private function work(): void
    {
        $until = microtime(true) + self::BURST_S;
        $has_run = false;
        do_action('action_scheduler_before_process_queue');
        do {
            $n = $this->run_batch();
            $has_run = $has_run || $n > 0;
            $this->read(0);
        } while ($n > 0 && microtime(true) < $until && !$this->is_over());
        do_action('action_scheduler_after_process_queue');
        if (!$has_run)
            $this->rests_until = microtime(true) + self::REST_S;
    }

    private function run_batch(): int
    {
        $runner = ActionScheduler_QueueRunner::instance();
        $n = 0;
        $this->lock();
        if (!$this->stake()) {
            $this->unlock();
            return 0;
        }
        $monitor = new ActionScheduler_FatalErrorMonitor($this->store);
        $monitor->attach($this->claim);
        foreach ($this->claim->get_actions() as $id) {
            if ($this->is_leaving || !$this->has($id))
                break;
            $runner->process_action($id, 'weir');
            $this->tidy();
            $n++;
            $this->read(0);
        }
        $this->release();
        $monitor->detach();
        $this->forget();
        return $n;
    }

    /* Another process may have taken the claim away, as one that is dead. */
    private function has($id): bool
    {
        $ids = $this->store->find_actions_by_claim_id($this->claim->get_id());
        return in_array((int) $id, array_map('intval', $ids), true);
    }

    private function stake(): bool
    {
        global $wpdb;
        for ($try = 1; $try <= self::TRIES; $try++) {
            $wpdb->insert_id = 0;
            try {
                $this->claim = $this->store->stake_claim(self::CLAIM, null, $this->hooks);
                $this->tell($this->claim->get_id());
                return true;
            } catch (Exception $e) {
                /* The row of the claim is there; DBStore writes no other before its claim fails. */
                if ($wpdb->insert_id && $this->store instanceof ActionScheduler_DBStore) {
                    $this->claim = new ActionScheduler_ActionClaim($wpdb->insert_id, array());
                    $this->release();
                }
                usleep(random_int(10000, 100000));
            }
        }
        fwrite(STDERR, "weir-runner: cannot claim, trying again: {$e->getMessage()}\n");
        return false;
    }

    private function release(): void
    {
        for ($try = 1; $this->claim && $try <= self::TRIES; $try++) {
            try {
                $this->store->release_claim($this->claim);
                $this->claim = null;
                $this->tell(0);
            } catch (Exception $e) {
                usleep(random_int(10000, 100000));
            }
        }
        if ($this->claim)
            fwrite(STDERR, "weir-runner: cannot give a claim back: {$e->getMessage()}\n");
        $this->claim = null;
        $this->unlock();
    }

    private function tell($claim): void
    {
        fwrite(STDOUT, "\nweir-claim: $claim\n");
    }

    private function lock(): void
    {
        $got = $this->can_lock ? weir_runner_try_var("SELECT GET_LOCK('" . weir_runner_lock() . "', 0)") : null;
        $this->can_lock = $got !== null;
        $this->is_locked = $got === '1';
    }

    private function unlock(): void
    {
        if ($this->is_locked)
            weir_runner_try_var("SELECT RELEASE_LOCK('" . weir_runner_lock() . "')");
        $this->is_locked = false;
    }

    /* What a callback has left behind would be there for the next one. */
    private function tidy(): void
    {
        while (is_multisite() && ms_is_switched())
            restore_current_blog();
        if (get_current_user_id())
            wp_set_current_user(0);
        set_time_limit(0);
    }

    private static function can_flush_runtime(): bool
    {
        return function_exists('wp_cache_flush_runtime')
            && (!function_exists('wp_cache_supports') || wp_cache_supports('flush_runtime'));
    }

    private static function can_forget(): bool
    {
        return self::can_flush_runtime() || !wp_using_ext_object_cache();
    }

    /* Options and posts that other processes have changed since. */
    private function forget(): void
    {
        if (self::can_flush_runtime())
            wp_cache_flush_runtime();
        elseif (self::can_forget())
            wp_cache_flush();
    }
}

if ($weir_is_reserved) {
    (new Weir_Reserved_Runner())->run();
    exit(0);
}

/* weir work ends it by SIGTERM: the action that runs comes to its end, and the claim is given back. */
$weir_is_leaving = false;
if (function_exists('pcntl_async_signals') && function_exists('pcntl_signal')) {
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, function () use (&$weir_is_leaving) { $weir_is_leaving = true; });
}
add_filter('action_scheduler_maximum_execution_time_likely_to_be_exceeded', function ($is) use (&$weir_is_leaving) {
    return $is || $weir_is_leaving;
}, PHP_INT_MAX);
add_filter('action_scheduler_queue_runner_concurrent_batches', function ($batches) {
    return max((int) $batches, (int) getenv('WEIR_RUNNERS'));
}, 1);
/* 0 is how a site stops its queue. */
add_filter('action_scheduler_queue_runner_concurrent_batches', function ($batches) {
    $is_taken = $batches > 0 && weir_runner_try_var("SELECT IS_FREE_LOCK('" . weir_runner_lock() . "')") === '0';
    return $batches + (int) $is_taken;
}, PHP_INT_MAX);
/* Claims by ids, and critical hooks first: weir.php, which may be a plugin of the site already. */
if (!class_exists('Weir_Claim') && is_readable(__DIR__ . '/weir.php'))
    require __DIR__ . '/weir.php';
if (method_exists('Weir_Claim', 'by_runner'))
    Weir_Claim::by_runner((array) json_decode((string) getenv('WEIR_FIRST'), true));
ActionScheduler_QueueRunner::instance()->run('weir');
exit(0);
