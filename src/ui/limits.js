/* Limits: how many in how much time, and caps: how many at once. */
import {
        badge,
        button,
        confirm,
        field,
        fmtDuration,
        fmtNumber,
        h,
        parseDuration,
        path,
        plural,
        select,
        shortDuration,
        toast
} from './lib.js';
import {bar,
        by,
        crumbs,
        formDialog,
        fromNow,
        livePanel,
        rowTable,
        runTimes,
        text,
        whole} from './parts.js';

/* --- rate limits ----------------------------------------------------------------------------- */

function ruleCell(l)
{
        const most = `${fmtNumber(l.amount)} per ${fmtDuration(l.period_ms)}`;
        const isTokens = l.kind === 'tokens';
        return [
                isTokens ? `${most}, bucket of ${fmtNumber(l.burst)}` : most,
                h('span.sub', {}, l.kind),
        ];
}

function usageCell(l)
{
        const most = l.kind === 'tokens' ? l.burst || l.amount : l.amount;
        const share = most ? l.used / most : 0;
        let kind = 'good';
        if (share > 0.8)
                kind = share < 1 ? 'warn' : 'bad';
        return [
                h('span', {}, `${fmtNumber(l.used)} of ${fmtNumber(most)}`),
                bar([[l.used, kind]], most),
        ];
}

function nextCell(l)
{
        if (l.retry_ms <= 0)
                return badge('on', 'free');
        const left = h('span.sub', {}, 'free in ', fromNow(l.retry_ms, 'left'));
        return [badge('waiting', 'used up'), left];
}

/* What LIMIT takes to make it as it is. */
function limitBody(l)
{
        const out = {amount: l.amount, period: l.period_ms, kind: l.kind};
        if (l.kind === 'tokens' && l.burst)
                out.burst = l.burst;
        return out;
}

function readLimit(values)
{
        const period = parseDuration(values.period);
        if (!Number.isFinite(period))
                throw new Error('The time is one such as 1s, 1m or 1h.');
        const out = {amount: whole(values.amount, 'How many'), period, kind: values.kind};
        if (values.kind === 'tokens' && values.burst.trim())
                out.burst = whole(values.burst, 'Burst');
        return out;
}

const KINDS = [['window', 'window: never over'], ['tokens', 'tokens: fills evenly']];

function limitFields(l)
{
        const num = (n) => (n ? String(n) : '');
        const name = text('name', {
                required: true,
                value: l ? l.name : '',
                readOnly: Boolean(l),
                placeholder: 'queue:mail',
        });
        const amount = {required: true, inputmode: 'numeric', value: num(l && l.amount)};
        const period = {
                required: true,
                placeholder: '1m',
                value: l ? shortDuration(l.period_ms) : ''
        };
        const bucket = {inputmode: 'numeric', placeholder: 'the amount', value: num(l && l.burst)};
        const burst = field('Burst', text('burst', bucket), 'how many the bucket holds');
        const show = () => { burst.hidden = kind.value !== 'tokens'; };
        const kind = select(KINDS, l ? l.kind : 'window', {name: 'kind', onchange: show});
        show();
        return h('div.options', {}, field('Name', name), field('How many', text('amount', amount)),
                field('In', text('period', period), '1s, 1m, 1h'), field('Kind', kind), burst);
}

function editLimit(ctx, l, after)
{
        return formDialog(l ? `Change limit ${l.name}` : 'Add a limit', {
                hint: 'queue:NAME holds for each start in a queue, hook:NAME for a hook; ' +
                        'any other name for jobs and clients that name it.',
                fields: limitFields(l),
                yes: l ? 'Change it' : 'Add the limit',
                submit: async (values) => {
                        const where = path('limits', values.name.trim());
                        await ctx.api.post(where, readLimit(values));
                        const undo = async () => {
                                await (l ? ctx.api.post(where, limitBody(l)) : ctx.api.del(where));
                                await after();
                        };
                        const did = l ? 'changed' : 'added';
                        toast(`Limit ${values.name.trim()} was ${did}.`, {undo});
                        await after();
                },
        });
}

async function resetLimit(ctx, l, after)
{
        const question = {
                title: `Reset limit ${l.name}?`,
                text: [
                        `What was taken, ${fmtNumber(l.used)}, is forgotten.`,
                        'As many may start at once as the limit allows.',
                ],
                yes: 'Reset it',
        };
        if (!await confirm(question))
                return;
        await ctx.api.post(path('limits', l.name, 'reset'));
        toast(`Limit ${l.name} was reset.`);
        await after();
}

async function removeLimit(ctx, l, after)
{
        const where = path('limits', l.name);
        const jobs = plural(l.waiting_jobs, 'job that waits', 'jobs that wait');
        const question = {
                title: `Delete limit ${l.name}?`,
                text: l.waiting_jobs ? `${jobs} for it may start at once.`
                                     : 'Nothing is held back by it any more.',
                yes: 'Delete it',
                danger: true,
        };
        if (!await confirm(question))
                return;
        await ctx.api.del(where);
        const undo = async () => {
                await ctx.api.post(where, limitBody(l));
                await after();
        };
        toast(`Limit ${l.name} was deleted.`, {undo});
        await after();
}

function limitActions(ctx, l, after)
{
        const one = (words, run, more) =>
                button(words, run, {kind: 'small', label: `${words} limit ${l.name}`, ...more});
        return h('div.actions', {},
                one('Reset', () => resetLimit(ctx, l, after), {disabled: l.used === 0}),
                one('Change', () => editLimit(ctx, l, after)),
                one('Delete', () => removeLimit(ctx, l, after), {kind: 'small.danger'}));
}

function limitColumns(ctx, again)
{
        const name = (l) => [h('a', {href: ctx.link('limits', l.name)}, l.name),
                l.passing ? h('span.sub', {}, 'made by a client') : null,
        ];
        const waiting = (l) => l.waiting_jobs + l.waiting_clients;
        const reset = (l) => (l.reset_ms > 0 ? fromNow(l.reset_ms, 'left') : '–');
        return [
                {key: 'name', label: 'Limit', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'rule', label: 'Rule', cell: ruleCell},
                {key: 'used', label: 'Used', sort: by('used'), cell: usageCell},
                {key: 'next', label: 'Next', cls: 'nowrap', cell: nextCell},
                {key: 'reset', label: 'Empty in', cls: 'nowrap', cell: reset},
                {key: 'waiting', label: 'Waiting', num: true, sort: waiting, cell: waiting},
                {key: 'do', cls: 'act', cell: (l) => limitActions(ctx, l, again)},
        ];
}

async function limits(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {
                caption: 'Rate limits and their use',
                hideCaption: true,
                key: by('name'),
                empty: 'No rate limit.',
                sort: {key: 'name', desc: false},
                open: (l) => ctx.link('limits', l.name),
                columns: limitColumns(ctx, again),
        });
        const load = async () => {
                if (params.name === undefined)
                        return (await ctx.api.get('limits', {}, ctx.signal)).limits;
                return [await ctx.api.get(path('limits', params.name), {}, ctx.signal)];
        };
        ({refresh} = await livePanel(ctx, root, {
                title: 'Rate limits',
                hint: 'How many in how much time. What exceeds one waits; it uses no attempt.',
                content: t.node,
                actions: button(
                        'Add a limit', () => editLimit(ctx, null, again), {kind: 'primary.small'}),
                load,
                draw: (rows) => t.update(rows),
        }));
}

/* --- caps ------------------------------------------------------------------------------------ */

function editCap(ctx, c, after)
{
        const name = text('name', {
                required: true,
                value: c ? c.name : '',
                readOnly: Boolean(c),
                placeholder: 'group:acme',
                pattern: '(key|group):.+',
                title: 'key:NAME or group:NAME',
        });
        const max = {required: true, inputmode: 'numeric', value: c ? String(c.max) : ''};
        const turns = {inputmode: 'numeric', placeholder: '1', value: c ? String(c.weight) : ''};
        return formDialog(c ? `Change cap ${c.name}` : 'Add a cap', {
                hint: 'key:NAME overrules what jobs say; group:NAME bounds a tenant ' +
                        'over all queues.',
                fields: h('div.options', {}, field('Name', name),
                        field('Jobs at once', text('max', max),
                                '0: any number, or as the jobs say'),
                        field('Weight', text('weight', turns), 'turns in fair queues')),
                yes: c ? 'Change it' : 'Add the cap',
                submit: async (values) => {
                        const where = path('caps', values.name.trim());
                        const body = {max: whole(values.max, 'Jobs at once')};
                        if (values.weight.trim())
                                body.weight = whole(values.weight, 'Weight');
                        await ctx.api.post(where, body);
                        const old = c && {max: c.max, weight: c.weight};
                        const undo = async () => {
                                await (c ? ctx.api.post(where, old) : ctx.api.del(where));
                                await after();
                        };
                        toast(`Cap ${values.name.trim()} was ${c ? 'changed' : 'added'}.`, {undo});
                        await after();
                },
        });
}

async function removeCap(ctx, c, after)
{
        const where = path('caps', c.name);
        const question = {
                title: `Delete cap ${c.name}?`,
                text: 'What the jobs themselves say holds again.',
                yes: 'Delete it',
                danger: true,
        };
        if (!await confirm(question))
                return;
        await ctx.api.del(where);
        const undo = async () => {
                await ctx.api.post(where, {max: c.max, weight: c.weight});
                await after();
        };
        toast(`Cap ${c.name} was deleted.`, {undo});
        await after();
}

function capUse(c)
{
        const running = fmtNumber(c.running);
        if (!c.max)
                return `${running}, no bound`;
        const kind = c.running < c.max ? 'good' : 'warn';
        return [
                h('span', {}, `${running} of ${fmtNumber(c.max)}`),
                bar([[c.running, kind]], c.max),
        ];
}

function capColumns(ctx, again)
{
        const name = (c) => {
                const [, group] = /^group:(.+)$/s.exec(c.name) || [];
                return group ? h('a', {href: ctx.link('jobs', {group})}, c.name) : c.name;
        };
        const actions = (c) => h('div.actions', {},
                button('Change', () => editCap(ctx, c, again),
                        {kind: 'small', label: `Change cap ${c.name}`}),
                button('Delete', () => removeCap(ctx, c, again),
                        {kind: 'small.danger', label: `Delete cap ${c.name}`}));
        return [
                {key: 'name', label: 'Cap', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'max', label: 'Running', cell: capUse},
                {key: 'waiting', label: 'Waiting', num: true, sort: by('waiting')},
                {key: 'weight', label: 'Weight', num: true},
                {key: 'do', cls: 'act', cell: actions},
        ];
}

async function caps(root, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {
                caption: 'Caps and their use',
                hideCaption: true,
                key: by('name'),
                empty: 'No cap is set, and no key keeps a job waiting.',
                sort: {key: 'name', desc: false},
                columns: capColumns(ctx, again),
        });
        ({refresh} = await livePanel(ctx, root, {
                title: 'Caps',
                hint: 'How many jobs of one key or one group run at once, over all queues.',
                content: t.node,
                actions: button(
                        'Add a cap', () => editCap(ctx, null, again), {kind: 'primary.small'}),
                load: () => ctx.api.get('caps', {}, ctx.signal),
                draw: (answer) => t.update(answer.caps),
        }));
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
