/* WordPress sites, real and made up.
 *
 * startSite() gives one in a real database.  fakeSites() is for looks and for hostile texts: the
 * answers to the addresses of sites are made here, everything else comes from weir.  name(kind)
 * gives every string that comes from the database of a site. */
import {once} from './lib.js';
import {startChild} from './lib_child.js';

const NOW = Date.now();
const MINUTE = 60000;
const PAGE = 25;

const PLAIN = {
        site: 'shop',
        target: 'shop',
        hook: 'klaviyo_sync',
        group: 'wc-admin',
        arguments: '[{"order":4711}]',
        key: 'nightly-export',
        message:
                'weir: deferred to 2026-11-27 17:00:13 UTC, tier deferrable: the load of shop is critical',
        reason: 'the load of shop is critical: threads_running 31, threshold 15',
        error: '',
        advice: 'wp_actionscheduler_logs has 4.2 million rows: most are older than 31 days',
        server: 'MariaDB 10.11.14',
        store: 'schema 7.0',
        url: 'https://shop.example/wp-admin/',
};

export const plainSite = (kind) => PLAIN[kind];

function tiers()
{
        const row = (tier, due, moved, delay) => ({
                tier,
                due,
                moved,
                running: 2,
                oldest_due_ms: due ? NOW - 3 * MINUTE : 0,
                delay_ms: delay,
        });
        return [
                row('critical', 3, 0, 0), row('high', 12, 0, 0), row('normal', 0, 210, 5 * MINUTE),
                row('deferrable', 1001, 1400, 60 * MINUTE)
        ];
}

function siteRow(name, more)
{
        return {
                name: name('site'),
                target: name('target'),
                mode: 'enforce',
                level: 'critical',
                reason: name('reason'),
                error: name('error'),
                due: 1016,
                capped: true,
                moved: 1610,
                would_move: 0,
                running: 8,
                claimed: 25,
                failed: 4,
                oldest_due_ms: NOW - 3 * MINUTE,
                next_due_ms: NOW + MINUTE,
                surveyed_ms: NOW - 2000,
                survey_us: 3400,
                server: name('server'),
                store: name('store'),
                url: name('url'),
                returning: false,
                tiers: tiers(),
                ...more,
        };
}

function site(name, row)
{
        const hook = (text, tier, due, moved, delay) => ({
                hook: text,
                tier,
                due,
                moved,
                running: 1,
                oldest_due_ms: due ? NOW - 3 * MINUTE : 0,
                delay_ms: delay,
        });
        const repair = (word, mode, found, mended, text) =>
                ({repair: word, mode, found, mended, text});
        return {
                ...row,
                hooks: [
                        hook(name('hook'), 'deferrable', 1001, 1400, 60 * MINUTE),
                        hook('woocommerce_run_update', 'normal', 0, 210, 5 * MINUTE),
                        hook('wc_payment_capture', 'critical', 3, 0, 0),
                        hook('woocommerce_scheduled_subscription_payment', 'high', 12, 0, 0),
                ],
                repairs: [
                        repair('lost', 'enforce', 2, 7, 'failed by a deadlock before they ran'),
                        repair('claims', 'observe', 20, 0, 'held by a runner that is gone'),
                        repair('claim_rows', 'off', 0, 0, 'old claims without actions'),
                ],
                advice: [name('advice')],
                last: Array.from({length: 50}, (_, i) => ({
                        id: 120 - i,
                        hook: name('hook'),
                        tier: 'deferrable',
                        level: 'critical',
                        at_ms: NOW - 9000,
                        original_ms: NOW - 3 * MINUTE,
                        to_ms: NOW + 60 * MINUTE,
                })),
                total_moved: 1700,
                total_shifted: 12,
                total_returned: 90,
                total_fronted: 12,
        };
}

function action(name, id, more)
{
        return {
                id,
                hook: name('hook'),
                status: 'pending',
                tier: 'deferrable',
                group: name('group'),
                arguments: name('arguments'),
                schedule: 'single',
                priority: 10,
                attempts: 0,
                claim: 0,
                scheduled_ms: NOW + 60 * MINUTE,
                original_ms: NOW - 3 * MINUTE,
                last_attempt_ms: 0,
                moved: true,
                url: name('url').startsWith('http')
                        ? `${name('url')}tools.php?page=action-scheduler&status=pending&s=x`
                        : name('url'),
                ...more,
        };
}

/* 120 of them, newest first. */
function actions(name, query)
{
        const from = Number(query.get('cursor') || 121) - 1;
        const all = [];
        for (let id = from; id > Math.max(0, from - PAGE); id--)
                all.push(id % 4 === 0
                                ? action(name, id, {status: 'failed', moved: false, attempts: 1})
                                : action(name, id));
        const wanted = query.get('status');
        return {
                actions: all.filter(
                        (a) => !wanted || a.status === wanted || wanted === 'moved' && a.moved),
                cursor: from > PAGE ? String(from - PAGE + 1) : '',
        };
}

function reason(name, id)
{
        return {
                ...action(name, id),
                why: `weir moved it: ${name('reason')}; its tier is deferrable`,
                log: [
                        {at_ms: NOW - 9000, message: name('message')},
                        {at_ms: NOW - 4 * MINUTE, message: 'action created'},
                ],
        };
}

/* Large tables, of whose actions the server knows only a part. */
function report(name)
{
        const figure = (text, count, seconds = 0, estimate = false) =>
                ({name: text, count, estimate, seconds});
        const table = (word, rows, bytes) => ({name: `actionscheduler_${word}`, rows, bytes});
        return {
                tables: [
                        table('actions', 1402311, 812646400), table('logs', 4198233, 612368384),
                        table('claims', 12, 32768), table('groups', 21, 32768)
                ],
                statuses: [
                        figure('pending', 3211), figure('in-progress', 8),
                        figure('complete', 1391002, 0, true), figure('failed', 417),
                        figure('canceled', 0)
                ],
                days: Array.from({length: 7},
                        (_, i) =>
                                figure(`2026-11-${27 - i}`, i ? 41000 - 900 * i : 17211, 0, true)),
                pending: [figure(name('hook'), 1640, 0, true), figure('wc_payment_capture', 3)],
                created: [figure(name('hook'), 31022, 0, true), figure('wc_yearly', 0, 0, true)],
                failed: [figure(name('hook'), 401), figure('woocommerce_run_update', 16)],
                past_due: [],
                slowest: [figure('erp_export', 3, 5400, true), figure(name('hook'), 811, 0, true)],
                past: 1204000,
                past_lines: 3612000,
                past_bytes: 1191182336,
                past_estimate: true,
                finished_per_day: 41210,
                deleted_per_second: 640,
                duplicates: 3,
                advice: [name('advice')],
        };
}

/* The answer to one request; parts: of its path after v1/sites. */
function answerTo(world, name, method, [which, what, id], query)
{
        if (which === undefined)
                return {sites: world.rows};
        if (what === undefined)
                return site(name, world.rows.find((r) => r.name === which));
        if (what === 'actions')
                return id === undefined ? actions(name, query) : reason(name, Number(id));
        if (what === 'report')
                return report(name);
        if (method === 'GET')
                return {locks: world.locks};
        const isHeld = world.locks.some((l) => l.key === id);
        world.locks = world.locks.filter((l) => l.key !== id);
        return {released: isHeld};
}

/* Answers for a page.  rows: what differs, of each site.  What was asked for is in `asked`; a
 * report is refused with `refusal`. */
export async function fakeSites(page, name = plainSite, rows = [{}])
{
        const world = {
                rows: rows.map((more) => siteRow(name, more)),
                locks: [{key: name('key'), fence: 1763306000123456, expires_ms: NOW + 10 * MINUTE}],
                asked: [],
                refusal: '',
        };
        await page.route(/\/v1\/sites(\/|\?|$)/, (route) => {
                const request = route.request();
                const url = new URL(request.url());
                const parts = url.pathname.split('/').slice(3).map(decodeURIComponent);
                world.asked.push(`${request.method()} ${parts.join(' ')}${url.search}`);
                if (world.refusal && parts[1] === 'report')
                        return route.fulfill(
                                {status: 503, json: {code: 'BUSY', detail: world.refusal}});
                return route.fulfill(
                        {json: answerTo(world, name, request.method(), parts, url.searchParams)});
        });
        return world;
}

/* --- a real one ------------------------------------------------------------------------------- */

const databases = once((t) => startChild(t, 'lib_wordpress.py'));

/* A site in a database of its own, and the section that a weir guards it by.  call() runs a method
 * of lib_actionscheduler.py's Site, one at a time.  One server has the sites of all tests. */
export async function startSite({mode = 'observe'} = {})
{
        const {ready: {port, user}, ask} = await databases();
        const {database} = await ask({call: 'new'});
        const section = `wordpress "shop" {
        port = ${port}
        user = "${user}"
        database = "${database}"
        target = "shop"
        mode = "${mode}"
        interval = "200ms"
}
`;
        const call = (name, args = [], named = {}) => ask({call: name, args, named});
        return {section, call};
}
