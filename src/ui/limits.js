/* Limits: how many in how much time, and caps: how many at once. */
import {badge, button, confirm, field, fmtDuration, fmtNumber, h, parseDuration, path, plural, select,
        shortDuration, toast} from './lib.js';
import {bar, crumbs, formDialog, fromNow, given, livePanel, rowTable, runTimes, text} from './parts.js';

/* --- rate limits ---------------------------------------------------------------------------------- */

const whole = (value, name) => {
        if (!/^\d+$/.test(String(value).trim()))
                throw new Error(`"${name}" is a whole number.`);
        return Number(value);
};

function rule(l)
{
        const most = `${fmtNumber(l.amount)} per ${fmtDuration(l.period_ms)}`;
        return l.kind === 'tokens' ? `${most}, bucket of ${fmtNumber(l.burst)}` : most;
}

function usage(l)
{
        const most = l.kind === 'tokens' ? l.burst || l.amount : l.amount;
        const share = most ? l.used / most : 0;
        return [h('span', {}, `${fmtNumber(l.used)} of ${fmtNumber(most)}`),
                bar([[l.used, share >= 1 ? 'bad' : share > 0.8 ? 'warn' : 'good']], most)];
}

function body(l)
{
        const out = {amount: l.amount, period: l.period_ms, kind: l.kind};
        if (l.kind === 'tokens' && l.burst)
                out.burst = l.burst;
        return out;
}

function edit(ctx, l, after)
{
        const kind = select([['window', 'window: never over'], ['tokens', 'tokens: fills evenly']],
                l ? l.kind : 'window', {name: 'kind', onchange: () => show()});
        const burst = field('Burst', text('burst', {inputmode: 'numeric', placeholder: 'the amount',
                value: l && l.burst ? String(l.burst) : ''}), 'how many the bucket holds');
        const show = () => {
                burst.hidden = kind.value !== 'tokens';
        };
        show();
        return formDialog(l ? `Change limit ${l.name}` : 'Add a limit', {yes: l ? 'Change it' : 'Add the limit',
                hint: 'queue:NAME holds for every start of a queue, hook:NAME for a hook; any other name for jobs and '
                        + 'clients that name it.',
                fields: h('div.options', {},
                        field('Name', text('name', {required: true, value: l ? l.name : '', readOnly: Boolean(l),
                                placeholder: 'queue:mail'})),
                        field('How many', text('amount', {required: true, inputmode: 'numeric',
                                value: l ? String(l.amount) : ''})),
                        field('In', text('period', {required: true, placeholder: '1m',
                                value: l ? shortDuration(l.period_ms) : ''}), '1s, 1m, 1h'),
                        field('Kind', kind), burst),
                submit: async (v) => {
                        const period = parseDuration(v.period);
                        if (!Number.isFinite(period))
                                throw new Error('The time is one such as 1s, 1m or 1h.');
                        const to = {amount: whole(v.amount, 'How many'), period, kind: v.kind};
                        if (v.kind === 'tokens' && v.burst.trim())
                                to.burst = whole(v.burst, 'Burst');
                        const where = path('limits', v.name.trim());
                        await ctx.api.post(where, to);
                        toast(`Limit ${v.name.trim()} was ${l ? 'changed' : 'added'}.`, {undo: async () => {
                                await (l ? ctx.api.post(where, body(l)) : ctx.api.del(where));
                                await after();
                        }});
                        await after();
                }});
}

async function reset(ctx, l, after)
{
        if (!await confirm({title: `Reset limit ${l.name}?`, yes: 'Reset it',
                text: `What was taken (${fmtNumber(l.used)}) is forgotten: as many may start at once as the limit `
                        + 'allows.'}))
                return;
        await ctx.api.post(path('limits', l.name, 'reset'));
        toast(`Limit ${l.name} was reset.`);
        await after();
}

async function remove(ctx, l, after)
{
        if (!await confirm({title: `Delete limit ${l.name}?`, yes: 'Delete it', danger: true,
                text: l.waiting_jobs ? `${plural(l.waiting_jobs, 'job that waits', 'jobs that wait')} for it may start `
                        + 'at once.' : 'Nothing is held back by it any more.'}))
                return;
        await ctx.api.del(path('limits', l.name));
        toast(`Limit ${l.name} was deleted.`, {undo: async () => {
                await ctx.api.post(path('limits', l.name), body(l));
                await after();
        }});
        await after();
}

async function limits(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {caption: 'Rate limits and their use', hideCaption: true, key: (l) => l.name,
                empty: params.name === undefined ? 'No rate limit.' : 'There is no such limit.',
                sort: {key: 'name', desc: false}, open: (l) => ctx.link('limits', l.name),
                columns: [
                        {key: 'name', label: 'Limit', cls: 'wrap', sort: (l) => l.name, cell: (l) => [h('a',
                                {href: ctx.link('limits', l.name)}, l.name),
                        l.passing ? h('span.sub', {}, 'made by a client') : null]},
                        {key: 'rule', label: 'Rule', cell: (l) => [rule(l), h('span.sub', {}, l.kind)]},
                        {key: 'used', label: 'Used', cls: 'full', sort: (l) => l.used, cell: usage},
                        {key: 'retry', label: 'Next', cls: 'nowrap', cell: (l) => (l.retry_ms > 0
                                ? [badge('waiting', 'used up'), h('span.sub', {}, 'free in ',
                                        fromNow(l.retry_ms, 'left'))] : badge('on', 'free'))},
                        {key: 'reset', label: 'Empty in', cls: 'nowrap', cell: (l) => (l.reset_ms > 0
                                ? fromNow(l.reset_ms, 'left') : '–')},
                        {key: 'waiting', label: 'Waiting', num: true, sort: (l) => l.waiting_jobs + l.waiting_clients,
                                cell: (l) => fmtNumber(l.waiting_jobs + l.waiting_clients)},
                        {key: 'do', label: '', cls: 'act', cell: (l) => h('div.actions', {},
                                button('Reset', () => reset(ctx, l, again), {kind: 'small', label:
                                        `Reset limit ${l.name}`, disabled: l.used === 0}),
                                button('Change', () => edit(ctx, l, again), {kind: 'small',
                                        label: `Change limit ${l.name}`}),
                                button('Delete', () => remove(ctx, l, again), {kind: 'small.danger',
                                        label: `Delete limit ${l.name}`}))},
                ]});
        ({refresh} = await livePanel(ctx, root, {title: 'Rate limits', content: t.node,
                hint: 'How many in how much time. What exceeds one waits; it uses no attempt.',
                actions: button('Add a limit', () => edit(ctx, null, again), {kind: 'primary.small'}),
                load: async () => (params.name === undefined ? (await ctx.api.get('limits', {}, ctx.signal)).limits
                        : [await ctx.api.get(path('limits', params.name), {}, ctx.signal)]),
                draw: (rows) => t.update(rows)}));
}

/* --- caps ------------------------------------------------------------------------------------------- */

function editCap(ctx, c, after)
{
        return formDialog(c ? `Change cap ${c.name}` : 'Add a cap', {yes: c ? 'Change it' : 'Add the cap',
                hint: 'key:NAME overrules what jobs with that key say; group:NAME bounds a tenant over all queues.',
                fields: h('div.options', {},
                        field('Name', text('name', {required: true, value: c ? c.name : '', readOnly: Boolean(c),
                                placeholder: 'group:acme', pattern: '(key|group):.+'})),
                        field('Jobs at once', text('max', {required: true, inputmode: 'numeric',
                                value: c ? String(c.max) : ''}), '0: any number, or as the jobs say'),
                        field('Weight', text('weight', {inputmode: 'numeric', placeholder: '1',
                                value: c && c.weight !== 1 ? String(c.weight) : ''}), 'turns in fair queues')),
                submit: async (v) => {
                        const where = path('caps', v.name.trim());
                        const to = {max: whole(v.max, 'Jobs at once')};
                        if (given(v, ['weight']).weight)
                                to.weight = whole(v.weight, 'Weight');
                        await ctx.api.post(where, to);
                        toast(`Cap ${v.name.trim()} was ${c ? 'changed' : 'added'}.`, {undo: async () => {
                                await (c ? ctx.api.post(where, {max: c.max, weight: c.weight})
                                        : ctx.api.del(where));
                                await after();
                        }});
                        await after();
                }});
}

async function removeCap(ctx, c, after)
{
        const where = path('caps', c.name);
        if (!await confirm({title: `Delete cap ${c.name}?`, yes: 'Delete it', danger: true,
                text: 'What the jobs themselves say holds again.'}))
                return;
        await ctx.api.del(where);
        toast(`Cap ${c.name} was deleted.`, {undo: async () => {
                await ctx.api.post(where, {max: c.max, weight: c.weight});
                await after();
        }});
        await after();
}

async function caps(root, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {caption: 'Caps and their use', hideCaption: true, key: (c) => c.name,
                empty: 'No cap is set, and no key keeps a job waiting.', sort: {key: 'name', desc: false},
                columns: [
                        {key: 'name', label: 'Cap', cls: 'wrap', sort: (c) => c.name, cell: (c) => {
                                const group = /^group:(.+)$/s.exec(c.name);
                                return group ? h('a', {href: ctx.link('jobs', {group: group[1]})}, c.name) : c.name;
                        }},
                        {key: 'max', label: 'Running', cls: 'full', cell: (c) => [h('span', {}, c.max
                                ? `${fmtNumber(c.running)} of ${fmtNumber(c.max)}`
                                : `${fmtNumber(c.running)}, no bound`), c.max
                                ? bar([[c.running, c.running >= c.max ? 'warn' : 'good']], c.max) : null]},
                        {key: 'waiting', label: 'Waiting', num: true, sort: (c) => c.waiting},
                        {key: 'weight', label: 'Weight', num: true},
                        {key: 'do', label: '', cls: 'act', cell: (c) => h('div.actions', {},
                                button('Change', () => editCap(ctx, c, again), {kind: 'small',
                                        label: `Change cap ${c.name}`}),
                                button('Delete', () => removeCap(ctx, c, again), {kind: 'small.danger',
                                        label: `Delete cap ${c.name}`}))},
                ]});
        ({refresh} = await livePanel(ctx, root, {title: 'Caps', content: t.node,
                hint: 'How many jobs of one key or one group run at once, over all queues.',
                actions: button('Add a cap', () => editCap(ctx, null, again), {kind: 'primary.small'}),
                load: () => ctx.api.get('caps', {}, ctx.signal), draw: (a) => t.update(a.caps)}));
}

export async function mount(root, params, ctx)
{
        if (params.name !== undefined)
                root.append(crumbs(ctx, 'limits', 'All limits'));
        await limits(root, params, ctx);
        if (params.name === undefined)
                await caps(root, ctx);
        runTimes(root, ctx);
}
