/* Batches: how far jobs that belong together are. */
import {badge, button, confirm, facts, field, fill, fmtNumber, h, note, panel, path, plural, toast}
        from './lib.js';
import {allPages, bar, crumbs, formDialog, given, livePanel, rowTable, running, runTimes, text}
        from './parts.js';

function stateBadge(b)
{
        const isBad = b.failed + b.canceled > 0;
        if (b.status === 'finished')
                return badge(isBad ? 'failed' : 'complete', isBad ? 'finished, not all complete' : 'finished');
        return badge(b.status === 'open' ? 'on' : 'waiting', b.status);
}

function parts(b)
{
        return [[b.complete, 'good'], [b.failed, 'bad'], [b.canceled, 'calm']];
}

function progressCell(b)
{
        const done = b.total - b.left;
        const share = b.total ? Math.floor(done / b.total * 100) : 0;
        return [h('span', {}, `${fmtNumber(done)} of ${fmtNumber(b.total)} (${share} %)`), bar(parts(b), b.total),
                b.failed || b.canceled ? h('span.sub', {}, [b.failed ? `${fmtNumber(b.failed)} failed` : '',
                        b.canceled ? `${fmtNumber(b.canceled)} canceled` : ''].filter(Boolean).join(', ')) : null];
}

async function close(ctx, b, after)
{
        if (!await confirm({title: `Close batch ${b.name}?`, yes: 'Close it',
                text: 'It takes no more jobs, and is finished when the last of them has ended. It cannot be opened '
                        + 'again.'}))
                return;
        await ctx.api.post(path('batches', b.name, 'close'));
        toast(`Batch ${b.name} was closed.`);
        await after();
}

async function cancel(ctx, b, after)
{
        if (!await confirm({title: `Cancel batch ${b.name}?`, yes: `Cancel ${plural(b.left, 'job')}`, danger: true,
                typed: b.left > 1000 ? String(b.left) : undefined,
                text: `${plural(b.left, 'job has', 'jobs have')} not ended and would be canceled, running ones too. `
                        + 'The batch takes no more jobs.'}))
                return;
        await ctx.api.post(path('batches', b.name, 'cancel'));
        toast(`Batch ${b.name} was canceled.`);
        await after();
}

async function remove(ctx, b, after)
{
        if (!await confirm({title: `Forget batch ${b.name}?`, yes: 'Forget it', danger: true,
                text: 'Its counts are gone; its jobs stay in history.'}))
                return;
        await ctx.api.del(path('batches', b.name));
        toast(`Batch ${b.name} was forgotten.`);
        await after();
}

function actions(ctx, b, after, gone)
{
        const isOver = b.status === 'finished';
        return h('div.actions', {},
                b.status === 'open' ? button('Close', () => close(ctx, b, after), {kind: 'small',
                        label: `Close batch ${b.name}`}) : null,
                isOver || b.total === 0 ? null : button('Cancel', () => cancel(ctx, b, after),
                        {kind: 'small.danger', label: `Cancel batch ${b.name}`}),
                isOver || b.total === 0 ? button('Forget', () => remove(ctx, b, gone || after),
                        {kind: 'small.danger', label: `Forget batch ${b.name}`}) : null);
}

function add(ctx, after)
{
        return formDialog('Add a batch', {yes: 'Add the batch', hint: 'Add jobs to it with their option "Batch", '
                + 'then close it. Callbacks are jobs that weir makes at its end.',
        fields: h('div.options', {}, field('Name', text('name', {required: true})), field('Title', text('title')),
                field('When all are complete', text('onsuccess', {placeholder: 'no job'}), 'hook of a job to make'),
                field('When all have ended', text('ondone', {placeholder: 'no job'}), 'hook of a job to make'),
                field('Queue of these', text('queue', {placeholder: 'default'}))),
        submit: async (values) => {
                await ctx.api.post(path('batches', values.name.trim()),
                        given(values, ['title', 'onsuccess', 'ondone', 'queue']));
                toast(`Batch ${values.name.trim()} was added.`);
                await after();
        }});
}

async function list(root, ctx)
{
        let refresh = async () => {};
        const cut = h('p.hint', {hidden: true}, 'Only the first 2,000 by name are shown.');
        const t = rowTable(ctx, {caption: 'Batches', hideCaption: true, key: (b) => b.name, empty: 'No batch.',
                open: (b) => ctx.link('batches', b.name), sort: {key: 'created', desc: true},
                columns: [
                        {key: 'name', label: 'Batch', cls: 'wrap', sort: (b) => b.name, cell: (b) => [h('a',
                                {href: ctx.link('batches', b.name)}, b.name),
                        b.title ? h('span.sub', {}, b.title) : null]},
                        {key: 'state', label: 'State', sort: (b) => b.status, cell: stateBadge},
                        {key: 'progress', label: 'Ended', cls: 'full', cell: progressCell},
                        {key: 'left', label: 'Left', num: true, sort: (b) => b.left},
                        {key: 'created', label: 'Created', cls: 'nowrap', sort: (b) => b.created_ms,
                                cell: (b) => running(b.created_ms)},
                        {key: 'finished', label: 'Finished', cls: 'nowrap', cell: (b) => running(b.finished_ms)},
                        {key: 'do', label: '', cls: 'act', cell: (b) => actions(ctx, b, () => refresh())},
                ]});
        ({refresh} = await livePanel(ctx, root, {title: 'All batches', content: h('div', {}, t.node, cut),
                actions: button('Add a batch', () => add(ctx, () => refresh()), {kind: 'primary.small'}),
                load: () => allPages(ctx, 'batches', 'batches'),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                }}));
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const p = panel('Progress');
        root.append(crumbs(ctx, 'batches', 'All batches', top), p.node);
        const load = async (isNew) => {
                let b;
                try {
                        b = await ctx.api.get(path('batches', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        fill(p.body, note('info', h('p', {}, e.message)));
                        fill(top);
                        return;
                }
                if (isNew || !top.contains(document.activeElement))
                        fill(top, stateBadge(b), actions(ctx, b, () => load(true), () => ctx.navigate('batches')));
                const hook = (c) => (c && typeof c === 'object' ? c.hook : c);
                fill(p.body, h('div', {}, progressCell(b)), facts([
                        b.title ? ['Title', b.title] : null,
                        ['Jobs', fmtNumber(b.total)], ['Left', fmtNumber(b.left)],
                        ['Complete', fmtNumber(b.complete)], ['Failed', fmtNumber(b.failed)],
                        ['Canceled', fmtNumber(b.canceled)], ['Created', running(b.created_ms)],
                        ['Finished', running(b.finished_ms)],
                        ['When all are complete', hook(b.onsuccess) || 'nothing'],
                        ['When all have ended', hook(b.ondone) || 'nothing'], ['Queue of these', b.queue]]));
        };
        await ctx.every(2000, () => load(false));
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
