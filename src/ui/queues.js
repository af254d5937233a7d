/* Queues: how deep, how old, paused or not; and the settings of one. */
import {addJobDialog} from './add_job.js';
import {
        badge,
        button,
        facts,
        field,
        fill,
        fmtNumber,
        form,
        h,
        note,
        panel,
        parseDuration,
        path,
        select,
        shortDuration,
        toast
} from './lib.js';
import {by, crumbs, given, livePanel, rowTable, running, runTimes, text} from './parts.js';

/* Each way offers the other. */
async function setPause(ctx, name, is, after)
{
        await ctx.api.post(path('queues', name, is ? 'pause' : 'resume'));
        const said = is ? 'was paused: running jobs go on, no other starts' : 'was resumed';
        toast(`Queue ${name} ${said}.`, {undo: () => setPause(ctx, name, !is, after)});
        await after();
}

function pauseButton(ctx, q, after)
{
        const verb = q.paused ? 'Resume' : 'Pause';
        const run = () => setPause(ctx, q.name, !q.paused, after);
        return button(verb, run, {kind: 'small', label: `${verb} queue ${q.name}`});
}

function stateBadge(q)
{
        return q.paused ? badge('paused') : badge('on', 'open');
}

/* A number that leads to the jobs it counts. */
function count(ctx, q, name, status)
{
        const words = fmtNumber(q[name]);
        const to = ctx.link('jobs', {queue: q.name, status});
        return q[name] > 0 ? h('a', {href: to}, words) : words;
}

function columns(ctx, again)
{
        const num = (key, label, status) => ({
                key,
                label,
                num: true,
                sort: by(key),
                cell: (q) => (status ? count(ctx, q, key, status) : fmtNumber(q[key])),
        });
        const name = (q) => h('a', {href: ctx.link('queues', q.name)}, q.name);
        return [
                {key: 'name', label: 'Queue', cls: 'wrap', sort: by('name'), cell: name},
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
                {
                        key: 'do',
                        cls: 'act',
                        cell: (q) => h('div.actions', {}, pauseButton(ctx, q, again)),
                },
        ];
}

async function list(root, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {
                caption: 'Queues',
                hideCaption: true,
                key: by('name'),
                empty: 'No queue yet: the first job of a queue makes it.',
                sort: {key: 'name', desc: false},
                open: (q) => ctx.link('queues', q.name),
                columns: columns(ctx, again),
        });
        const add = button('Add a job', () => addJobDialog(ctx, again), {kind: 'primary.small'});
        ({refresh} = await livePanel(ctx, root, {
                title: 'All queues',
                hint: 'A paused queue takes jobs in and starts none.',
                content: t.node,
                actions: add,
                load: () => ctx.api.get('queues', {}, ctx.signal),
                draw: (answer) => t.update(answer.queues),
        }));
}

/* --- one queue ------------------------------------------------------------------------------- */

const FIELDS = ['cap', 'claimsize', 'claims', 'lease', 'fair', 'backoff', 'history'];
const HISTORY = [
        ['default', 'as configured'], ['full', 'every job'], ['failures', 'failures only'],
        ['none', 'nothing']
];

function readSettings(values)
{
        const body = given(values, ['fair', 'backoff', 'history']);
        for (const name of ['cap', 'claimsize', 'claims']) {
                const typed = String(values[name]).trim() || '0';
                if (!/^\d+$/.test(typed))
                        throw new Error(`"${name}" is a whole number.`);
                body[name] = Number(typed);
        }
        body.lease = String(values.lease).trim() === '' ? 0 : parseDuration(values.lease);
        if (!Number.isFinite(body.lease))
                throw new Error('A lease is a time such as 30s or 5m.');
        return body;
}

function settingsForm(ctx, q, after)
{
        const where = path('queues', q.name);
        const old = Object.fromEntries(FIELDS.map((name) => [name, q[name]]));
        const undo = async () => {
                await ctx.api.post(where, {...old, backoff: old.backoff || 'none'});
                toast('As it was before.');
                await after();
        };
        const save = async (values) => {
                await ctx.api.post(where, readSettings(values));
                toast(`Queue ${q.name} was changed.`, {undo});
                await after();
        };
        const number = (name) => {
                const value = q[name] ? String(q[name]) : '';
                return text(name, {inputmode: 'numeric', value, placeholder: 'any'});
        };
        const lease =
                text('lease', {value: q.lease ? shortDuration(q.lease) : '', placeholder: '5m'});
        const fair = select(['off', 'on'], q.fair, {name: 'fair'});
        const backoff = text('backoff', {value: q.backoff || 'none'});
        const history = select(HISTORY, q.history, {name: 'history'});
        return form(save,
                h('div.options', {},
                        field('Jobs at once', number('cap'), 'of this queue; empty: any number'),
                        field('Jobs of one claim', number('claimsize'), 'empty: as it asks for'),
                        field('Claims at once', number('claims'), 'with running jobs; empty: any'),
                        field('Lease', lease, 'of jobs and claims that name none'),
                        field('Backoff', backoff,
                                'none, fixed:5s, exp:5s,2,5m,15% or list:1s,30s,5m'),
                        field('Fair turns', fair, 'between groups, by weight'),
                        field('History', history, 'which finished jobs are kept')),
                h('div.actions', {}, h('button.primary', {type: 'submit'}, 'Save')));
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

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const now = panel('Now');
        const settings = panel(
                'Settings', {hint: 'They hold from the next claim on and survive a restart.'});
        root.append(crumbs(ctx, 'queues', 'All queues', top), now.node, settings.node);
        let shown = '';
        const load = async (isChanged) => {
                let q;
                try {
                        q = await ctx.api.get(path('queues', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        settings.node.hidden = true;
                        fill(now.body, note('info', h('p', {}, e.message)));
                        return;
                }
                settings.node.hidden = false;
                fill(now.body, figures(ctx, q));
                const jobs = h('a', {href: ctx.link('jobs', {queue: q.name})}, 'Its jobs');
                if (isChanged || !top.contains(document.activeElement))
                        fill(top, stateBadge(q), pauseButton(ctx, q, () => load(true)), jobs);
                const sign = JSON.stringify(FIELDS.map((name) => q[name]));
                if (sign !== shown)
                        fill(settings.body, settingsForm(ctx, q, () => load(true)));
                shown = sign;
        };
        await ctx.every(2000, () => load(false));
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
