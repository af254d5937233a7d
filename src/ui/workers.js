/* Workers: who takes jobs, from which queues, and what they hold. */
import {badge, button, fmtNumber, h, note} from './lib.js';
import {by, crumbs, livePanel, rowTable, running, runTimes, workerLine} from './parts.js';

function commas(nodes)
{
        return nodes.map((node, i) => [i ? ', ' : '', node]);
}

function jobLinks(ctx, w)
{
        const ids = w.jobs || [];
        const more = w.running - ids.length;
        const all = ctx.link('jobs', {worker: w.name, status: 'in-progress'});
        return [
                commas(ids.map((id) => h('a', {href: ctx.link('job', id)}, id))),
                more > 0 ? h('a', {href: all}, ` and ${fmtNumber(more)} more`) : null,
        ];
}

const AWAY_MS = 60000; /* one that waits asks again well before */

/* waiting is how many claims stand in line. */
function stateBadge(w)
{
        if (w.running > 0)
                return badge('running', 'works');
        if (Number(w.waiting) > 0)
                return badge('on', 'waits for jobs');
        return Date.now() - w.last_ms > AWAY_MS ? badge('off', 'away') : badge('free', 'idle');
}

function columns(ctx)
{
        const name = (w) => h('a', {href: ctx.link('jobs', {worker: w.name})}, w.name);
        const queues = (w) =>
                commas((w.queues || []).map((q) => h('a', {href: ctx.link('queues', q)}, q)));
        return [
                {key: 'name', label: 'Worker', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'state', label: 'State', cell: stateBadge},
                {key: 'running', label: 'Running', num: true, sort: by('running')},
                {key: 'queues', label: 'Queues', cls: 'wrap', cell: queues},
                {key: 'jobs', label: 'Jobs', cls: 'wrap', cell: (w) => jobLinks(ctx, w)},
                {key: 'address', label: 'Address', cls: 'mono'},
                {
                        key: 'last',
                        label: 'Last heard',
                        cls: 'nowrap',
                        sort: by('last_ms'),
                        cell: (w) => running(w.last_ms),
                },
        ];
}

function help()
{
        return note('info',
                h('p', {}, 'A worker runs a command for each job: the arguments come on its ',
                        'standard input, what it prints is the result. Start one:'),
                workerLine('default'));
}

export async function mount(root, params, ctx)
{
        const isOne = params.name !== undefined;
        const start = help();
        const t = rowTable(ctx, {
                caption: 'All workers',
                hideCaption: true,
                key: (w) => `${w.name} ${w.address}`,
                sort: {key: 'name', desc: false},
                open: (w) => ctx.link('jobs', {worker: w.name}),
                empty: 'No worker is connected or holds a job.',
                columns: columns(ctx),
        });
        const show = button(
                'How to start one', () => { start.hidden = !start.hidden; }, {kind: 'small'});
        const draw = ({workers}) => {
                const rows = workers.filter((w) => !isOne || w.name === params.name);
                t.update(rows);
                if (rows.length === 0)
                        start.hidden = false;
        };
        const jobs = ctx.link('jobs', {worker: params.name});
        if (isOne)
                root.append(
                        crumbs(ctx, 'workers', 'All workers', h('a', {href: jobs}, 'Its jobs')));
        start.hidden = true;
        await livePanel(ctx, root, {
                title: 'Workers and what they hold',
                hint: 'Those that wait for jobs, hold some, or did lately.',
                content: t.node,
                actions: show,
                missing: 'This server does not list its workers.',
                load: () => ctx.api.get('workers', {}, ctx.signal),
                draw,
        });
        root.append(start);
        runTimes(root, ctx);
}
