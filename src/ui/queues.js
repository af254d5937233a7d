/* Queues: how deep, how old, paused or not; and the settings of one. */
import {badge, button, facts, field, fill, fmtNumber, form, h, note, panel, parseDuration, path, select,
        shortDuration, toast} from './lib.js';
import {addJobDialog} from './add_job.js';
import {crumbs, given, livePanel, rowTable, running, runTimes, text} from './parts.js';

/* Both ways with the way back. */
async function setPause(ctx, name, is, after)
{
        await ctx.api.post(path('queues', name, is ? 'pause' : 'resume'));
        toast(is ? `Queue ${name} was paused: running jobs go on, no other starts.` : `Queue ${name} was resumed.`,
                {undo: () => setPause(ctx, name, !is, after)});
        await after();
}

function pauseButton(ctx, q, after)
{
        return button(q.paused ? 'Resume' : 'Pause', () => setPause(ctx, q.name, !q.paused, after),
                {kind: 'small', label: `${q.paused ? 'Resume' : 'Pause'} queue ${q.name}`});
}

function stateBadge(q)
{
        return q.paused ? badge('paused') : badge('on', 'open');
}

function count(ctx, q, name, status)
{
        const n = q[name];
        return n > 0 ? h('a', {href: ctx.link('jobs', {queue: q.name, status})}, fmtNumber(n)) : fmtNumber(n);
}

async function list(root, ctx)
{
        let refresh = async () => {};
        const t = rowTable(ctx, {caption: 'Queues', hideCaption: true, key: (q) => q.name,
                empty: 'No queue yet: the first job of a queue makes it.', sort: {key: 'name', desc: false},
                open: (q) => ctx.link('queues', q.name),
                columns: [
                        {key: 'name', label: 'Queue', cls: 'wrap', sort: (q) => q.name,
                                cell: (q) => h('a', {href: ctx.link('queues', q.name)}, q.name)},
                        {key: 'state', label: 'State', cell: stateBadge},
                        {key: 'ready', label: 'Ready', num: true, sort: (q) => q.ready,
                                cell: (q) => count(ctx, q, 'ready', 'pending')},
                        {key: 'running', label: 'Running', num: true, sort: (q) => q.running,
                                cell: (q) => count(ctx, q, 'running', 'in-progress')},
                        {key: 'scheduled', label: 'Scheduled', num: true, sort: (q) => q.scheduled,
                                cell: (q) => count(ctx, q, 'scheduled', 'pending')},
                        {key: 'waiting', label: 'Waiting', num: true, sort: (q) => q.waiting,
                                cell: (q) => count(ctx, q, 'waiting', 'pending')},
                        {key: 'oldest', label: 'Oldest due', cls: 'nowrap', sort: (q) => q.oldest_due_ms || null,
                                cell: (q) => running(q.oldest_due_ms)},
                        {key: 'completed', label: 'Completed', num: true, sort: (q) => q.completed},
                        {key: 'failed', label: 'Failed', num: true, sort: (q) => q.failed,
                                cell: (q) => count(ctx, q, 'failed', 'failed')},
                        {key: 'do', label: '', cls: 'act', cell: (q) => h('div.actions', {},
                                pauseButton(ctx, q, () => refresh()))},
                ]});
        const p = await livePanel(ctx, root, {title: 'All queues', content: t.node,
                hint: 'A paused queue takes jobs in and starts none. Counts of ended jobs are since it exists.',
                actions: button('Add a job', () => addJobDialog(ctx, () => refresh()), {kind: 'primary.small'}),
                load: () => ctx.api.get('queues', {}, ctx.signal), draw: (a) => t.update(a.queues)});
        ({refresh} = p);
}

const FIELDS = ['cap', 'claimsize', 'claims', 'lease', 'fair', 'backoff', 'history'];

function readSettings(values)
{
        const body = given(values, ['fair', 'backoff', 'history']);
        for (const name of ['cap', 'claimsize', 'claims']) {
                const v = String(values[name]).trim() || '0';
                if (!/^\d+$/.test(v))
                        throw new Error(`"${name}" is a whole number.`);
                body[name] = Number(v);
        }
        body.lease = String(values.lease).trim() === '' ? 0 : parseDuration(values.lease);
        if (!Number.isFinite(body.lease))
                throw new Error('A lease is a time such as 30s or 5m.');
        return body;
}

function settingsForm(ctx, q, after)
{
        const number = (name) => text(name, {inputmode: 'numeric', value: q[name] ? String(q[name]) : '',
                placeholder: 'any'});
        const old = Object.fromEntries(FIELDS.map((name) => [name, q[name]]));
        const where = path('queues', q.name);
        const save = async (values) => {
                await ctx.api.post(where, readSettings(values));
                toast(`Queue ${q.name} was changed.`, {undo: async () => {
                        await ctx.api.post(where, {...old, backoff: old.backoff || 'none'});
                        toast('As it was before.');
                        await after();
                }});
                await after();
        };
        return form(save, h('div.options', {},
                field('Jobs at once', number('cap'), 'of this queue; empty: any number'),
                field('Jobs of one claim', number('claimsize'), 'empty: as many as it asks for'),
                field('Claims at once', number('claims'), 'with running jobs; empty: any'),
                field('Lease', text('lease', {value: q.lease ? shortDuration(q.lease) : '', placeholder: '5m'}),
                        'of jobs and claims that name none'),
                field('Backoff', text('backoff', {value: q.backoff || 'none'}),
                        'none, fixed:5s, exp:5s,2,5m,15% or list:1s,30s,5m'),
                field('Fair turns', select(['off', 'on'], q.fair, {name: 'fair'}), 'between groups, by weight'),
                field('History', select([['default', 'as configured'], ['full', 'every job'],
                        ['failures', 'failures only'], ['none', 'nothing']], q.history, {name: 'history'}),
                'which finished jobs are kept')),
        h('div.actions', {}, h('button.primary', {type: 'submit'}, 'Save')));
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const figures = panel('Now');
        const settings = panel('Settings', {hint: 'They hold from the next claim on and survive a restart.'});
        root.append(crumbs(ctx, 'queues', 'All queues', top), figures.node, settings.node);
        let shown = '';
        const load = async (isNew) => {
                let q;
                try {
                        q = await ctx.api.get(path('queues', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        settings.node.hidden = true;
                        fill(figures.body, note('info', h('p', {}, e.message)));
                        return;
                }
                settings.node.hidden = false;
                const link = (words, status) => h('a', {href: ctx.link('jobs', {queue: q.name, status})}, words);
                fill(figures.body, facts([
                        ['Ready', count(ctx, q, 'ready', 'pending')], ['Running', count(ctx, q, 'running',
                                'in-progress')],
                        ['Scheduled', count(ctx, q, 'scheduled', 'pending')],
                        ['Waiting', count(ctx, q, 'waiting', 'pending')],
                        ['Oldest due', running(q.oldest_due_ms)], ['Added', fmtNumber(q.enqueued)],
                        ['Completed', fmtNumber(q.completed)], ['Failed', count(ctx, q, 'failed', 'failed')],
                        ['Canceled', fmtNumber(q.canceled)]]));
                if (!top.contains(document.activeElement) || isNew)
                        fill(top, stateBadge(q), pauseButton(ctx, q, () => load(true)), link('Its jobs', ''));
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
