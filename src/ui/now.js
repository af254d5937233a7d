/* Now: how the databases are, what runs and waits, what the gate decided, and where to begin.
 *
 * The stream brings the state once a second; charts, the last throttled actions and the latest jobs
 * are asked for at their own pace.  Each part stands alone: one that cannot be had says so. */
import {addJobDialog, addJobForm} from './add_job.js';
import {chart} from './chart.js';
import {clusterPanel} from './cluster.js';
import {
        append,
        badge,
        button,
        copyLine,
        covered,
        debounce,
        dialog,
        fill,
        fmtDuration,
        fmtNumber,
        fmtSeconds,
        fmtTime,
        h,
        kindOf,
        may,
        notAvailable,
        note,
        panel,
        path,
        plural,
        recall,
        refill,
        remember,
        select,
        shapeOf,
        table,
        TIERS,
        toast,
        turns
} from './lib.js';
import {whyText} from './parts.js';
import {prioritize, refusalText} from './rules.js';
import {offBox, pausedBox, THROTTLE_OFF} from './settings.js';

export const title = 'Now';

/* How far back the charts go, in seconds, and the step they are asked for in. */
const SPANS = [
        ['3600', 'The last hour', 10], ['1800', 'The last 30 minutes', 5],
        ['600', 'The last 10 minutes', 5], ['21600', 'The last 6 hours', 60],
        ['86400', 'The last day', 300], ['604800', 'The last 7 days', 1800],
        ['2592000', 'The last 30 days', 3600]
];
const SERIES_MS = 5000;
const HOUR_MS = 3600000;
const clock =
        new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
const LATEST = 6;
const THROTTLED = 20;
const SHOWN_STARVED = 2;

/* --- levels ----------------------------------------------------------------------------------- */

const SENTENCE = {
        normal: 'Every tier runs.',
        elevated: 'Less important work waits.',
        critical: 'Only what must run does.',
        unknown: 'Nobody knows how it is.',
};

/* "threads_running is 7, the threshold is 5."  A level is kept for a while after its cause is gone:
 * "threads_running was 7 (threshold 5), is 0 now; the level falls in 12 s." */
function reason(t)
{
        if (t.last_known) /* not measured since the start */
                return `${t.last_known[0].toUpperCase()}${t.last_known.slice(1)}${
                        t.error ? `: ${t.error}` : '.'}`;
        if (t.error)
                return t.error;
        if (!t.metric || t.value === null || t.value === undefined)
                return SENTENCE[t.level] || '';
        const most = fmtNumber(t.threshold);
        if (t.level === 'unknown')
                return `${t.metric}: the last value is ${
                        t.age_ms < 0 ? 'not known'
                                     : `${fmtSeconds(t.age_ms)} old`}, at most ${
                        fmtDuration(t.threshold * 1000)} is allowed.`;
        if (!isPast(t))
                return `${t.metric} is ${fmtNumber(t.now)}, the threshold is ${most}.`;
        const falls = t.falls_in_ms < 0 ? '' : `; the level falls in ${fmtSeconds(t.falls_in_ms)}`;
        return `${t.metric} was ${fmtNumber(t.value)} (threshold ${most}), is ${
                fmtNumber(t.now)} now${falls}.`;
}

/* What decided is not so any more: the level is only not left yet. */
function isPast(t)
{
        return t.now === null || t.now === undefined || Number(t.now) < Number(t.threshold);
}

function meter(level, value, threshold)
{
        const v = Number(value);
        const most = Number(threshold);
        if (value === null || value === undefined || !Number.isFinite(v) || !(most > 0))
                return null;
        const part = Math.max(0, Math.min(100, v / most * 100));
        return h(`div.meter.${kindOf(level)}`, {'aria-hidden': 'true'},
                h('span', {style: {width: `${part}%`}}));
}

function levelCard(t, now)
{
        const counts = t.mode === 'enforce';
        const mode = t.mode === now.mode ? '' : ` · ${String(t.mode).replace(/_/g, ' ')}`;
        const metrics = t.metrics || [];
        const decides = t.metric !== '' && t.value !== null && t.value !== undefined &&
                !t.last_known;
        return h(`article.level.${counts ? kindOf(t.level) : 'calm'}`,
                {'aria-label': `Target ${t.name}`},
                h('span.shape', {'aria-hidden': 'true'}, shapeOf(t.level)),
                h('span.word', {}, t.level),
                h('span.name', {}, t.name, ' · for ', fmtSeconds(t.since_ms),
                        mode, counts || t.mode === 'off' ? '' : ' · makes nothing wait'),
                h('p.why', {}, reason(t),
                        t.age_ms > 5000 && t.level !== 'unknown' ? h('span.muted', {}, ` ${fmtSeconds(t.age_ms)} old.`)
                                        : null),
                decides ? meter(isPast(t) ? 'normal' : t.level, t.now, t.threshold) : null,
                metrics.length && !(decides && metrics.length === 1)
                        ? h('ul.readings', {}, metrics.map(reading))
                        : null);
}

/* What a metric reads against the threshold it would pass next. */
function reading(m)
{
        const next = [m.elevated, m.critical].find((x) => x !== null && x !== undefined &&
                        x !== '' && !(Number(m.value) >= Number(x)));
        const top = next === undefined ? m.critical || m.elevated : next;
        return h('li', {}, h('span', {}, m.name),
                h('span.num', {}, m.error ? 'no value' : fmtNumber(m.value),
                        top ? h('span.muted', {}, ` of ${fmtNumber(top)}`) : null),
                meter(m.level, m.value, top));
}

function levels(box, now)
{
        const targets = now.targets || [];
        if (!targets.length) {
                refill(box,
                        h('article.level', {'aria-label': 'Targets'},
                                h('span.shape', {'aria-hidden': 'true'}, '○'),
                                h('span.word', {}, 'Nothing is measured'),
                                h('span.name', {},
                                        now.paused
                                                ? 'The throttle is paused: only critical jobs start.'
                                                : 'Every job runs as soon as a worker takes it.'),
                                h('p.why', {},
                                        h('a', {href: '#/now?help=target'},
                                                'How to measure a database'))));
                return;
        }
        const order = {critical: 0, elevated: 1, unknown: 2, normal: 3};
        const sorted = [...targets].sort((a, b) => order[a.level] - order[b.level]);
        refill(box, sorted.map((t) => levelCard(t, now)));
}

/* --- figures ---------------------------------------------------------------------------------- */

function tile(number, text, href, sub, title)
{
        return h(href ? 'a.tile' : 'div.tile', {href, title}, h('b', {}, fmtNumber(number)),
                h('span', {}, text), sub ? h('span.sub', {}, sub) : null);
}

function figures(box, now, ctx)
{
        const j = now.jobs || {};
        const r = now.rates || {};
        const parked = TIERS.map((t) => [t, (j.parked || {})[t] || 0]);
        const sum = parked.reduce((a, [, n]) => a + n, 0);
        const returning = TIERS.reduce((a, t) => a + ((j.returning || {})[t] || 0), 0);
        const rate = (x) => `${fmtNumber(x)}/s`;
        const hasHour = now.at_ms - j.failed_from_ms >= HOUR_MS;
        const failed = hasHour ? 'failed in an hour' : `failed since ${clock.format(j.failed_from_ms)}`;
        refill(box,
                tile(j.running, 'running', ctx.link('jobs', {status: 'in-progress'}),
                        `${rate(r.started)} started`),
                tile(j.ready, 'ready', ctx.link('jobs', {status: 'pending'}),
                        `${rate(r.enqueued)} added`),
                tile(j.scheduled, 'scheduled', ctx.link('jobs', {status: 'pending'}), 'for later'),
                tile(j.waiting, 'waiting', ctx.link('jobs', {status: 'pending'}), 'for others',
                        'For other jobs, a limit, a cap or a breaker'),
                tile(sum, 'parked', ctx.link('throttle'),
                        [
                                ...parked.filter(([, n]) => n)
                                        .map(([t, n]) => `${fmtNumber(n)} ${t}`),
                                returning ? `${fmtNumber(returning)} returning` : '',
                        ].filter(Boolean).join(', ') || `${rate(r.deferred)} deferred`,
                        'Held back by the throttle while something is under load'),
                tile(j.failed_hour, failed, ctx.link('jobs', {status: 'failed'}),
                        `${rate(r.failed)} failed`),
                tile(r.completed, 'completed/s', ctx.link('jobs', {status: 'complete'}),
                        'over 5 s'),
                tile(r.granted, 'checks granted/s', ctx.link('clients'),
                        `${rate(r.refused)} refused`));
}

/* --- notices ---------------------------------------------------------------------------------- */

/* Has a box of its own: what it counts changes all the time. */
function historyNotice(box, {history})
{
        const isFailing = Boolean(history && history.failing_since_ms);
        const key = isFailing ? JSON.stringify(history) : '';
        box.hidden = !isFailing;
        if (key === (box.dataset.key || ''))
                return;
        box.dataset.key = key;
        fill(box, isFailing &&
                note('bad',
                        h('p', {role: 'status'},
                                h('strong', {}, 'History cannot be written since '),
                                fmtTime(history.failing_since_ms), `: ${history.problem}. `,
                                plural(history.waiting, 'finished job waits for it.',
                                        'finished jobs wait for it.'),
                                ' weir keeps what waits, and tries again.')));
}

function notices(box, now, starved, ctx)
{
        const out = [];
        if (now.paused)
                out.push(note('warn',
                        h('p', {}, h('strong', {}, 'The throttle is paused. '),
                                'Only critical jobs start',
                                now.pause_left_ms < 0
                                        ? ', until it is resumed.'
                                        : `, for another ${fmtSeconds(now.pause_left_ms)}.`),
                        button('Resume now', async () => {
                                await ctx.api.post('throttle', {action: 'resume'});
                                toast('The throttle was resumed.');
                        }, {needs: 'THROTTLE'})));
        if (now.ramp && now.ramp.running)
                out.push(note('info',
                        h('p', {}, h('strong', {}, 'Parked jobs return: '),
                                `cycle ${now.ramp.cycle} of ${now.ramp.cycles}`,
                                now.ramp.next_in_ms >= 0
                                        ? `, the next in ${fmtSeconds(now.ramp.next_in_ms)}.`
                                        : '.')));
        /* A list that somebody has opened, or a button in focus, is not taken away under their
         * hands. */
        const key = JSON.stringify([
                out.length, now.paused, starved.map((s) => s.name),
                Math.floor(now.pause_left_ms / 1000), now.ramp
        ]);
        if (key === box.dataset.key)
                return;
        box.dataset.key = key;
        fill(box, out, starvedNotices(starved, ctx));
        box.hidden = out.length === 0 && starved.length === 0;
}

function switchedOff(ctx)
{
        return offBox(ctx, {
                flag: 'throttle_enabled',
                name: 'throttle.enabled',
                what: 'The throttle is switched off.',
                means: THROTTLE_OFF,
                link: 'Switch it on in Settings',
        });
}

/* Those that have waited longest in full, the others behind a line. */
export function starvedNotices(starved, ctx, more)
{
        const all = starved.map((s) => starvedNotice(s, ctx, more));
        if (all.length <= SHOWN_STARVED)
                return all;
        return [
                ...all.slice(0, SHOWN_STARVED),
                h('details', {},
                        h('summary', {},
                                `${
                                        plural(all.length - SHOWN_STARVED, 'more is',
                                                'more are')} starved`),
                        h('div.screen', {}, all.slice(SHOWN_STARVED)))
        ];
}

function starvedNotice(s, ctx, more)
{
        const who = s.name;
        return note('warn',
                h('p', {}, h('strong', {}, `${who} is starved: `),
                        `it goes on asking and was not granted for ${fmtSeconds(s.since_ms)}`,
                        s.reason ? `, mostly because ${refusalText(s)}. ` : '. ',
                        s.starver ? `${s.starver} was granted ${
                                            fmtNumber(s.starver_grants)} times meanwhile.`
                                  : null),
                h('div.row.mid', {}, h('a', {href: ctx.link('clients', who)}, 'Its minutes'),
                        button('Prioritise for an hour',
                                () => prioritize(ctx, who, {reason: 'it was starved'}, more),
                                {kind: 'small', needs: 'PRIORITIZE'})));
}

/* --- charts ----------------------------------------------------------------------------------- */

function number(x)
{
        return x === null || x === undefined || x === '' ? NaN : Number(x);
}

function thresholds(m)
{
        const out = [
                {value: number(m.elevated), label: 'elevated', kind: 'warn'},
                {value: number(m.critical), label: 'critical', kind: 'bad'}
        ];
        if (number(m.check) !== number(m.elevated))
                out.push({value: number(m.check), label: 'checks', kind: 'info'});
        return out;
}

/* Charts are made once and fed again; metrics come and go with the configuration. */
function charts(box)
{
        const have = new Map();
        const get = (key, make) => {
                if (!have.has(key)) {
                        const c = chart(make());
                        have.set(key, c);
                        box.append(h('div.panel', {}, c.node));
                }
                return have.get(key);
        };
        const feed = (s) => {
                const base = {from_ms: s.from_ms, step_ms: s.step_ms};
                const seen = new Set();
                for (const m of s.metrics || []) {
                        const key = `m:${m.target}:${m.name}`;
                        seen.add(key);
                        get(key, () => ({
                                title: `${m.target}: ${m.name}`,
                                area: true,
                                series: [{name: m.name, color: 's1'}]
                        })).update({...base, values: [m.values], thresholds: thresholds(m)});
                }
                const j = s.jobs;
                const many = (key, name, series, values, extra) => {
                        if (values.some((v) => !v))
                                return;
                        seen.add(key);
                        get(key, () => ({title: name, series, ...extra})).update({...base, values});
                };
                if (j) {
                        many('jobs', 'Jobs per minute',
                                [
                                        {name: 'started', color: 's1'},
                                        {name: 'completed', color: 's2'},
                                        {name: 'failed', color: 's3'}
                                ],
                                [j.started, j.completed, j.failed], {total: true});
                        if (j.deferred)
                                many('deferred', 'Deferred per minute',
                                        [
                                                {name: 'high', color: 's3'},
                                                {name: 'normal', color: 's4'},
                                                {name: 'deferrable', color: 's5'}
                                        ],
                                        [j.deferred.high, j.deferred.normal, j.deferred.deferrable],
                                        {total: true});
                        many('parked', 'Parked jobs', [{name: 'parked', color: 's4'}], [j.parked],
                                {area: true});
                }
                if (s.checks)
                        many('checks', 'Checks per minute',
                                [{name: 'granted', color: 's2'}, {name: 'refused', color: 's3'}],
                                [s.checks.granted, s.checks.refused], {total: true});
                for (const [key, c] of have)
                        if (!seen.has(key)) {
                                c.node.parentNode.remove();
                                c.destroy();
                                have.delete(key);
                        }
        };
        return {feed, destroy: () => have.forEach((c) => c.destroy())};
}

/* --- the latest jobs, with what they wait for ---------------------------------------------------
 */

function latestTable(ctx)
{
        return table({
                caption: 'The newest jobs',
                hideCaption: true,
                key: (r) => r.id,
                empty: 'No job yet: the first one is seen here.',
                columns: [
                        {
                                key: 'id',
                                label: 'Job',
                                cell: (r) => h('a', {href: ctx.link('job', r.id)}, r.id)
                        },
                        {key: 'hook', label: 'Hook', cls: 'wrap mono'},
                        {key: 'status', label: 'Status', cell: (r) => badge(r.status)},
                        {key: 'say', label: 'What happens', cls: 'wrap', cell: (r) => r.say},
                        {
                                key: 'age',
                                label: 'Added',
                                cls: 'nowrap',
                                cell: (r) => fmtTime(r.created_ms)
                        },
                ]
        });
}

async function latest(ctx)
{
        const {jobs} = await ctx.api.get('jobs', {limit: LATEST}, ctx.signal);
        return Promise.all(jobs.map(async (j) => {
                const row = {
                        id: j.id,
                        hook: j.hook,
                        status: j.status,
                        created_ms: j.created_ms,
                        say: ''
                };
                if (j.status === 'pending') {
                        try {
                                const why = await ctx.api.get(
                                        path('jobs', j.id, 'why'), {}, ctx.signal);
                                row.blocked =
                                        why.blockers && why.blockers[0] ? why.blockers[0].code : '';
                                row.say = (why.blockers || []).map(whyText).join('; ') ||
                                        'ready: the next free worker takes it';
                        } catch {
                                row.say = '';
                        }
                } else if (j.status === 'in-progress') {
                        row.say = `${j.progress || 'runs'} on ${j.worker || 'a worker'}`;
                } else if (j.status === 'failed') {
                        row.say = j.error;
                } else if (j.status === 'complete') {
                        row.say = `took ${fmtDuration(Math.max(0, j.finished_ms - j.started_ms))}`;
                }
                row.say = row.say.length > 160 ? `${row.say.slice(0, 159)}…` : row.say;
                return row;
        }));
}

/* --- where to begin --------------------------------------------------------------------------- */

const TARGET_TEXT = `throttle { mode = "observe" }
target "machine" { kind = "host" }
target "shop" {
        kind = "mysql"                # or postgres, http, command
        host = "127.0.0.1"
        user = "weir"
        password_file = "/etc/weir/shop.password"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
}`;

const TARGET_HELP = 'A target is what weir protects: a database, a host. While it is under load, ' +
        'less important jobs wait. Put this into a file weir.conf:';
const WORKER_HELP =
        'A worker takes jobs from queues and runs a command for each; the arguments are ' +
        'its standard input, what it prints is the result. This one gives back what it got:';
const WORKER_HINT = 'After make run the program is build/weir. Workers in PHP, Python, Go or any ' +
        'language with a Redis client, or over HTTP, use CLAIM and COMPLETE.';

function targetHelp()
{
        return h('div', {}, h('p', {}, TARGET_HELP), h('pre', {tabindex: '0'}, TARGET_TEXT),
                h('p', {}, 'Ask whether it can be measured, and start weir with it:'),
                copyLine('weir probe -c weir.conf'), copyLine('weir serve -c weir.conf'));
}

function workerHelp()
{
        return h('div', {}, h('p', {}, WORKER_HELP),
                copyLine('weir work --queue default --exec cat'), h('p.hint', {}, WORKER_HINT));
}

function startHere(ctx, done, latestNode)
{
        const p = panel('Start here');
        p.node.id = 'start';
        append(p.body,
                h('ol.steps', {},
                        h('li', {}, h('h3', {}, 'Add a job'), addJobForm(ctx, done), latestNode),
                        h('li', {}, h('h3', {}, 'Start a worker'), workerHelp()),
                        h('li', {}, h('h3', {}, 'Measure what it must not overload'),
                                targetHelp())));
        return p.node;
}

/* --- the screen ------------------------------------------------------------------------------- */

const AT = {
        key: 'at',
        label: 'Time',
        cls: 'nowrap',
        plain: true,
        cell: (r) => fmtTime(r.at_ms)
};

function throttledPanel(ctx)
{
        const kind = select([['', 'jobs and checks'], ['job', 'jobs'], ['check', 'checks']], '',
                {'aria-label': 'Show', onchange: () => load()});
        const p = panel('Last throttled', {actions: [kind]});
        const who = (r) =>
                h('a', {href: r.job ? ctx.link('job', r.job) : ctx.link('clients', r.identity)},
                        r.identity);
        const why = (r) => [r.text || r.reason,
                r.times > 1 ? h('span.muted', {}, `, ${fmtNumber(r.times)} times`) : null];
        const t = table({
                caption: 'The last throttled actions',
                hideCaption: true,
                key: (r) => `${r.at_ms}:${r.identity}:${r.job}:${r.verdict}`,
                empty: 'Nothing was throttled since weir started.',
                columns: [
                        AT,
                        {key: 'identity', label: 'Who', cls: 'wrap mono', cell: who},
                        {key: 'tier', label: 'Tier'},
                        {key: 'verdict', label: 'Verdict', cell: (r) => badge(r.verdict)},
                        {key: 'text', label: 'Why', cls: 'wrap', cell: why},
                ]
        });
        p.body.append(t.node);
        const ask = () =>
                ctx.api.get('throttled', {count: kind.value ? 100 : THROTTLED}, ctx.signal);
        const load = covered(t.node, ask, ({actions}) => {
                t.update(actions.filter((a) => !kind.value || a.kind === kind.value)
                                 .slice(0, THROTTLED));
        });
        return {node: p.node, load};
}

/* A line for each of something that may not be configured at all; nothing while there is none.
 * what: its name in the API; how(row): a note; more: columns of figures. */
function linesPanel(ctx, {title: name, route, what, label, more, how})
{
        const p = panel(name);
        const t = table({
                caption: name,
                hideCaption: true,
                key: (r) => r.name,
                columns: [
                        {
                                key: 'name',
                                label,
                                cls: 'wrap',
                                cell: (r) => h('a', {href: ctx.link(route, r.name)}, r.name)
                        },
                        {key: 'level', label: 'Load', cell: (r) => badge(r.level)},
                        {key: 'mode', label: 'Mode', cell: (r) => badge(r.mode)},
                        ...more,
                        {key: 'how', label: 'Note', cls: 'wrap', cell: how},
                ]
        });
        p.body.append(t.node);
        const box = h('div');
        const ask = () => ctx.api.get(what, {}, ctx.signal);
        const load = covered(t.node, ask, (answer) => {
                t.update(answer[what]);
                if (answer[what].length === 0)
                        p.node.remove();
                else if (!p.node.isConnected)
                        box.append(p.node);
        });
        return {node: box, load};
}

function sitesPanel(ctx)
{
        return linesPanel(ctx, {
                title: 'Sites',
                route: 'sites',
                what: 'sites',
                label: 'Site',
                more: [
                        {
                                key: 'due',
                                label: 'Due',
                                num: true,
                                cell: (s) => `${fmtNumber(s.due)}${s.capped ? '+' : ''}`
                        },
                        {key: 'moved', label: 'Moved', num: true},
                ],
                how: (s) => {
                        if (s.error)
                                return s.error;
                        if (s.mode === 'observe' && s.would_move)
                                return `${fmtNumber(s.would_move)} would be moved in the mode enforce`;
                        return s.returning ? 'moved actions are coming back' : '';
                },
        });
}

function doorsPanel(ctx)
{
        return linesPanel(ctx, {
                title: 'SQL',
                route: 'sql',
                what: 'proxies',
                label: 'MySQL door',
                more: [
                        {key: 'running', label: 'Running', num: true},
                        {key: 'waiting', label: 'Waiting', num: true},
                        {key: 'held', label: 'Held', num: true},
                ],
                how: (p) => {
                        if (p.problem)
                                return [badge('critical', 'server away'), ` ${p.problem}`];
                        if (p.draining)
                                return 'drains: it refuses new connections';
                        return p.mode === 'observe' && p.observed
                                ? `${fmtNumber(p.observed)} would have waited in the mode enforce`
                                : '';
                },
        });
}

/* A rule is told with the slot it is kept in, "share:etl": that is for machines. */
function eventText({event, message})
{
        return event.startsWith('rule_') ? message.replace(/^[a-z]+:/, '') : message;
}

/* Deferrals come by the thousand and are told as groups: "600 of klaviyo_sync (deferrable): ...". */
function groupText({count, hook, tier, message})
{
        return `${fmtNumber(count)}${hook ? ` of ${hook}` : ' times'}${
                tier ? ` (${tier})` : ''}, the last: ${message}`;
}

export function eventsPanel(ctx, count)
{
        const p = panel('What the gate did');
        const t = table({
                caption: 'Events of the gate, newest first',
                hideCaption: true,
                key: (r) => r.key,
                empty: 'Nothing yet.',
                columns: [
                        AT,
                        {
                                key: 'event',
                                label: 'Event',
                                cls: 'nowrap',
                                cell: (r) => String(r.event).replace(/_/g, ' ')
                        },
                        {key: 'message', label: 'What', cls: 'wrap', cell: (r) => eventText(r)},
                ]
        });
        let seen = -1; /* how many there were when they were last asked for */
        const ask = async () => {
                try {
                        return await ctx.api.get('throttle/history', {count}, ctx.signal);
                } catch (e) {
                        seen = -1; /* no event need come before they are asked for again */
                        throw e;
                }
        };
        const load = covered(t.node, ask, ({events: got, deferrals}) => {
                const kept = got.map((e) => ({...e, key: `n${e.number}`}));
                /* A third at most, so that they never push out what began them. */
                const groups = (deferrals || []).slice(0, Math.ceil(count / 3)).map((g) => ({
                        at_ms: g.to_ms,
                        event: g.event,
                        message: groupText(g),
                        key: `g${g.event}:${g.tier}:${g.hook}:${g.from_ms}`
                }));
                t.update([...kept, ...groups].sort((a, b) => b.at_ms - a.at_ms).slice(0, count));
        });
        const soon = debounce(load, 100);
        p.body.append(t.node);
        ctx.live.on('event', soon);
        /* The stream may have been away: the count says so. */
        ctx.live.on('now', (now) => {
                if (now.events === seen)
                        return;
                seen = now.events;
                soon();
        });
        return {node: p.node, load};
}

export async function mount(root, params, ctx)
{
        const noticeBox = h('div.screen', {hidden: true});
        const historyBox = h('div.screen', {hidden: true});
        const levelBox = h('div.levels', {role: 'group', 'aria-label': 'Levels of the targets'});
        const tiles = h('div.tiles', {role: 'group', 'aria-label': 'Jobs and rates'});
        const startBox = h('div');
        const chartBox = h('div.grid');
        const drawn = charts(chartBox);
        const jobsPanel = panel('Latest jobs', {
                actions: [h('button.primary', {
                        type: 'button',
                        needs: 'ENQUEUE',
                        onclick: () => addJobDialog(ctx, () => refreshJobs())
                },
                        'Add a job')]
        });
        const jobsTable = latestTable(ctx);
        const throttled = throttledPanel(ctx);
        const events = eventsPanel(ctx, 12);
        const sites = sitesPanel(ctx);
        const doors = doorsPanel(ctx);
        const chartNote = h('div');
        const span = select(SPANS, recall('span') || SPANS[0][0], {
                'aria-label': 'How far back the charts go',
                onchange: () => {
                        remember('span', span.value);
                        loadSeries();
                }
        });
        const turn = turns(); /* of the series */
        let starved = [];
        let metrics = new Map(); /* of the targets, by name: NOW tells only what decides */
        let isNew = null;

        const workerHint = h('p.hint', {hidden: true}, 'Jobs wait for a worker. ',
                h('a', {href: '#/now?help=worker'}, 'How to start one'));
        append(jobsPanel.body, jobsTable.node, workerHint);
        append(root, levelBox, pausedBox(ctx), switchedOff(ctx), historyBox, noticeBox, tiles,
                clusterPanel(ctx).node, sites.node, doors.node, startBox, jobsPanel.node,
                h('div.row.mid', {}, h('h2', {}, 'Charts'), span), chartNote, chartBox,
                throttled.node, events.node);

        async function loadSeries()
        {
                const [seconds, , step] = SPANS.find(([v]) => v === span.value);
                const isLast = turn();
                try {
                        const ask = (s) => ctx.api.get('series', {seconds, step: s}, ctx.signal);
                        let series = await ask(step);
                        /* What was before the start is known by the minute. */
                        if (series.jobs.started[0] === null && step < 60)
                                series = await ask(60);
                        if (!isLast())
                                return;
                        drawn.feed(series);
                        fill(chartNote);
                } catch (e) {
                        if (e.name !== 'AbortError')
                                fill(chartNote, notAvailable(e));
                }
        }
        const showNow = (now) => {
                levels(levelBox, {
                        ...now,
                        targets: (now.targets ||
                                []).map((t) => ({...t, metrics: t.metrics || metrics.get(t.name)}))
                });
                figures(tiles, now, ctx);
                historyNotice(historyBox, now);
                notices(noticeBox, now, starved, ctx);
        };
        const refreshJobs = covered(jobsTable.node, () => latest(ctx), (rows) => {
                jobsTable.update(rows);
                workerHint.hidden = !rows.some((r) => r.blocked === 'worker');
                begin(rows.length === 0);
        });
        /* The invitation is made once and stays while the screen does: a first job must not take
         * away the line about the worker that it waits for. */
        function begin(fresh)
        {
                if (isNew !== null)
                        return;
                isNew = fresh;
                if (fresh && may('ENQUEUE')) {
                        jobsPanel.node.hidden = true;
                        fill(startBox, startHere(ctx, () => refreshJobs(), jobsTable.node));
                }
        }

        fill(levelBox, h('p.missing', {}, 'Waiting for the first values.'));
        ctx.live.on('now', showNow);
        if (ctx.live.last())
                showNow(ctx.live.last());
        else
                ctx.api.get('now', {}, ctx.signal).then(showNow, (e) => {
                        if (e.name !== 'AbortError')
                                fill(levelBox, notAvailable(e));
                });
        ctx.every(2000, async () => {
                await Promise.all([
                        refreshJobs(),
                        sites.load(), doors.load(),
                        ctx.api.get('throttle', {}, ctx.signal)
                                .then(
                                        (t) => {
                                                metrics = new Map(
                                                        t.targets.map((x) => [x.name, x.metrics]));
                                        },
                                        () => {})
                ]);
        });
        ctx.every(5000, async () => {
                await throttled.load();
                try {
                        starved = (await ctx.api.get('starved', {}, ctx.signal)).starved || [];
                } catch {
                        starved = [];
                }
        });
        ctx.every(SERIES_MS, loadSeries);
        events.load();
        const help = {
                target: ['Measure a database', targetHelp],
                worker: ['Start a worker', workerHelp]
        };
        if (Object.hasOwn(help, params.help || ''))
                dialog(help[params.help][0],
                        (close) => [help[params.help][1](),
                                h('div.actions', {},
                                        h('button.primary',
                                                {type: 'button', onclick: () => close()},
                                                'Close'))])
                        .then(() => ctx.signal.aborted || ctx.setQuery({}));
        return () => drawn.destroy();
}
