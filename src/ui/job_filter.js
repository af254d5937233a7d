/* The filter of jobs: its fields, its words, what the server is asked with, and the counts by status,
 * which are filters too. */
import {debounce, field, fill, fmtNumber, h, parseDuration, select, TIERS} from './lib.js';
import {isMissing, text} from './parts.js';

export const STATUSES = ['pending', 'in-progress', 'complete', 'failed', 'canceled'];
export const FILTERS = ['status', 'hook', 'queue', 'group', 'tier', 'worker', 'since', 'until', 'match'];

/* --- meaning ------------------------------------------------------------------------------ */

const SINCE = [['', 'any time'], ['15m', 'last 15 minutes'], ['1h', 'last hour'], ['1d', 'last day'],
        ['7d', 'last week'], ['range', 'from … to …']];

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
                        ? new Date(moment(filter[n])).toLocaleString() : filter[n];
                return `${say[n] || n} ${value}`;
        });
        return parts.length ? parts.join(', ') : 'every job there is';
}

/* --- parts of the screen ------------------------------------------------------------------ */

/* Counts per status, each a link to that filter. */
export function tabs(ctx, state)
{
        const node = h('nav.tabs', {'aria-label': 'Jobs by status'});
        const missing = h('p.missing', {hidden: true});
        let counts = {};
        const draw = () => {
                const one = (status, words, n, sub) => h('a', {href: ctx.link('jobs',
                        {...state.filter, status, order: state.order}),
                'aria-current': (state.filter.status || '') === status ? 'page' : null},
                h('span', {}, words), h('b', {}, n === undefined ? '–' : fmtNumber(n)),
                sub ? h('span', {}, sub) : null);
                const c = counts;
                const sum = STATUSES.reduce((a, s) => a + Number(c[s] ?? 0), 0);
                const sub = [['ready', c.ready], ['scheduled', c.scheduled], ['waiting', c.waiting],
                        ['parked', c.parked]].filter(([, n]) => n > 0)
                        .map(([w, n]) => `${fmtNumber(n)} ${w}`).join(', ');
                const known = c.pending !== undefined;
                fill(node, one('', 'all', known ? sum : undefined), STATUSES.map((s) => one(s, s, c[s],
                        s === 'pending' ? sub : '')));
        };
        return {
                node: h('div', {}, node, missing), draw,
                async load()
                {
                        try {
                                const c = await ctx.api.get('jobs/counts', state.filter.queue
                                        ? {queue: state.filter.queue} : {}, ctx.signal);
                                counts = {...c, 'in-progress': c['in-progress'] ?? c.in_progress ?? c.running};
                                missing.hidden = true;
                        } catch (e) {
                                if (e.name === 'AbortError')
                                        throw e;
                                counts = {};
                                missing.hidden = false;
                                missing.textContent = isMissing(e) ? 'This server does not count jobs by status.'
                                        : `Not counted: ${e.message}`;
                        }
                        draw();
                },
        };
}

function options(list, id)
{
        return h('datalist', {id}, list.map((value) => h('option', {value})));
}

/* The fields of the filter; changed() after the filter has another value. */
export function filterForm(ctx, state, changed)
{
        const set = (name, value) => {
                if ((state.filter[name] || '') === value)
                        return;
                state.filter[name] = value;
                changed();
        };
        const typed = (name, props) => {
                const soon = debounce((v) => set(name, v), 350);
                return text(name, {value: state.filter[name] || '', oninput: (ev) => soon(ev.target.value.trim()),
                        onchange: (ev) => set(name, ev.target.value.trim()), ...props});
        };
        const lists = h('div', {hidden: true});
        const match = typed('match', {type: 'search', placeholder: 'in hook, arguments, result and error'});
        const tier = select([['', 'any'], ...TIERS], state.filter.tier || '', {onchange: (ev) =>
                set('tier', ev.target.value)});
        const isRange = /^\d{11,}$/.test(state.filter.since || '') || Boolean(state.filter.until);
        const since = select(SINCE, isRange ? 'range' : state.filter.since || '', {onchange: () => {
                range.hidden = since.value !== 'range';
                if (since.value === 'range')
                        return;
                state.filter.until = '';
                from.value = '';
                to.value = '';
                set('since', since.value);
        }});
        const edge = (name) => h('input', {type: 'datetime-local', step: '1',
                value: isRange && state.filter[name] ? localInput(moment(state.filter[name])) : '',
                onchange: (ev) => set(name, ev.target.value ? String(new Date(ev.target.value).getTime()) : '')});
        const from = edge('since');
        const to = edge('until');
        const range = h('div.row', {hidden: !isRange}, field('From', from), field('To', to));
        const grown = field('Text', match);
        grown.classList.add('grow');
        const more = h('details', {open: ['group', 'worker'].some((n) => state.filter[n])},
                h('summary.hint', {}, 'Group and worker'), h('div.row', {}, field('Group', typed('group')),
                        field('Worker', typed('worker', {list: 'job-workers'}))));
        const node = h('form.filters', {role: 'search', onsubmit: (ev) => ev.preventDefault()},
                h('div.row', {}, grown, field('Hook', typed('hook', {list: 'job-hooks'})),
                        field('Queue', typed('queue', {list: 'job-queues'})), field('Tier', tier),
                        field('Created', since)),
                range, more, lists);
        const known = {hooks: new Set(), queues: [], workers: []};
        const drawLists = () => fill(lists, options([...known.hooks], 'job-hooks'),
                options(known.queues, 'job-queues'), options(known.workers, 'job-workers'));
        Promise.allSettled([ctx.api.get('queues', {}, ctx.signal), ctx.api.get('workers', {}, ctx.signal)])
                .then(([q, w]) => {
                        known.queues = q.value ? q.value.queues.map((x) => x.name) : [];
                        known.workers = w.value ? w.value.workers.map((x) => x.name) : [];
                        drawLists();
                });
        return {node, learn(jobs)
        {
                const size = known.hooks.size;
                jobs.forEach((j) => known.hooks.add(j.hook));
                if (known.hooks.size !== size && known.hooks.size < 500)
                        drawLists();
        }};
}

