/* Jobs: counts, filters, pages, and what can be done to one job, to some, or to all that match.
 *
 * The filter lives in the address, so it can be shared and Back returns to it.  A page is asked for by
 * cursor, which costs the same on page one and on page ten thousand; the way back is remembered per
 * filter.  While the tab is seen and nobody is in the middle of something, the list follows the live
 * stream, at most every 2 s, and only when the stream says that something changed. */
import {append, badge, button, field, fill, fmtDuration, fmtNumber, h, note, path, plural, select}
        from './lib.js';
import {addJobDialog} from './add_job.js';
import {bulk, choices, ENDED, jobActions, MANY} from './job_actions.js';
import {FILTERS, filterForm, inWords, query, tabs} from './job_filter.js';
import {follow, isBusy, menu, rowTable, running, runTimes, styled} from './parts.js';

export const title = 'Jobs';

const PAGE = 50;
const trails = new Map();       /* filter -> cursors of the pages before, for the way back */

/* --- one row -------------------------------------------------------------------------------------- */

function preview(job)
{
        const raw = job.args_base64 !== undefined ? `${job.args_base64} (base64)`
                : typeof job.args === 'string' ? job.args : JSON.stringify(job.args);
        return raw === undefined || raw === 'null' ? '' : raw.slice(0, 200);
}

/* Only what is shown: the table compares rows by it. */
function lightRow(job, tiers)
{
        const own = job.tier || (job.options && job.options.tier) || '';
        return {
                id: job.id, hook: job.hook, status: job.status, queue: job.queue, group: job.group,
                tier: own || tiers.get(job.hook) || '', isOwnTier: own !== '', attempt: job.attempt,
                attempts: job.attempts, created_ms: job.created_ms, due_ms: job.due_ms,
                started_ms: job.started_ms, finished_ms: job.finished_ms, worker: job.worker,
                progress: String(job.progress || '').slice(0, 60), error: String(job.error || '').slice(0, 160),
                args: preview(job), state: job.state || '',
        };
}

function statusCell(r)
{
        const at = ENDED.has(r.status) ? r.finished_ms : r.status === 'in-progress' ? r.started_ms
                : r.created_ms;
        return [badge(r.status), h('span.sub', {}, r.status === 'pending' ? 'added ' : '', running(at))];
}

function timeCell(r)
{
        if (ENDED.has(r.status))
                return r.started_ms ? `took ${fmtDuration(Math.max(0, r.finished_ms - r.started_ms))}`
                        : 'never started';
        if (r.status === 'in-progress')
                return [h('span', {}, 'runs '), running(r.started_ms, 'for')];
        return r.due_ms > Date.now() ? ['due ', running(r.due_ms)] : ['waits ', running(r.due_ms, 'for')];
}

function argsCell(r)
{
        if (r.status === 'failed' && r.error)
                return [h('span.mono', {title: r.args}, r.args), h('span.sub', {title: r.error}, r.error)];
        if (r.status === 'in-progress' && r.progress)
                return [h('span.mono', {title: r.args}, r.args), h('span.sub', {}, `progress: ${r.progress}`)];
        return h('span.mono', {title: r.args}, r.args);
}

/* Which tier a hook has that its jobs do not name themselves; asked once per hook and screen. */
function tierBook(ctx)
{
        const book = new Map();
        return {book, async learn(jobs)
        {
                const hooks = [...new Set(jobs.filter((j) => !j.tier && !(j.options && j.options.tier))
                        .map((j) => j.hook))].filter((x) => !book.has(x));
                await Promise.all(hooks.map(async (hook) => {
                        try {
                                book.set(hook, (await ctx.api.get(path('tiers', hook), {}, ctx.signal)).tier);
                        } catch {
                                book.set(hook, '');
                        }
                }));
        }};
}

function pages(state, go)
{
        const back = button('', () => go(state.trail.pop() ?? '', true), {kind: 'small'});
        const on = button('', () => {
                state.trail.push(state.cursor);
                return go(state.next, true);
        }, {kind: 'small'});
        const first = button('First page', () => {
                state.trail.length = 0;
                return go('', true);
        }, {kind: 'small'});
        const words = h('span.muted');
        const node = h('div.pager', {}, first, back, words, on);
        return {node, update(count)
        {
                const isOldest = state.order === 'oldest';
                back.textContent = isOldest ? '← Older' : '← Newer';
                on.textContent = isOldest ? 'Newer →' : 'Older →';
                back.disabled = state.trail.length === 0;
                on.disabled = state.next === '';
                first.hidden = state.cursor === '';
                words.textContent = state.cursor === '' || state.trail.length
                        ? `page ${state.trail.length + 1}` : '';
                node.hidden = state.cursor === '' && state.next === '' || count === 0 && state.cursor === '';
        }};
}

/* --- the screen -------------------------------------------------------------------------------------------- */

function jobColumns(ctx, picked, all, actions, narrow)
{
        const pick = (r) => h('input', {type: 'checkbox', checked: picked.has(r.id), 'aria-label':
                `Select job ${r.id}`, onchange: (ev) => picked.set(r.id, ev.target.checked), tabindex: '-1'});
        const to = (name, value) => h('a.plain', {href: '#', title: `Only ${name} ${value}`, onclick: (ev) => {
                ev.preventDefault();
                narrow(name, value);
        }, tabindex: '-1'}, value);
        return [
                {key: 'pick', plain: true, cls: 'pick', head: all, cell: pick},
                {key: 'id', label: 'Job', cls: 'id nowrap', cell: (r) => h('a', {href: ctx.link('job', r.id)}, r.id)},
                {key: 'hook', label: 'Hook', cls: 'mono wrap full', cell: (r) => to('hook', r.hook)},
                {key: 'status', label: 'Status', cls: 'nowrap', cell: statusCell},
                {key: 'queue', label: 'Queue', cls: 'wrap', cell: (r) => [to('queue', r.queue),
                        r.group ? h('span.sub', {}, 'group ', to('group', r.group)) : null]},
                {key: 'tier', label: 'Tier', cell: (r) => (r.tier ? h(r.isOwnTier ? 'span' : 'span.muted',
                        {title: r.isOwnTier ? 'of this job' : 'of its hook'}, r.tier) : '–')},
                {key: 'tries', label: 'Attempts', cls: 'nowrap', cell: (r) => `${r.attempt} of ${r.attempts}`},
                {key: 'time', label: 'Time', cls: 'nowrap', cell: timeCell},
                {key: 'args', label: 'Arguments', cls: 'args', cell: argsCell},
                {key: 'do', label: '', cls: 'act', head: h('span.quiet', {}, 'Actions'), cell: (r) => menu('⋯',
                        () => [...choices(r, actions), {text: 'Open', run: () => ctx.navigate(ctx.link('job', r.id))}],
                        {label: `Actions for job ${r.id}`})},
        ];
}

/* The marked rows of this page. */
function selection(changed)
{
        const ids = new Set();
        return {
                ids, has: (id) => ids.has(id),
                set(id, is)
                {
                        if (is)
                                ids.add(id);
                        else
                                ids.delete(id);
                        changed();
                },
                clear()
                {
                        ids.clear();
                        changed();
                },
        };
}

function readState(params)
{
        const filter = {};
        for (const name of FILTERS)
                filter[name] = params[name] || '';
        const order = params.order === 'oldest' ? 'oldest' : 'newest';
        return {filter, order, cursor: params.cursor || '', next: '', trail: []};
}

function trailKey(state)
{
        return JSON.stringify([state.filter, state.order]);
}

export async function mount(root, params, ctx)
{
        await styled;
        const state = readState(params);
        let trail = trails.get(trailKey(state));
        if (state.cursor === '' || !trail)
                trail = [];
        /* Back to an earlier page: the pages after it are not behind us. */
        const known = trail.indexOf(state.cursor);
        state.trail = known >= 0 ? trail.slice(0, known) : [...trail];

        const tiers = tierBook(ctx);
        const actions = jobActions(ctx, () => load());
        const failed = h('div');
        const bar = h('div.bulk', {hidden: true, role: 'region', 'aria-label': 'Selected jobs'});
        const all = h('input', {type: 'checkbox', 'aria-label': 'Select all on this page', onchange: () => {
                t.rows().forEach((r) => (all.checked ? picked.ids.add(r.id) : picked.ids.delete(r.id)));
                marks();
        }});
        const picked = selection(() => marks());
        const narrow = (name, value) => ctx.navigate(ctx.link('jobs', {...shown(), cursor: '', [name]: value}));
        const t = rowTable(ctx, {caption: 'Jobs that match', hideCaption: true, key: (r) => r.id,
                empty: 'No job matches.', columns: jobColumns(ctx, picked, all, actions, narrow),
                open: (r) => ctx.link('job', r.id), mark: (r) => picked.set(r.id, !picked.has(r.id))});
        t.node.classList.add('jobs');
        const counts = tabs(ctx, state);
        const form = filterForm(ctx, state, () => {
                state.trail.length = 0;
                return go('');
        });
        const pager = pages(state, (cursor) => go(cursor));
        const order = select([['newest', 'newest first'], ['oldest', 'oldest first']], state.order,
                {onchange: () => {
                        state.order = order.value;
                        state.trail.length = 0;
                        go('');
                }});
        const clear = button('Clear filters', () => ctx.navigate('jobs'), {kind: 'small'});

        function shown()
        {
                const out = {};
                for (const name of FILTERS)
                        if (state.filter[name])
                                out[name] = state.filter[name];
                return {...out, order: state.order === 'oldest' ? 'oldest' : '', cursor: state.cursor};
        }

        /* Marks as they are; the bar says how many, and offers all that match. */
        function marks()
        {
                const here = t.rows();
                for (const tr of t.node.querySelectorAll('tr[data-key]')) {
                        const is = picked.has(Number(tr.dataset.key));
                        tr.classList.toggle('selected', is);
                        tr.querySelector('input[type=checkbox]').checked = is;
                }
                const n = picked.ids.size;
                all.checked = n > 0 && n === here.length;
                all.indeterminate = n > 0 && n < here.length;
                bar.hidden = n === 0;
                if (n === 0)
                        return;
                fill(bar, h('span', {role: 'status'}, `${plural(n, 'job')} selected`),
                        button('Clear', () => picked.clear(), {kind: 'small'}), h('div.actions', {},
                                Object.entries(MANY).map(([what, m]) => button(m.text, () => bulk(ctx, what,
                                        {ids: [...picked.ids]}, n === 1 ? 'the selected job'
                                                : `the ${fmtNumber(n)} selected jobs`, done),
                                {kind: m.danger ? 'small.danger' : 'small'}))));
        }

        function done()
        {
                picked.clear();
                return load();
        }

        async function go(cursor)
        {
                state.cursor = cursor;
                trails.set(trailKey(state), [...state.trail, ...(cursor ? [cursor] : [])]);
                if (trails.size > 50)
                        trails.delete(trails.keys().next().value);
                ctx.setQuery(shown());
                picked.clear();
                counts.draw();
                await Promise.all([load(), counts.load()]);
        }

        let asked = 0;
        async function load()
        {
                const mine = ++asked;
                const ask = {...query(state.filter), limit: PAGE, cursor: state.cursor};
                if (state.order === 'oldest')
                        ask.order = 'oldest';
                let answer;
                try {
                        answer = await ctx.api.get('jobs', ask, ctx.signal);
                        await tiers.learn(answer.jobs);
                } catch (e) {
                        if (e.name === 'AbortError' || mine !== asked)
                                return;
                        fill(failed, note('bad', h('p', {}, e.message)));
                        t.update([]);
                        return;
                }
                if (mine !== asked)
                        return;
                fill(failed);
                state.next = answer.cursor || '';
                t.update(answer.jobs.map((j) => lightRow(j, tiers.book)));
                form.learn(answer.jobs);
                pager.update(answer.jobs.length);
                clear.hidden = FILTERS.every((n) => !state.filter[n]);
                marks();
        }

        const everything = menu('All that match ▾', () => Object.entries(MANY).map(([what, m]) => ({
                text: `${m.text} …`, danger: m.danger, run: () => bulk(ctx, what, {filter: state.filter},
                        `all jobs that match (${inWords(state.filter)})`, done)})),
        {kind: 'small', label: 'Act on all jobs that match the filter'});
        append(root, counts.node, h('section.panel', {'aria-label': 'Filter'}, form.node),
                h('section.panel', {'aria-label': 'Jobs'},
                        h('div.list-head', {}, field('Order', order), clear, h('div.actions', {}, everything,
                                button('Add a job', () => addJobDialog(ctx, () => load()),
                                        {kind: 'primary.small'}))),
                        failed, t.node, pager.node, bar));
        counts.draw();
        await Promise.all([load(), counts.load()]);
        runTimes(root, ctx);
        follow(ctx, () => picked.ids.size === 0 && !isBusy(), () => Promise.all([load(), counts.load()]));
}
