/* Queues: how deep, how old, paused or not; and the settings of one. */
import {addJobDialog} from './add_job.js';
import {chart} from './chart.js';
import {
        append,
        badge,
        button,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        form,
        h,
        may,
        panel,
        parseDuration,
        path,
        refill,
        select,
        shortDuration,
        toast
} from './lib.js';
import {nounList, nounOne, remove} from './noun.js';
import {by, given, running, runTimes, text, whole} from './parts.js';
import {pausedBox} from './settings.js';

/* Each way offers the other. */
async function setPause(ctx, name, is, after)
{
        await ctx.api.post(path('queues', name, is ? 'pause' : 'resume'));
        const said = is ? 'was paused: running jobs go on, no other starts' : 'was resumed';
        toast(`Queue ${name} ${said}.`, {undo: () => setPause(ctx, name, !is, after)});
        await after();
}

function stateBadge(q)
{
        if (!q)
                return null;
        return q.paused ? badge('paused') : badge('on', 'open');
}

/* A number that leads to the jobs it counts. */
function count(ctx, q, name, status)
{
        const words = fmtNumber(q[name]);
        const to = ctx.link('jobs', {queue: q.name, status});
        return q[name] > 0 ? h('a', {href: to}, words) : words;
}

function columns(ctx)
{
        const num = (key, label, status) => ({
                key,
                label,
                num: true,
                sort: by(key),
                cell: (q) => (status ? count(ctx, q, key, status) : fmtNumber(q[key])),
        });
        return [
                {key: 'state', label: 'State', cell: stateBadge},
                num('ready', 'Ready', 'pending'),
                num('running', 'Running', 'in-progress'),
                num('scheduled', 'Scheduled', 'pending'),
                num('waiting', 'Waiting', 'pending'),
                {
                        key: 'oldest',
                        label: 'Oldest due',
                        cls: 'nowrap',
                        sort: (q) => q.oldest_due_ms || null,
                        cell: (q) => running(q.oldest_due_ms),
                },
                num('completed', 'Completed'),
                num('failed', 'Failed', 'failed'),
        ];
}

/* Only then the server removes it. */
function isEmpty(q)
{
        return q.ready + q.running + q.scheduled + q.waiting === 0;
}

const FORGETS =
        'Its settings, its pause and its counts go. History keeps the jobs that ended, and ' +
        'the next job that names the queue makes it anew.';

const QUEUES = {
        route: 'queues',
        one: 'queue',
        needs: ['PAUSE', 'RESUME', 'UNQUEUE'],
        title: 'All queues',
        hint: 'A paused queue takes jobs in and starts none.',
        empty: 'No queue yet: the first job of a queue makes it.',
        columns,
        actions: (ctx, q, again, gone) => {
                const turn = {
                        text: q.paused ? 'Resume' : 'Pause',
                        needs: q.paused ? 'RESUME' : 'PAUSE',
                        run: () => setPause(ctx, q.name, !q.paused, again),
                };
                const forget = {
                        text: 'Remove',
                        needs: 'UNQUEUE',
                        danger: true,
                        more: true,
                        run: () => remove(ctx, QUEUES, q, FORGETS, gone, ['Remove', 'removed']),
                };
                return isEmpty(q) ? [turn, forget] : [turn];
        },
        top: (ctx, again) => button('Add a job', () => addJobDialog(ctx, again),
                {kind: 'primary.small', needs: 'ENQUEUE'}),
};

/* --- one queue ------------------------------------------------------------------------------- */

const NUMBERS = {
        cap: 'Jobs at once',
        claimsize: 'Jobs of one claim',
        claims: 'Claims at once'
};
const FIELDS = ['cap', 'claimsize', 'claims', 'lease', 'fair', 'backoff', 'history'];
const HISTORY = [
        ['default', 'as configured'], ['full', 'every job'], ['failures', 'failures only'],
        ['none', 'nothing']
];

function readSettings(values)
{
        const body = given(values, ['fair', 'backoff', 'history']);
        for (const [name, words] of Object.entries(NUMBERS))
                body[name] = whole(values[name].trim() || '0', words);
        body.lease = String(values.lease).trim() === '' ? 0 : parseDuration(values.lease);
        if (!Number.isFinite(body.lease))
                throw new Error('A lease is a time such as 30s or 5m.');
        return body;
}

/* For who may not change them. */
function settingsFacts(q)
{
        const [, history] = HISTORY.find(([value]) => value === q.history) || [];
        return facts([
                ...Object.entries(NUMBERS).map(([name, words]) => [words, q[name] || 'any']),
                ['Lease', q.lease ? fmtDuration(q.lease) : 'as configured'],
                ['Backoff', q.backoff || 'none'],
                ['Fair turns', q.fair],
                ['History', history],
        ]);
}

/* {node, isTouched()}.  Only what was changed in it is saved: somebody else may have changed the
 * rest since it was drawn. */
function settingsForm(ctx, q, after)
{
        const where = path('queues', q.name);
        const typed = () => Object.fromEntries(new FormData(el).entries());
        const save = async (values) => {
                const [old, now] = [readSettings(first), readSettings(values)];
                const names = Object.keys(now).filter((name) => now[name] !== old[name]);
                const some = (from) => Object.fromEntries(names.map((name) => [name, from[name]]));
                const undo = async () => {
                        await ctx.api.post(where, some(old));
                        toast('As it was before.');
                        await after();
                };
                if (!names.length) {
                        toast('Nothing is changed.');
                        return;
                }
                await ctx.api.post(where, some(now));
                first = values;
                toast(`Queue ${q.name} was changed.`, {undo});
                await after();
        };
        const number = (name) => {
                const value = q[name] ? String(q[name]) : '';
                return text(name, {inputmode: 'numeric', value, placeholder: 'any'});
        };
        const count = (name, hint) => field(NUMBERS[name], number(name), hint);
        const lease =
                text('lease', {value: q.lease ? shortDuration(q.lease) : '', placeholder: '5m'});
        const fair = select(['off', 'on'], q.fair, {name: 'fair'});
        const backoff = text('backoff', {value: q.backoff || 'none'});
        const history = select(HISTORY, q.history, {name: 'history'});
        const el = form('QUEUESET', save,
                h('div.options', {}, count('cap', 'of this queue; empty: any number'),
                        count('claimsize', 'empty: as it asks for'),
                        count('claims', 'with running jobs; empty: any'),
                        field('Lease', lease, 'of jobs and claims that name none'),
                        field('Backoff', backoff,
                                'default, none, fixed:5s, exp:5s,2,5m,15% or list:1s,30s,5m'),
                        field('Fair turns', fair, 'between groups, by weight'),
                        field('History', history, 'which finished jobs are kept')),
                h('div.actions', {}, h('button.primary', {type: 'submit'}, 'Save')));
        let first = typed();
        return {node: el, isTouched: () => JSON.stringify(typed()) !== JSON.stringify(first)};
}

function figures(ctx, q)
{
        return facts([
                ['Ready', count(ctx, q, 'ready', 'pending')],
                ['Running', count(ctx, q, 'running', 'in-progress')],
                ['Scheduled', count(ctx, q, 'scheduled', 'pending')],
                ['Waiting', count(ctx, q, 'waiting', 'pending')],
                ['Oldest due', running(q.oldest_due_ms)],
                ['Added', fmtNumber(q.enqueued)],
                ['Completed', fmtNumber(q.completed)],
                ['Failed', count(ctx, q, 'failed', 'failed')],
                ['Canceled', fmtNumber(q.canceled)],
        ]);
}

/* How long its jobs waited and ran: the last day, from the server's histograms. */
function times(ctx, name)
{
        const series = ['p50', 'p95', 'p99'].map((p, i) => ({name: p, color: `s${i + 1}`}));
        const drawn = ['wait_ms', 'run_ms'].map((key) => [key, chart({
                title: key === 'run_ms' ? 'Run time' : 'Time from due to start',
                unit: 'ms',
                series
        })]);
        const box = panel('Times', {hint: 'Quantiles of 10 minutes each.'});
        append(box.body, drawn.map(([, c]) => c.node));
        ctx.every(60000, async () => {
                const s = await ctx.api.get(
                        'series', {of: 'queue', name, seconds: 86400, step: 600}, ctx.signal);
                for (const [key, c] of drawn)
                        c.update({...s, values: series.map((p) => s[key][p.name]), thresholds: []});
        });
        ctx.signal.addEventListener('abort', () => drawn.forEach(([, c]) => c.destroy()));
        return box.node;
}

function one(root, name, ctx)
{
        const now = panel('Now');
        const settings = panel(
                'Settings', {hint: 'They hold from the next claim on and survive a restart.'});
        let shown = '';
        let asked = null;
        return nounOne(root, ctx, QUEUES, name, {
                body: h('div.screen', {}, now.node, times(ctx, name), settings.node),
                state: stateBadge,
                more: (q) => h('a', {href: ctx.link('jobs', {queue: q.name})}, 'Its jobs'),
                draw: (q, again) => {
                        refill(now.body, figures(ctx, q));
                        const sign = JSON.stringify(FIELDS.map((key) => q[key]));
                        if (sign === shown || asked && asked.isTouched())
                                return;
                        asked = may('QUEUESET') ? settingsForm(ctx, q, again) : null;
                        fill(settings.body, asked ? asked.node : settingsFacts(q));
                        shown = sign;
                },
        });
}

export async function mount(root, params, ctx)
{
        root.append(pausedBox(ctx));
        await (params.name === undefined ? nounList(root, ctx, QUEUES)
                                         : one(root, params.name, ctx));
        runTimes(root, ctx);
}
