<?php
/* Runs Action Scheduler's own queue runner once, without HTTP and without WP-Cron:
 *
 *     php weir-runner.php /path/to/wordpress [HOST]
 *
 * `weir work --wordpress NAME --path DIR` starts it while actions are due.  HOST is the address of a site of a multisite:
 * a domain, a domain with a path, or both as a URL.  WEIR_PREFIX in the environment is the prefix that
 * the tables of this site must have: the actions of another one are not run.  PHP 7.4 or later.
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
$weir_words = array_slice($argv, 1);
if (count($weir_words) < 1 || count($weir_words) > 2 || $weir_words[0] === '' || $weir_words[0][0] === '-')
    weir_runner_refuse('usage: php weir-runner.php /path/to/wordpress [HOST]');
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

add_filter('action_scheduler_queue_runner_concurrent_batches', function ($batches) {
    return max((int) $batches, (int) getenv('WEIR_RUNNERS'));
}, 1);
ActionScheduler_QueueRunner::instance()->run('weir');
exit(0);
