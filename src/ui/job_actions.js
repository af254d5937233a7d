/* What can be done to a job, to some, or to all that match a filter.
 *
 * What can be taken back is done at once and offers that; what cannot asks first.  Many jobs are
 * counted by the server before they are touched (DRYRUN), so the question says how many; past a
 * thousand, what destroys wants the number typed. */
import {query} from './job_filter.js';
import {confirm, dialog, fmtNumber, h, path, plural, TIERS, toast} from './lib.js';
import {isMissing, whyText} from './parts.js';

const ENDED = new Set(['complete', 'failed', 'canceled']);
const TYPED_ABOVE = 1000;
const ALWAYS_MS = 32503680000000; /* the year 3000: "until" that holds for every job */

/* --- one job --------------------------------------------------------------------------------- */

const TIER_TEXT = {
        critical: 'always runs',
        high: 'waits at level critical only',
        normal: 'waits when a level is elevated',
        deferrable: 'waits first and longest',
        registered: 'as its hook is registered',
};

async function pickTier(name, now)
{
        const one = (tier, close) => {
                const is = tier === now ? ' (as it is)' : '';
                return h('button', {type: 'button', onclick: () => close(tier)},
                        `${tier}: ${TIER_TEXT[tier]}${is}`);
        };
        return dialog(name,
                (close) => [h('div.form', {},
                                    [...TIERS, 'registered'].map((tier) => one(tier, close))),
                        h('div.actions', {},
                                h('button', {type: 'button', onclick: () => close()},
                                        'Keep as it is')),
        ]);
}

/* The tier that a job itself names, of an answer or of a row. */
export function ownTier(job)
{
        if (job.options)
                return job.options.tier || '';
        return job.isOwnTier ? job.tier : '';
}

/* It is due then, but may wait for something else: that is said at once. */
async function run(ctx, job, after)
{
        const wasDue = job.due_ms <= Date.now();
        await ctx.api.post(path('jobs', job.id, 'run'));
        const {blockers} = await ctx.api.get(path('jobs', job.id, 'why')).catch(() => ({}));
        const waits = blockers && blockers.length ? ` It waits: ${whyText(blockers[0])}.` : '';
        toast(`Job ${job.id} ${wasDue ? 'was due already' : 'may run now'}.${waits}`);
        await after();
}

async function retry(ctx, job, after)
{
        const isComplete = job.status === 'complete';
        const question = {
                title: `Run job ${job.id} again?`,
                text: 'It is complete. What it did is done once more.',
                yes: 'Run it again',
        };
        if (isComplete && !await confirm(question))
                return;
        await ctx.api.post(path('jobs', job.id, 'retry'), isComplete ? {force: true} : {});
        toast(`Job ${job.id} runs again.`);
        await after();
}

async function cancel(ctx, job, after)
{
        const isRunning = job.status === 'in-progress';
        const question = {
                title: `Cancel job ${job.id}?`,
                text: `It runs on ${job.worker}, which loses its lease. What it did is not undone.`,
                yes: 'Cancel the job',
                danger: true,
        };
        if (isRunning && !await confirm(question))
                return;
        await ctx.api.del(path('jobs', job.id));
        const undo = async () => {
                await ctx.api.post(path('jobs', job.id, 'retry'));
                toast(`Job ${job.id} waits again.`);
                await after();
        };
        toast(`Job ${job.id} was canceled.`, isRunning ? {} : {undo});
        await after();
}

async function retier(ctx, job, after)
{
        const old = ownTier(job) || 'registered';
        const to = await pickTier(`Tier of job ${job.id}`, old);
        if (!to)
                return;
        const says = to === 'registered' ? 'has the tier of its hook' : `is ${to}`;
        if (to === old) {
                toast(`Job ${job.id} ${says} already.`);
                return;
        }
        const where = path('jobs', job.id, 'tier');
        await ctx.api.post(where, {tier: to});
        const undo = async () => {
                await ctx.api.post(where, {tier: old});
                await after();
        };
        toast(`Job ${job.id} ${says} now.`, {undo});
        await after();
}

async function remove(ctx, job, gone)
{
        const question = {
                title: `Delete job ${job.id}?`,
                text: 'It is taken out of history with its events. This cannot be undone.',
                yes: 'Delete the job',
                danger: true,
        };
        if (!await confirm(question))
                return;
        const {changed} = await ctx.api.post('jobs/delete', {ids: [job.id]});
        toast(`Job ${job.id} ${changed ? 'was deleted' : 'is not in history any more'}.`);
        await gone();
}

/* after() is called when something changed, gone() when the job is no more. */
export function jobActions(ctx, after, gone = after)
{
        return {
                run: (job) => run(ctx, job, after),
                retry: (job) => retry(ctx, job, after),
                cancel: (job) => cancel(ctx, job, after),
                tier: (job) => retier(ctx, job, after),
                remove: (job) => remove(ctx, job, gone),
        };
}

/* The choices for a job in its state. */
export function choices(job, actions)
{
        const isEnded = ENDED.has(job.status);
        const out = [];
        if (job.status === 'pending')
                out.push({
                        text: 'Run now',
                        needs: 'RUN',
                        run: () => actions.run(job),
                        title: 'It does not wait for its time or its next attempt',
                });
        if (isEnded)
                out.push({
                        text: job.status === 'complete' ? 'Run again' : 'Retry',
                        needs: 'RETRY',
                        run: () => actions.retry(job),
                });
        else
                out.push({text: 'Change tier', needs: 'RETIER', run: () => actions.tier(job)}, {
                        text: 'Cancel',
                        needs: 'CANCEL',
                        danger: true,
                        run: () => actions.cancel(job)
                });
        if (isEnded)
                out.push({
                        text: 'Delete',
                        needs: 'DELETEMANY',
                        danger: true,
                        run: () => actions.remove(job)
                });
        return out;
}

/* --- many jobs ------------------------------------------------------------------------------- */

/* done, already, not: of one job, of several. */
export const MANY = {
        run: {
                text: 'Run now',
                needs: 'RUNMANY',
                done: ['may run now', 'may run now'],
                already: ['was due already', 'were due already'],
                not: ['does not wait', 'do not wait'],
                can: 'that wait',
                warn: 'Those that are due already stay as they are.',
                hint: 'Open one to see what it waits for.',
        },
        retry: {
                text: 'Retry',
                needs: 'RETRYMANY',
                done: ['runs again', 'run again'],
                not: ['neither failed nor was canceled', 'neither failed nor were canceled'],
                can: 'that failed or were canceled',
        },
        tier: {
                text: 'Change tier',
                needs: 'RETIERMANY',
                done: ['has another tier', 'have another tier'],
                already: ['had that tier already', 'had that tier already'],
                not: ['has ended', 'have ended'],
                can: 'that have not ended',
        },
        cancel: {
                text: 'Cancel',
                needs: 'CANCELMANY',
                done: ['was canceled', 'were canceled'],
                not: ['has ended', 'have ended'],
                can: 'that have not ended',
                danger: true,
                warn: 'Workers that run them lose their leases; what they did is not undone.',
        },
        delete: {
                text: 'Delete finished',
                needs: 'DELETEMANY',
                done: ['was deleted', 'were deleted'],
                not: ['has not ended', 'have not ended'],
                can: 'that have ended',
                danger: true,
                warn: 'They are taken out of history with their events. This cannot be undone.',
        },
};

/* What came of n jobs: "2 jobs may run now. 1 other was due already." */
function outcome(m, n, {matched, changed})
{
        const say = (count, [one, many]) => (count === 1 ? one : many);
        const already = m.already ? matched - changed : 0;
        const rest = [
                [already, m.already],
                [n - changed - already, m.not],
        ].filter(([count]) => count > 0);
        const [first, ...more] = rest;
        const others = more.map(([count, words]) => `, ${fmtNumber(count)} ${say(count, words)}`);
        if (!first)
                return `${plural(n, 'job')} ${say(n, m.done)}.`;
        const said = say(first[0], first[1]);
        if (changed > 0)
                return `${plural(changed, 'job')} ${say(changed, m.done)}. ${
                        plural(first[0], 'other')} ${said}${others.join('')}.`;
        let who = plural(first[0], 'job');
        if (!more.length)
                who = ['the job', 'both jobs'][n - 1] || `all ${who}`;
        const hint = m.hint && !more.length ? ` ${m.hint}` : '';
        return `Nothing to do: ${who} ${said}${others.join('')}.${hint}`;
}

/* The bodies to send for what is wanted.  RETRYMANY takes one status of two, and pages. */
function bodies(what, scope)
{
        if (scope.ids)
                return [{ids: scope.ids}];
        const asked = query(scope.filter);
        if (what !== 'retry')
                return [Object.keys(asked).length ? asked : {until: ALWAYS_MS}];
        const all = ['failed', 'canceled'].filter((s) => !asked.status || asked.status === s);
        return all.map((status) => ({...asked, status, limit: 1000}));
}

/* Sends until the server has no more pages; say(changed) tells how far it is. */
async function send(ctx, what, list, more, say)
{
        const sum = {matched: 0, changed: 0};
        for (const body of list) {
                let cursor = '';
                do {
                        const page = cursor ? {...body, ...more, cursor} : {...body, ...more};
                        const answer = await ctx.api.post(`jobs/${what}`, page);
                        const changed = answer.changed ?? answer.retried ?? 0;
                        sum.matched += answer.matched ?? changed;
                        sum.changed += changed;
                        cursor = answer.cursor || '';
                        if (say)
                                say(sum.changed);
                } while (cursor && !ctx.signal.aborted);
        }
        return sum;
}

/* A toast that counts, for what takes long. */
function counter(n)
{
        let close = null;
        const off = () => {
                if (close)
                        close();
                close = null;
        };
        return {
                off,
                say(count) {
                        off();
                        if (n > TYPED_ABOVE)
                                close = toast(`${fmtNumber(count)} of ${fmtNumber(n)} …`);
                },
        };
}

async function isWanted(m, tier, n, words)
{
        const question = {
                title: `${m.text}${tier ? ` to ${tier}` : ''}: ${plural(n, 'job')}`,
                yes: `${m.text}: ${plural(n, 'job')}`,
                danger: m.danger,
                typed: m.danger && n > TYPED_ABOVE ? String(n) : undefined,
                text: [
                        `Among ${words}, ${plural(n, 'is', 'are')} concerned: those ${m.can}.`,
                        m.warn,
                ],
        };
        return confirm(question);
}

/* what: a key of MANY; scope: {ids} or {filter}; words says which jobs those are. */
export async function bulk(ctx, what, scope, words, after)
{
        const m = MANY[what];
        const list = bodies(what, scope);
        const more = {};
        if (what === 'tier') {
                more.set = await pickTier(`Tier of ${words}`, null);
                if (!more.set)
                        return;
        }
        /* Those that were picked by hand and can be treated again are not asked about. */
        const isPlain = scope.ids && !m.danger;
        let n = scope.ids ? scope.ids.length : 0;
        try {
                if (!isPlain)
                        n = (await send(ctx, what, list, {...more, dryrun: true})).matched;
                if (n === 0) {
                        toast(`There are none ${m.can} among ${words}.`);
                        return;
                }
                if (!isPlain && !await isWanted(m, more.set, n, words))
                        return;
                const told = counter(n);
                const done = await send(ctx, what, list, more, told.say);
                told.off();
                toast(outcome(m, n, done));
        } catch (e) {
                throw isMissing(e) ? new Error('This server cannot do that to many jobs at once.')
                                   : e;
        }
        await after();
}
