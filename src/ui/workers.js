/* Workers: who takes jobs, from which queues, and what they hold. */
import {badge, button, fmtNumber, h, note} from './lib.js';
import {crumbs, livePanel, rowTable, running, runTimes, workerLine} from './parts.js';

function jobLinks(ctx, w)
{
        const ids = w.jobs || [];
        const more = w.running - ids.length;
        return [ids.map((id, i) => [i ? ', ' : '', h('a', {href: ctx.link('job', id)}, id)]),
                more > 0 ? h('a', {href: ctx.link('jobs', {worker: w.name, status: 'in-progress'})},
                        ` and ${fmtNumber(more)} more`) : null];
}

/* waiting is how many claims stand in line: a number, or whether one does. */
function stateBadge(w)
{
        if (w.running > 0)
                return badge('running', 'works');
        return Number(w.waiting) > 0 ? badge('on', 'waits for jobs') : badge('free', 'idle');
}

export async function mount(root, params, ctx)
{
        const t = rowTable(ctx, {caption: 'Workers', hideCaption: true, key: (w) => `${w.name} ${w.address}`,
                sort: {key: 'name', desc: false}, open: (w) => ctx.link('jobs', {worker: w.name}),
                empty: 'No worker is connected or holds a job.',
                columns: [
                        {key: 'name', label: 'Worker', cls: 'wrap', sort: (w) => w.name, cell: (w) =>
                                h('a', {href: ctx.link('jobs', {worker: w.name})}, w.name)},
                        {key: 'state', label: 'State', cell: stateBadge},
                        {key: 'running', label: 'Running', num: true, sort: (w) => w.running},
                        {key: 'queues', label: 'Queues', cls: 'wrap', cell: (w) => (w.queues || []).map((q, i) =>
                                [i ? ', ' : '', h('a', {href: ctx.link('queues', q)}, q)])},
                        {key: 'jobs', label: 'Jobs', cls: 'wrap full', cell: (w) => jobLinks(ctx, w)},
                        {key: 'address', label: 'Address', cls: 'mono'},
                        {key: 'last', label: 'Last heard', cls: 'nowrap', sort: (w) => w.last_ms,
                                cell: (w) => running(w.last_ms > 1e12 ? w.last_ms : Date.now() - w.last_ms)},
                ]});
        const start = note('info', h('p', {}, 'A worker runs a command for each job; the arguments are its standard '
                + 'input, what it prints is the result. Start one:'), workerLine('default'));
        if (params.name !== undefined)
                root.append(crumbs(ctx, 'workers', 'All workers', h('a', {href: ctx.link('jobs',
                        {worker: params.name})}, 'Its jobs')));
        await livePanel(ctx, root, {title: 'Connected workers', content: t.node,
                hint: 'Those that wait for jobs and those that hold some.',
                actions: button('How to start one', () => {
                        start.hidden = !start.hidden;
                }, {kind: 'small'}),
                missing: 'This server does not list its workers.',
                load: () => ctx.api.get('workers', {}, ctx.signal),
                draw: (a) => {
                        const rows = a.workers.filter((w) => params.name === undefined || w.name === params.name);
                        t.update(rows);
                        if (rows.length === 0)
                                start.hidden = false;
                }});
        start.hidden = t.rows().length > 0;
        root.append(start);
        runTimes(root, ctx);
}
