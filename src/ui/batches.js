/* Batches: how far jobs that belong together are. */
import {
        badge,
        button,
        confirm,
        facts,
        field,
        fill,
        fmtNumber,
        h,
        note,
        panel,
        path,
        plural,
        toast
} from './lib.js';
import {
        allPages,
        bar,
        by,
        crumbs,
        CUT,
        formDialog,
        given,
        livePanel,
        rowTable,
        running,
        runTimes,
        text
} from './parts.js';

function stateBadge(b)
{
        if (b.status !== 'finished')
                return badge(b.status === 'open' ? 'on' : 'waiting', b.status);
        return b.failed + b.canceled > 0 ? badge('failed', 'finished, not all complete')
                                         : badge('complete', 'finished');
}

function progressCell(b)
{
        const done = b.total - b.left;
        const share = b.total ? Math.floor((done / b.total) * 100) : 0;
        const bad = [
                b.failed ? `${fmtNumber(b.failed)} failed` : '',
                b.canceled ? `${fmtNumber(b.canceled)} canceled` : '',
        ].filter(Boolean);
        return [
                h('span', {}, `${fmtNumber(done)} of ${fmtNumber(b.total)} (${share} %)`),
                bar([[b.complete, 'good'], [b.failed, 'bad'], [b.canceled, 'calm']], b.total),
                bad.length ? h('span.sub', {}, bad.join(', ')) : null,
        ];
}

/* --- actions --------------------------------------------------------------------------------- */

async function close(ctx, b, after)
{
        const question = {
                title: `Close batch ${b.name}?`,
                text: [
                        'It takes no more jobs, and is finished when the last of them has ended.',
                        'It cannot be opened again.',
                ],
                yes: 'Close it',
        };
        if (!await confirm(question))
                return;
        await ctx.api.post(path('batches', b.name, 'close'));
        toast(`Batch ${b.name} was closed.`);
        await after();
}

async function cancel(ctx, b, after)
{
        const left = plural(b.left, 'job has', 'jobs have');
        const question = {
                title: `Cancel batch ${b.name}?`,
                text: [
                        `${left} not ended and would be canceled, running ones too.`,
                        'The batch takes no more jobs.',
                ],
                yes: `Cancel ${plural(b.left, 'job')}`,
                danger: true,
                typed: b.left > 1000 ? String(b.left) : undefined,
        };
        if (!await confirm(question))
                return;
        await ctx.api.post(path('batches', b.name, 'cancel'));
        toast(`Batch ${b.name} was canceled.`);
        await after();
}

async function remove(ctx, b, after)
{
        const question = {
                title: `Forget batch ${b.name}?`,
                text: 'Its counts are gone; its jobs stay in history.',
                yes: 'Forget it',
                danger: true,
        };
        if (!await confirm(question))
                return;
        await ctx.api.del(path('batches', b.name));
        toast(`Batch ${b.name} was forgotten.`);
        await after();
}

function actions(ctx, b, after, gone = after)
{
        const one = (words, run, kind) =>
                button(words, run, {kind, label: `${words} batch ${b.name}`});
        const canForget = b.status === 'finished' || b.total === 0;
        return h('div.actions', {},
                b.status === 'open' ? one('Close', () => close(ctx, b, after), 'small') : null,
                b.left > 0 ? one('Cancel', () => cancel(ctx, b, after), 'small.danger') : null,
                canForget ? one('Forget', () => remove(ctx, b, gone), 'small.danger') : null);
}

function add(ctx, after)
{
        const hook = (name) => text(name, {placeholder: 'no job'});
        return formDialog('Add a batch', {
                hint: 'Add jobs to it with their option "Batch", then close it.',
                fields: h('div.options', {}, field('Name', text('name', {required: true})),
                        field('Title', text('title')),
                        field('When all are complete', hook('onsuccess'), 'hook of a job to make'),
                        field('When all have ended', hook('ondone'), 'hook of a job to make'),
                        field('Queue of these', text('queue', {placeholder: 'default'}))),
                yes: 'Add the batch',
                submit: async (values) => {
                        const name = values.name.trim();
                        const body = given(values, ['title', 'onsuccess', 'ondone', 'queue']);
                        await ctx.api.post(path('batches', name), body);
                        toast(`Batch ${name} was added.`);
                        await after();
                },
        });
}

/* --- screens --------------------------------------------------------------------------------- */

function columns(ctx, again)
{
        const name = (b) => [h('a', {href: ctx.link('batches', b.name)}, b.name),
                b.title ? h('span.sub', {}, b.title) : null,
        ];
        const time = (key, label) => ({
                key,
                label,
                cls: 'nowrap',
                sort: (b) => b[key] || null,
                cell: (b) => running(b[key]),
        });
        return [
                {key: 'name', label: 'Batch', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'state', label: 'State', sort: by('status'), cell: stateBadge},
                {key: 'progress', label: 'Ended', cell: progressCell},
                {key: 'left', label: 'Left', num: true, sort: by('left')},
                time('created_ms', 'Created'),
                time('finished_ms', 'Finished'),
                {key: 'do', cls: 'act', cell: (b) => actions(ctx, b, again)},
        ];
}

async function list(root, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const cut = h('p.hint', {hidden: true}, CUT);
        const t = rowTable(ctx, {
                caption: 'Batches',
                hideCaption: true,
                key: by('name'),
                empty: 'No batch.',
                sort: {key: 'created_ms', desc: true},
                open: (b) => ctx.link('batches', b.name),
                columns: columns(ctx, again),
        });
        ({refresh} = await livePanel(ctx, root, {
                title: 'All batches',
                content: h('div', {}, t.node, cut),
                actions: button('Add a batch', () => add(ctx, again), {kind: 'primary.small'}),
                load: () => allPages(ctx, 'batches', 'batches'),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                },
        }));
}

function about(b)
{
        const hook = (c) => (c && typeof c === 'object' ? c.hook : c) || 'nothing';
        return facts([
                b.title ? ['Title', b.title] : null,
                ['Jobs', fmtNumber(b.total)],
                ['Left', fmtNumber(b.left)],
                ['Complete', fmtNumber(b.complete)],
                ['Failed', fmtNumber(b.failed)],
                ['Canceled', fmtNumber(b.canceled)],
                ['Created', running(b.created_ms)],
                ['Finished', running(b.finished_ms)],
                ['When all are complete', hook(b.onsuccess)],
                ['When all have ended', hook(b.ondone)],
                ['Queue of these', b.queue],
        ]);
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const p = panel('Progress');
        root.append(crumbs(ctx, 'batches', 'All batches', top), p.node);
        const gone = () => ctx.navigate('batches');
        const load = async (isChanged) => {
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
                if (isChanged || !top.contains(document.activeElement))
                        fill(top, stateBadge(b), actions(ctx, b, () => load(true), gone));
                fill(p.body, h('div', {}, progressCell(b)), about(b));
        };
        await ctx.every(2000, () => load(false));
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
