/* The filter of jobs: its fields, its words, what the server is asked with, and the counts by
 * status, which are filters too. */
import {debounce,
        field,
        fill,
        fmtNumber,
        h,
        parseDuration,
        refill,
        select,
        TIERS,
        turns} from './lib.js';
import {isMissing, text} from './parts.js';

const STATUSES = ['pending', 'in-progress', 'complete', 'failed', 'canceled'];
const MOST_NAMES = 500;
export const FILTERS =
        ['status', 'hook', 'queue', 'group', 'tier', 'worker', 'since', 'until', 'match'];

/* --- meaning --------------------------------------------------------------------------------- */

const SINCE = [
        ['', 'any time'], ['15m', 'last 15 minutes'], ['1h', 'last hour'], ['1d', 'last day'],
        ['7d', 'last week'], ['range', 'from … to …']
];

/* '1h' -> an hour ago; '1794758209408' -> that moment */
function moment(value)
{
        if (!value)
                return undefined;
        return /^\d{11,}$/.test(value) ? Number(value) : Date.now() - parseDuration(value);
}

function localInput(ms)
{
        if (!ms)
                return '';
        const d = new Date(Number(ms) - new Date(Number(ms)).getTimezoneOffset() * 60000);
        return d.toISOString().slice(0, 19);
}

/* What the server is asked with. */
export function query(filter)
{
        const out = {};
        for (const name of FILTERS)
                if (filter[name])
                        out[name] = filter[name];
        if (out.since)
                out.since = moment(out.since);
        if (out.until)
                out.until = moment(out.until);
        return out;
}

/* The filter as words for a dialog. */
export function inWords(filter)
{
        const say = {match: 'text', since: 'created since', until: 'created until'};
        const parts = FILTERS.filter((n) => filter[n]).map((n) => {
                const value = n === 'since' || n === 'until'
                        ? new Date(moment(filter[n])).toLocaleString()
                        : filter[n];
                return `${say[n] || n} ${value}`;
        });
        return parts.length ? parts.join(', ') : 'every job there is';
}

/* --- parts of the screen --------------------------------------------------------------------- */

/* Counts per status, each a link to that filter.  They are of a queue or of all jobs: the server
 * keeps them, where counting a filter would mean to look at every job. */
export function tabs(ctx, list)
{
        const nav = h('nav.tabs', {'aria-label': 'Jobs by status'});
        const said = h('p.hint');
        const turn = turns();
        let counts = {};
        let problem = '';

        function tab(status, words, n, sub)
        {
                const to = {...list.filter, status, order: list.order === 'oldest' ? 'oldest' : ''};
                return h('a', {
                        href: ctx.link('jobs', to),
                        'aria-current': list.filter.status === status ? 'page' : null,
                },
                        h('span', {}, words), h('b', {}, n === undefined ? '–' : fmtNumber(n)),
                        h('span', {}, sub));
        }

        function draw()
        {
                const waits = ['ready', 'scheduled', 'waiting', 'parked', 'returning']
                                      .filter((w) => counts[w] > 0)
                                      .map((w) => `${fmtNumber(counts[w])} ${w}`)
                                      .join(', ');
                const sub = {pending: waits, 'in-progress': 'now'};
                const live = counts.pending === undefined ? undefined
                                                          : counts.pending + counts['in-progress'];
                const rest =
                        FILTERS.filter((n) => n !== 'status' && n !== 'queue' && list.filter[n]);
                refill(nav, tab('', 'all', live, live === undefined ? '' : 'not ended'),
                        STATUSES.map((s) => tab(s, s, counts[s], sub[s] ?? 'so far')));
                const where = list.filter.queue ? 'in this queue' : 'over all jobs';
                const beside =
                        rest.length ? `Counted ${where}, whatever else the filter says.` : '';
                said.textContent = problem || beside;
                said.hidden = said.textContent === '';
        }

        async function load()
        {
                const ask = list.filter.queue ? {queue: list.filter.queue} : {};
                const isLast = turn();
                try {
                        const answer = await ctx.api.get('jobs/counts', ask, ctx.signal);
                        if (!isLast())
                                return;
                        counts = answer;
                        problem = '';
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        if (!isLast())
                                return;
                        problem = isMissing(e) ? 'This server does not count jobs by status.'
                                               : `Not counted: ${e.message}`;
                }
                draw();
        }

        draw();
        return {node: h('div', {}, nav, said), draw, load};
}

/* When a job was created: a span up to now, or from one moment to another. */
function timeFields(list, changed)
{
        const asked = list.filter;
        const isRange = /^\d{11,}$/.test(asked.since) || asked.until !== '';
        const edge = (name) => h('input', {
                type: 'datetime-local',
                step: '1',
                value: isRange && asked[name] ? localInput(moment(asked[name])) : '',
                onchange: (ev) => {
                        const at = new Date(ev.target.value).getTime();
                        asked[name] = Number.isFinite(at) ? String(at) : '';
                        changed();
                },
        });
        const from = edge('since');
        const to = edge('until');
        const range = h('div.row', {hidden: !isRange}, field('From', from), field('To', to));
        const choose = () => {
                range.hidden = since.value !== 'range';
                if (since.value === 'range')
                        return;
                from.value = '';
                to.value = '';
                asked.until = '';
                asked.since = since.value;
                changed();
        };
        const own = asked.since && !isRange && !SINCE.some(([v]) => v === asked.since)
                ? [[asked.since, `last ${asked.since}`]]
                : [];
        const since =
                select([...SINCE, ...own], isRange ? 'range' : asked.since, {onchange: choose});
        return {since, range};
}

/* Names to choose from while typing: hooks that were seen, queues and workers that there are. */
function suggestions(ctx)
{
        const node = h('div', {hidden: true});
        const names = {hooks: new Set(), queues: new Set(), workers: new Set()};
        const draw = () => fill(node,
                Object.entries(names).map(([what, all]) => h('datalist', {id: `job-${what}`},
                                                  [...all].map((value) => h('option', {value})))));
        const learn = (what, list) => {
                const size = names[what].size;
                list.slice(0, MOST_NAMES - size).forEach((name) => names[what].add(name));
                if (names[what].size !== size)
                        draw();
        };
        const ask = (what) =>
                ctx.api.get(what, {}, ctx.signal)
                        .then((answer) => learn(what, answer[what].map((x) => x.name)), () => {});
        ask('queues');
        ask('workers');
        return {node, learn};
}

/* The fields of the filter; changed() after the filter has another value. */
export function filterForm(ctx, list, changed)
{
        const set = (name, value) => {
                if (list.filter[name] === value)
                        return;
                list.filter[name] = value;
                changed();
        };
        const typed = (name, props) => {
                const soon = debounce((value) => set(name, value), 350);
                return text(name, {
                        value: list.filter[name],
                        oninput: (ev) => soon(ev.target.value.trim()),
                        onchange: (ev) => set(name, ev.target.value.trim()),
                        ...props,
                });
        };
        const names = suggestions(ctx);
        const {since, range} = timeFields(list, changed);
        const match = field('Text', typed('match', {
                type: 'search',
                placeholder: 'in hook, arguments, result and error',
        }));
        match.classList.add('grow');
        const tier = select([['', 'any'], ...TIERS], list.filter.tier,
                {onchange: (ev) => set('tier', ev.target.value)});
        const more = h('details', {open: Boolean(list.filter.group || list.filter.worker)},
                h('summary.hint', {}, 'Group and worker'),
                h('div.row', {}, field('Group', typed('group')),
                        field('Worker', typed('worker', {list: 'job-workers'}))));
        const node = h('form.filters', {role: 'search', onsubmit: (ev) => ev.preventDefault()},
                h('div.row', {}, match, field('Hook', typed('hook', {list: 'job-hooks'})),
                        field('Queue', typed('queue', {list: 'job-queues'})), field('Tier', tier),
                        field('Created', since)),
                range, more, names.node);
        return {node, learn: (jobs) => names.learn('hooks', jobs.map((j) => j.hook))};
}
