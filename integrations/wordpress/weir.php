<?php
/**
 * Plugin Name: weir
 * Description: Makes Action Scheduler follow the load of the database, with locks that all processes share.
 * Version: 0.1.0
 * Requires PHP: 7.4
 * License: MIT
 *
 * A must-use plugin: one file in wp-content/mu-plugins, nothing else.  `make wordpress-zip` packs the
 * same file as a normal plugin.  README.md, next to this file, lists the constants of wp-config.php, the
 * functions and the filters.
 *
 * Loading this file registers hooks and does nothing more: no query, no connection, no file.
 *
 *   Weir_Settings   constants and their filters
 *   Weir_Breaker    remembers, across requests, that weir does not answer
 *   Weir_Client     HTTP/1.1 on one connection, 250 ms per request at most
 *   Weir_Locks      rows of wp_options; a lock of weir's own in front of them
 *   Weir_Gate       whether an action of Action Scheduler runs now or later
 *   Weir_Claim      actions of the critical tier first
 *   Weir_Tiers      what code says with the filter weir_priority, for weir
 *   Weir_QueryGuard the functions under the names of QueryGuard
 *   Weir_Trial      what works of a connection to weir, and what does not
 *   Weir_Setup      what Tools > weir stores, and what weir.conf and the database need
 *   Weir_Admin      Tools > weir
 *   Weir_Throttle_Command, Weir_Mutex_Command   for WP-CLI
 *
 * weir may be away at any time.  Then actions run as usual and the rows alone decide about locks.
 * Because the row decides in both cases, a lock never has two holders, whether weir answers or not.
 *
 * The syntax is that of PHP 7.4.
 */

defined('ABSPATH') || exit;

/*
 * Of two copies, one for must-use and one as a normal plugin, the first stays.  All that follows is
 * declared inside of a condition: PHP declares what stands outside before it runs the first line, so
 * that a second copy would end the request.
 */
if (defined('WEIR_FILE')) :
    defined('WEIR_SPARE_FILE') || define('WEIR_SPARE_FILE', __FILE__);
else :
define('WEIR_FILE', __FILE__);

/* --- settings ------------------------------------------------------------------------------- */

/**
 * Constants of wp-config.php, and for some of them what Tools > weir stored: a constant wins.  A filter
 * of the same name in lower case may change each value.
 */
final class Weir_Settings {
    const MODES = array('off', 'test_observe', 'observe', 'enforce');
    const OPTION = 'weir_settings'; // an array; not loaded with each page, so it is read when asked for
    const STORED = array('url', 'token', 'site', 'mutex');
    const USUAL_URL = 'http://127.0.0.1:7380';

    private static $tried = array(); // name => value: in place of what is stored, for a test

    /** 'http://host:port', 'https://host:port' or 'unix:/path'. */
    public static function url() {
        return (string) self::value('url', self::USUAL_URL);
    }

    /** What PHP must know of TLS with the host of an https:// address. */
    public static function tls($host) {
        $is_verified = (string) self::value('tls_verify', 'on') !== 'off';
        $name = (string) self::value('tls_name', '');
        return array_filter(array(
            'peer_name' => $name !== '' ? $name : $host,
            'cafile' => (string) self::value('tls_ca', ''),
            'local_cert' => (string) self::value('tls_cert', ''),
            'local_pk' => (string) self::value('tls_key', ''),
            'crypto_method' => STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT,
        )) + array('verify_peer' => $is_verified, 'verify_peer_name' => $is_verified);
    }

    /** The access token; '' when weir has none. */
    public static function token() {
        $token = '';
        if (!defined('WEIR_TOKEN') && defined('WEIR_TOKEN_FILE')) {
            $token = trim((string) @file_get_contents(WEIR_TOKEN_FILE, false, null, 0, 4096));
        }
        return trim((string) self::value('token', $token));
    }

    /** Name of the section `wordpress "..."` in weir.conf; '' when this site has none. */
    public static function site() {
        return (string) self::value('site', '');
    }

    /** Whether weir is asked before a lock; the row decides in any case. */
    public static function has_mutex() {
        return (string) self::value('mutex', 'on') !== 'off';
    }

    /** The mode in force: the weaker one of weir's and of WEIR_MODE. */
    public static function mode($of_weir) {
        $own = array_search((string) self::value('mode', 'enforce'), self::MODES, true);
        $its = array_search((string) $of_weir, self::MODES, true);
        // An unknown word must not make anything wait.
        return self::MODES[min((int) $own, (int) $its)];
    }

    /** Seconds that a runner may take while the level is not normal; 0 leaves its own limit. */
    public static function time_limit() {
        return max(0, (int) self::value('time_limit', 0));
    }

    public static function capability() {
        return (string) apply_filters('weir_capability', 'manage_options');
    }

    /** Who may say where weir is: in a network nobody of a single site, because any address is asked. */
    public static function setup_capability() {
        return is_multisite() ? 'manage_network_options' : self::capability();
    }

    /**
     * Whether wp-config.php decides, and the page cannot.  With a token in wp-config.php the address is
     * decided there as well: the token is sent to no address that was typed in wp-admin.
     */
    public static function is_fixed($name) {
        $has_token = defined('WEIR_TOKEN') || defined('WEIR_TOKEN_FILE');
        return defined(self::constant_of($name)) || ($has_token && ($name === 'token' || $name === 'url'));
    }

    /** name => value, of this site of a network alone. */
    public static function stored() {
        $stored = get_option(self::OPTION, array());
        return self::$tried + (is_array($stored) ? $stored : array());
    }

    /** Changes these and keeps the others; '' removes one. */
    public static function store(array $changes) {
        update_option(self::OPTION, array_filter(array_merge(self::stored(), $changes), 'strlen'), false);
    }

    /** What $callback returns while these values stand in place of the stored ones. */
    public static function with(array $values, callable $callback) {
        self::$tried = $values;
        try {
            return $callback();
        } finally {
            self::$tried = array();
        }
    }

    private static function constant_of($name) {
        return 'WEIR_' . strtoupper($name);
    }

    private static function value($name, $default) {
        $value = $default;
        if (defined(self::constant_of($name))) {
            $value = constant(self::constant_of($name));
        } elseif (in_array($name, self::STORED, true) && !self::is_fixed($name)) {
            $stored = self::stored();
            $value = isset($stored[$name]) && $stored[$name] !== '' ? $stored[$name] : $default;
        }
        return apply_filters('weir_' . $name, $value);
    }
}

/* --- the breaker ---------------------------------------------------------------------------- */

/**
 * After a failure no request of this site talks to weir for AWAY_S seconds.  Then one process tries
 * first: it moves the end of the time on before it connects, and all others stay away meanwhile.
 *
 * The end of that time is kept in APCu, or else in a file that only this user writes.  It is never
 * in the database: a storm there is when the breaker is needed.
 */
final class Weir_Breaker {
    const AWAY_S = 30;
    const FRESH_S = 1.0; // how long a process relies on what it has read

    private static $until = 0.0; // Unix time
    private static $read_at = 0.0;
    private static $is_known = false; // weir was away before this request
    private static $is_shared = true; // false: what was stored is lost, this process remembers alone

    public static function is_open() {
        $now = microtime(true);
        $is_old = $now - self::$read_at >= self::FRESH_S || $now < self::$read_at;
        if (self::$is_shared && $is_old) {
            self::$until = self::load($now);
            self::$read_at = $now;
            self::$is_known = self::$until > 0;
        }
        return self::$until > $now;
    }

    /** Whether this process may ask; the others wait for its result when weir was away. */
    public static function may_try() {
        if (self::is_open()) {
            return false;
        }
        if (self::$until > 0) {
            self::store(microtime(true) + self::AWAY_S);
        }
        return true;
    }

    public static function open($why) {
        if (!self::$is_known) {
            error_log('weir: ' . $why . '; WordPress goes on without it for ' . self::AWAY_S . ' s');
        }
        self::$is_known = true;
        self::$read_at = microtime(true);
        self::$until = self::$read_at + self::AWAY_S;
        self::$is_shared = self::store(self::$until);
    }

    public static function close() {
        if (self::$until > 0) {
            self::store(0);
        }
        self::$until = 0.0;
        self::$is_known = false;
        self::$is_shared = true;
    }

    private static function has_apcu() {
        return function_exists('apcu_enabled') && apcu_enabled();
    }

    /** Nobody else can guess the name, so nobody else can put a file there first. */
    private static function name() {
        $user = function_exists('posix_geteuid') ? posix_geteuid() : get_current_user();
        $secret = (defined('AUTH_KEY') ? AUTH_KEY : '') . (defined('DB_PASSWORD') ? DB_PASSWORD : '');
        $of = $user . '|' . Weir_Settings::url() . '|' . Weir_Settings::site() . '|' . ABSPATH;
        return 'weir-away-' . substr(hash_hmac('sha256', $of, $secret), 0, 32);
    }

    private static function file() {
        return rtrim(sys_get_temp_dir(), '/\\') . '/' . self::name();
    }

    private static function load($now) {
        $until = self::has_apcu() ? (float) apcu_fetch(self::name()) : self::load_file();
        // A clock that was set back must not keep weir away for longer.
        return $until > $now + self::AWAY_S ? 0.0 : $until;
    }

    private static function load_file() {
        $file = self::file();
        clearstatcache(true, $file);
        $stat = @lstat($file);
        $is_ours = $stat && ($stat['mode'] & 0170000) === 0100000
            && (!function_exists('posix_geteuid') || $stat['uid'] === posix_geteuid());
        return $is_ours ? (float) @file_get_contents($file, false, null, 0, 32) : 0.0;
    }

    private static function store($until) {
        if (self::has_apcu()) {
            return $until > 0 ? apcu_store(self::name(), $until, 2 * self::AWAY_S)
                : apcu_delete(self::name());
        }
        $file = self::file();
        if ($until <= 0) {
            return @unlink($file);
        }
        // A new file and a rename never follow a link, and nobody reads half a number.
        $new = $file . '.' . getmypid();
        $stream = @fopen($new, 'x');
        if (!$stream) {
            return false;
        }
        fwrite($stream, sprintf('%.3F', $until));
        fclose($stream);
        return @rename($new, $file) || (@unlink($new) && false);
    }
}

/* --- the client ----------------------------------------------------------------------------- */

/** Requests to weir over one connection, which is opened by the first and kept. */
final class Weir_Client {
    const TIMEOUT_MS = 250;
    const PATIENT_MS = 2000; // when a person waits for the answer
    const ANSWER_BYTES = 16777216;
    const FORMS = 'http://host:port, https://host:port or unix:/path';

    private static $stream = null;
    private static $pid = 0; // a forked child must not write to its parent's connection
    private static $address = '';
    private static $tls = null; // options of an https:// address
    private static $problem = '';
    private static $is_cut = false; // weir closed the connection before it answered

    /**
     * array('status' => 200, 'body' => ...), or null when weir is away.  With 'is_patient' weir is
     * asked even though the breaker is open, and has more time.  With 'is_apart' as well, and the
     * breaker learns nothing: of an address that is only tried, or an answer that takes long.
     */
    public static function request($method, $path, $body = null, array $options = array()) {
        $is_apart = !empty($options['is_apart']);
        $is_patient = $is_apart || !empty($options['is_patient']);
        if (!$is_patient && !Weir_Breaker::may_try()) {
            return null;
        }
        $usual = $is_patient ? self::PATIENT_MS : self::TIMEOUT_MS;
        $ms = apply_filters('weir_timeout_ms', isset($options['ms']) ? $options['ms'] : $usual);
        $deadline = hrtime(true) + (int) $ms * 1000000;
        $headers = isset($options['headers']) ? $options['headers'] : array();
        $answer = self::exchange($method, $path, $body, $headers, $deadline);
        if ($is_apart) {
            return $answer;
        }
        if ($answer === null) {
            Weir_Breaker::open(self::$problem);
        } elseif ($answer['status'] === 401 || $answer['status'] === 421) {
            self::$problem = 'weir at ' . Weir_Settings::url() . ' refuses the request: '
                . self::detail($answer);
            Weir_Breaker::open(self::$problem);
        } else {
            Weir_Breaker::close();
        }
        return $answer;
    }

    /** The body of an answer 200, null for everything else. */
    public static function body($method, $path, $body = null, array $options = array()) {
        $answer = self::request($method, $path, $body, $options);
        return $answer && $answer['status'] === 200 && is_array($answer['body'])
            ? $answer['body'] : null;
    }

    /** Why the last request got no answer. */
    public static function problem() {
        return self::$problem;
    }

    /** What weir says was wrong. */
    public static function detail(array $answer) {
        foreach (array('detail', 'title') as $key) {
            if (is_array($answer['body']) && !empty($answer['body'][$key])) {
                return (string) $answer['body'][$key];
            }
        }
        return 'status ' . $answer['status'];
    }

    public static function disconnect() {
        if (self::$stream && self::$pid === getmypid()) {
            fclose(self::$stream);
        }
        self::$stream = null;
    }

    private static function exchange($method, $path, $body, array $headers, $deadline) {
        $where = self::where();
        if (!$where) {
            return null;
        }
        self::$tls = $where['tls'];
        $text = self::head($method, $where['base'] . $path, $where['host'], $body, $headers);
        $is_kept = self::is_connected($where['address']);
        $answer = self::send_and_read($where['address'], $text, $deadline);
        if ($answer === null && $is_kept && self::$is_cut) {
            // weir has restarted since the last request: once more on a new connection.
            $answer = self::send_and_read($where['address'], $text, $deadline);
        }
        return $answer;
    }

    /** The address of the setting in parts, null when it is wrong. */
    private static function where() {
        $url = Weir_Settings::url();
        $where = self::parse_url($url);
        if (!$where) {
            self::$problem = "the address of weir (WEIR_URL) is '" . $url . "'; it must be " . self::FORMS;
        } elseif ($where['is_tls']) {
            $where['tls'] = Weir_Settings::tls(trim($where['name'], '[]'));
        }
        return $where;
    }

    /** Null when it is no address. */
    public static function parse_url($url) {
        if (strncmp($url, 'unix:', 5) === 0 && strlen($url) > 5) {
            return array('address' => 'unix://' . preg_replace('~^//(?=/)~', '', substr($url, 5)),
                'host' => 'localhost', 'name' => '', 'base' => '', 'is_tls' => false, 'tls' => null);
        }
        $parts = parse_url($url);
        $scheme = isset($parts['scheme']) ? $parts['scheme'] : '';
        if (!$parts || empty($parts['host']) || ($scheme !== 'http' && $scheme !== 'https')) {
            return null;
        }
        $is_tls = $scheme === 'https';
        $port = isset($parts['port']) ? $parts['port'] : ($is_tls ? 443 : 80);
        return array('address' => ($is_tls ? 'tls://' : 'tcp://') . $parts['host'] . ':' . $port,
            'host' => $parts['host'] . ':' . $port, 'name' => $parts['host'], 'is_tls' => $is_tls, 'tls' => null,
            'base' => isset($parts['path']) ? rtrim($parts['path'], '/') : '');
    }

    private static function head($method, $path, $host, $body, array $headers) {
        $lines = array($method . ' ' . $path . ' HTTP/1.1', 'Host: ' . $host);
        $token = Weir_Settings::token();
        if ($token !== '') {
            $lines[] = 'Authorization: Bearer ' . $token;
        }
        $text = '';
        if ($method === 'POST') {
            $text = (string) wp_json_encode($body === null ? new stdClass() : $body);
            $lines[] = 'Content-Type: application/json';
            $lines[] = 'Content-Length: ' . strlen($text);
        }
        foreach ($headers as $name => $value) {
            $lines[] = $name . ': ' . $value;
        }
        return implode("\r\n", str_replace(array("\r", "\n", "\0"), '', $lines)) . "\r\n\r\n" . $text;
    }

    private static function is_connected($address) {
        if (self::$stream && (self::$pid !== getmypid() || self::$address !== $address)) {
            self::disconnect();
        }
        return self::$stream !== null;
    }

    private static function connect($address, $deadline) {
        $context = stream_context_create(array('socket' => array('tcp_nodelay' => true),
            'ssl' => self::$tls !== null ? self::$tls : array()));
        $left = max(0.001, ($deadline - hrtime(true)) / 1e9);
        $why = '';  // of TLS, which PHP tells in warnings alone
        set_error_handler(function ($level, $message) use (&$why) {
            $why = $why !== '' ? $why : self::tls_problem($message);
            return true;
        });
        $stream = stream_socket_client($address, $code, $text, $left, STREAM_CLIENT_CONNECT, $context);
        restore_error_handler();
        if (!$stream) {
            return self::fail($why !== '' ? $why : ($text !== '' ? $text : 'no connection'));
        }
        stream_set_blocking($stream, false);
        self::$stream = $stream;
        self::$pid = getmypid();
        self::$address = $address;
        return true;
    }

    /** '' when the warning is not about TLS. */
    private static function tls_problem($message) {
        if (strpos($message, 'certificate verify failed') !== false) {
            return 'its certificate is not signed by a known authority, or has expired (WEIR_TLS_CA)';
        }
        if (strpos($message, 'did not match expected') !== false) {
            return 'its certificate is for another name (WEIR_TLS_NAME)';
        }
        if (preg_match('~failed loading cafile|Unable to set (?:local cert|private key)~', $message)) {
            return 'a file of WEIR_TLS_CA, WEIR_TLS_CERT or WEIR_TLS_KEY cannot be used';
        }
        return preg_match('~SSL operation failed.*:([^:\n]+)$~s', $message, $reason)
            ? 'TLS: ' . trim($reason[1]) : '';
    }

    private static function send_and_read($address, $text, $deadline) {
        self::$is_cut = false;
        if (!self::is_connected($address) && !self::connect($address, $deadline)) {
            return null;
        }
        $answer = self::send($text, $deadline) ? self::read($deadline) : null;
        if ($answer === null || $answer['is_last']) {
            self::disconnect();
        }
        return $answer;
    }

    private static function send($text, $deadline) {
        while ($text !== '') {
            $n = @fwrite(self::$stream, $text);
            // Over TLS, PHP writes 0 bytes to a connection that is closed.
            if ($n === false || ($n === 0 && feof(self::$stream))) {
                self::$is_cut = true;
                return self::fail('the connection broke');
            }
            $text = (string) substr($text, $n);
            if ($text !== '' && !self::wait(false, $deadline)) {
                return self::fail('no answer in time');
            }
        }
        return true;
    }

    private static function read($deadline) {
        $bytes = '';
        $more = '';
        $head = null;
        while ($head === null || strlen($bytes) < $head['end']) {
            // TLS may hold bytes that the socket does not have any more.
            if ((self::$tls === null || $more === '') && !self::wait(true, $deadline)) {
                return self::fail('no answer in time');
            }
            $more = @fread(self::$stream, 65536);
            if ($more === false || ($more === '' && feof(self::$stream))) {
                self::$is_cut = $bytes === '';
                return self::fail('the connection was closed');
            }
            $bytes .= $more;
            $head = $head === null ? self::parse_head($bytes) : $head;
            if ($head === false || strlen($bytes) > self::ANSWER_BYTES) {
                return self::fail('the answer is not HTTP as weir writes it');
            }
        }
        $body = (string) substr($bytes, $head['begin'], $head['end'] - $head['begin']);
        return array('status' => $head['status'], 'body' => json_decode($body, true),
            'is_last' => $head['is_last']);
    }

    /** Null while bytes are missing, false when it is no answer of weir. */
    private static function parse_head($bytes) {
        $end = strpos($bytes, "\r\n\r\n");
        if ($end === false) {
            return strlen($bytes) > 65536 ? false : null;
        }
        $head = substr($bytes, 0, $end) . "\r\n";
        if (!preg_match('~^HTTP/1\.[01] (\d{3})\b~', $head, $status)
            || !preg_match('~\r\nContent-Length: *(\d{1,9})\r\n~i', $head, $length)) {
            return false;
        }
        return array('status' => (int) $status[1], 'begin' => $end + 4,
            'end' => $end + 4 + (int) $length[1],
            'is_last' => (bool) preg_match('~\r\nConnection: *close\r\n~i', $head));
    }

    private static function wait($is_read, $deadline) {
        do {
            $us = (int) (($deadline - hrtime(true)) / 1000);
            if ($us <= 0) {
                return false;
            }
            $read = $is_read ? array(self::$stream) : null;
            $write = $is_read ? null : array(self::$stream);
            $except = null;
            $n = @stream_select($read, $write, $except, intdiv($us, 1000000), $us % 1000000);
        } while ($n === false); // a signal came
        return $n > 0;
    }

    private static function fail($why) {
        self::$problem = 'weir does not answer at ' . Weir_Settings::url() . ': ' . $why;
        return null;
    }
}

/* --- locks ---------------------------------------------------------------------------------- */

/**
 * A lock is a row of the options table: option_name = 'weir_lock_' . md5(key), autoload 'no',
 * option_value = 'FENCE|EXPIRY|TOKEN|KEY'; released: 'FENCE|0||KEY'.  weir writes the same rows.
 *
 *   FENCE    grows with every grant, also after someone deleted the row: at least the microseconds
 *            of the database's clock
 *   EXPIRY   Unix time by the database's clock, so that a wrong clock of a web server means nothing
 *   TOKEN    32 hex digits; only who knows it can release or renew
 *
 * Taking is one statement, so there is no moment between a look and a write.  Its count of rows is
 * not looked at, because MYSQL_CLIENT_FLAGS may change what it means: the row is read back, and the
 * lock is ours exactly if the row has our token.  Rows are read and written with $wpdb and never
 * through options functions, whose caches may be stale.  Rows are blanked and never deleted.
 *
 * In front of the row stands a lock of weir's own with the name 'wp:SITE:KEY'.  While it is held,
 * attempts end there and never reach the database, and people see the holder on weir's page.
 * weir's token is used in the row too, so that one token releases both.
 *
 * With WEIR_MUTEX off that lock is neither taken nor given back, for a weir that is far away.  Sites and
 * processes may differ in this: the row decides for both.  Who takes a lock away tells weir anyway.
 */
final class Weir_Locks {
    const TTL_MAX_S = 86400;
    const KEY_BYTES = 255;
    const NAME_BYTES = 255; // of a lock in weir
    // What a value must look like; anything else is a free lock with fence 0.
    const FORM = '^[0-9]{1,18}[|][0-9]{1,12}[|]([0-9a-f]{32})?[|]';

    private static $held = array(); // place => token, fence, deadline_ns: what this process was granted
    private static $guarded = array(); // key => token, of weir_with_lock(), for an early end

    /** The token, or false. */
    public static function acquire($key, $ttl) {
        if (!self::is_good_key($key) || !self::is_good_ttl($ttl)) {
            return false;
        }
        $begin = hrtime(true); // before the statement: the database's time begins later
        $gate = self::pass_gate($key, (int) $ttl);
        if ($gate === false) {
            return false;
        }
        $token = $gate === '' ? bin2hex(random_bytes(16)) : $gate;
        $row = self::write_row($key, (int) $ttl, $token) ? self::read_row($key) : null;
        if (!$row || !hash_equals($token, $row['token'])) {
            self::leave_gate($key, $gate);
            return false;
        }
        self::hold($key, $row, $begin, $ttl);
        return $token;
    }

    private static function hold($key, array $row, $begin, $ttl) {
        self::$held[self::place($key)] = array('token' => $row['token'], 'fence' => $row['fence'],
            'deadline_ns' => $begin + (int) $ttl * 1000000000);
    }

    /** True when the row still had this token. */
    public static function release($key, $token) {
        if (!self::is_good_key($key) || !self::is_token($token)) {
            return false;
        }
        global $wpdb;
        $n = self::query($wpdb->prepare(
            "UPDATE {$wpdb->options} SET option_value = CONCAT(SUBSTRING_INDEX(option_value, '|', 1),"
            . " '|0||', %s) WHERE option_name = %s AND " . self::sql_token() . ' = %s',
            $key, self::name($key), $token));
        self::leave_gate($key, $token);
        $place = self::place($key);
        if (isset(self::$held[$place]) && self::$held[$place]['token'] === $token) {
            unset(self::$held[$place]);
        }
        return (int) $n > 0;
    }

    /** True when the lock is held for $ttl more seconds from now. */
    public static function renew($key, $token, $ttl) {
        if (!self::is_good_key($key) || !self::is_good_ttl($ttl) || !self::is_token($token)) {
            return false;
        }
        global $wpdb;
        $begin = hrtime(true);
        self::query($wpdb->prepare(
            "UPDATE {$wpdb->options} SET option_value = CONCAT(SUBSTRING_INDEX(option_value, '|', 1),"
            . " '|', UNIX_TIMESTAMP() + %d, '|', %s, '|', %s) WHERE option_name = %s AND "
            . self::sql_token() . ' = %s', (int) $ttl, $token, $key, self::name($key), $token));
        $row = self::read_row($key);
        if (!$row || !$row['is_held'] || !hash_equals($token, $row['token'])) {
            return false;
        }
        self::hold($key, $row, $begin, $ttl);
        if (Weir_Settings::has_mutex()) {
            self::tell_gate('POST', $key, '/renew', array('token' => $token, 'ex' => (int) $ttl));
        }
        return true;
    }

    public static function is_locked($key) {
        $row = self::is_good_key($key) ? self::read_row($key) : null;
        return $row ? $row['is_held'] : false;
    }

    /** True when a holder lost it. */
    public static function force_release($key, $reason) {
        if (!self::is_good_key($key)) {
            return false;
        }
        if (trim((string) $reason) === '') {
            self::wrong('weir_force_release', 'a reason is required: it is kept in the log of weir');
            return false;
        }
        global $wpdb;
        $row = self::read_row($key);
        self::query($wpdb->prepare(
            "UPDATE {$wpdb->options} SET option_value = CONCAT(" . self::sql_fence() . ", '|0||', %s)"
            . ' WHERE option_name = %s', $key, self::name($key)));
        self::tell_gate('DELETE', $key, '?reason=' . rawurlencode(substr((string) $reason, 0, 255)));
        $was_held = $row && $row['is_held'];
        do_action('weir_lock_forced', $key, $reason, $was_held);
        return $was_held;
    }

    /** The number of the grant: of this process if it holds the lock, else of the row; 0: none. */
    public static function fence($key) {
        if (isset(self::$held[self::place($key)])) {
            return self::$held[self::place($key)]['fence'];
        }
        $row = self::is_good_key($key) ? self::read_row($key) : null;
        return $row ? $row['fence'] : 0;
    }

    /** The token with which this process took the lock and has not released it; '': none. */
    public static function own_token($key) {
        $place = is_string($key) ? self::place($key) : '';
        return isset(self::$held[$place]) ? self::$held[$place]['token'] : '';
    }

    /** Seconds that this process may still rely on its lock. */
    public static function seconds_left($key) {
        $held = isset(self::$held[self::place($key)]) ? self::$held[self::place($key)] : null;
        return $held ? max(0.0, ($held['deadline_ns'] - hrtime(true)) / 1e9) : 0.0;
    }

    public static function with_lock($key, $callback, $ttl, $otherwise) {
        $token = self::acquire($key, $ttl);
        if ($token === false) {
            return $otherwise;
        }
        if (!self::$guarded) {
            register_shutdown_function(array(__CLASS__, 'release_guarded'));
        }
        self::$guarded[$key] = $token;
        try {
            return $callback(self::$held[self::place($key)]['fence']);
        } finally {
            unset(self::$guarded[$key]);
            self::release($key, $token);
        }
    }

    /** exit() and a fatal error skip `finally`. */
    public static function release_guarded() {
        foreach (self::$guarded as $key => $token) {
            self::release((string) $key, $token);
        }
        self::$guarded = array();
    }

    /** All rows, held or not. */
    public static function all() {
        global $wpdb;
        $rows = self::rows($wpdb->prepare(
            "SELECT option_value, UNIX_TIMESTAMP() AS now FROM {$wpdb->options}"
            . ' WHERE option_name LIKE %s ORDER BY option_name', $wpdb->esc_like('weir_lock_') . '%'));
        $locks = array_map(array(__CLASS__, 'parse'), $rows);
        usort($locks, static function ($a, $b) {
            return strcmp($a['key'], $b['key']);
        });
        return $locks;
    }

    /* The row. */

    private static function name($key) {
        return 'weir_lock_' . md5($key);
    }

    /** Sites of a network have tables of their own. */
    private static function place($key) {
        return $GLOBALS['wpdb']->options . '|' . $key;
    }

    private static function sql_token() {
        return "SUBSTRING_INDEX(SUBSTRING_INDEX(option_value, '|', 3), '|', -1)";
    }

    /** Digits only reach CAST, which is an error for other text in a strict SQL mode. */
    private static function sql_fence() {
        return "IF(option_value REGEXP '" . self::FORM . "',"
            . " CAST(SUBSTRING_INDEX(option_value, '|', 1) AS UNSIGNED), 0)";
    }

    private static function sql_expiry() {
        return "IF(option_value REGEXP '" . self::FORM . "',"
            . " CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(option_value, '|', 2), '|', -1) AS UNSIGNED), 0)";
    }

    /** One statement.  False after an error of the database: then nobody knows, and nobody holds. */
    private static function write_row($key, $ttl, $token) {
        global $wpdb;
        // UNIX_TIMESTAMP(NOW(6)) would be wrong for an hour when summer time ends.
        $clock = '(UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))';
        $rest = $wpdb->prepare("'|', UNIX_TIMESTAMP() + %d, '|', %s, '|', %s", $ttl, $token, $key);
        $name = $wpdb->prepare('%s', self::name($key));
        return false !== self::query(
            "INSERT INTO {$wpdb->options} (option_name, option_value, autoload)"
            . " VALUES ($name, CONCAT($clock, $rest), 'no') ON DUPLICATE KEY UPDATE option_value ="
            . ' IF(' . self::sql_expiry() . ' < UNIX_TIMESTAMP(),'
            . ' CONCAT(GREATEST(' . self::sql_fence() . " + 1, $clock), $rest), option_value)");
    }

    /** Null when there is no row. */
    private static function read_row($key) {
        global $wpdb;
        $rows = self::rows($wpdb->prepare(
            "SELECT option_value, UNIX_TIMESTAMP() AS now FROM {$wpdb->options} WHERE option_name = %s",
            self::name($key)));
        return $rows ? self::parse($rows[0]) : null;
    }

    private static function parse($row) {
        $lock = array('key' => '', 'fence' => 0, 'expiry' => 0, 'token' => '', 'is_held' => false,
            'left' => 0);
        if (preg_match('~' . self::FORM . '~i', $row->option_value)) {
            list($fence, $expiry, $token, $key) = explode('|', $row->option_value, 4);
            $lock = array('key' => $key, 'fence' => (int) $fence, 'expiry' => (int) $expiry,
                'token' => $token, 'is_held' => (int) $expiry >= (int) $row->now,
                'left' => max(0, (int) $expiry - (int) $row->now));
        }
        return $lock;
    }

    private static function query($sql) {
        global $wpdb;
        $was = $wpdb->suppress_errors(true);
        $n = $wpdb->query($sql);
        $wpdb->suppress_errors($was);
        if ($n === false) {
            error_log('weir: the database refused a lock: ' . $wpdb->last_error);
        }
        return $n;
    }

    /** The comment makes each text new, so that no cache of queries answers. */
    private static function rows($sql) {
        global $wpdb;
        $was = $wpdb->suppress_errors(true);
        $rows = $wpdb->get_results($sql . ' /* ' . bin2hex(random_bytes(8)) . ' */');
        $wpdb->suppress_errors($was);
        return is_array($rows) ? $rows : array();
    }

    /* The lock of weir's own in front of the row. */

    /** Its address. */
    private static function gate($key) {
        $site = Weir_Settings::site();
        if (is_multisite() && get_current_blog_id() !== 1) {
            $site .= '#' . get_current_blog_id();
        }
        $name = 'wp:' . $site . ':' . $key;
        return '/v1/locks/' . rawurlencode(strlen($name) <= self::NAME_BYTES ? $name
            : 'wp:' . $site . ':md5:' . md5($key));
    }

    private static function tell_gate($method, $key, $rest, $body = null) {
        if (Weir_Settings::site() !== '') {
            Weir_Client::request($method, self::gate($key) . $rest, $body);
        }
    }

    /** weir's token; '' when the row alone decides; false when the lock is held. */
    private static function pass_gate($key, $ttl) {
        if (Weir_Settings::site() === '' || !Weir_Settings::has_mutex()) {
            return '';
        }
        $until = time() + $ttl;
        $owner = gethostname() . ':' . getmypid() . ' until ' . gmdate('Y-m-d\TH:i:s\Z', $until);
        $body = Weir_Client::body('POST', self::gate($key),
            array('ex' => $ttl, 'owner' => substr($owner, -255)));
        if (!isset($body['acquired'])) {
            return '';
        }
        if ($body['acquired']) {
            return self::is_token($body['token']) ? $body['token'] : '';
        }
        return self::is_overdue($body) ? '' : false;
    }

    /**
     * weir's locks stand still while weir is down, so one may outlive its row by that time.  The
     * holder wrote its end into the owner; after that the row decides.  A wrong clock here costs a
     * look at the row and nothing else.
     */
    private static function is_overdue(array $body) {
        $owner = isset($body['holders'][0]['owner']) ? (string) $body['holders'][0]['owner'] : '';
        $until = preg_match('~ until (\S+Z)$~', $owner, $found) ? strtotime($found[1]) : false;
        return $until !== false && $until < time();
    }

    private static function leave_gate($key, $token) {
        if ($token !== '' && Weir_Settings::has_mutex()) {
            self::tell_gate('POST', $key, '/unlock', array('token' => $token));
        }
    }

    /* What a caller may pass. */

    private static function is_good_key($key) {
        $is_good = is_string($key) && $key !== '' && strlen($key) <= self::KEY_BYTES
            && preg_match('//u', $key) && strpos($key, "\0") === false;
        if (!$is_good) {
            self::wrong('weir_acquire_lock', 'a key is text (UTF-8) of 1 to 255 bytes');
        }
        return $is_good;
    }

    private static function is_good_ttl($ttl) {
        $is_good = is_numeric($ttl) && $ttl >= 1 && $ttl <= self::TTL_MAX_S;
        if (!$is_good) {
            self::wrong('weir_acquire_lock', 'a lock lasts 1 to 86400 seconds');
        }
        return $is_good;
    }

    private static function is_token($token) {
        return is_string($token) && preg_match('/^[0-9a-f]{32}$/D', $token);
    }

    private static function wrong($function, $text) {
        _doing_it_wrong(esc_html($function), esc_html($text), '1.0.0');
    }
}

/* --- the gate of Action Scheduler ----------------------------------------------------------- */

/** Ends the start of an action, which stays pending with its new date. */
class Weir_Deferred extends RuntimeException {
}

/**
 * Just before Action Scheduler starts an action, weir is asked whether actions of this hook run now.
 * One that must wait gets a later date and stays the same row: pending, no attempt used, a series
 * goes on.  The schedule that Action Scheduler keeps in serialized form is not touched.
 *
 * The date moves before the exception is thrown: with its old date it would be claimed again at
 * once.  And weir knows the original date before the row moves, so that it can give it back.
 */
final class Weir_Gate {
    const FRESH_NS = 1000000000; // how long an answer holds
    const HOOKS_KEPT = 500;
    const MOVE_TRIES = 5;
    const MOVE_LONG_NS = 500000000;
    const CLEANER_S = 300; // Action Scheduler's own periods with its own limit of 30 s

    private static $answers = array(); // hook => answer, at_ns
    private static $would_wait = 0;

    public static function register() {
        add_action('action_scheduler_before_execute', array(__CLASS__, 'before_execute'), 5, 2);
        add_filter('action_scheduler_queue_runner_concurrent_batches', array(__CLASS__, 'batches'), 20);
        add_filter('action_scheduler_queue_runner_time_limit', array(__CLASS__, 'time_limit'), 20);
        add_filter('action_scheduler_timeout_period', array(__CLASS__, 'cleaner_period'), 20);
        add_filter('action_scheduler_failure_period', array(__CLASS__, 'cleaner_period'), 20);
    }

    /** weir's answer about a hook, at most a second old; null: run as usual. */
    public static function ask($hook) {
        $site = Weir_Settings::site();
        if ($site === '' || $hook === '' || Weir_Settings::mode('enforce') === 'off') {
            return null;
        }
        $key = $site . '|' . $hook;
        $now = hrtime(true);
        if (isset(self::$answers[$key]) && $now - self::$answers[$key]['at_ns'] < self::FRESH_NS) {
            return self::$answers[$key]['answer'];
        }
        if (count(self::$answers) >= self::HOOKS_KEPT) {
            self::$answers = array();
        }
        $answer = Weir_Client::body('GET',
            '/v1/sites/' . rawurlencode($site) . '/ask?hook=' . rawurlencode($hook));
        self::$answers[$key] = array('answer' => $answer, 'at_ns' => $now);
        return $answer;
    }

    /** How often an action of this process would have waited, in observe. */
    public static function would_wait() {
        return self::$would_wait;
    }

    public static function before_execute($action_id, $context = '') {
        // A person who clicks on "Run" means now.
        if ($context === 'Admin List Table' || Weir_Settings::site() === '' || Weir_Breaker::is_open()) {
            return;
        }
        $action = self::action((int) $action_id);
        $answer = $action ? self::ask($action->hook) : null;
        if (!$answer) {
            return;
        }
        $is_wait = (bool) apply_filters('weir_is_wait',
            !empty($answer['is_wait']) || !empty($answer['would_wait']), $action->hook, $action->args,
            $answer, (int) $action_id);
        $mode = Weir_Settings::mode(isset($answer['mode']) ? $answer['mode'] : 'off');
        if (!$is_wait || $mode !== 'enforce') {
            self::count_only($is_wait, $mode, $action, $answer);
            return;
        }
        $to = self::defer($action);
        if ($to && self::move($action, $to)) {
            self::log($action, $to, $answer);
            do_action('weir_action_deferred', (int) $action_id, $action->hook, $to, $answer);
            throw new Weir_Deferred(sprintf('weir: %s waits until %s UTC', $action->hook,
                gmdate('Y-m-d H:i:s', $to)));
        }
    }

    private static function count_only($is_wait, $mode, $action, array $answer) {
        if ($is_wait && $mode === 'observe') {
            self::$would_wait++;
            do_action('weir_action_would_wait', (int) $action->action_id, $action->hook, $answer);
        }
    }

    /** By primary key; the hook from here, since a fetched action has its serialized date. */
    private static function action($id) {
        global $wpdb;
        return $wpdb->get_row($wpdb->prepare(
            'SELECT action_id, hook, args, scheduled_date_gmt FROM ' . self::table('actions')
            . " WHERE action_id = %d AND status = 'pending'", $id));
    }

    private static function table($name) {
        global $wpdb;
        return $wpdb->prefix . 'actionscheduler_' . $name;
    }

    /** Unix time until which the action waits, once weir has written down its date; 0: it runs. */
    private static function defer($action) {
        $date = strtotime($action->scheduled_date_gmt . ' UTC');
        if (!$date || $date < 0) {
            return 0;
        }
        $body = Weir_Client::body('POST', '/v1/sites/' . rawurlencode(Weir_Settings::site()) . '/defer',
            array('id' => (int) $action->action_id, 'hook' => $action->hook, 'date' => $date));
        $to = !empty($body['is_wait']) && isset($body['to']) ? (int) $body['to'] : 0;
        // A date that is not in the future would be claimed again at once, without an end.
        return $to > time() ? $to : 0;
    }

    /**
     * One row, by primary key. It changes entries of indexes that claims of other runners lock in
     * another order, so a deadlock may end it: then nothing has changed, and it is tried again after
     * a short time by chance. A try that took long has waited for a lock, and is the last one. When
     * all fail the action runs, and weir drops its note when it finds the row without that date.
     */
    private static function move($action, $to) {
        global $wpdb;
        $gmt = gmdate('Y-m-d H:i:s', $to);
        $sql = $wpdb->prepare(
            'UPDATE ' . self::table('actions') . ' SET scheduled_date_gmt = %s, scheduled_date_local = %s'
            . " WHERE action_id = %d AND status = 'pending'", $gmt, get_date_from_gmt($gmt),
            $action->action_id);
        $was = $wpdb->suppress_errors(true);
        $began_ns = hrtime(true);
        for ($n = false, $try = 1; $n === false && $try <= self::MOVE_TRIES; $try++) {
            $n = $wpdb->query($sql);
            if ($n !== false || hrtime(true) - $began_ns > self::MOVE_LONG_NS) {
                break;
            }
            usleep(mt_rand(1000, 10000 * $try));
        }
        $wpdb->suppress_errors($was);
        return (int) $n > 0;
    }

    /** A line in Action Scheduler's own log, where people look for the reason of a delay. */
    private static function log($action, $to, array $answer) {
        global $wpdb;
        $gmt = gmdate('Y-m-d H:i:s');
        $was = $wpdb->suppress_errors(true); // without its log table the action is deferred as well
        // In the words of weir, which writes such lines for the actions that it moves itself.
        $wpdb->insert(self::table('logs'), array('action_id' => (int) $action->action_id,
            'message' => sprintf('weir: deferred to %s UTC, tier %s: %s', gmdate('Y-m-d H:i:s', $to),
                $answer['tier'], $answer['text']), 'log_date_gmt' => $gmt,
            'log_date_local' => get_date_from_gmt($gmt),
        ));
        $wpdb->suppress_errors($was);
    }

    /* The runner. */

    /**
     * The smaller one; 0 in the answer is no cap.  The size of a batch has none: each claim reads and
     * locks all that is due, so smaller batches load the database more.
     */
    public static function batches($count) {
        $answer = self::in_force();
        $cap = $answer && isset($answer['claims']) ? (int) $answer['claims'] : 0;
        return $cap > 0 ? min((int) $count, $cap) : $count;
    }

    /** What weir says of the runner itself, if it is to be followed. */
    private static function in_force() {
        $answer = self::ask('action_scheduler_run_queue');
        $mode = $answer && isset($answer['mode']) ? Weir_Settings::mode($answer['mode']) : 'off';
        return $mode === 'enforce' ? $answer : null;
    }

    public static function time_limit($seconds) {
        $cap = Weir_Settings::time_limit();
        $answer = $cap > 0 ? self::in_force() : null;
        $is_calm = !$answer || !isset($answer['level']) || $answer['level'] === 'normal';
        return $is_calm ? $seconds : min((int) $seconds, $cap);
    }

    /** Action Scheduler's cleaner takes ten times the limit; a cap must not make it hasty. */
    public static function cleaner_period($seconds) {
        $is_capped = Weir_Settings::time_limit() > 0 && $seconds >= 0;
        return $is_capped ? max(self::CLEANER_S, (int) $seconds) : $seconds;
    }
}

/* --- the order of claims -------------------------------------------------------------------- */

/**
 * While actions of the critical tier are due, a claim of Action Scheduler takes those alone; else what
 * it takes without weir.  Nothing is written that the claim would not write.
 *
 * Order alone would not do.  A runner sorts what it has claimed anew, by Action Scheduler's own order,
 * so payments would run after the older actions of the same batch; and each claim in an order would
 * read all that is due, which takes seconds with a million.  And a claim that finds nothing ends its
 * runner, so the restriction must not make one come back empty: another runner may be faster.
 *
 * So the filter of the order says when a claim begins, and changes no order.  The next statement is
 * the claim.  Just before it is sent
 *
 *   1. weir tells the hooks of the critical tier, at most once a second;
 *   2. a SELECT by the index of the hook finds ids of theirs that are due, by the conditions, the
 *      order and the limit of the claim itself; if there are none, a SELECT finds ids of all that is
 *      due, among the oldest OLDEST;
 *   3. the claim is sent with these ids as one more condition;
 *   4. if that has claimed something, a SELECT of it takes the place of the claim; if another runner
 *      was faster, the next ids are looked for, and at last the claim is sent as it is.
 *
 * Ids, because Action Scheduler's own claim reads and locks every row that is due, also those that
 * another runner has claimed and is about to start: they wait for each other, or deadlock, and
 * Action Scheduler marks the loser as failed without running it.  By primary key a claim locks what
 * it takes.  And with a million due rows it takes milliseconds, where the own one takes seconds, and
 * in a storm a minute.
 *
 * A claim that looks different, because its caller wants some hooks or a group (WP-CLI), because of
 * another plugin, or in an unknown version of Action Scheduler, is sent as it is.
 */
final class Weir_Claim {
    const TRIES = 3;
    const CONDITIONS = "WHERE claim_id = 0 AND scheduled_date_gmt <= '[^']*' AND status ?= ?'pending'";

    const INDEX = 'status_scheduled_date_gmt';
    const OLDEST = 5000;
    const COLUMNS = array('action_id', 'hook', 'priority', 'attempts', 'scheduled_date_gmt', 'group_id');

    private static $first = array(); // site => hooks, code, at_ns
    private static $has_index = array(); // table => bool
    private static $is_expected = false; // one of the next statements is a claim
    private static $is_told = false; // a claim that failed, once in a process
    private static $given = array(); // hooks of the critical tier, from whoever started this runner

    public static function register() {
        add_filter('action_scheduler_claim_actions_order_by', array(__CLASS__, 'begins'), 20);
    }

    /** For weir-runner.php: what to do while the plugin itself asks nobody. */
    public static function by_runner(array $hooks) {
        self::$given = $hooks;
    }

    private static function asks_weir() {
        return Weir_Settings::site() !== '' && Weir_Settings::mode('enforce') === 'enforce'
            && !Weir_Breaker::is_open();
    }

    public static function begins($order) {
        if (self::asks_weir() || self::$given) {
            self::$is_expected = true;
            if (self::asks_weir()) {
                Weir_Tiers::tell();
            }
            // Late, to see the statement as it is sent.  On pages of the site it is never added.
            add_filter('query', array(__CLASS__, 'sent'), 1000);
        }
        return $order;
    }

    /** The statement that is sent in place of this one. */
    public static function sent($sql) {
        $claim = self::$is_expected ? self::parse((string) $sql) : false;
        if ($claim === false) {
            return $sql;
        }
        self::$is_expected = false;
        $hooks = $claim && self::asks_weir() ? self::hooks() : self::$given;
        // Whoever cannot name the hooks that go first must not look at the oldest alone.
        if (!$claim || !$hooks) {
            return $sql;
        }
        $n = 0;
        for ($i = 0; $i < self::TRIES; $i++) {
            $ids = self::due($claim, $hooks);
            $ids = $ids ? $ids : self::oldest($claim);
            $n = $ids ? self::claim($claim, $ids) : false;
            if ($n !== 0) {
                break;
            }
        }
        return $n ? 'SELECT action_id FROM ' . $claim['table'] . ' WHERE claim_id = ' . $claim['id'] : $sql;
    }

    private static function has_index($table) {
        global $wpdb;
        if (!isset(self::$has_index[$table])) {
            $was = $wpdb->suppress_errors(true);
            self::$has_index[$table] = (bool) $wpdb->get_var($wpdb->prepare(
                "SHOW INDEX FROM $table WHERE Key_name = %s", self::INDEX));
            $wpdb->suppress_errors($was);
        }
        return self::$has_index[$table];
    }

    /** The parts of a claim; array() when it is to stay as it is, false when it is none. */
    private static function parse($sql) {
        global $wpdb;
        $table = $wpdb->prefix . 'actionscheduler_actions';
        if (!preg_match('~^\s*UPDATE\s+`?' . preg_quote($table, '~') . '\b.*\bSET claim_id ?= ?(\d+)\b~s',
            $sql, $set)) {
            return false;
        }
        $n = preg_match_all('~^(.*\b)(' . self::CONDITIONS . ')( ORDER BY .+? LIMIT \d+)\b(.*)$~s', $sql,
            $parts, PREG_SET_ORDER);
        return $n !== 1 ? array() : array('table' => $table, 'id' => $set[1], 'head' => $parts[0][1],
            'where' => $parts[0][2], 'order' => $parts[0][3], 'tail' => $parts[0][4]);
    }

    /** How many tiers weir has from the code of the site, by its last answer. */
    public static function code_tiers() {
        $site = Weir_Settings::site();
        return isset(self::$first[$site]) ? self::$first[$site]['code'] : 0;
    }

    /** Hooks of the critical tier that the site has.  weir hears that they come first here. */
    private static function hooks() {
        $site = Weir_Settings::site();
        $now = hrtime(true);
        if (!isset(self::$first[$site]) || $now - self::$first[$site]['at_ns'] >= Weir_Gate::FRESH_NS) {
            $answer = Weir_Client::body('GET', '/v1/sites/' . rawurlencode($site) . '/first?ordered=true');
            $is_first = $answer && !empty($answer['front']) && isset($answer['hooks'])
                && Weir_Settings::mode($answer['mode']) === 'enforce';
            self::$first[$site] = array('hooks' => $is_first ? (array) $answer['hooks'] : array(),
                'code' => $answer && isset($answer['code']) ? (int) $answer['code'] : 0, 'at_ns' => $now);
        }
        return self::$first[$site]['hooks'];
    }

    /** Ids of actions of these hooks that this claim may take. */
    private static function due(array $claim, array $hooks) {
        global $wpdb;
        $names = $wpdb->prepare(implode(', ', array_fill(0, count($hooks), '%s')), $hooks);
        return self::ids('SELECT action_id FROM ' . $claim['table'] . ' ' . $claim['where']
            . ' AND hook IN (' . $names . ')' . $claim['order']);
    }

    /** Ids of any that it may take.  In the order of the claim, but among the oldest. */
    private static function oldest(array $claim) {
        $columns = array_filter(self::COLUMNS, static function ($name) use ($claim) {
            return $name === 'action_id' || preg_match('~\b' . $name . '\b~', $claim['order']);
        });
        return self::ids('SELECT action_id FROM (SELECT ' . implode(', ', $columns) . ' FROM ' . $claim['table']
            . (self::has_index($claim['table']) ? ' FORCE INDEX (' . self::INDEX . ')' : '') . ' '
            . $claim['where'] . ' ORDER BY scheduled_date_gmt LIMIT ' . self::OLDEST . ') AS oldest'
            . $claim['order']);
    }

    private static function ids($sql) {
        global $wpdb;
        $was = $wpdb->suppress_errors(true); // the claim itself tells what is wrong
        $ids = $wpdb->get_col($sql);
        $wpdb->suppress_errors($was);
        return array_map('intval', $ids);
    }

    /** How many of them the claim got; false after an error. */
    private static function claim(array $claim, array $ids) {
        global $wpdb;
        $sql = $claim['head'] . $claim['where'] . ' AND action_id IN (' . implode(', ', $ids) . ')'
            . $claim['order'] . $claim['tail'];
        $was = $wpdb->suppress_errors(true);
        for ($i = 0, $n = false; $n === false && $i < self::TRIES; $i++) {
            $n = $wpdb->query($sql);
        }
        $wpdb->suppress_errors($was);
        if ($n === false && !self::$is_told) {
            self::$is_told = true;
            error_log('weir: actions cannot be claimed by their ids: ' . $wpdb->last_error);
        }
        return $n;
    }
}

/**
 * Tells weir the tiers that code decides with the filter weir_priority, so that they hold for what
 * weir moves and puts first too.  weir keeps them until they are taken back.
 *
 * Before a claim, once a minute in each process, and only if there is such code or was.  A hook whose
 * tier the filter leaves as it is belongs to weir's registry again.
 */
final class Weir_Tiers {
    const EVERY_NS = 60000000000;
    const WORDS = array('critical', 'high', 'normal', 'deferrable');

    private static $told = array(); // site => ns

    public static function tell() {
        $site = Weir_Settings::site();
        $now = hrtime(true);
        $is_soon = isset(self::$told[$site]) && $now - self::$told[$site] < self::EVERY_NS;
        if ($is_soon || (!has_filter('weir_priority') && !Weir_Claim::code_tiers())) {
            return;
        }
        self::$told[$site] = $now;
        $path = '/v1/sites/' . rawurlencode($site);
        $answer = Weir_Client::body('GET', $path);
        foreach ($answer && isset($answer['hooks']) ? $answer['hooks'] : array() as $row) {
            $tier = self::wanted($row);
            if ($tier !== $row['code'] && !Weir_Client::request('POST', $path . '/tiers',
                array('hook' => $row['hook'], 'tier' => $tier !== '' ? $tier : 'default'))) {
                return; // weir is away
            }
        }
    }

    /** '': code does not decide. */
    private static function wanted(array $row) {
        $tier = (string) apply_filters('weir_priority', $row['registry'], $row['hook']);
        return $tier !== $row['registry'] && in_array($tier, self::WORDS, true) ? $tier : '';
    }
}

/* --- functions ------------------------------------------------------------------------------ */

/**
 * Takes a lock for $ttl seconds and never waits.  Returns a token for weir_release_lock(), or false
 * when another process holds the lock or the database cannot tell.
 */
function weir_acquire_lock($key, $ttl = 60) {
    return Weir_Locks::acquire($key, $ttl);
}

/** Gives a lock back.  False when the token does not hold it any more. */
function weir_release_lock($key, $token) {
    return Weir_Locks::release($key, $token);
}

/** Holds a lock for $ttl seconds from now.  False when the token does not hold it any more. */
function weir_renew_lock($key, $token, $ttl = 60) {
    return Weir_Locks::renew($key, $token, $ttl);
}

function weir_is_locked($key) {
    return Weir_Locks::is_locked($key);
}

/** Takes a lock away from its holder, whoever that is.  True when it was held. */
function weir_force_release($key, $reason) {
    return Weir_Locks::force_release($key, $reason);
}

/**
 * Runs $callback($fence) under a lock and returns its result.  When another process holds the lock,
 * the callback does not run and $otherwise is returned.
 */
function weir_with_lock($key, callable $callback, $ttl = 60, $otherwise = false) {
    return Weir_Locks::with_lock($key, $callback, $ttl, $otherwise);
}

/**
 * The number of the grant that this process holds, else of the last grant of any process.  Numbers
 * only grow: a store that refuses smaller ones than it has seen is safe from a holder that overslept.
 */
function weir_lock_fence($key) {
    return Weir_Locks::fence($key);
}

/** Seconds for which this process may still rely on its lock. */
function weir_lock_seconds_left($key) {
    return Weir_Locks::seconds_left($key);
}

/** critical, high, normal or deferrable; normal while weir is away. */
function weir_get_priority($hook) {
    static $known = array(); // hook => tier, at_ns
    $hook = (string) $hook;
    $now = hrtime(true);
    if (!isset($known[$hook]) || $now - $known[$hook]['at_ns'] >= Weir_Gate::FRESH_NS) {
        $known = count($known) < Weir_Gate::HOOKS_KEPT ? $known : array();
        $answer = $hook !== '' ? Weir_Client::body('GET', '/v1/tiers/' . rawurlencode($hook)) : null;
        $known[$hook] = array('tier' => isset($answer['tier']) ? $answer['tier'] : 'normal',
            'at_ns' => $now);
    }
    return (string) apply_filters('weir_priority', $known[$hook]['tier'], $hook);
}

/**
 * Adds a job to weir's own queue.  $options are those of ENQUEUE (queue, priority, in, at, unique,
 * tier, ...) and idempotency_key.  Returns the id of the job or a WP_Error.
 */
function weir_enqueue($hook, $args = array(), array $options = array()) {
    // With a key a request that is sent again, after a restart of weir, adds no second job.
    $key = isset($options['idempotency_key']) ? $options['idempotency_key'] : bin2hex(random_bytes(16));
    unset($options['idempotency_key']);
    $answer = Weir_Client::request('POST', '/v1/jobs',
        array('hook' => (string) $hook, 'args' => $args) + $options,
        array('headers' => array('Idempotency-Key' => (string) $key)));
    if (!$answer) {
        return new WP_Error('weir_away', Weir_Client::problem() !== '' ? Weir_Client::problem()
            : __('weir did not answer a moment ago and is not asked again yet.', 'weir'));
    }
    if ($answer['status'] >= 300 || !isset($answer['body']['id'])) {
        return new WP_Error('weir_refused', Weir_Client::detail($answer), array('status' => $answer['status']));
    }
    return (int) $answer['body']['id'];
}

/* --- QueryGuard ----------------------------------------------------------------------------- */

/**
 * What code written for QueryGuard calls.  It is known as QueryGuard from `plugins_loaded` on, to who
 * asks for a class of that name while no plugin has one.
 */
final class Weir_QueryGuard {
    public static function register() {
        spl_autoload_register(static function ($class) {
            if (strcasecmp($class, 'QueryGuard') === 0 && did_action('plugins_loaded')) {
                class_alias(__CLASS__, 'QueryGuard');
            }
        });
    }

    /** A token, which is true, or false. */
    public static function acquire_lock($key, $ttl = 60) {
        return Weir_Locks::acquire($key, $ttl);
    }

    /** Without a token: the lock that this process took. */
    public static function release_lock($key, $token = null) {
        $token = $token === null ? Weir_Locks::own_token($key) : $token;
        return $token !== '' && Weir_Locks::release($key, $token);
    }

    public static function is_locked($key) {
        return Weir_Locks::is_locked($key);
    }

    public static function force_release($key, $reason = '') {
        $reason = trim((string) $reason);
        return Weir_Locks::force_release($key, $reason !== '' ? $reason : 'QueryGuard::force_release');
    }

    public static function get_priority($hook) {
        return weir_get_priority($hook);
    }
}

/* --- WP-CLI --------------------------------------------------------------------------------- */

/** What both commands need. */
abstract class Weir_Command {
    /** The body of the answer; ends the command when there is none. */
    protected function call($method, $path, $body = null) {
        $answer = Weir_Client::request($method, $path, $body, array('is_patient' => true));
        if (!$answer) {
            WP_CLI::error(Weir_Client::problem());
        }
        if ($answer['status'] >= 300) {
            WP_CLI::error(Weir_Client::detail($answer));
        }
        return $answer['body'];
    }

    protected function table(array $rows, array $fields, array $options) {
        $format = isset($options['format']) ? $options['format'] : 'table';
        if ($format === 'json') {
            WP_CLI::line(wp_json_encode($rows));
        } else {
            WP_CLI\Utils\format_items($format, $rows, $fields);
        }
    }
}

/** Shows and steers the gate that holds work back while the database is loaded. */
class Weir_Throttle_Command extends Weir_Command {
    const UNITS_MS = array('s' => 1000, 'm' => 60000, 'h' => 3600000, 'd' => 86400000);

    /**
     * Shows what weir does at this site: level and why, mode, what is due, running and deferred.
     *
     * ## OPTIONS
     *
     * [--format=<format>]
     * : table or json
     */
    public function status($args, $options = array()) {
        $now = $this->call('GET', '/v1/throttle');
        $state = $this->site();
        if (isset($options['format']) && $options['format'] === 'json') {
            WP_CLI::line(wp_json_encode($now + array('site' => $state)));
            return;
        }
        if ($state) {
            $this->show_site($state, $now);
            return;
        }
        WP_CLI::line($this->why_no_site());
        $this->show_jobs($now);
    }

    /** What weir knows of this site, and what this WordPress makes of it; null: nothing. */
    private function site() {
        $site = Weir_Settings::site();
        $answer = $site === '' ? null : Weir_Client::request('GET', '/v1/sites/' . rawurlencode($site), null,
            array('is_patient' => true));
        if (!$answer || $answer['status'] === 404) {
            return null;
        }
        if ($answer['status'] >= 300) {
            WP_CLI::error(Weir_Client::detail($answer));
        }
        return $answer['body'] + array(
            'mode_here' => Weir_Settings::mode($answer['body']['mode']),
            'batch_size' => (int) apply_filters('action_scheduler_queue_runner_batch_size', 25),
            'batches' => (int) apply_filters('action_scheduler_queue_runner_concurrent_batches', 1),
        );
    }

    private function why_no_site() {
        $site = Weir_Settings::site();
        return $site === '' ? 'site: WEIR_SITE is not set in wp-config.php, so actions run as usual'
            : 'site: weir.conf has no section wordpress "' . $site . '", so actions run as usual';
    }

    private function show_site(array $state, array $now) {
        WP_CLI::line('site: ' . $state['name']);
        WP_CLI::line('level: ' . $state['level'] . ' (' . $state['reason'] . ')');
        WP_CLI::line('mode: ' . $state['mode'] . ($state['mode_here'] === $state['mode'] ? ''
            : ', in this WordPress ' . $state['mode_here'] . ' by WEIR_MODE'));
        WP_CLI::line('paused: ' . $this->pause_text($now));
        WP_CLI::line('batch size: ' . $state['batch_size']);
        WP_CLI::line('concurrent batches: ' . $state['batches']);
        WP_CLI::line('active deferrals: ' . $state['moved']);
        WP_CLI::line('due: ' . $state['due'] . ($state['capped'] ? '+' : ''));
        WP_CLI::line('running: ' . $state['running']);
        foreach ($state['tiers'] as $tier) {
            WP_CLI::line(sprintf('%s: %s, %d due, %d deferred, %d running', $tier['tier'],
                $this->delay_text($tier), $tier['due'], $tier['moved'], $tier['running']));
        }
        if ($state['error'] !== '') {
            WP_CLI::line('error: ' . $state['error']);
        }
    }

    /** weir's own jobs, which are no actions of a site. */
    private function show_jobs(array $now) {
        WP_CLI::line("weir's own jobs:");
        WP_CLI::line('level: ' . $now['level'] . ($now['target'] !== '' ? ' (' . $now['target'] . ')' : ''));
        WP_CLI::line('mode: ' . $now['mode'] . ($now['enabled'] ? '' : ' (switched off)'));
        WP_CLI::line('paused: ' . $this->pause_text($now));
        foreach ($now['tiers'] as $tier) {
            WP_CLI::line(sprintf('%s: %s, %d waiting', $tier['tier'], $this->delay_text($tier),
                $tier['parked']));
        }
    }

    private function pause_text(array $now) {
        if (!$now['paused']) {
            return 'no';
        }
        return $now['pause_left_ms'] > 0
            ? sprintf('yes, for %d s more', (int) ceil($now['pause_left_ms'] / 1000)) : 'yes, until resumed';
    }

    private function delay_text(array $tier) {
        return $tier['delay_ms'] ? 'waits ' . $tier['delay_ms'] / 1000 . ' s' : 'runs';
    }

    /**
     * Holds everything but critical work back, for an hour unless told otherwise.
     *
     * ## OPTIONS
     *
     * [--for=<time>]
     * : for example 90s, 30m, 2h or 1d
     *
     * [--until-resumed]
     * : the pause does not end by itself
     */
    public function pause($args, $options = array()) {
        $body = array('action' => 'pause');
        if (!empty($options['until-resumed'])) {
            $body['untilresumed'] = true;
        } elseif (isset($options['for'])) {
            if (!preg_match('/^(\d{1,7})([smhd])$/', (string) $options['for'], $found)) {
                WP_CLI::error("'" . $options['for'] . "' is not a time; use for example 90s, 30m, 2h or 1d");
            }
            $body['for'] = (int) $found[1] * self::UNITS_MS[$found[2]];
        }
        $this->call('POST', '/v1/throttle', $body);
        WP_CLI::success('Paused. Only critical work starts.');
    }

    /**
     * Ends a pause.
     */
    public function resume($args, $options = array()) {
        $this->call('POST', '/v1/throttle', array('action' => 'resume'));
        WP_CLI::success('Resumed.');
    }

    /**
     * Shows what the gate and its operators did, newest first.
     *
     * ## OPTIONS
     *
     * [--count=<count>]
     * : at most this many events, 50 unless told otherwise
     *
     * [--format=<format>]
     * : table, json, csv or yaml
     */
    public function history($args, $options = array()) {
        $count = isset($options['count']) ? (int) $options['count'] : 50;
        $answer = $this->call('GET', '/v1/throttle/history?count=' . $count);
        $rows = array();
        foreach ($answer['events'] as $event) {
            $rows[] = array('time' => gmdate('Y-m-d H:i:s', (int) ($event['at_ms'] / 1000)), 'event' => $event['event'],
                'message' => $event['message']);
        }
        $this->table($rows, array('time', 'event', 'message'), $options);
    }
}

/** Locks that all processes of this site share. */
class Weir_Mutex_Command extends Weir_Command {
    /**
     * Lists the locks.
     *
     * ## OPTIONS
     *
     * [--all]
     * : free ones too
     *
     * [--format=<format>]
     * : table, json, csv or yaml
     *
     * @subcommand list
     */
    public function list_($args, $options = array()) {
        $rows = array();
        foreach (Weir_Locks::all() as $lock) {
            if ($lock['is_held'] || !empty($options['all'])) {
                $rows[] = array('key' => $lock['key'], 'state' => $lock['is_held'] ? 'held' : 'free',
                    'seconds_left' => $lock['left'], 'fence' => $lock['fence']);
            }
        }
        $this->table($rows, array('key', 'state', 'seconds_left', 'fence'), $options);
    }

    /**
     * Takes a lock away from its holder.
     *
     * ## OPTIONS
     *
     * <key>
     * : the key of the lock
     *
     * [--reason=<text>]
     * : why, for the log of weir
     *
     * [--yes]
     * : do not ask
     */
    public function release($args, $options = array()) {
        $key = isset($args[0]) ? (string) $args[0] : '';
        if ($key === '' || strlen($key) > Weir_Locks::KEY_BYTES) {
            WP_CLI::error('missing argument: the key of a lock, 1 to 255 bytes');
        }
        WP_CLI::confirm("Take the lock '" . $key . "' away from its holder?", $options);
        $reason = isset($options['reason']) ? $options['reason'] : 'released with WP-CLI';
        if (!Weir_Locks::force_release($key, $reason)) {
            WP_CLI::error("the lock '" . $key . "' is free");
        }
        WP_CLI::success("The lock '" . $key . "' is free now.");
    }
}

/* --- set-up in wp-admin ----------------------------------------------------------------------- */

/**
 * Asks a weir step by step, and says what works and what does not: with the settings in force, or with
 * others before they are stored.  Nothing of it opens or closes the breaker.
 *
 * A line is array(kind, what, text); the kinds are ok, note (less is possible) and bad (to be mended).
 */
final class Weir_Trial {
    public static function run(array $settings = array()) {
        Weir_Client::disconnect(); // another address may have the same certificates to check anew
        $lines = Weir_Settings::with($settings, array(__CLASS__, 'lines'));
        Weir_Client::disconnect();
        return $lines;
    }

    public static function lines() {
        $answer = self::ask('/v1/session');
        $session = $answer && is_array($answer['body']) ? $answer['body'] : array();
        if (!$answer) {
            return array(array('bad', __('Address', 'weir'), Weir_Client::problem()));
        }
        if ($answer['status'] === 401) {
            return array(self::address(), array('bad', __('Access token', 'weir'), self::refused()));
        }
        if ($answer['status'] !== 200 || !isset($session['needs_login'], $session['roles'])) {
            return array(array('bad', __('Address', 'weir'), sprintf(
                /* translators: 1: an address, 2: what the server said */
                __('%1$s answers, but not as weir does: %2$s', 'weir'), Weir_Settings::url(),
                Weir_Client::detail($answer))));
        }
        if (!empty($session['needs_login']) && empty($session['is_logged_in'])) {
            return array(self::address(), array('bad', __('Access token', 'weir'), self::refused()));
        }
        return array_merge(array(self::address(), array('ok', __('Version', 'weir'), 'weir ' . $session['version'])),
            self::rights($session), self::site($session));
    }

    private static function ask($path) {
        return Weir_Client::request('GET', $path, null, array('is_apart' => true));
    }

    private static function address() {
        $where = Weir_Client::parse_url(Weir_Settings::url());
        $tls = $where['is_tls'] ? Weir_Settings::tls('') : null;
        if ($tls && $tls['verify_peer']) {
            $how = __('encrypted, and its certificate is good', 'weir');
        } elseif ($tls) {
            $how = __('encrypted, but its certificate is not looked at (WEIR_TLS_VERIFY)', 'weir');
        } elseif (Weir_Setup::is_local($where)) {
            $how = __('on this machine', 'weir');
        } else {
            $how = __('not encrypted: the network can read the access token; https:// is safer', 'weir');
        }
        $is_good = Weir_Setup::is_local($where) || ($tls && $tls['verify_peer']);
        /* translators: 1: an address, 2: how the connection is protected */
        return array($is_good ? 'ok' : 'note', __('Address', 'weir'), sprintf(
            __('weir answers at %1$s: %2$s', 'weir'), Weir_Settings::url(), $how));
    }

    private static function refused() {
        return Weir_Settings::token() === ''
            ? __('weir wants an access token and there is none; make one with: weir token add wordpress checker,locker,producer,reader', 'weir')
            : __('weir does not know this access token: it is mistyped, was removed, or its time is over', 'weir');
    }

    private static function rights(array $session) {
        $roles = $session['roles'];
        $without = array(
            'checker' => __('no action waits for the load', 'weir'),
            'locker' => __('locks use the database alone', 'weir'),
            'producer' => __('weir_enqueue() adds no jobs', 'weir'),
            'reader' => __('this page shows nothing', 'weir'),
            'operator' => __('this page changes neither the pause nor the tiers of hooks', 'weir'),
            'admin' => __('this page changes neither modes nor thresholds nor delays', 'weir'),
        );
        $name = !empty($session['name']) ? '"' . $session['name'] . '"' : __('none is needed', 'weir');
        /* translators: 1: name of an access token, 2: its roles */
        $lines = array(array('ok', __('Access token', 'weir'), sprintf(__('%1$s, with the roles %2$s', 'weir'),
            $name, implode(', ', $roles))));
        foreach (array_diff_key($without, array_flip($roles)) as $role => $what) {
            /* translators: 1: name of a role, 2: what does not work without it */
            $lines[] = array($role === 'checker' ? 'bad' : 'note', __('Role', 'weir'),
                sprintf(__('the token has not the role %1$s: %2$s', 'weir'), $role, $what));
        }
        return $lines;
    }

    private static function site(array $session) {
        $site = Weir_Settings::site();
        $is_reader = in_array('reader', $session['roles'], true);
        if ($site === '') {
            return array(array('bad', __('Site', 'weir'), __('no name is set, so actions run as usual', 'weir')
                . self::others($is_reader)));
        }
        $path = '/v1/sites/' . rawurlencode($site);
        $answer = self::ask($is_reader ? $path : $path . '/ask?hook=weir');
        if (!$answer || $answer['status'] !== 200) {
            $is_missing = $answer && $answer['status'] === 404;
            /* translators: %s: name of a site */
            return array(array('bad', __('Site', 'weir'), $is_missing
                ? sprintf(__('weir.conf has no section wordpress "%s"', 'weir'), $site) . self::others($is_reader)
                : ($answer ? Weir_Client::detail($answer) : Weir_Client::problem())));
        }
        return self::state($site, $answer['body']);
    }

    /** Which names there are. */
    private static function others($is_reader) {
        $answer = $is_reader ? self::ask('/v1/sites') : null;
        if (!$answer || $answer['status'] !== 200) {
            return '';
        }
        $names = array_column($answer['body']['sites'], 'name');
        /* translators: %s: names of sites */
        return $names ? sprintf(__('; weir knows: %s', 'weir'), implode(', ', $names))
            : __('; weir.conf has no section wordpress at all', 'weir');
    }

    private static function state($site, array $state) {
        $mode = Weir_Settings::mode($state['mode']);
        /* translators: 1: name of a site, 2: mode, 3: level, 4: why */
        $text = sprintf(__('%1$s: mode %2$s, level %3$s (%4$s)', 'weir'), $site, $state['mode'], $state['level'],
            $state['reason']);
        /* translators: %s: mode */
        $text .= $mode === $state['mode'] ? '' : sprintf(__('; in this WordPress %s, by WEIR_MODE', 'weir'), $mode);
        $lines = array(array('ok', __('Site', 'weir'), $text));
        if (!empty($state['error'])) {
            $lines[] = array('bad', __('Database', 'weir'), $state['error']);
        } elseif (isset($state['server']) && !empty($state['surveyed_ms'])) {
            /* translators: %s: name and version of a database server */
            $lines[] = array('ok', __('Database', 'weir'), sprintf(__('weir reads %s', 'weir'), $state['server']));
        }
        return $lines;
    }
}

/** What Tools > weir stores of the connection, and what weir.conf and the database need for this site. */
final class Weir_Setup {
    const URL_BYTES = 512;
    const SITE_BYTES = 64;

    /** Whether weir is asked on this machine. */
    public static function is_local(array $where) {
        return $where['name'] === '' || self::is_this_machine($where['name']);
    }

    private static function is_this_machine($host) {
        return in_array($host, array('', 'localhost', '::1', '[::1]'), true) || strncmp($host, '127.', 4) === 0;
    }

    /** What is typed for the settings that wp-config.php leaves open; '' for the token keeps the stored one. */
    public static function typed(array $posted, $is_token_removed) {
        $typed = array();
        foreach (array('url', 'token', 'site') as $name) {
            if (!Weir_Settings::is_fixed($name)) {
                $typed[$name] = trim($posted[$name]);
            }
        }
        if (isset($typed['token']) && $typed['token'] === '' && !$is_token_removed) {
            unset($typed['token']);
        }
        return $typed;
    }

    /** '' or what is wrong, and what is allowed. */
    public static function problem(array $typed) {
        if (isset($typed['url']) && !self::is_url($typed['url'])) {
            /* translators: 1: what was typed, 2: forms of an address */
            return sprintf(__('\'%1$s\' is no address of weir; it must be %2$s', 'weir'), $typed['url'],
                Weir_Client::FORMS);
        }
        if (isset($typed['site']) && !self::is_site($typed['site'])) {
            /* translators: 1: what was typed, 2: number of bytes */
            return sprintf(__('\'%1$s\' is no name of a site; it has at most %2$d bytes without / and control characters',
                'weir'), $typed['site'], self::SITE_BYTES);
        }
        if (isset($typed['token']) && $typed['token'] !== '' && !preg_match('/^[\x21-\x7e]{16,512}$/D', $typed['token'])) {
            return __('an access token has 16 to 512 letters, digits and signs, without spaces', 'weir');
        }
        $stored = Weir_Settings::stored();
        $is_kept = !empty($stored['token']) && isset($typed['url']) && !isset($typed['token']);
        if ($is_kept && self::is_moved($typed['url'])) {
            return __('type the access token again: the stored one is sent to no other address than its own', 'weir');
        }
        return '';
    }

    private static function is_moved($url) {
        $stored = Weir_Settings::stored();
        $was = !empty($stored['url']) ? $stored['url'] : Weir_Settings::USUAL_URL;
        return ($url !== '' ? $url : Weir_Settings::USUAL_URL) !== $was;
    }

    private static function is_url($url) {
        return $url === '' || (strlen($url) <= self::URL_BYTES && !preg_match('/[^\x21-\x7e]|@/', $url)
            && Weir_Client::parse_url($url) !== null);
    }

    private static function is_site($site) {
        return strlen($site) <= self::SITE_BYTES && preg_match('~^[^/\x00-\x1f\x7f]*$~Du', $site);
    }

    /* What else there is to do. */

    /** The sections of weir.conf for this site, without a password. */
    public static function sections() {
        global $wpdb;
        $site = self::quoted(Weir_Settings::site() !== '' ? Weir_Settings::site() : 'shop');
        $login = array_merge(self::place(), array('user = "weir"',
            'password_file = "/etc/weir/wordpress.password"'));
        // Without thresholds they follow the processors of the database server.
        $target = array_merge(array('kind = "mysql"'), $login, array('metric "threads_running" {}'));
        $guard = array_merge($login, array('database = ' . self::quoted(self::database()),
            'prefix = ' . self::quoted($wpdb->prefix), 'target = ' . $site, 'mode = "observe"'));
        return self::block('target ' . $site, $target) . self::block('wordpress ' . $site, $guard);
    }

    /**
     * How many actions are due, as a metric of the site's target.  It stops counting: a backlog of a
     * million must not cost the database a count each second.
     */
    public static function metric() {
        $sql = "SELECT COUNT(*) FROM (SELECT 1 FROM " . self::table('actionscheduler_actions')
            . " WHERE status = 'pending' AND scheduled_date_gmt <= UTC_TIMESTAMP() LIMIT 10000) AS due";
        return self::block('metric "actions_due"', array('source = ' . self::quoted('sql:' . $sql),
            'elevated = {1000, 500}', 'critical = {5000, 2500}'));
    }

    private static function block($head, array $lines) {
        return $head . " {\n        " . implode("\n        ", $lines) . "\n}\n";
    }

    private static function quoted($text) {
        return '"' . str_replace(array('\\', '"', '${'), array('\\\\', '\\"', '\\${'), $text) . '"';
    }

    private static function database() {
        return defined('DB_NAME') ? DB_NAME : '';
    }

    private static function table($name) {
        global $wpdb;
        return '`' . str_replace('`', '``', self::database()) . '`.`' . str_replace('`', '``', $wpdb->prefix . $name) . '`';
    }

    private static function is_weir_local() {
        $where = Weir_Client::parse_url(Weir_Settings::url());
        return !$where || self::is_local($where);
    }

    /** host, port and socket of DB_HOST. */
    private static function db_host() {
        global $wpdb;
        $of = defined('DB_HOST') ? DB_HOST : '';
        $parts = $wpdb->parse_db_host($of);
        return $parts ? $parts : array($of, null, null, false);
    }

    /** The database as weir reaches it, in lines of weir.conf. */
    private static function place() {
        list($host, $port, $socket) = self::db_host();
        if ($socket && self::is_weir_local()) {
            return array('socket = ' . self::quoted($socket));
        }
        if (self::is_this_machine((string) $host)) {
            $host = self::is_weir_local() ? '127.0.0.1' : 'ADDRESS-OF-THIS-DATABASE';
        }
        $lines = array('host = ' . self::quoted($host));
        return $port ? array_merge($lines, array('port = ' . (int) $port)) : $lines;
    }

    /** Where the database sees weir. */
    private static function account() {
        list($host, , $socket) = self::db_host();
        $where = Weir_Client::parse_url(Weir_Settings::url());
        $of_weir = $where ? trim($where['name'], '[]') : '';
        if (self::is_weir_local()) {
            $from = $socket ? 'localhost' : (self::is_this_machine((string) $host) ? '127.0.0.1' : '%');
        } else {
            $from = filter_var($of_weir, FILTER_VALIDATE_IP) ? $of_weir : 'ADDRESS-OF-WEIR';
        }
        return "'weir'@'" . $from . "'";
    }

    /** Statements for an administrator of the database, by what they are for. */
    public static function grants() {
        global $wpdb;
        $to = ' TO ' . self::account() . ';';
        list($actions, $claims, $groups, $logs, $options) = array_map(array(__CLASS__, 'table'), array(
            'actionscheduler_actions', 'actionscheduler_claims', 'actionscheduler_groups', 'actionscheduler_logs',
            'options'));
        $was = $wpdb->suppress_errors(true); // a site without Action Scheduler has no such table yet
        $priority = $wpdb->get_var("SHOW COLUMNS FROM $actions LIKE 'priority'") ? ', priority' : '';
        $wpdb->suppress_errors($was);
        $lines = array('CREATE USER ' . self::account() . " IDENTIFIED BY 'A-PASSWORD';",
            '-- observe: weir reads');
        foreach (array($actions, $claims, $groups, $logs, $options) as $table) {
            $lines[] = 'GRANT SELECT ON ' . $table . $to;
        }
        return implode("\n", array_merge($lines, array('-- enforce: it moves actions and logs that',
            'GRANT UPDATE (scheduled_date_gmt, scheduled_date_local, claim_id, status' . $priority . ') ON '
                . $actions . $to,
            'GRANT INSERT ON ' . $logs . $to,
            '-- repairs that delete, and locks',
            'GRANT DELETE ON ' . $actions . $to, 'GRANT DELETE ON ' . $claims . $to,
            'GRANT DELETE ON ' . $logs . $to, 'GRANT INSERT, UPDATE ON ' . $options . $to))) . "\n";
    }
}

/* --- Tools > weir --------------------------------------------------------------------------- */

/**
 * The admin page.  Every change is a POST to admin-post.php with a nonce of its own kind, by a user
 * with the capability; weir checks the value and says what is wrong with it.  What it said is shown
 * after the redirect, so that a reload repeats nothing.
 */
final class Weir_Admin {
    const TIERS = array('critical', 'high', 'normal', 'deferrable');
    const LEVELS = array('elevated', 'critical', 'unknown');
    const COLORS = array('normal' => '#00a32a', 'elevated' => '#dba617', 'critical' => '#d63638',
        'unknown' => '#8c8f94');
    const SHOWN = 20;
    const LOCKS = 100;
    const REPORT_MS = 15000;

    private static $said = array(); // what the page shows after the redirect, beside the result

    public static function register() {
        add_action('admin_menu', static function () {
            add_management_page('weir', 'weir', Weir_Settings::capability(), 'weir',
                array(__CLASS__, 'page'));
        });
        add_action('admin_post_weir', array(__CLASS__, 'save'));
    }

    /* Changes. */

    public static function save() {
        $do = sanitize_key(self::posted('weir_do'));
        $is_setup = $do === 'setup';
        if (!current_user_can(Weir_Settings::capability())
            || ($is_setup && !current_user_can(Weir_Settings::setup_capability()))) {
            wp_die(esc_html__('You may not change weir.', 'weir'), '', array('response' => 403));
        }
        check_admin_referer('weir_' . $do);
        $changes = array('setup' => 'save_setup', 'mode' => 'save_mode', 'pause' => 'save_pause', 'delays' => 'save_delays',
            'threshold' => 'save_threshold', 'tier' => 'save_tier', 'untier' => 'save_untier',
            'mutex' => 'save_mutex', 'unlock' => 'save_unlock');
        $problem = isset($changes[$do]) ? call_user_func(array(__CLASS__, $changes[$do]))
            : __('There is no such change.', 'weir');
        set_transient('weir_said_' . get_current_user_id(), self::$said + ($problem === ''
            ? array('kind' => 'success', 'text' => __('Saved.', 'weir'))
            : array('kind' => 'error', 'text' => $problem)), 60);
        wp_safe_redirect(admin_url('tools.php?page=weir'));
        exit;
    }

    private static function get($path) {
        return Weir_Client::body('GET', $path, null, array('is_patient' => true));
    }

    private static function posted($name) {
        // phpcs:ignore WordPress.Security.NonceVerification -- save() has checked it
        return isset($_POST[$name]) && is_string($_POST[$name]) ? wp_unslash($_POST[$name]) : '';
    }

    /** '' or what was wrong. */
    private static function change($method, $path, $body = null) {
        $answer = Weir_Client::request($method, $path, $body, array('is_patient' => true));
        if (!$answer) {
            return Weir_Client::problem();
        }
        return $answer['status'] < 300 ? '' : Weir_Client::detail($answer);
    }

    private static function set($name, $value) {
        return self::change('POST', '/v1/settings/' . rawurlencode($name), array('value' => $value));
    }

    /** Tests what is typed; stores it, unless only the test was asked for. */
    private static function save_setup() {
        $posted = array('url' => self::posted('url'), 'token' => self::posted('token'), 'site' => self::posted('site'));
        $typed = Weir_Setup::typed($posted, self::posted('untoken') !== '');
        self::$said = array('typed' => array_diff_key($typed, array('token' => '')));
        $problem = Weir_Setup::problem($typed);
        if ($problem !== '') {
            return $problem . '. ' . __('Nothing was changed.', 'weir');
        }
        self::$said['lines'] = Weir_Trial::run($typed);
        if (self::posted('only') === 'test') {
            self::$said += array('kind' => 'info', 'text' => __('Tested. Nothing was changed.', 'weir'));
            return '';
        }
        Weir_Settings::store($typed);
        unset(self::$said['typed']);
        return '';
    }

    private static function save_mode() {
        return self::set(self::posted('of') === 'site' ? self::site_mode() : 'throttle.mode',
            self::posted('mode'));
    }

    /** Name of the setting. */
    private static function site_mode() {
        return 'site.' . Weir_Settings::site() . '.mode';
    }

    private static function save_pause() {
        $minutes = (int) self::posted('minutes');
        return self::change('POST', '/v1/throttle', $minutes > 0
            ? array('action' => 'pause', 'for' => $minutes * 60000) : array('action' => 'resume'));
    }

    private static function save_delays() {
        $settings = self::settings();
        $wanted = array();
        foreach ($settings as $name => $setting) {
            $value = trim(self::posted(str_replace('.', '_', $name))); // as PHP names what is posted
            if (strncmp($name, 'throttle.delay.', 15) === 0 && $value !== '' && $value !== $setting['value']) {
                $wanted[$name] = $value;
            }
        }
        return self::set_all($wanted, $settings);
    }

    /** Both levels of a metric.  Each must fit to the other one, so the order may matter. */
    private static function save_threshold() {
        $settings = self::settings();
        $wanted = array();
        foreach (array('elevated', 'critical') as $level) {
            $name = self::posted('metric') . '.' . $level;
            $value = trim(self::posted($level . '_enter')) . ',' . trim(self::posted($level . '_exit'));
            if (isset($settings[$name]) && $settings[$name]['value'] !== $value) {
                $wanted[$name] = $value;
            }
        }
        return self::set_all($wanted, $settings) === '' ? ''
            : self::set_all(array_reverse($wanted), $settings);
    }

    /** In this order, all of them or none. */
    private static function set_all(array $wanted, array $settings) {
        $done = array();
        foreach ($wanted as $name => $value) {
            $problem = self::set($name, $value);
            if ($problem !== '') {
                foreach ($done as $was) {
                    $settings[$was]['is_changed'] ? self::set($was, $settings[$was]['value'])
                        : self::change('DELETE', '/v1/settings/' . rawurlencode($was));
                }
                return $name . ': ' . $problem;
            }
            array_unshift($done, $name); // taken back from the last to the first
        }
        return '';
    }

    private static function save_tier() {
        return self::change('POST', '/v1/registry/' . rawurlencode(trim(self::posted('pattern'))),
            array('tier' => self::posted('tier')));
    }

    private static function save_mutex() {
        $value = self::posted('mutex');
        if (Weir_Settings::is_fixed('mutex') || !in_array($value, array('on', 'off'), true)) {
            return __('WEIR_MUTEX is on or off, and what wp-config.php sets stays.', 'weir');
        }
        Weir_Settings::store(array('mutex' => $value));
        return '';
    }

    /** The lock is named by a digest, because a form may change the ends of lines in a key. */
    private static function save_unlock() {
        $reason = trim(self::posted('reason'));
        if ($reason === '' || self::posted('sure') === '') {
            return __('A lock is taken away with a reason and a tick at "Its holder is gone". Nothing was changed.', 'weir');
        }
        foreach (Weir_Locks::all() as $lock) {
            if ($lock['is_held'] && hash_equals(md5($lock['key']), self::posted('lock'))) {
                Weir_Locks::force_release($lock['key'], $reason . ' (' . wp_get_current_user()->user_login . ')');
                return '';
            }
        }
        return __('This lock is free already.', 'weir');
    }

    private static function save_untier() {
        return self::change('DELETE', '/v1/registry/' . rawurlencode(self::posted('pattern')));
    }

    /** name => setting */
    private static function settings() {
        $answer = self::get('/v1/settings');
        return $answer ? array_column($answer['settings'], null, 'name') : array();
    }

    /* The page. */

    public static function page() {
        echo '<style>.weir td{vertical-align:middle}.weir h2{margin-top:2em}'
            . '.weir td .description{line-height:30px}'
            . '#weir-report{scroll-margin-top:110px}.weir summary h2{display:inline-block;cursor:pointer}.weir details{margin-top:1em}'
            . '.weir-text{background:#fff;border:1px solid #c3c4c7;padding:8px 12px;max-width:70em;overflow-x:auto}</style>'
            . '<div class="wrap weir"><h1>weir</h1>';
        $said = self::show_said();
        $site = Weir_Settings::site();
        $answer = Weir_Client::request('GET', '/v1/throttle', null, array('is_patient' => true));
        $now = $answer && $answer['status'] === 200 ? $answer['body'] : null;
        $state = $now && $site !== '' ? self::get('/v1/sites/' . rawurlencode($site)) : null;
        $is_setup = isset($said['lines']) || isset($said['typed']) || !$state;
        if (defined('WEIR_SPARE_FILE')) {
            /* translators: 1: name of a file, 2: name of another */
            self::notice('info', sprintf(__('There are two copies of weir. %1$s is used, %2$s is not.', 'weir'),
                WEIR_FILE, WEIR_SPARE_FILE));
        }
        if (!$now) {
            // A token without the role reader may well do for the runners.
            self::notice('warning', $answer && $answer['status'] === 403 ? Weir_Client::detail($answer)
                : Weir_Client::problem() . '. '
                . __('Actions run as usual, and locks work with the database alone.', 'weir'));
            self::show_setup($said, true);
            echo '</div>';
            return;
        }
        if (!$state) {
            /* translators: %s: name of the site */
            self::notice('info', $site === '' ? __('This site has no name yet (WEIR_SITE): actions run as usual.', 'weir')
                : sprintf(__('weir.conf has no section wordpress "%s": actions run as usual.', 'weir'), $site));
        }
        $settings = self::settings();
        self::show_now($now, $state, $settings);
        if ($is_setup) {
            self::show_setup($said, true);
        }
        self::show_thresholds($now, $settings);
        self::show_metric($now, $state, $settings);
        self::show_delays($settings);
        self::show_registry();
        self::show_last($state);
        self::show_locks();
        if ($state) {
            self::show_repairs($state);
            self::show_report($site);
        }
        if (!$is_setup) {
            self::show_setup($said, false);
        }
        echo '</div>';
    }

    /** What the last change left for this page. */
    private static function show_said() {
        $key = 'weir_said_' . get_current_user_id();
        $said = get_transient($key);
        if (!is_array($said) || !isset($said['kind'], $said['text'])) {
            return array();
        }
        delete_transient($key);
        self::notice($said['kind'], $said['text']);
        return $said;
    }

    /** The form of the connection, what the last test found, and what is to be done outside of it. */
    private static function show_setup(array $said, $is_open) {
        printf('<details class="weir-setup"%s><summary><h2>%s</h2></summary>', $is_open ? ' open' : '',
            esc_html__('Connection', 'weir'));
        if (isset($said['lines'])) {
            self::show_lines($said['lines']);
        }
        if (current_user_can(Weir_Settings::setup_capability())) {
            self::show_setup_form(isset($said['typed']) ? $said['typed'] : array());
        } else {
            echo '<p>' . esc_html__('The administrator of the network sets the connection up.', 'weir') . '</p>';
        }
        self::show_needs();
        echo '</details>';
    }

    private static function show_lines(array $lines) {
        $words = array('ok' => __('works', 'weir'), 'note' => __('limited', 'weir'), 'bad' => __('does not work', 'weir'));
        $colors = array('ok' => 'normal', 'note' => 'elevated', 'bad' => 'critical');
        self::table_head(array(__('Test', 'weir'), __('Result', 'weir'), ''), 'weir-test');
        foreach ($lines as $line) {
            list($kind, $name, $text) = $line;
            printf('<tr class="weir-%s"><td>%s</td><td>%s</td><td>%s</td></tr>', esc_attr($kind), esc_html($name),
                self::badge($colors[$kind], $words[$kind]), esc_html($text)); // phpcs:ignore -- it escapes
        }
        echo '</tbody></table>';
    }

    private static function show_setup_form(array $typed) {
        $set = __('set in wp-config.php', 'weir');
        self::form('setup');
        echo '<table class="form-table" role="presentation">';
        foreach (array('url' => __('Address of weir', 'weir'), 'site' => __('Name of this site', 'weir')) as $name => $label) {
            $value = $name === 'url' ? Weir_Settings::url() : Weir_Settings::site();
            echo '<tr><th scope="row">' . esc_html($label) . '</th><td>';
            if (Weir_Settings::is_fixed($name)) {
                echo '<code>' . esc_html($value) . '</code> ' . esc_html($set);
            } else {
                self::input($name, isset($typed[$name]) ? $typed[$name] : $value, $label, '', 'regular-text');
                echo '<p class="description">' . esc_html($name === 'url' ? Weir_Client::FORMS
                    : __('the section wordpress "..." of weir.conf; empty: actions run as usual', 'weir')) . '</p>';
            }
            echo '</td></tr>';
        }
        echo '<tr><th scope="row">' . esc_html__('Access token', 'weir') . '</th><td>';
        if (Weir_Settings::is_fixed('token')) {
            echo esc_html($set);
        } else {
            self::show_token();
        }
        echo '</td></tr></table><p><button class="button button-primary">' . esc_html__('Save and test', 'weir')
            . '</button> <button class="button" name="only" value="test">' . esc_html__('Test connection', 'weir')
            . '</button></p></form>';
    }

    /** The stored token is in no page. */
    private static function show_token() {
        $stored = Weir_Settings::stored();
        printf('<input type="password" class="regular-text" name="token" autocomplete="new-password" aria-label="%s">',
            esc_attr__('Access token', 'weir'));
        if (empty($stored['token'])) {
            echo '<p class="description">' . esc_html__('none is stored', 'weir') . '</p>';
            return;
        }
        echo '<p class="description">' . esc_html__('one is stored, and never shown; empty: it stays', 'weir')
            . '</p><label><input type="checkbox" name="untoken" value="1"> '
            . esc_html__('Remove the stored token', 'weir') . '</label>';
    }

    private static function show_needs() {
        echo '<h3>weir.conf</h3><p class="description">' . esc_html__(
            'What weir needs for this site, with the password of its database user in a file of its own. Then: weir wordpress check -c weir.conf', 'weir')
            . '</p>';
        self::show_text(Weir_Setup::sections(), 'weir-conf');
        echo '<h3>' . esc_html__('Database user', 'weir') . '</h3><p class="description">' . esc_html__(
            'For a weir on this machine the database user of this site suffices (DB_USER of wp-config.php in both sections). For a user of its own:', 'weir')
            . '</p>';
        self::show_text(Weir_Setup::grants(), 'weir-grants');
    }

    private static function show_text($text, $id) {
        printf('<pre id="%s" class="weir-text">%s</pre>', esc_attr($id), esc_html($text));
    }

    private static function notice($kind, $text) {
        printf('<div class="notice notice-%s"><p>%s</p></div>', esc_attr($kind), esc_html($text));
    }

    private static function title($text, $more = '') {
        printf('<h2>%s</h2>%s', esc_html($text),
            $more === '' ? '' : '<p class="description">' . esc_html($more) . '</p>');
    }

    /** The beginning of a form that asks for one kind of change. */
    private static function form($do, $id = '') {
        printf('<form method="post" action="%s" id="%s" style="display:inline">'
            . '<input type="hidden" name="action" value="weir"><input type="hidden" name="weir_do" value="%s">',
            esc_url(admin_url('admin-post.php')), esc_attr($id), esc_attr($do));
        wp_nonce_field('weir_' . $do, '_wpnonce', false);
    }

    private static function select($name, array $choices, $value, $label, $form = '') {
        printf('<select name="%s" aria-label="%s"%s>', esc_attr($name), esc_attr($label),
            $form === '' ? '' : ' form="' . esc_attr($form) . '"');
        foreach ($choices as $choice) {
            printf('<option%s>%s</option>', selected($choice, $value, false), esc_html($choice));
        }
        echo '</select> ';
    }

    private static function input($name, $value, $label, $form = '', $class = 'small-text') {
        printf('<input type="text" class="%s" name="%s" value="%s" aria-label="%s"%s> ', esc_attr($class),
            esc_attr($name), esc_attr($value), esc_attr($label),
            $form === '' ? '' : ' form="' . esc_attr($form) . '"');
    }

    private static function button($text, $form = '') {
        printf('<button class="button"%s>%s</button> ',
            $form === '' ? '' : ' form="' . esc_attr($form) . '"', esc_html($text));
    }

    private static function table_head(array $names, $id = '') {
        printf('<table class="widefat striped" style="max-width:70em"%s><thead><tr>',
            $id === '' ? '' : ' id="' . esc_attr($id) . '"');
        foreach ($names as $name) {
            echo '<th scope="col">' . esc_html($name) . '</th>';
        }
        echo '</tr></thead><tbody>';
    }

    private static function badge($level, $text = '') {
        return sprintf(
            '<strong style="color:#fff;background:%s;border-radius:3px;padding:3px 8px;white-space:nowrap">%s</strong>',
            isset(self::COLORS[$level]) ? self::COLORS[$level] : self::COLORS['unknown'],
            esc_html($text === '' ? $level : $text));
    }

    private static function show_now(array $now, $state, array $settings) {
        echo '<table class="form-table" role="presentation"><tr><th>' . esc_html__('Level', 'weir') . '</th><td>';
        echo self::badge($state ? $state['level'] : $now['level']) . ' '; // phpcs:ignore -- it escapes
        echo esc_html($state ? $state['reason'] : $now['target']);
        echo '</td></tr>';
        if (isset($settings[self::site_mode()])) {
            $mode = $settings[self::site_mode()]['value'];
            $weaker = Weir_Settings::mode($mode);
            /* translators: %s: a mode such as observe */
            self::show_mode(__('Mode of this site', 'weir'), 'site', $mode, $weaker === $mode ? ''
                : sprintf(__('In this WordPress it is %s, by WEIR_MODE.', 'weir'), $weaker));
        }
        self::show_mode(__("Mode of weir's own jobs", 'weir'), 'jobs', $now['mode'], '');
        self::show_mutex();
        echo '<tr><th>' . esc_html__('Pause', 'weir') . '</th><td>';
        self::form('pause');
        if ($now['paused']) {
            echo esc_html__('Paused: only critical work starts.', 'weir') . ' ';
            self::button(__('Resume', 'weir'));
        } else {
            self::input('minutes', '60', __('Minutes', 'weir'));
            echo esc_html__('minutes', 'weir') . ' ';
            self::button(__('Pause', 'weir'));
        }
        echo '</form></td></tr>';
        if ($state) {
            /* translators: 1: due actions, 2: moved actions, 3: running actions */
            echo '<tr><th>' . esc_html__('Actions', 'weir') . '</th><td>' . esc_html(sprintf(
                __('%1$d due, %2$d moved, %3$d running', 'weir'), $state['due'], $state['moved'],
                $state['running'])) . ' ' . esc_html($state['error']) . '</td></tr>';
        }
        echo '</table>';
    }

    private static function show_mode($title, $of, $mode, $note) {
        echo '<tr><th>' . esc_html($title) . '</th><td>';
        self::form('mode');
        printf('<input type="hidden" name="of" value="%s">', esc_attr($of));
        self::select('mode', Weir_Settings::MODES, $mode, $title);
        self::button(__('Change', 'weir'));
        echo '</form> <span class="description">' . esc_html($note) . '</span></td></tr>';
    }

    private static function show_mutex() {
        $value = Weir_Settings::has_mutex() ? 'on' : 'off';
        echo '<tr><th>' . esc_html__('Mutex', 'weir') . '</th><td>';
        if (Weir_Settings::is_fixed('mutex')) {
            echo esc_html($value . ', ' . __('set in wp-config.php', 'weir'));
        } else {
            self::form('mutex');
            self::select('mutex', array('on', 'off'), $value, __('Mutex', 'weir'));
            self::button(__('Change', 'weir'));
            echo '</form>';
        }
        echo ' <span class="description">' . esc_html($value === 'on'
            ? __('A lock is asked for at weir first, which shows its holder.', 'weir')
            : __('Locks use the database alone. They exclude as before.', 'weir')) . '</span></td></tr>';
    }

    private static function show_thresholds(array $now, array $settings) {
        self::title(__('Thresholds', 'weir'), __('A level begins at its enter value and ends below its exit value.', 'weir'));
        self::table_head(array(__('Target', 'weir'), __('Metric', 'weir'), __('Now', 'weir'),
            __('Elevated: enter, exit', 'weir'), __('Critical: enter, exit', 'weir'), ''));
        $n = 0;
        foreach ($now['targets'] as $target) {
            foreach ($target['metrics'] as $metric) {
                $base = 'target.' . $target['name'] . '.' . $metric['name'];
                if (isset($settings[$base . '.elevated'], $settings[$base . '.critical'])) {
                    self::show_threshold($target['name'], $metric, $base, $settings, 'weir-threshold-' . $n++);
                }
            }
        }
        echo $n ? '' : '<tr><td colspan="6">' . esc_html__('weir.conf has no target.', 'weir') . '</td></tr>';
        echo '</tbody></table>';
    }

    private static function show_threshold($target, array $metric, $base, array $settings, $form) {
        printf('<tr><td>%s</td><td>%s</td><td>%s</td>', esc_html($target), esc_html($metric['name']),
            esc_html($metric['value'] === null ? '-' : $metric['value']));
        foreach (array('elevated', 'critical') as $level) {
            $pair = explode(',', $settings[$base . '.' . $level]['value'] . ',');
            echo '<td>';
            self::input($level . '_enter', $pair[0], $metric['name'] . ' ' . $level . ' enter', $form);
            self::input($level . '_exit', $pair[1], $metric['name'] . ' ' . $level . ' exit', $form);
            echo '</td>';
        }
        echo '<td>';
        self::form('threshold', $form);
        printf('<input type="hidden" name="metric" value="%s">', esc_attr($base));
        self::button(__('Save', 'weir'));
        echo '</form></td></tr>';
    }

    /** What weir.conf lacks to measure the queue of this site. */
    private static function show_metric(array $now, $state, array $settings) {
        $target = $state ? $state['target'] : '';
        if ($target === '' || isset($settings['target.' . $target . '.actions_due.elevated'])) {
            return;
        }
        foreach ($now['targets'] as $row) {
            if ($row['name'] === $target && in_array('actions_due', array_column($row['metrics'], 'name'), true)) {
                return; // it has no thresholds
            }
        }
        echo '<details><summary>' . esc_html__('Thresholds for the length of the queue', 'weir') . '</summary><p class="description">'
            /* translators: %s: name of a target */
            . esc_html(sprintf(__('To let the number of due actions raise the level, put this into target "%s" of weir.conf, if it is of kind mysql. Moved actions are not due, so the level falls again while they wait.', 'weir'), $target)) . '</p>';
        self::show_text(Weir_Setup::metric(), 'weir-metric');
        echo '</details>';
    }

    private static function show_delays(array $settings) {
        self::title(__('Delays', 'weir'), __('How long work waits before weir decides again: 0s runs. For example 90s, 5m or 1h.', 'weir'));
        self::form('delays');
        self::table_head(array_merge(array(__('Level', 'weir')), self::TIERS));
        foreach (self::LEVELS as $level) {
            echo '<tr><td>' . esc_html($level) . '</td><td>' . esc_html__('runs', 'weir') . '</td>';
            foreach (array_slice(self::TIERS, 1) as $tier) {
                $name = 'throttle.delay.' . $level . '.' . $tier;
                echo '<td>';
                if (isset($settings[$name])) {
                    self::input($name, $settings[$name]['value'], $level . ' ' . $tier);
                }
                echo '</td>';
            }
            echo '</tr>';
        }
        echo '</tbody></table><p>';
        self::button(__('Save delays', 'weir'));
        echo '</p></form>';
    }

    private static function show_registry() {
        self::title(__('Hooks and tiers', 'weir'), __('In a pattern * is any text and ? one byte. The most specific pattern decides; a hook without one is normal.', 'weir'));
        self::table_head(array(__('Pattern', 'weir'), __('Tier', 'weir'), ''));
        $answer = self::get('/v1/registry');
        foreach ($answer ? $answer['patterns'] : array() as $n => $row) {
            $form = 'weir-tier-' . $n;
            echo '<tr><td><code>' . esc_html($row['pattern']) . '</code></td><td>';
            self::select('tier', self::TIERS, $row['tier'], $row['pattern'], $form);
            echo '</td><td>';
            self::pattern_button('tier', $row['pattern'], __('Save', 'weir'), $form);
            if ($row['default']) {
                echo '<span class="description">' . esc_html__('default', 'weir') . '</span>';
            } else {
                self::pattern_button('untier', $row['pattern'], __('Remove', 'weir'), '');
            }
            echo '</td></tr>';
        }
        echo '<tr><td>';
        self::input('pattern', '', __('New pattern', 'weir'), 'weir-tier-new', 'regular-text');
        echo '</td><td>';
        self::select('tier', self::TIERS, 'normal', __('Tier of the new pattern', 'weir'), 'weir-tier-new');
        echo '</td><td>';
        self::form('tier', 'weir-tier-new');
        self::button(__('Add', 'weir'));
        echo '</form></td></tr></tbody></table>';
    }

    private static function pattern_button($do, $pattern, $text, $form) {
        self::form($do, $form);
        printf('<input type="hidden" name="pattern" value="%s">', esc_attr($pattern));
        self::button($text);
        echo '</form> ';
    }

    private static function show_last($state) {
        self::title(__('Last 20 throttled actions', 'weir'));
        self::table_head(array(__('Time', 'weir'), __('Id', 'weir'), __('Action', 'weir'), __('Tier', 'weir'), __('What', 'weir')));
        $answer = self::get('/v1/throttled?count=' . self::SHOWN);
        $rows = array();
        foreach ($answer ? $answer['actions'] : array() as $row) {
            // A job is id:hook:queue, a check has the name of its client.
            $row['hook'] = preg_replace('~^\d+:(.*):[^:]*$~s', '$1', $row['identity']);
            /* translators: %d: id of a job of weir's own queue */
            $row['id'] = $row['job'] ? sprintf(__('job %d', 'weir'), $row['job']) : '-';
            $rows[] = $row;
        }
        foreach ($state ? $state['last'] : array() as $move) {
            /* translators: 1: level, 2: date and time */
            $rows[] = $move + array('text' => sprintf(
                __('%1$s load: moved to %2$s', 'weir'), $move['level'], self::date($move['to_ms'])));
        }
        usort($rows, static function ($a, $b) {
            return $b['at_ms'] <=> $a['at_ms'];
        });
        foreach (array_slice($rows, 0, self::SHOWN) as $row) {
            printf('<tr><td>%s</td><td>%s</td><td><code>%s</code></td><td>%s</td><td>%s</td></tr>',
                esc_html(self::date($row['at_ms'])), self::action_link($row), esc_html($row['hook']), // phpcs:ignore -- it escapes
                esc_html($row['tier']), esc_html($row['text']));
        }
        echo $rows ? '' : '<tr><td colspan="5">' . esc_html__('Nothing was throttled.', 'weir') . '</td></tr>';
        echo '</tbody></table>';
    }

    /** Action Scheduler's list finds hooks and arguments, and no ids. */
    private static function action_link(array $row) {
        return isset($row['to_ms']) ? self::list_link($row['hook'], (string) $row['id']) : esc_html($row['id']);
    }

    private static function list_link($hook, $text) {
        return sprintf('<a href="%s">%s</a>', esc_url(admin_url('tools.php?page=action-scheduler&s=' . rawurlencode($hook))),
            esc_html($text));
    }

    private static function show_locks() {
        self::title(__('Locks', 'weir'), __('Held locks of PHP code on this site. Each ends by itself.', 'weir'));
        self::table_head(array(__('Lock', 'weir'), __('Ends in', 'weir'), __('Fence', 'weir'), ''));
        $locks = array_slice(array_filter(Weir_Locks::all(), static function ($lock) {
            return $lock['is_held'];
        }), 0, self::LOCKS);
        foreach ($locks as $lock) {
            printf('<tr><td><code>%s</code></td><td>%d s</td><td>%d</td><td>', esc_html($lock['key']), (int) $lock['left'],
                (int) $lock['fence']);
            self::form('unlock');
            printf('<input type="hidden" name="lock" value="%s">', esc_attr(md5($lock['key'])));
            printf('<input type="text" name="reason" required maxlength="150" placeholder="%s" aria-label="%s"> ',
                esc_attr__('Reason', 'weir'), esc_attr__('Reason', 'weir'));
            echo '<label><input type="checkbox" name="sure" value="1" required> ' . esc_html__('Its holder is gone', 'weir')
                . '</label> ';
            self::button(__('Release', 'weir'));
            echo '</form></td></tr>';
        }
        echo $locks ? '' : '<tr><td colspan="4">' . esc_html__('No lock is held.', 'weir') . '</td></tr>';
        echo '</tbody></table>';
    }

    private static function show_repairs(array $state) {
        self::title(__('Repairs', 'weir'), __('Modes of repairs are set in weir.conf.', 'weir'));
        self::table_head(array(__('Repair', 'weir'), __('Mode', 'weir'), __('Found', 'weir'), __('Mended', 'weir'),
            __('Actions', 'weir')));
        foreach ($state['repairs'] as $row) {
            self::show_cells(array($row['repair'], $row['mode'], $row['found'], $row['mended'], $row['text']));
        }
        echo '</tbody></table>';
        if ($state['advice']) {
            echo '<h3>' . esc_html__('Advice', 'weir') . '</h3><ul class="ul-disc"><li>'
                . implode('</li><li>', array_map('esc_html', $state['advice'])) . '</li></ul>'; // phpcs:ignore -- it escapes
        }
    }

    private static function show_cells(array $cells) {
        echo '<tr><td>' . implode('</td><td>', array_map('esc_html', $cells)) . '</td></tr>'; // phpcs:ignore -- it escapes
    }

    /* The report: made when it is asked for, because it reads thousands of rows. */

    private static function show_report($site) {
        self::title(__('Report', 'weir'), __("What is in Action Scheduler's tables. ~ marks an estimate.", 'weir'));
        // phpcs:ignore WordPress.Security.NonceVerification -- it changes nothing
        if (empty($_GET['report'])) {
            printf('<p><a class="button" href="%s">%s</a></p>', esc_url(admin_url('tools.php?page=weir&report=1#weir-report')),
                esc_html__('Make a report', 'weir'));
            return;
        }
        $answer = Weir_Client::request('GET', '/v1/sites/' . rawurlencode($site) . '/report', null,
            array('is_apart' => true, 'ms' => self::REPORT_MS));
        echo '<div id="weir-report">';
        if ($answer && $answer['status'] === 200) {
            self::show_report_tables($answer['body']);
        } else {
            echo '<p>' . esc_html($answer ? Weir_Client::detail($answer) : Weir_Client::problem()) . '</p>';
        }
        echo '</div>';
    }

    private static function show_report_tables(array $report) {
        self::show_sizes($report);
        $none = '';
        $hook = __('Hook', 'weir');
        foreach (array(
            'statuses' => array(__('Actions by status', 'weir'), __('Status', 'weir'), $none),
            'days' => array(__('Completed by day (UTC)', 'weir'), __('Day', 'weir'), $none),
            'past_due' => array(__('Past due', 'weir'), $hook, __('Oldest', 'weir')),
            'failed' => array(__('Failed', 'weir'), $hook, $none),
            'slowest' => array(__('Slowest of the last that ran', 'weir'), $hook, __('Longest', 'weir')),
            'pending' => array(__('Pending', 'weir'), $hook, $none),
            'created' => array(__('Created in a day', 'weir'), $hook, $none),
        ) as $key => $titles) {
            self::show_figures($report[$key], $titles);
        }
    }

    private static function show_figures(array $figures, array $titles) {
        list($title, $name, $seconds) = $titles;
        if (!$figures) {
            return;
        }
        echo '<h3>' . esc_html($title) . '</h3>';
        self::table_head($seconds === '' ? array($name, __('Number', 'weir'))
            : array($name, __('Number', 'weir'), $seconds));
        foreach ($figures as $row) {
            $cells = array($row['name'], ($row['estimate'] ? '~' : '') . number_format_i18n($row['count']));
            self::show_cells($seconds === '' ? $cells : array_merge($cells, array(self::span($row['seconds']))));
        }
        echo '</tbody></table>';
    }

    private static function show_sizes(array $report) {
        self::table_head(array(__('Table', 'weir'), __('Rows', 'weir'), __('Size', 'weir')));
        foreach ($report['tables'] as $row) {
            self::show_cells(array($row['name'], '~' . number_format_i18n($row['rows']), (string) size_format($row['bytes'])));
        }
        echo '</tbody></table><ul class="ul-disc">';
        $lines = array(
            /* translators: 1: number of actions, 2: number of lines, 3: a size */
            sprintf(__('Past their time of retention: %1$s finished actions, about %2$s log lines, about %3$s', 'weir'),
                ($report['past_estimate'] ? '~' : '') . number_format_i18n($report['past']),
                number_format_i18n($report['past_lines']), size_format($report['past_bytes'])),
            /* translators: %s: number of actions */
            sprintf(__('Finished in the last day: %s', 'weir'), number_format_i18n($report['finished_per_day'])),
            /* translators: %s: number of actions */
            sprintf(__('Pending twice with the same arguments: %s', 'weir'), number_format_i18n($report['duplicates'])),
        );
        if ($report['deleted_per_second'] > 0) {
            /* translators: 1: number of actions, 2: a time */
            $lines[] = sprintf(__('Deleted of late: %1$s a second; the rest takes about %2$s', 'weir'),
                number_format_i18n($report['deleted_per_second']),
                self::span($report['past'] / $report['deleted_per_second']));
        }
        foreach ($lines as $line) {
            echo '<li>' . esc_html($line) . '</li>';
        }
        echo '</ul>';
    }

    private static function span($seconds) {
        return $seconds < MINUTE_IN_SECONDS ? (int) $seconds . ' s' : human_time_diff(0, (int) $seconds);
    }

    private static function date($ms) {
        return wp_date('Y-m-d H:i:s', (int) ($ms / 1000));
    }
}

/* --- start ---------------------------------------------------------------------------------- */

Weir_Gate::register();
Weir_Claim::register();
Weir_QueryGuard::register();
if (is_admin()) {
    Weir_Admin::register();
}
if (defined('WP_CLI') && WP_CLI) {
    foreach (array('queryguard', 'weir') as $weir_word) {
        WP_CLI::add_command($weir_word . ' throttle', 'Weir_Throttle_Command');
        WP_CLI::add_command($weir_word . ' mutex', 'Weir_Mutex_Command');
    }
    unset($weir_word);
}

endif;
