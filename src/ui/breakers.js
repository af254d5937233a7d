/* Circuit breakers: which things that fail are not asked any more. */
import {badge, button, confirm, field, fmtDuration, fmtNumber, h, parseDuration, path, plural, shortDuration, toast}
        from './lib.js';
import {crumbs, formDialog, fromNow, livePanel, rowTable, runTimes, text} from './parts.js';

function stateCell(b)
{
        const since = h('span.sub', {}, 'for ', fromNow(-b.since_ms, 'for'));
        return [badge(b.state.replace('-', '_')), b.held ? h('span.sub', {}, 'held by hand') : null, since];
}

function nextCell(b)
{
        if (b.held)
                return 'when it is closed by hand';
        if (b.probing)
                return 'a probe is out';
        return b.retry_ms > 0 ? ['probe in ', fromNow(b.retry_ms, 'left')] : '–';
}

function rule(b)
{
        const out = [];
        if (b.threshold)
                out.push(`${plural(b.threshold, 'failure')} in a row`);
        if (b.rate)
                out.push(`${b.rate} % of ${fmtNumber(b.volume)} or more in ${fmtDuration(b.window_ms)}`);
        return [out.join(', or ') || 'only by hand', h('span.sub', {}, `cool-down ${fmtDuration(b.cooldown_ms)} to ${
                fmtDuration(b.cooldown_max_ms)}${b.handlers ? ', failed jobs count' : ''}`)];
}

/* What BREAKER takes to make it as it was. */
function body(b)
{
        const out = {threshold: b.threshold, cooldown: b.cooldown_ms, cooldownmax: b.cooldown_max_ms,
                probe: b.probe_ms};
        if (b.rate)
                Object.assign(out, {rate: b.rate, window: b.window_ms, volume: b.volume});
        if (b.handlers)
                out.handlers = true;
        return out;
}

function trip(ctx, b, after)
{
        return formDialog(`Open breaker ${b.name}?`, {yes: 'Open it', danger: true,
                hint: 'Jobs that name it wait without using an attempt, and clients that ask are refused.',
                fields: [field('Why', text('reason', {maxlength: 1024, placeholder: 'not needed'})),
                        h('label.check', {}, h('input', {type: 'checkbox', name: 'hold'}),
                                'Keep it open until it is closed by hand, without probes')],
                submit: async (v) => {
                        const to = v.hold ? {hold: true} : {};
                        if (v.reason.trim())
                                to.reason = v.reason.trim();
                        await ctx.api.post(path('breakers', b.name, 'trip'), to);
                        toast(`Breaker ${b.name} is open.`, {undo: async () => {
                                await ctx.api.post(path('breakers', b.name, 'close'));
                                await after();
                        }});
                        await after();
                }});
}

async function close(ctx, b, after)
{
        await ctx.api.post(path('breakers', b.name, 'close'));
        toast(`Breaker ${b.name} is closed: all pass again.`, {undo: async () => {
                await ctx.api.post(path('breakers', b.name, 'trip'), {hold: b.held, reason: b.reason || ''});
                await after();
        }});
        await after();
}

async function remove(ctx, b, after)
{
        if (!await confirm({title: `Delete breaker ${b.name}?`, yes: 'Delete it', danger: true,
                text: `${b.waiting_jobs ? `${plural(b.waiting_jobs, 'job that waits', 'jobs that wait')} for it may `
                        + 'start at once. ' : ''}Its counts are gone. The next failure of a job that names it makes it `
                        + 'anew, with the defaults.'}))
                return;
        await ctx.api.del(path('breakers', b.name));
        toast(`Breaker ${b.name} was deleted.`, {undo: async () => {
                await ctx.api.post(path('breakers', b.name), body(b));
                await after();
        }});
        await after();
}

const NUMBERS = [['threshold', 'Failures in a row'], ['rate', 'Percent of failures'], ['volume', 'Of at least']];
const TIMES = [['window', 'In a window of'], ['cooldown', 'Cool-down'], ['cooldownmax', 'Longest cool-down'],
        ['probe', 'A probe may take']];

function readBreaker(v)
{
        const out = {};
        for (const [name, words] of NUMBERS) {
                const s = v[name].trim();
                if (s !== '' && !/^\d+$/.test(s))
                        throw new Error(`"${words}" is a whole number.`);
                if (s !== '')
                        out[name] = Number(s);
        }
        for (const [name, words] of TIMES) {
                const s = v[name].trim();
                if (s === '')
                        continue;
                out[name] = parseDuration(s);
                if (!Number.isFinite(out[name]))
                        throw new Error(`"${words}" is a time such as 30s or 5m.`);
        }
        if (v.handlers)
                out.handlers = true;
        return out;
}

function edit(ctx, b, after)
{
        const time = (ms) => (b && ms ? shortDuration(ms) : '');
        const num = (n) => (b && n ? String(n) : '');
        return formDialog(b ? `Change breaker ${b.name}` : 'Add a breaker', {yes: b ? 'Change it' : 'Add the breaker',
                hint: 'queue:NAME watches the workers of a queue; any other name is for jobs with that target and for '
                        + 'clients that ask.',
                fields: [h('div.options', {},
                        field('Name', text('name', {required: true, value: b ? b.name : '', readOnly: Boolean(b),
                                placeholder: 'smtp'})),
                        field('Failures in a row', text('threshold', {inputmode: 'numeric', placeholder: '5',
                                value: b ? String(b.threshold) : ''}), '0: do not count'),
                        field('Percent of failures', text('rate', {inputmode: 'numeric', placeholder: 'do not count',
                                value: num(b && b.rate)})),
                        field('Of at least', text('volume', {inputmode: 'numeric', placeholder: '10',
                                value: num(b && b.volume)}), 'outcomes'),
                        field('In a window of', text('window', {placeholder: '1m', value: time(b && b.window_ms)})),
                        field('Cool-down', text('cooldown', {placeholder: '1m', value: time(b && b.cooldown_ms)}),
                                'before a probe; doubles'),
                        field('Longest cool-down', text('cooldownmax', {placeholder: '15m',
                                value: time(b && b.cooldown_max_ms)})),
                        field('A probe may take', text('probe', {placeholder: '30s', value: time(b && b.probe_ms)}))),
                h('label.check', {}, h('input', {type: 'checkbox', name: 'handlers', checked: Boolean(b && b.handlers)}),
                        'Failed jobs of a queue count too, not only lost leases')],
                submit: async (v) => {
                        const where = path('breakers', v.name.trim());
                        await ctx.api.post(where, readBreaker(v));
                        toast(`Breaker ${v.name.trim()} was ${b ? 'changed' : 'added'}.`, {undo: async () => {
                                await (b ? ctx.api.post(where, body(b)) : ctx.api.del(where));
                                await after();
                        }});
                        await after();
                }});
}

export async function mount(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const t = rowTable(ctx, {caption: 'Breakers and their state', hideCaption: true, key: (b) => b.name,
                empty: params.name === undefined ? 'No circuit breaker.' : 'There is no such breaker.',
                sort: {key: 'name', desc: false}, open: (b) => ctx.link('breakers', b.name),
                columns: [
                        {key: 'name', label: 'Breaker', cls: 'wrap', sort: (b) => b.name,
                                cell: (b) => h('a', {href: ctx.link('breakers', b.name)}, b.name)},
                        {key: 'state', label: 'State', cls: 'nowrap', sort: (b) => b.state, cell: stateCell},
                        {key: 'reason', label: 'Why', cls: 'wrap', cell: (b) => b.reason || '–'},
                        {key: 'next', label: 'Next', cell: nextCell},
                        {key: 'failures', label: 'Failures', num: true, cell: (b) => [`${fmtNumber(b.failures)} in a row`,
                                b.rate ? h('span.sub', {}, `${fmtNumber(b.window_failures)} of ${
                                        fmtNumber(b.window_outcomes)} in the window`) : null]},
                        {key: 'trips', label: 'Opened', num: true, sort: (b) => b.trips},
                        {key: 'waiting', label: 'Waiting jobs', num: true, sort: (b) => b.waiting_jobs,
                                cell: (b) => fmtNumber(b.waiting_jobs)},
                        {key: 'rule', label: 'Opens after', cls: 'full', cell: rule},
                        {key: 'do', label: '', cls: 'act', cell: (b) => h('div.actions', {},
                                b.state === 'open' && b.held ? null : button('Trip', () => trip(ctx, b, again),
                                        {kind: 'small.danger', label: `Trip breaker ${b.name}`}),
                                b.state === 'closed' ? null : button('Close', () => close(ctx, b, again),
                                        {kind: 'small', label: `Close breaker ${b.name}`}),
                                button('Change', () => edit(ctx, b, again), {kind: 'small',
                                        label: `Change breaker ${b.name}`}),
                                button('Delete', () => remove(ctx, b, again), {kind: 'small.danger',
                                        label: `Delete breaker ${b.name}`}))},
                ]});
        if (params.name !== undefined)
                root.append(crumbs(ctx, 'breakers', 'All breakers'));
        ({refresh} = await livePanel(ctx, root, {title: 'Circuit breakers', content: t.node,
                hint: 'An open breaker refuses all; after its cool-down one probe at a time finds out whether it works '
                        + 'again.',
                actions: button('Add a breaker', () => edit(ctx, null, again), {kind: 'primary.small'}),
                load: async () => (params.name === undefined
                        ? (await ctx.api.get('breakers', {}, ctx.signal)).breakers
                        : [await ctx.api.get(path('breakers', params.name), {}, ctx.signal)]),
                draw: (rows) => t.update(rows)}));
        runTimes(root, ctx);
}
