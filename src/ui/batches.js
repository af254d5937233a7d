/* Batches: how far jobs that belong together are. */
import {badge,
        confirm,
        facts,
        field,
        fill,
        fmtNumber,
        h,
        panel,
        path,
        plural,
        toast} from './lib.js';
import {nounList, nounOne, remove} from './noun.js';
import {bar, by, given, running, runTimes, text} from './parts.js';

function stateBadge(b)
{
        if (!b)
                return null;
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
        const {canceled} = await ctx.api.post(path('batches', b.name, 'cancel'));
        toast(`Batch ${b.name} was canceled, with ${plural(canceled, 'job')} that had not ended.`);
        await after();
}

function actions(ctx, b, again, gone)
{
        const canForget = b.status === 'finished' || b.total === 0;
        const forgets = 'Its counts are gone; its jobs stay in history.';
        const words = ['Forget', 'forgotten'];
        return [
                b.status === 'open'
                        ? {text: 'Close', needs: 'CLOSEBATCH', run: () => close(ctx, b, again)}
                        : null,
                b.left > 0 ? {
                        text: 'Cancel',
                        needs: 'CANCELBATCH',
                        danger: true,
                        run: () => cancel(ctx, b, again)
                }
                           : null,
                canForget ? {
                        text: 'Forget',
                        needs: BATCHES.del,
                        danger: true,
                        run: () => remove(ctx, BATCHES, b, forgets, gone, words),
                }
                          : null,
        ];
}

function fields()
{
        const hook = (name) => text(name, {placeholder: 'no job'});
        return h('div.options', {}, field('Name', text('name', {required: true})),
                field('Title', text('title')),
                field('When all are complete', hook('onsuccess'), 'hook of a job to make'),
                field('When all have ended', hook('ondone'), 'hook of a job to make'),
                field('Queue of these', text('queue', {placeholder: 'default'})));
}

/* --- screens --------------------------------------------------------------------------------- */

function name(ctx, b)
{
        return [
                h('a', {href: ctx.link('batches', b.name)}, b.name),
                b.title ? h('span.sub', {}, b.title) : null,
        ];
}

function columns()
{
        const time = (key, label) => ({
                key,
                label,
                cls: 'nowrap',
                sort: (b) => b[key] || null,
                cell: (b) => running(b[key]),
        });
        return [
                {key: 'state', label: 'State', sort: by('status'), cell: stateBadge},
                {key: 'progress', label: 'Ended', cell: progressCell},
                {key: 'left', label: 'Left', num: true, sort: by('left')},
                time('created_ms', 'Created'),
                time('finished_ms', 'Finished'),
        ];
}

const BATCHES = {
        route: 'batches',
        one: 'batch',
        put: 'BATCH',
        del: 'UNBATCH',
        title: 'All batches',
        empty: 'No batch yet. One counts jobs that belong together, such as the rows of an import, ' +
                'and can make a job when the last of them has ended. Add one, add jobs with its ' +
                'name, then close it.',
        isPaged: true,
        sort: {key: 'created_ms', desc: true},
        name,
        columns,
        actions,
        form: {
                hint: 'Add jobs to it with their option "Batch", then close it.',
                fields,
                read: (values) => given(values, ['title', 'onsuccess', 'ondone', 'queue']),
        },
};

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

function one(root, batch, ctx)
{
        const p = panel('Progress');
        return nounOne(root, ctx, BATCHES, batch, {
                body: p.node,
                state: stateBadge,
                draw: (b) => fill(p.body, h('div', {}, progressCell(b)), about(b)),
        });
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? nounList(root, ctx, BATCHES, params)
                                         : one(root, params.name, ctx));
        runTimes(root, ctx);
}
