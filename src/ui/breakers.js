/* Circuit breakers: which things that fail are not asked any more. */
import {badge,
        field,
        fmtDuration,
        fmtNumber,
        h,
        path,
        plural,
        shortDuration,
        toast} from './lib.js';
import {changeAndDelete, freedJobs, nameField, nounList} from './noun.js';
import {by, duration, formDialog, fromNow, runTimes, text, whole} from './parts.js';

/* --- cells ----------------------------------------------------------------------------------- */

function stateCell(b)
{
        return [
                badge(b.state.replace('-', '_')),
                b.held ? h('span.sub', {}, 'held by hand') : null,
                h('span.sub', {}, 'for ', fromNow(-b.since_ms, 'for')),
        ];
}

function nextCell(b)
{
        if (b.held)
                return 'when it is closed by hand';
        if (b.probing)
                return 'a probe is out';
        if (b.state === 'half-open')
                return 'the next that asks is the probe';
        return b.retry_ms > 0 ? ['probe in ', fromNow(b.retry_ms, 'left')] : '–';
}

function failuresCell(b)
{
        const seen =
                `${fmtNumber(b.window_failures)} of ${fmtNumber(b.window_outcomes)} in the window`;
        return [`${fmtNumber(b.failures)} in a row`, b.rate ? h('span.sub', {}, seen) : null];
}

function ruleCell(b)
{
        const out = [];
        if (b.threshold)
                out.push(`${plural(b.threshold, 'failure')} in a row`);
        if (b.rate)
                out.push(`${b.rate} % of ${b.volume} or more in ${fmtDuration(b.window_ms)}`);
        const cool = `${fmtDuration(b.cooldown_ms)} to ${fmtDuration(b.cooldown_max_ms)}`;
        return [
                out.join(', or ') || 'only by hand',
                h('span.sub', {}, `cool-down ${cool}${b.handlers ? ', failed jobs count' : ''}`),
        ];
}

/* --- actions --------------------------------------------------------------------------------- */

/* What BREAKER takes to make it as it is. */
function body(b)
{
        const out = {
                threshold: b.threshold,
                cooldown: b.cooldown_ms,
                cooldownmax: b.cooldown_max_ms,
                probe: b.probe_ms,
        };
        if (b.rate)
                Object.assign(out, {rate: b.rate, window: b.window_ms, volume: b.volume});
        if (b.handlers)
                out.handlers = true;
        return out;
}

function trip(ctx, b, after)
{
        const hold = h('label.check', {}, h('input', {type: 'checkbox', name: 'hold'}),
                'Keep it open until it is closed by hand, without probes');
        return formDialog(`Open breaker ${b.name}?`, {
                hint: 'Jobs that name it wait and use no attempt; clients are refused.',
                fields: [field('Why', text('reason', {maxlength: 1024})), hold],
                yes: 'Open it',
                danger: true,
                submit: async (values) => {
                        const reason = values.reason.trim();
                        const how = {
                                ...(values.hold ? {hold: true} : {}),
                                ...(reason ? {reason} : {})
                        };
                        await ctx.api.post(path('breakers', b.name, 'trip'), how);
                        const undo = async () => {
                                await ctx.api.post(path('breakers', b.name, 'close'));
                                await after();
                        };
                        toast(`Breaker ${b.name} is open.`, {undo});
                        await after();
                },
        });
}

/* As it was before, for undo. */
async function reopen(ctx, b)
{
        if (b.state !== 'closed')
                await ctx.api.post(
                        path('breakers', b.name, 'trip'), {hold: b.held, reason: b.reason || ''});
}

async function close(ctx, b, after)
{
        await ctx.api.post(path('breakers', b.name, 'close'));
        const undo = async () => {
                await reopen(ctx, b);
                await after();
        };
        toast(`Breaker ${b.name} is closed: all pass again.`, {undo});
        await after();
}

/* --- the form -------------------------------------------------------------------------------- */

/* name, label, default, hint, field of the answer; times are in milliseconds there. */
const NUMBERS = [
        ['threshold', 'Failures in a row', '5', '0: do not count', 'threshold'],
        ['rate', 'Percent of failures', 'none', 'in the window', 'rate'],
        ['volume', 'Of at least', '10', 'outcomes', 'volume'],
];
const TIMES = [
        ['window', 'Window', '1m', 'of the percentage', 'window_ms'],
        ['cooldown', 'Cool-down', '1m', 'before a probe; doubles', 'cooldown_ms'],
        ['cooldownmax', 'Longest cool-down', '15m', 'where the doubling stops', 'cooldown_max_ms'],
        ['probe', 'A probe may take', '30s', 'of a client', 'probe_ms'],
];

function read(values)
{
        const out = {};
        for (const [name, words] of NUMBERS)
                if (values[name].trim())
                        out[name] = whole(values[name], words);
        for (const [name, words] of TIMES)
                if (values[name].trim())
                        out[name] = duration(values[name], words);
        if (values.handlers)
                out.handlers = true;
        return out;
}

function fields(ctx, b)
{
        const one = (say) => ([key, label, placeholder, hint, from]) =>
                field(label, text(key, {placeholder, value: say(b ? b[from] : 0, key)}), hint);
        const number = one((n, key) => (n || (b && key === 'threshold') ? String(n) : ''));
        const time = one((ms) => (ms ? shortDuration(ms) : ''));
        const isOn = Boolean(b && b.handlers);
        const handlers = h('label.check', {},
                h('input', {type: 'checkbox', name: 'handlers', checked: isOn}),
                'Failed jobs of a queue count too, not only lost leases');
        return [
                h('div.options', {}, nameField(b, {placeholder: 'smtp'}), NUMBERS.map(number),
                        TIMES.map(time)),
                handlers,
        ];
}

/* --- the screen ------------------------------------------------------------------------------ */

function afterwards(b)
{
        return [
                freedJobs(b),
                'Its counts are gone. The next failure makes it anew, with the defaults.',
        ];
}

function actions(ctx, b, again, gone)
{
        const isHeld = b.state === 'open' && b.held;
        return [
                isHeld ? null : {
                        text: 'Trip',
                        needs: 'TRIP',
                        danger: true,
                        run: () => trip(ctx, b, again)
                },
                b.state === 'closed'
                        ? null
                        : {text: 'Close', needs: 'CLOSEBREAKER', run: () => close(ctx, b, again)},
                ...changeAndDelete(ctx, BREAKERS, b, afterwards(b), again, gone),
        ];
}

function columns()
{
        return [
                {key: 'state', label: 'State', cls: 'nowrap', sort: by('state'), cell: stateCell},
                {key: 'reason', label: 'Why', cls: 'wrap', cell: (b) => b.reason || '–'},
                {key: 'next', label: 'Next', cell: nextCell},
                {key: 'failures', label: 'Failures', cell: failuresCell},
                {key: 'trips', label: 'Opened', num: true, sort: by('trips')},
                {key: 'waiting_jobs', label: 'Waiting jobs', num: true, sort: by('waiting_jobs')},
                {key: 'rule', label: 'Opens after', cell: ruleCell},
        ];
}

const BREAKERS = {
        route: 'breakers',
        one: 'breaker',
        put: 'BREAKER',
        del: 'UNBREAKER',
        title: 'Circuit breakers',
        hint: 'An open breaker refuses all; then one probe at a time finds out ' +
                'whether it works again.',
        empty: 'No circuit breaker yet. One keeps jobs from calling something that fails, such as ' +
                'a mail server, until it works again. Add one, and name it as the target of jobs.',
        columns,
        actions,
        form: {
                hint: 'queue:NAME watches the workers of a queue; others are for jobs with that ' +
                        'target and for clients that ask.',
                fields,
                read,
                body,
                finish: reopen,
        },
};

export async function mount(root, params, ctx)
{
        await nounList(root, ctx, BREAKERS, {only: params.name});
        runTimes(root, ctx);
}
