/* One job: why it is not running, what it was given, what it gave, and everything that happened to it.
 *
 * The sentence at the top is the answer to the question with which people come here.  Each blocker that
 * somebody can do something about has the thing to do beside it. */
import {append, badge, button, facts, fill, fmtDuration, fmtNumber, h, note, panel, path, pretty, table, toast}
        from './lib.js';
import {addJobDialog, likeJob} from './add_job.js';
import {choices, jobActions} from './job_actions.js';
import {bar, crumbs, exactTime, follow, getExact, isBusy, running, runTimes, styled, textBox, workerLine}
        from './parts.js';

export const title = (params) => `Job ${params.id}`;

const POLL_MS = 5000;           /* what the stream does not tell: progress, a lease that is extended */

/* --- why ----------------------------------------------------------------------------------------- */

/* What can be done about a blocker, by its code. */
function remedy(ctx, job, b, actions, after)
{
        const to = (route, words, part) => h('a', {href: part === undefined ? ctx.link(route)
                : ctx.link(route, part)}, words);
        const name = (/'([^']+)'/.exec(b.message) || [])[1];
        switch (b.code) {
        case 'schedule':
        case 'backoff':
                return button('Run now', () => actions.run(job), {kind: 'small'});
        case 'pause':
                return button(`Resume ${job.queue}`, async () => {
                        await ctx.api.post(path('queues', job.queue, 'resume'));
                        toast(`Queue ${job.queue} was resumed.`, {undo: async () => {
                                await ctx.api.post(path('queues', job.queue, 'pause'));
                                after();
                        }});
                        after();
                }, {kind: 'small'});
        case 'queue_cap':
        case 'claims':
                return to('queues', `Settings of ${job.queue}`, job.queue);
        case 'limit':
                return name ? to('limits', `Limit ${name}`, name) : to('limits', 'Limits');
        case 'breaker':
                return name ? to('breakers', `Breaker ${name}`, name) : to('breakers', 'Breakers');
        case 'single_instance':
                return to('limits', 'Caps');
        case 'gate':
                return [to('throttle', 'Throttle'), ' ', button('Run now', () => actions.run(job),
                        {kind: 'small'})];
        case 'dependency': {
                const id = (/job (\d+)/.exec(b.message) || [])[1];
                return id ? to('job', `Job ${id}`, id) : null;
        }
        case 'worker':
                return workerLine(job.queue);
        default:
                return null;
        }
}

function sentence(words)
{
        const s = words.trim();
        return `${s[0].toUpperCase()}${s.slice(1)}${/[.!?]$/.test(s) ? '' : '.'}`;
}

/* For a job that is done or runs, the server's answer is not needed. */
function plainly(job)
{
        const took = job.started_ms ? `, after ${fmtDuration(Math.max(0, job.finished_ms - job.started_ms))}` : '';
        switch (job.status) {
        case 'complete':
                return note('good', h('p', {}, 'It completed ', running(job.finished_ms), `${took}.`));
        case 'failed':
                return note('bad', h('p', {}, `It failed after ${fmtNumber(job.attempt)} of ${
                        fmtNumber(job.attempts)} attempts, `, running(job.finished_ms), '.'),
                job.error ? h('p.mono', {}, job.error) : null);
        case 'canceled':
                return note('info', h('p', {}, 'It was canceled ', running(job.finished_ms), '.'),
                        job.error ? h('p', {}, job.error) : null);
        default:
                return note('info', h('p', {}, `It runs on ${job.worker || 'a worker'} for `,
                        running(job.started_ms, 'for'), `, attempt ${job.attempt} of ${job.attempts}. Its lease ends `,
                        running(job.lease_until_ms), '.'));
        }
}

async function whyNote(ctx, job, actions, after)
{
        if (job.status !== 'pending')
                return plainly(job);
        let why;
        try {
                why = await ctx.api.get(path('jobs', job.id, 'why'), {}, ctx.signal);
        } catch (e) {
                if (e.name === 'AbortError')
                        throw e;
                return note('warn', h('p', {}, `Why it does not run could not be told: ${e.message}`));
        }
        const all = why.blockers || [];
        if (all.length === 0)
                return note('good', h('p', {}, 'It is ready: the next free worker takes it.'));
        const one = (b) => [h('span', {}, sentence(b.message)), ' ', remedy(ctx, job, b, actions, after)];
        return h('div.note.warn.why', {}, h('p', {}, h('strong', {}, all.length === 1 ? 'It does not run yet. '
                : `It does not run yet, for ${all.length} reasons:`),
        all.length === 1 ? h('span', {}, sentence(all[0].message)) : null),
        all.length === 1 ? remedy(ctx, job, all[0], actions, after)
                : h('ul', {}, all.map((b) => h('li', {}, one(b)))),
        why.expected_ms ? h('p', {}, 'It is expected to run ', running(why.expected_ms), '.') : null);
}

/* --- parts ----------------------------------------------------------------------------------------- */

const EVENTS = {
        created: ['○', 'calm', 'Created'], started: ['▶', 'info', 'Started'],
        completed: ['✓', 'good', 'Completed'], failed: ['✕', 'bad', 'Failed'],
        'timed out': ['✕', 'bad', 'Its lease ran out'], released: ['↩', 'warn', 'Given back'],
        canceled: ['–', 'calm', 'Canceled'], deferred: ['◷', 'warn', 'Deferred by the gate'],
        retried: ['↻', 'info', 'Retried'], dropped: ['–', 'warn', 'Dropped'],
};

function timeline(events)
{
        if (events.length === 0)
                return h('p.empty', {}, 'No events are kept.');
        return h('ol.timeline', {}, events.map((e, i) => {
                const [shape, kind, words] = EVENTS[e.event] || ['·', 'calm', e.event];
                const before = i > 0 ? e.at_ms - events[i - 1].at_ms : 0;
                return h('li', {}, exactTime(e.at_ms), h(`span.mark.${kind}`, {'aria-hidden': 'true'}, shape),
                        h('div', {}, h('span', {}, words, e.worker ? ` on ${e.worker}` : '',
                                i > 0 ? h('span.muted', {}, ` · ${fmtDuration(before)} later`) : ''),
                        e.message ? h('span.sub', {}, e.message) : null));
        }));
}

/* An attempt begins with "started" and ends with whatever comes next. */
function attempts(events)
{
        const out = [];
        for (const e of events) {
                const open = out.length && !out[out.length - 1].end ? out[out.length - 1] : null;
                if (e.event === 'started')
                        out.push({n: out.length + 1, at: e.at_ms, worker: e.worker, end: 0, how: 'in-progress',
                                message: ''});
                else if (open && ['completed', 'failed', 'timed out', 'released', 'canceled'].includes(e.event))
                        Object.assign(open, {end: e.at_ms, message: e.message,
                                how: {completed: 'complete', 'timed out': 'failed'}[e.event] || e.event,
                                words: e.event});
        }
        return out;
}

function attemptsTable()
{
        const t = table({caption: 'Attempts of this job', hideCaption: true, key: (r) => r.n, empty: 'It was not started yet.',
                columns: [
                        {key: 'n', label: 'Attempt'},
                        {key: 'at', label: 'Started', cls: 'nowrap', cell: (r) => exactTime(r.at)},
                        {key: 'took', label: 'Took', cls: 'nowrap', cell: (r) => (r.end
                                ? fmtDuration(r.end - r.at) : running(r.at, 'for'))},
                        {key: 'worker', label: 'Worker', cls: 'wrap'},
                        {key: 'how', label: 'End', cell: (r) => badge(r.how, r.words)},
                        {key: 'message', label: 'Error', cls: 'wrap full'},
                ]});
        t.node.classList.add('rows');
        return t;
}

function progress(job)
{
        if (!job.progress)
                return null;
        const n = /^\s*(\d+(?:\.\d+)?)\s*%?\s*$/.exec(job.progress);
        const of = /(\d+)\s*(?:\/|of)\s*(\d+)/.exec(job.progress);
        const share = n && Number(n[1]) <= 100 ? [Number(n[1]), 100] : of ? [Number(of[1]), Number(of[2])] : null;
        return h('div', {}, h('p', {}, job.progress), share ? bar([[share[0], 's1']], share[1]) : null);
}

const OPTION_MS = new Set(['expires', 'resultfor', 'uniquefor', 'deferred_ms', 'expires_ms']);

function optionFacts(ctx, job, tier)
{
        const o = job.options || {};
        const jump = (route, name) => h('a', {href: ctx.link(route, name)}, name);
        const links = {limit: 'limits', target: 'breakers', batch: 'batches', schedule: 'schedules'};
        const rest = Object.entries(o).filter(([name]) => name !== 'tier').map(([name, value]) => {
                const plain = name.replace(/_ms$/, '').replace(/_/g, ' ');
                const words = plain[0].toUpperCase() + plain.slice(1);
                if (links[name])
                        return [words, jump(links[name], value)];
                if (name === 'after' && Array.isArray(value))
                        return [words, value.map((a, i) => [i ? ', ' : '', h('a', {href: ctx.link('job',
                                a.id ?? a)}, a.id ?? a)])];
                if (OPTION_MS.has(name) && Number(value) > 1e12)
                        return [words, running(value)];
                if (OPTION_MS.has(name))
                        return [words, fmtDuration(value)];
                return [words, typeof value === 'object' ? JSON.stringify(value) : String(value)];
        });
        return facts([
                ['Queue', jump('queues', job.queue)],
                job.group ? ['Group', h('a', {href: ctx.link('jobs', {group: job.group})}, job.group)] : null,
                ['Tier', job.tier || o.tier ? h('span', {}, job.tier || o.tier) : tier ? `${tier}, as its hook` : '–'],
                ['Priority', fmtNumber(job.priority)],
                ['Attempts', `${job.attempt} of ${job.attempts}`],
                ['Timeout', job.timeout ? fmtDuration(job.timeout) : 'of the queue or the claim'],
                ['Created', running(job.created_ms)],
                job.due_ms !== job.created_ms ? ['Due', running(job.due_ms)] : null,
                job.started_ms ? ['Started', running(job.started_ms)] : null,
                job.finished_ms ? ['Ended', running(job.finished_ms)] : null,
                job.worker ? ['Worker', h('a', {href: ctx.link('jobs', {worker: job.worker})}, job.worker)] : null,
                job.fence ? ['Fence', String(job.fence)] : null,
                ...rest,
        ]);
}

/* JSON, text or bytes, whichever it is; null when there is none. */
function payload(job, name)
{
        if (job[`${name}_base64`] !== undefined)
                return `${job[`${name}_base64`]}\n\n(base64: these bytes are no text)`;
        const value = job[name];
        if (value === undefined || value === null || value === '')
                return null;
        return typeof value === 'string' ? pretty(value) : JSON.stringify(value, null, 2);
}

/* --- the screen ------------------------------------------------------------------------------------- */

export async function mount(root, params, ctx)
{
        await styled;
        const top = h('div');
        const buttons = h('span.row.mid');
        const options = panel('Options');
        const args = panel('Arguments');
        const result = panel('Result');
        const tries = panel('Attempts');
        const story = panel('Timeline');
        const list = attemptsTable();
        const grid = h('div.grid', {}, h('div.stacked', {}, args.node, result.node),
                h('div.stacked', {}, options.node, tries.node, story.node));
        tries.body.append(list.node);
        append(root, crumbs(ctx, 'jobs', 'All jobs', buttons), top, grid);
        const actions = jobActions(ctx, () => load(), () => ctx.navigate('jobs'));
        let shown = '';
        let tier;

        function draw(job, events)
        {
                ctx.setTitle(`Job ${job.id}: ${job.hook}`);
                fill(buttons, badge(job.status), choices(job, actions).map((c) =>
                        button(c.text, c.run, {kind: c.danger ? 'small.danger' : 'small', title: c.title})),
                button('Add one like it', () => addJobDialog(ctx, (id) => ctx.navigate(ctx.link('job', id)),
                        likeJob(job)), {kind: 'small'}));
                fill(args.body, payload(job, 'args') === null ? h('p.empty', {}, 'It has none.')
                        : textBox(payload(job, 'args'), 'arguments'));
                fill(options.body, optionFacts(ctx, job, tier));
                const outcome = payload(job, 'result');
                fill(result.body, progress(job) ? [h('h3', {}, 'Progress'), progress(job)] : null,
                        job.error ? [h('h3', {}, job.status === 'failed' ? 'Error' : 'Last error'),
                                textBox(job.error, 'error')] : null,
                        outcome === null ? null : textBox(outcome, 'result'),
                        outcome === null && !job.error && !job.progress ? h('p.empty', {}, job.status === 'complete'
                                ? 'It gave none.' : 'None yet.') : null);
                list.update(attempts(events));
                fill(story.body, timeline(events));
        }

        async function load()
        {
                let job;
                let events = [];
                try {
                        job = await getExact(ctx, path('jobs', params.id));
                        events = (await ctx.api.get(path('jobs', params.id, 'events'), {}, ctx.signal)).events;
                        if (tier === undefined)
                                tier = await ctx.api.get(path('tiers', job.hook), {}, ctx.signal)
                                        .then((a) => a.tier, () => '');
                } catch (e) {
                        if (e.name === 'AbortError')
                                return;
                        if (!job) {
                                fill(top, note('bad', h('p', {}, e.message)));
                                grid.hidden = true;
                                fill(buttons);
                                return;
                        }
                }
                grid.hidden = false;
                fill(top, await whyNote(ctx, job, actions, load));
                const sign = JSON.stringify([job, events]);
                if (sign !== shown)
                        draw(job, events);
                shown = sign;
        }

        await load();
        runTimes(root, ctx);
        const may = () => !isBusy() && !top.contains(document.activeElement)
                && !buttons.contains(document.activeElement) && String(getSelection()) === '';
        follow(ctx, may, load);
        ctx.every(POLL_MS, async () => {
                if (may())
                        await load();
        });
}
