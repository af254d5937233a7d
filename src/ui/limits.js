/* Limits: how many in how much time, and caps: how many at once. */
import {
        badge,
        confirm,
        field,
        fmtDuration,
        fmtNumber,
        h,
        parseDuration,
        path,
        select,
        shortDuration,
        toast
} from './lib.js';
import {changeAndDelete, freedJobs, nameField, nounList} from './noun.js';
import {bar, by, fromNow, runTimes, text, whole} from './parts.js';

/* --- rate limits ----------------------------------------------------------------------------- */

function ruleCell(l)
{
        const most = `${fmtNumber(l.amount)} per ${fmtDuration(l.period_ms).replace(/^1 /, '')}`;
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

function limitFields(ctx, l)
{
        const num = (n) => (n ? String(n) : '');
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
        return h('div.options', {}, nameField(l, {placeholder: 'queue:mail'}),
                field('How many', text('amount', amount)),
                field('In', text('period', period), '1s, 1m, 1h'), field('Kind', kind), burst);
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

function limitActions(ctx, l, again, gone)
{
        const follows = freedJobs(l) || 'Nothing is held back by it any more.';
        return [
                {
                        text: 'Reset',
                        needs: 'RESETLIMIT',
                        disabled: l.used === 0,
                        run: () => resetLimit(ctx, l, again),
                },
                ...changeAndDelete(ctx, LIMITS, l, follows, again, gone),
        ];
}

function limitName(ctx, l)
{
        return [
                h('a', {href: ctx.link('limits', l.name)}, l.name),
                l.passing ? h('span.sub', {}, 'made by a client') : null,
        ];
}

function limitColumns()
{
        const waiting = (l) => l.waiting_jobs + l.waiting_clients;
        const reset = (l) => (l.reset_ms > 0 ? fromNow(l.reset_ms, 'left') : '–');
        return [
                {key: 'rule', label: 'Rule', cell: ruleCell},
                {key: 'used', label: 'Used', sort: by('used'), cell: usageCell},
                {key: 'next', label: 'Next', cls: 'nowrap', cell: nextCell},
                {key: 'reset', label: 'Empty in', cls: 'nowrap', cell: reset},
                {key: 'waiting', label: 'Waiting', num: true, sort: waiting, cell: waiting},
        ];
}

const LIMITS = {
        route: 'limits',
        one: 'limit',
        put: 'LIMIT',
        del: 'UNLIMIT',
        title: 'Rate limits',
        hint: 'How many in how much time. What exceeds one waits; it uses no attempt.',
        empty: 'No rate limit yet. One lets so many jobs start in a time and no more, such as 100 ' +
                'a minute for an API that allows no more. Add one, and name it as the limit of jobs.',
        name: limitName,
        columns: limitColumns,
        actions: limitActions,
        form: {
                hint: 'queue:NAME holds for each start in a queue, hook:NAME for a hook; ' +
                        'any other name for jobs and clients that name it.',
                fields: limitFields,
                read: readLimit,
                body: limitBody,
        },
};

/* --- caps ------------------------------------------------------------------------------------ */

function capFields(ctx, c)
{
        const name = {
                placeholder: 'group:acme',
                pattern: '(key|group):.+',
                title: 'key:NAME or group:NAME',
        };
        const max = {required: true, inputmode: 'numeric', value: c ? String(c.max) : ''};
        const turns = {inputmode: 'numeric', placeholder: '1', value: c ? String(c.weight) : ''};
        return h('div.options', {}, nameField(c, name),
                field('Jobs at once', text('max', max), '0: any number, or as the jobs say'),
                field('Weight', text('weight', turns), 'turns in fair queues'));
}

function readCap(values)
{
        const out = {max: whole(values.max, 'Jobs at once')};
        if (values.weight.trim())
                out.weight = whole(values.weight, 'Weight');
        return out;
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

function capName(ctx, c)
{
        const [, group] = /^group:(.+)$/s.exec(c.name) || [];
        return group ? h('a', {href: ctx.link('jobs', {group})}, c.name) : c.name;
}

function capColumns()
{
        return [
                {key: 'max', label: 'Running', cell: capUse},
                {key: 'waiting', label: 'Waiting', num: true, sort: by('waiting')},
                {key: 'weight', label: 'Weight', num: true},
        ];
}

function capActions(ctx, c, again)
{
        const follows = 'What the jobs themselves say holds again.';
        return changeAndDelete(ctx, CAPS, c, follows, again, again);
}

const CAPS = {
        route: 'caps',
        one: 'cap',
        put: 'CAP',
        del: 'UNCAP',
        title: 'Caps',
        hint: 'How many jobs of one key or one group run at once, over all queues.',
        empty: 'No cap is set, and no key keeps a job waiting. Add one to let no more than so many ' +
                'jobs of a customer run at once, whatever their queue.',
        name: capName,
        open: null,
        isThere: (c) => c.max > 0 || c.weight !== 1,
        columns: capColumns,
        actions: capActions,
        form: {
                hint: 'key:NAME overrules what jobs say; group:NAME bounds a tenant ' +
                        'over all queues.',
                fields: capFields,
                read: readCap,
                body: (c) => ({max: c.max, weight: c.weight}),
        },
};

export async function mount(root, params, ctx)
{
        await nounList(root, ctx, LIMITS, {only: params.name});
        if (params.name === undefined)
                await nounList(root, ctx, CAPS);
        runTimes(root, ctx);
}
