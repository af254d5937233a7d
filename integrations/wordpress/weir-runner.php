<?php
/* Runs Action Scheduler's own queue runner once, without HTTP and without WP-Cron:
 *
 *     php weir-runner.php /path/to/wordpress [HOST]
 *
 * `weir work --wordpress NAME --path DIR` starts it while actions are due.  HOST is the domain of a site
 * of a multisite; WordPress takes its main site without it.  PHP 7.4 or later.
 *
 * Action Scheduler by itself lets one runner claim at a time.  weir work decides how many there are, and
 * says in WEIR_RUNNERS how many there may be; what a plugin sets after that (priority 2 and later) holds.
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
if (count($argv) < 2 || count($argv) > 3)
    weir_runner_refuse('usage: php weir-runner.php /path/to/wordpress [HOST]');

$weir_load = rtrim($argv[1], '/') . '/wp-load.php';
if (!is_readable($weir_load))
    weir_runner_refuse("there is no WordPress in {$argv[1]}: $weir_load cannot be read");

/* What plugins expect of a request; without a host, multisite takes its main site. */
$_SERVER['HTTP_HOST'] = $_SERVER['SERVER_NAME'] = $argv[2] ?? '';
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = '/';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
$_SERVER['REMOTE_ADDR'] = '127.0.0.1';
if ($_SERVER['HTTP_HOST'] === '')
    unset($_SERVER['HTTP_HOST'], $_SERVER['SERVER_NAME']);

define('DOING_CRON', true);     /* what runs here is background work, as in WP-Cron */
set_time_limit(0);
chdir(dirname($weir_load));
require $weir_load;

if (!class_exists('ActionScheduler_QueueRunner'))
    weir_runner_refuse("the WordPress in {$argv[1]} has no Action Scheduler: no active plugin, such as"
        . ' WooCommerce, brings it');
if (!did_action('action_scheduler_init') && method_exists('ActionScheduler', 'is_initialized')
    && !ActionScheduler::is_initialized())
    weir_runner_refuse("Action Scheduler in {$argv[1]} is not ready: its tables are missing, or the"
        . ' database of WordPress does not answer');

add_filter('action_scheduler_queue_runner_concurrent_batches', function ($batches) {
    return max((int) $batches, (int) getenv('WEIR_RUNNERS'));
}, 1);
ActionScheduler_QueueRunner::instance()->run('weir');
exit(0);
