/* One job: why it is not running, what it was given, what it gave, and everything that happened.
 *
 * The sentence at the top is the answer to the question with which people come here.  Each blocker
 * that somebody can do something about has the thing to do beside it. */
import {addJobDialog, likeJob} from './add_job.js';
import {choices, jobActions, ownTier} from './job_actions.js';
import {
        append,
        badge,
        button,
        cover,
        facts,
        fill,
        fmtDuration,
        fmtNumber,
        fmtTime,
        h,
        notAvailable,
        note,
        panel,
        path,
        plural,
        table,
        toast,
        turns
} from './lib.js';
import {
        bar,
        crumbs,
        exactTime,
        follow,
        isBusy,
        running,
        runTimes,
        styled,
        textBox,
        whyText,
        workerLine
} from './parts.js';
import {getWhole, payloadText} from './payload.js';

export const title = (params) => `Job ${params.id}`;

const POLL_MS = 5000; /* for what the stream does not tell: progress, a lease that is extended */

/* --- why it does not run --------------------------------------------------------------------- */

async function resumeQueue(ctx, name, after)
{
        await ctx.api.post(path('queues', name, 'resume'));
        const undo = async () => {
                await ctx.api.post(path('queues', name, 'pause'));
                after();
        };
        toast(`Queue ${name} was resumed.`, {undo});
        after();
}

/* What can be done about a blocker, by its code; b.message names things in quotes. */
function remedy(ctx, job, b, actions, after)
{
        const to = (words, ...where) => h('a', {href: ctx.link(...where)}, words);
        const [, name] = /'(.+)'/s.exec(b.message) || [];
        const [, id] = /job (\d+)/.exec(b.message) || [];
        const run = () => button('Run now', () => actions.run(job), {kind: 'small', needs: 'RUN'});
        const resume = () => button(`Resume ${job.queue}`, () => resumeQueue(ctx, job.queue, after),
                {kind: 'small', needs: 'RESUME'});
        const REMEDIES = {
                schedule: run,
                backoff: run,
                pause: resume,
                queue_cap: () => to(`Settings of ${job.queue}`, 'queues', job.queue),
                claims: () => to(`Settings of ${job.queue}`, 'queues', job.queue),
                limit: () => to(`Limit ${name}`, 'limits', name),
                breaker: () => to(`Breaker ${name}`, 'breakers', name),
                single_instance: () => to('Caps', 'limits'),
                gate: () => to('Throttle', 'throttle'),
                dependency: () => to(`Job ${id}`, 'job', id),
                worker: () => workerLine(job.queue),
        };
        return Object.hasOwn(REMEDIES, b.code) ? REMEDIES[b.code]() : null;
}

/* What is to be said of a job that runs or has ended. */
function stateNote(job)
{
        const took = fmtDuration(Math.max(0, job.finished_ms - job.started_ms));
        const tries = `${fmtNumber(job.attempt)} of ${fmtNumber(job.attempts)}`;
        if (job.status === 'complete')
                return note('good',
                        h('p', {}, 'It completed ', running(job.finished_ms),
                                job.started_ms ? `, after ${took}.` : '.'));
        if (job.status === 'failed')
                return note('bad',
                        h('p', {}, 'It failed ', running(job.finished_ms),
                                `, after ${tries} attempts.`),
                        job.error ? h('p.mono', {}, job.error) : null);
        if (job.status === 'canceled')
                return note('info', h('p', {}, 'It was canceled ', running(job.finished_ms), '.'));
        return note('info',
                h('p', {}, `It runs on ${job.worker || 'a worker'} for `,
                        running(job.started_ms, 'for'), `, attempt ${tries}. Its lease ends `,
                        running(job.lease_until_ms), '.'));
}

/* One reason is a sentence, several are a list. */
function reasons(all, fix)
{
        if (all.length === 1)
                return [
                        h('p', {}, h('strong', {}, 'It does not run yet: '), `${whyText(all[0])}.`),
                        fix(all[0]),
                ];
        return [
                h('p', {}, h('strong', {}, `It does not run yet, for ${all.length} reasons:`)),
                h('ul', {}, all.map((b) => h('li', {}, whyText(b), ' ', fix(b)))),
        ];
}

async function whyNote(ctx, job, actions, after)
{
        if (job.status !== 'pending')
                return stateNote(job);
        let why;
        try {
                why = await ctx.api.get(path('jobs', job.id, 'why'), {}, ctx.signal);
        } catch (e) {
                if (e.name === 'AbortError')
                        throw e;
                return note(
                        'warn', h('p', {}, `Why it does not run could not be told: ${e.message}`));
        }
        const all = why.blockers || [];
        if (all.length === 0)
                return note('good',
                        h('p', {},
                                why.ahead ? `It is ready: ${
                                                    plural(why.ahead, 'job is', 'jobs are')} ` +
                                                'ahead of it.'
                                          : 'It is ready: the next free worker takes it.'));
        const isTold = all.length === 1 && all[0].code === 'schedule';
        const when = why.not_before_ms && !isTold
                ? h('p', {}, 'It cannot start before ', fmtTime(why.not_before_ms), ', ',
                          running(why.not_before_ms), '.')
                : null;
        return h('div.note.warn.why', {}, reasons(all, (b) => remedy(ctx, job, b, actions, after)),
                when);
}

/* --- what happened --------------------------------------------------------------------------- */

const EVENTS = {
        created: ['○', 'calm', 'Created'],
        started: ['▶', 'info', 'Started'],
        completed: ['✓', 'good', 'Completed'],
        failed: ['✕', 'bad', 'Failed'],
        'timed out': ['✕', 'bad', 'Its lease ran out'],
        released: ['↩', 'warn', 'Given back'],
        canceled: ['–', 'calm', 'Canceled'],
        deferred: ['◷', 'warn', 'Deferred by the gate'],
        retried: ['↻', 'info', 'Retried'],
        'given up': ['✕', 'bad', 'Given up'],
        returning: ['↩', 'info', 'Let go by the gate'],
        'made due': ['▶', 'info', 'Made due'],
        retiered: ['⇅', 'info', 'Moved to another tier'],
        dropped: ['–', 'warn', 'Dropped'],
};

function eventLine(e, before)
{
        const [shape, kind, words] = EVENTS[e.event] || ['·', 'calm', e.event];
        const later = before ? ` · ${fmtDuration(e.at_ms - before.at_ms)} later` : '';
        const who = e.worker ? ` on ${e.worker}` : '';
        return h('li', {}, exactTime(e.at_ms),
                h(`span.mark.${kind}`, {'aria-hidden': 'true'}, shape),
                h('div', {}, `${words}${who}`, h('span.muted', {}, later),
                        e.message ? h('span.sub', {}, e.message) : null));
}

function timeline(events)
{
        if (events.length === 0)
                return h('p.empty', {}, 'No events are kept.');
        return h('ol.timeline', {}, events.map((e, i) => eventLine(e, events[i - 1])));
}

const ENDS = {
        completed: 'complete',
        failed: 'failed',
        'timed out': 'failed',
        released: 'deferred',
        canceled: 'canceled',
};

/* An attempt begins with "started" and ends with whatever ends one. */
function attempts(events)
{
        const out = [];
        for (const e of events) {
                const last = out[out.length - 1];
                if (e.event === 'started')
                        out.push({
                                n: out.length + 1,
                                at: e.at_ms,
                                worker: e.worker,
                                how: 'in-progress'
                        });
                else if (last && !last.end && ENDS[e.event])
                        Object.assign(last, {
                                end: e.at_ms,
                                how: ENDS[e.event],
                                words: e.event,
                                message: e.message,
                        });
        }
        return out;
}

function attemptsTable()
{
        const took = (r) => (r.end ? fmtDuration(r.end - r.at) : running(r.at, 'for'));
        const t = table({
                caption: 'Attempts of this job',
                hideCaption: true,
                key: (r) => r.n,
                empty: 'It was not started yet.',
                columns: [
                        {key: 'n', label: 'Attempt'},
                        {key: 'at', label: 'Started', cls: 'nowrap', cell: (r) => exactTime(r.at)},
                        {key: 'took', label: 'Took', cls: 'nowrap', cell: took},
                        {key: 'worker', label: 'Worker', cls: 'wrap'},
                        {key: 'how', label: 'End', cell: (r) => badge(r.how, r.words)},
                        {key: 'message', label: 'Error', cls: 'wrap'},
                ],
        });
        t.node.classList.add('rows');
        return t;
}

/* --- what it is, was given and gave ---------------------------------------------------------- */

/* "42", "42 %" and "3 of 7" are drawn as well. */
function progress(job)
{
        if (!job.progress)
                return null;
        const [, percent] = /^\s*(\d+(?:\.\d+)?)\s*%?\s*$/.exec(job.progress) || [];
        const [, part, whole] = /(\d+)\s*(?:\/|of)\s*(\d+)/.exec(job.progress) || [];
        return h('div', {}, h('h3', {}, 'Progress'), h('p', {}, job.progress),
                percent ? bar([[Number(percent), 's1']], 100) : null,
                whole ? bar([[Number(part), 's1']], Number(whole)) : null);
}

const PLACES = {
        limit: 'limits',
        target: 'breakers',
        batch: 'batches',
        schedule: 'schedules'
};
const SPANS = new Set(['maxrun', 'expires', 'resultfor', 'uniquefor', 'deferred_ms', 'expires_ms']);

/* An option by its name in the answer: where it leads, or as a time, or as it is. */
function optionFact(ctx, [name, value])
{
        const plain = name.replace(/_ms$/, '').replace(/_/g, ' ');
        const words = plain[0].toUpperCase() + plain.slice(1);
        const jump = (route, part) => h('a', {href: ctx.link(route, part)}, part);
        if (PLACES[name])
                return [words, jump(PLACES[name], value)];
        if (name === 'after' && Array.isArray(value))
                return [words, value.map((a, i) => [i ? ', ' : '', jump('job', a.id ?? a)])];
        if (SPANS.has(name))
                return [words, Number(value) > 1e12 ? running(value) : fmtDuration(value)];
        return [words, typeof value === 'object' ? JSON.stringify(value) : String(value)];
}

function about(ctx, job, hookTier)
{
        const jobs = (query, words) => h('a', {href: ctx.link('jobs', query)}, words);
        const tier = ownTier(job) || (hookTier ? `${hookTier}, as its hook` : '–');
        const more = Object.entries(job.options || {}).filter(([name]) => name !== 'tier');
        return facts([
                ['Queue', h('a', {href: ctx.link('queues', job.queue)}, job.queue)],
                job.group ? ['Group', jobs({group: job.group}, job.group)] : null,
                ['Tier', tier],
                ['Priority', fmtNumber(job.priority)],
                ['Attempts', `${job.attempt} of ${job.attempts}`],
                ['Timeout', job.timeout ? fmtDuration(job.timeout) : 'of the queue or the claim'],
                ['Created', running(job.created_ms)],
                job.due_ms === job.created_ms ? null : ['Due', running(job.due_ms)],
                job.started_ms ? ['Started', running(job.started_ms)] : null,
                job.finished_ms ? ['Ended', running(job.finished_ms)] : null,
                job.worker ? ['Worker', jobs({worker: job.worker}, job.worker)] : null,
                job.fence ? ['Fence', String(job.fence)] : null,
                ...more.map((o) => optionFact(ctx, o)),
        ]);
}

function outcome(job)
{
        const result = payloadText(job, 'result');
        const none = job.status === 'complete' ? 'It gave none.' : 'None yet.';
        const error = job.status === 'failed' ? 'Error' : 'Last error';
        if (!result && !job.error && !job.progress)
                return h('p.empty', {}, none);
        return [
                progress(job),
                job.error ? [h('h3', {}, error), textBox(job.error, 'error')] : null,
                result ? textBox(result, 'result') : null,
        ];
}

/* --- the screen ------------------------------------------------------------------------------ */

class JobScreen
{
        constructor(root, id, ctx)
        {
                this.ctx = ctx;
                this.id = id;
                this.shown = '';
                this.hookTier = undefined;
                this.turn = turns();
                this.actions = jobActions(ctx, () => this.load(), () => ctx.navigate('jobs'));
                this.top = h('div');
                this.buttons = h('span.row.mid');
                this.args = panel('Arguments');
                this.result = panel('Result');
                this.options = panel('Options');
                this.tries = panel('Attempts');
                this.story = panel('Timeline');
                this.table = attemptsTable();
                this.tries.body.append(this.table.node);
                this.grid = h('div.grid', {},
                        h('div.stacked', {}, this.args.node, this.result.node),
                        h('div.stacked', {}, this.options.node, this.tries.node, this.story.node));
                append(root, crumbs(ctx, 'jobs', 'All jobs', this.buttons), this.top, this.grid);
                this.part = cover(this.grid);
                this.triesPart = cover(this.table.node);
        }

        /* events: what came, or why nothing did. */
        draw(job, events)
        {
                const like = () => addJobDialog(this.ctx,
                        (id) => this.ctx.navigate(this.ctx.link('job', id)), likeJob(job));
                const args = payloadText(job, 'args');
                this.ctx.setTitle(`Job ${job.id}: ${job.hook}`);
                fill(this.buttons, badge(job.status),
                        choices(job, this.actions).map((c) => button(c.text, c.run, {
                                kind: c.danger ? 'small.danger' : 'small',
                                title: c.title,
                                needs: c.needs
                        })),
                        button('Add one like it', like, {kind: 'small', needs: 'ENQUEUE'}));
                fill(this.args.body,
                        args ? textBox(args, 'arguments') : h('p.empty', {}, 'It has none.'));
                fill(this.options.body, about(this.ctx, job, this.hookTier));
                fill(this.result.body, outcome(job));
                if (events instanceof Error) {
                        this.triesPart.fail(events);
                        fill(this.story.body, notAvailable(events));
                        return;
                }
                this.triesPart.ok();
                this.table.update(attempts(events));
                fill(this.story.body, timeline(events));
        }

        async ask()
        {
                const {api, signal} = this.ctx;
                const job = await getWhole(this.ctx, path('jobs', this.id));
                const told = (e) => {
                        if (e.name === 'AbortError')
                                throw e;
                        return e;
                };
                const events = await api.get(path('jobs', this.id, 'events'), {}, signal)
                                       .then((answer) => answer.events, told);
                if (this.hookTier === undefined)
                        this.hookTier = await api.get(path('tiers', job.hook), {}, signal)
                                                .then((answer) => answer.tier, () => '');
                return {job, events};
        }

        async load()
        {
                const isLast = this.turn();
                try {
                        const {job, events} = await this.ask();
                        const why = await whyNote(this.ctx, job, this.actions, () => this.load());
                        if (!isLast())
                                return;
                        fill(this.top, why);
                        this.part.ok();
                        const sign = JSON.stringify([job, String(events), events]);
                        if (sign !== this.shown)
                                this.draw(job, events);
                        this.shown = sign;
                } catch (e) {
                        if (e.name === 'AbortError' || !isLast())
                                return;
                        if (e.status !== 404) {
                                this.part.fail(e);
                                return;
                        }
                        this.shown = '';
                        this.grid.hidden = true;
                        fill(this.buttons);
                        fill(this.top, note('bad', h('p', {}, e.message)));
                }
        }

        /* Nothing moves while somebody copies a text or is about to press something. */
        isFree()
        {
                const at = document.activeElement;
                return !isBusy() && !this.top.contains(at) && !this.buttons.contains(at) &&
                        String(getSelection()) === '';
        }
}

export async function mount(root, params, ctx)
{
        await styled;
        const screen = new JobScreen(root, params.id, ctx);
        await screen.load();
        runTimes(root, ctx);
        follow(ctx, () => screen.isFree(), () => screen.load());
        ctx.every(POLL_MS, async () => {
                if (screen.isFree())
                        await screen.load();
        });
}
