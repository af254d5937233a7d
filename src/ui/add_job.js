/* The form for one job, in the screen of jobs and wherever one is wanted.
 *
 * What nearly every job needs is seen at once; the other options of ENQUEUE are one click away.  It
 * also serves "Add one like it": first holds the values of another job then. */
import {act, dialog, field, h, select, shortDuration, TIERS, toast} from './lib.js';
import {duration, given, text, whole} from './parts.js';
import {argsField, readArgs} from './payload.js';

const NUMBERS = {
        priority: 'Priority',
        attempts: 'Attempts',
        keymax: 'So many'
};
const TIMES = {
        in : 'Start in',
        timeout: 'Timeout',
        expires: 'Expires',
        resultfor: 'Keep result',
        maxrun: 'Longest run',
        uniquefor: 'Unique for',
};
const TEXTS = [
        'hook', 'queue', 'group', 'tier', 'backoff', 'unique', 'scope', 'conflict', 'key', 'limit',
        'target', 'batch', 'when'
];

/* --- values ---------------------------------------------------------------------------------- */

function readIds(typed)
{
        const ids = typed.split(/[\s,]+/).map(Number);
        if (ids.some((id) => !Number.isSafeInteger(id) || id < 1))
                throw new Error('"After jobs" takes ids: 17, 18.');
        return ids;
}

/* The body of ENQUEUE; like: the job that it is to be like. */
function read(values, like)
{
        const body = {...given(values, TEXTS), ...readArgs(values, like)};
        for (const [name, typed] of Object.entries(given(values, Object.keys(NUMBERS))))
                body[name] = whole(typed, NUMBERS[name]);
        for (const [name, typed] of Object.entries(given(values, Object.keys(TIMES))))
                if (typed !== 'now')
                        body[name] = duration(typed, TIMES[name]);
        const {after} = given(values, ['after']);
        return after ? {...body, after: readIds(after)} : body;
}

/* The values of a job, as getWhole() gives it, for one like it. */
export function likeJob(job)
{
        const o = job.options || {};
        return {
                hook: job.hook,
                queue: job.queue,
                group: job.group,
                priority: job.priority,
                attempts: job.attempts,
                timeout: job.timeout ? shortDuration(Number(job.timeout)) : '',
                tier: o.tier,
                backoff: o.backoff,
                key: o.key,
                keymax: o.keymax,
                limit: o.limit,
                target: o.target,
                batch: o.batch,
                unique: o.unique,
                scope: o.scope,
                conflict: o.conflict,
                like: job,
        };
}

/* --- fields ---------------------------------------------------------------------------------- */

const SCOPES = [['', 'pending'], 'running', 'after'];
const CONFLICTS = [['', 'keep the first'], ['replace', 'replace its args'], ['reject', 'refuse']];
const WHENS = [['', 'complete'], 'failed', 'ended'];

function moreFields(first)
{
        const one = (label, name, placeholder, hint) =>
                field(label, text(name, {value: first[name] ?? '', placeholder}), hint);
        const choose = (label, name, list) => field(label, select(list, first[name] || '', {name}));
        return h('details', {open: first.hook !== undefined}, h('summary.hint', {}, 'More options'),
                h('div.options', {}, one('Group', 'group', 'none'),
                        one('Priority', 'priority', '100', '0 to 255, lower first'),
                        one('Attempts', 'attempts', '3'),
                        one('Backoff', 'backoff', 'the queue\'s', 'fixed:5s or exp:5s,2,5m,15%'),
                        one('Timeout', 'timeout', '5m', 'lease of an attempt'),
                        one('Longest run', 'maxrun', 'no limit', 'then the attempt times out'),
                        one('Expires', 'expires', 'never', 'not started by then: canceled'),
                        one('Unique key', 'unique', 'none', '* makes it from hook, group, args'),
                        choose('Unique while', 'scope', SCOPES),
                        one('Unique for', 'uniquefor', 'none', 'with "after"'),
                        choose('If it exists', 'conflict', CONFLICTS),
                        one('Key', 'key', 'none', 'one of them runs at a time'),
                        one('… or so many', 'keymax', '1'), one('Rate limit', 'limit', 'none'),
                        one('Breaker', 'target', 'none', 'of what it calls'),
                        one('Batch', 'batch', 'none'),
                        one('After jobs', 'after', 'none', 'ids: 17, 18'),
                        choose('When those are', 'when', WHENS),
                        one('Keep result', 'resultfor', 'as the job', 'after the end')));
}

function mainFields(first)
{
        const hook = text('hook', {
                required: true,
                placeholder: 'send_mail',
                value: first.hook ?? '',
                'data-add-job': true,
        });
        const queue = text('queue', {placeholder: 'default', value: first.queue ?? ''});
        const tier = select([['', 'as its hook'], ...TIERS], first.tier || '', {name: 'tier'});
        const wait = text('in', {placeholder: 'now'});
        return [
                field('Hook: what to run', hook, 'a name that your workers know'),
                argsField(first.like, 4, '{}'),
                h('div.options', {}, field('Queue', queue), field('Start in', wait, '30s, 5m, 2h'),
                        field('Tier', tier)),
        ];
}

/* The form; done(id) is called when the job is on disk. */
export function addJobForm(ctx, done, first = {})
{
        const said = h('p.error', {role: 'alert'});
        const submit = h('button.primary', {type: 'submit'}, 'Add the job');
        const add = async () => {
                try {
                        const values = Object.fromEntries(new FormData(el).entries());
                        const body = read(values, first.like);
                        const answer = await ctx.api.post('jobs', body);
                        toast(`Job ${answer.id} was added.`);
                        done(answer.id);
                } catch (e) {
                        if (!el.isConnected)
                                throw e; /* closed meanwhile: a toast */
                        said.textContent = e.message;
                }
        };
        const onsubmit = (ev) => {
                ev.preventDefault();
                said.textContent = '';
                act(submit, add);
        };
        const el = h('form.form.wide-form', {needs: 'ENQUEUE', onsubmit}, mainFields(first),
                moreFields(first), h('div.actions', {}, said, submit));
        return el;
}

/* Resolves with the id, or undefined. */
export function addJobDialog(ctx, done, first)
{
        return dialog(first ? 'Add a job like it' : 'Add a job', (close) => {
                const shut = h('button', {type: 'button', onclick: () => close()}, 'Close');
                const el = addJobForm(ctx, (id) => {
                        close(id);
                        if (done)
                                done(id);
                }, first);
                el.querySelector('[type=submit]').before(shut);
                return el;
        });
}
