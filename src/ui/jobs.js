/* Jobs: counts, filters, pages, and what can be done to one job, to some, or to all that match.
 *
 * The filter lives in the address, so it can be shared and Back returns to it.  A page is asked for
 * by cursor, which costs the same on page one and on page ten thousand; the way back is remembered
 * per filter.  While the tab is seen and nobody is in the middle of something, the list follows the
 * live stream, at most every 2 s, and only when the stream says that something changed. */
import {addJobDialog} from './add_job.js';
import {bulk, choices, jobActions, MANY, ownTier} from './job_actions.js';
import {filterForm, FILTERS, inWords, query, tabs} from './job_filter.js';
import {
        append,
        badge,
        button,
        copyLine,
        cover,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        h,
        may,
        path,
        plural,
        select
} from './lib.js';
import {follow, isBusy, menu, rowTable, running, runTimes, styled} from './parts.js';
import {getExact} from './payload.js';

export const title = 'Jobs';

const PAGE = 50;
const EVERY = Object.values(MANY).map((m) => m.needs);
const TRAILS = 50;        /* filters whose pages are remembered */
const trails = new Map(); /* filter -> cursors of the pages up to the one that was shown */

/* --- one row ---------------------------------------------------------------------------------- */

function preview(job)
{
        if (job.args_base64 !== undefined)
                return `${job.args_base64.slice(0, 200)} (base64)`;
        return (job.args_is_text ? job.args : JSON.stringify(job.args)).slice(0, 200);
}

/* Only what is shown: the table compares rows by it. */
function lightRow(job, tiers)
{
        const own = ownTier(job);
        return {
                id: job.id,
                hook: job.hook,
                status: job.status,
                queue: job.queue,
                group: job.group,
                tier: own || tiers.get(job.hook) || '',
                isOwnTier: own !== '',
                attempt: job.attempt,
                attempts: job.attempts,
                created_ms: job.created_ms,
                due_ms: job.due_ms,
                started_ms: job.started_ms,
                finished_ms: job.finished_ms,
                worker: job.worker,
                progress: String(job.progress || '').slice(0, 60),
                error: String(job.error || '').slice(0, 160),
                args: preview(job),
                state: job.state || '',
        };
}

function statusCell(r)
{
        let at = r.created_ms;
        if (r.status !== 'pending')
                at = r.status === 'in-progress' ? r.started_ms : r.finished_ms;
        const said = r.status === 'pending' ? 'added ' : '';
        return [badge(r.status), h('span.sub', {}, said, running(at))];
}

function timeCell(r)
{
        if (r.status === 'in-progress')
                return ['runs ', running(r.started_ms, 'for')];
        if (r.status === 'pending')
                return r.due_ms > Date.now() ? ['due ', running(r.due_ms)]
                                             : ['waits ', running(r.due_ms, 'for')];
        const took = fmtDuration(Math.max(0, r.finished_ms - r.started_ms));
        return r.started_ms ? `took ${took}` : 'never started';
}

function tierCell(r)
{
        if (!r.tier)
                return '–';
        return r.isOwnTier ? h('span', {title: 'of this job'}, r.tier)
                           : h('span.muted', {title: 'of its hook'}, r.tier);
}

function triesCell(r)
{
        return `${r.attempt} of ${r.attempts}`;
}

function argsCell(r)
{
        let said = '';
        if (r.status === 'failed')
                said = r.error;
        else if (r.status === 'in-progress' && r.progress)
                said = `progress: ${r.progress}`;
        return [
                h('span.mono', {title: r.args}, r.args),
                said ? h('span.sub', {title: said}, said) : null,
        ];
}

const NONE_MATCHES = 'No job matches the filter.';

function noneYet()
{
        return [
                h('p', {},
                        `No job yet. Add one ${
                                may('ENQUEUE') ? 'above, or ' : ''}from a shell or a program:`),
                copyLine('weir job add send_mail \'{"to": "ada@example.com"}\''),
        ];
}

/* Which tier a hook has that its jobs do not name themselves; asked once per hook and screen. */
function tierBook(ctx)
{
        const book = new Map();
        const ask = async (hook) => {
                const where = path('tiers', hook);
                const answer = await ctx.api.get(where, {}, ctx.signal).catch(() => ({tier: ''}));
                book.set(hook, answer.tier);
        };
        const learn = (jobs) => {
                const open = jobs.filter((j) => !ownTier(j) && !book.has(j.hook));
                return Promise.all([...new Set(open.map((j) => j.hook))].map(ask));
        };
        return {book, learn};
}

/* --- the list -------------------------------------------------------------------------------- */

/* One screen's worth of state: filter, place in the pages, marks. */
class JobList
{
        constructor(ctx, params)
        {
                this.ctx = ctx;
                this.filter = {};
                for (const name of FILTERS)
                        this.filter[name] = params[name] || '';
                this.order = params.order === 'oldest' ? 'oldest' : 'newest';
                this.cursor = params.cursor || '';
                this.next = '';
                this.trail = this.remembered();
                this.picked = new Set();
                this.asked = 0;
                this.tiers = tierBook(ctx);
                this.actions = jobActions(ctx, () => this.load());
                this.empty = h('div');
                this.all = h('input', {
                        type: 'checkbox',
                        'aria-label': 'Select all on this page',
                        onchange: () => this.pickAll(this.all.checked),
                });
                this.table = rowTable(ctx, {
                        caption: 'Jobs that match',
                        hideCaption: true,
                        key: (r) => r.id,
                        empty: this.empty,
                        columns: this.columns(),
                        open: (r) => ctx.link('job', r.id),
                        mark: may(EVERY) ? (r) => this.pick(r.id, !this.picked.has(r.id)) : null,
                });
                this.table.node.classList.add('jobs');
                this.part = cover(this.table.node);
                this.bar = h(
                        'div.bulk', {role: 'region', 'aria-label': 'Selected jobs', hidden: true});
                this.counts = tabs(ctx, this);
                this.form = filterForm(ctx, this, () => this.begin());
                this.makePager();
        }

        /* The filter and the page, as the address has them. */
        address()
        {
                const out = {};
                for (const name of FILTERS)
                        if (this.filter[name])
                                out[name] = this.filter[name];
                return {
                        ...out,
                        order: this.order === 'oldest' ? 'oldest' : '',
                        cursor: this.cursor
                };
        }

        /* The pages before this one, when it was reached by them in this visit. */
        remembered()
        {
                const all = this.cursor ? trails.get(this.trailKey()) || [] : [];
                const at = all.indexOf(this.cursor);
                return at >= 0 ? all.slice(0, at) : [];
        }

        trailKey()
        {
                return JSON.stringify([this.filter, this.order]);
        }

        columns()
        {
                const only = (name, value) => {
                        const to = {...this.address(), cursor: '', [name]: value};
                        return h('a.plain', {
                                href: this.ctx.link('jobs', to),
                                title: `Only ${name} ${value}`,
                        },
                                value);
                };
                const pick = (r) => h('input', {
                        type: 'checkbox',
                        checked: this.picked.has(r.id),
                        'aria-label': `Select job ${r.id}`,
                        onchange: (ev) => this.pick(r.id, ev.target.checked),
                });
                const queue = (r) => [only('queue', r.queue),
                        r.group ? h('span.sub', {}, 'group ', only('group', r.group)) : null,
                ];
                const open = (r) => h('a', {href: this.ctx.link('job', r.id)}, r.id);
                const more = (r) => menu(
                        '⋯', () => choices(r, this.actions), {label: `Actions for job ${r.id}`});
                return [
                        {
                                key: 'pick',
                                needs: EVERY,
                                plain: true,
                                cls: 'pick',
                                head: this.all,
                                cell: pick
                        },
                        {key: 'id', label: 'Job', plain: true, cls: 'id nowrap', cell: open},
                        {
                                key: 'hook',
                                label: 'Hook',
                                cls: 'mono wrap',
                                cell: (r) => only('hook', r.hook)
                        },
                        {key: 'status', label: 'Status', cls: 'nowrap', cell: statusCell},
                        {key: 'queue', label: 'Queue', cls: 'wrap', cell: queue},
                        {key: 'tier', label: 'Tier', cell: tierCell},
                        {key: 'tries', label: 'Attempts', cls: 'nowrap', cell: triesCell},
                        {key: 'time', label: 'Time', cls: 'nowrap', cell: timeCell},
                        {key: 'args', label: 'Arguments', cls: 'args', cell: argsCell},
                        {key: 'do', needs: EVERY, cls: 'act', cell: more},
                ];
        }

        /* --- pages
         * ----------------------------------------------------------------------------------- */

        makePager()
        {
                const small = {kind: 'small'};
                const first = button('First page', () => {
                        this.trail.length = 0;
                        return this.turn('');
                }, small);
                const back = button('', () => this.turn(this.trail.pop() ?? ''), small);
                const on = button('', () => {
                        if (this.cursor !== this.next) /* else it could not be had */
                                this.trail.push(this.cursor);
                        return this.turn(this.next);
                }, small);
                const words = h('span.muted');
                this.pager = h('div.pager', {hidden: true}, first, back, words, on);
                this.showPager = () => {
                        const isOldest = this.order === 'oldest';
                        back.textContent = isOldest ? '← Older' : '← Newer';
                        on.textContent = isOldest ? 'Newer →' : 'Older →';
                        back.disabled = this.trail.length === 0;
                        on.disabled = this.next === '';
                        first.hidden = this.cursor === '';
                        const isKnown = this.cursor === '' || this.trail.length > 0;
                        words.textContent = isKnown ? `page ${this.trail.length + 1}` : '';
                        this.pager.hidden = this.cursor === '' && this.next === '';
                };
        }

        begin()
        {
                this.trail.length = 0;
                return this.go('');
        }

        go(cursor)
        {
                this.cursor = cursor;
                trails.set(this.trailKey(), [...this.trail, cursor]);
                if (trails.size > TRAILS)
                        trails.delete(trails.keys().next().value);
                this.ctx.setQuery(this.address());
                this.pickAll(false);
                return this.refresh();
        }

        /* A page is read from its first row on. */
        async turn(cursor)
        {
                await this.go(cursor);
                const list = this.table.node.parentNode;
                if (list.getBoundingClientRect().top < 0)
                        list.scrollIntoView();
        }

        /* Whether the rows could be had. */
        async refresh()
        {
                const [isLoaded] = await Promise.all([this.load(), this.counts.load()]);
                return isLoaded;
        }

        /* The rows that are shown stay until others are there; after an error, too. */
        async load()
        {
                const mine = ++this.asked;
                const ask = {...query(this.filter), limit: PAGE, cursor: this.cursor};
                if (this.order === 'oldest')
                        ask.order = 'oldest';
                this.table.busy(true);
                try {
                        const answer = await getExact(this.ctx, path('jobs'), ask);
                        await this.tiers.learn(answer.jobs);
                        if (mine !== this.asked)
                                return true;
                        this.next = answer.cursor || '';
                        this.part.ok();
                        this.show(answer.jobs);
                        return true;
                } catch (e) {
                        if (e.name === 'AbortError' || mine !== this.asked)
                                return true;
                        this.table.busy(false);
                        this.part.fail(e);
                        return false;
                }
        }

        show(jobs)
        {
                const isFiltered = FILTERS.some((name) => this.filter[name]);
                fill(this.empty, isFiltered ? NONE_MATCHES : noneYet());
                this.table.update(jobs.map((j) => lightRow(j, this.tiers.book)));
                this.form.learn(jobs);
                this.showPager();
                const here = new Set(jobs.map((j) => j.id));
                this.drop([...this.picked].filter((id) => !here.has(id)));
                this.clear.hidden = !isFiltered;
        }

        /* --- marks
         * ----------------------------------------------------------------------------------- */

        pick(id, is)
        {
                if (is)
                        this.picked.add(id);
                else
                        this.picked.delete(id);
                this.showMarks();
        }

        pickAll(is)
        {
                this.picked.clear();
                if (is)
                        this.table.rows().forEach((r) => this.picked.add(r.id));
                this.showMarks();
        }

        drop(ids)
        {
                ids.forEach((id) => this.picked.delete(id));
                this.showMarks();
        }

        /* The marks go at once: a box that looks checked until the rows come could not be checked.
         * Those that were set meanwhile stay. */
        done(ids)
        {
                this.drop(ids);
                return this.refresh();
        }

        /* Marks as they are; the bar says how many and what can be done to them. */
        showMarks()
        {
                for (const tr of this.table.node.querySelectorAll('tr[data-key]')) {
                        const is = this.picked.has(Number(tr.dataset.key));
                        tr.classList.toggle('selected', is);
                        for (const box of tr.querySelectorAll('input[type=checkbox]'))
                                box.checked = is;
                }
                const n = this.picked.size;
                const here = this.table.rows().length;
                this.all.checked = n > 0 && n === here;
                this.all.indeterminate = n > 0 && n < here;
                this.bar.hidden = n === 0;
                const words = n === 1 ? 'the selected job' : `the ${fmtNumber(n)} selected jobs`;
                const ids = [...this.picked];
                const one = ([what, m]) => button(m.text,
                        () => bulk(this.ctx, what, {ids}, words, () => this.done(ids)),
                        {kind: m.danger ? 'small.danger' : 'small', needs: m.needs});
                if (n > 0)
                        fill(this.bar, h('span', {role: 'status'}, `${plural(n, 'job')} selected`),
                                button('Clear', () => this.pickAll(false), {kind: 'small'}),
                                h('div.actions', {}, Object.entries(MANY).map(one)));
        }

        /* --- all together
         * ---------------------------------------------------------------------------- */

        node()
        {
                const {ctx} = this;
                const everything =
                        menu('All that match ▾', () => Object.entries(MANY).map(([what, m]) => ({
                                text: `${m.text} …`,
                                needs: m.needs,
                                danger: m.danger,
                                run: () => bulk(ctx, what, {filter: this.filter},
                                        `all jobs that match (${inWords(this.filter)})`,
                                        () => this.done([...this.picked])),
                        })),
                                {label: 'Act on all jobs that match the filter'});
                const order = select(
                        [['newest', 'newest first'], ['oldest', 'oldest first']], this.order, {
                                onchange: () => {
                                        this.order = order.value;
                                        this.begin();
                                }
                        });
                const add = button('Add a job', () => addJobDialog(ctx, () => this.refresh()),
                        {kind: 'primary.small', needs: 'ENQUEUE'});
                this.clear = button('Clear filters', () => ctx.navigate('jobs'), {kind: 'small'});
                this.clear.hidden = FILTERS.every((name) => !this.filter[name]);
                const head = h('div.list-head', {}, field('Order', order), this.clear,
                        h('div.actions', {}, everything, add));
                return [
                        this.counts.node,
                        h('section.panel', {'aria-label': 'Filter'}, this.form.node),
                        h('section.panel', {'aria-label': 'Jobs'}, head, this.table.node,
                                this.pager, this.bar),
                ];
        }
}

export async function mount(root, params, ctx)
{
        await styled;
        const list = new JobList(ctx, params);
        append(root, list.node());
        await list.refresh();
        runTimes(root, ctx);
        follow(ctx, () => list.picked.size === 0 && !isBusy(), () => list.refresh());
}
