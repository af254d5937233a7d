/* The form for one job, in the screen of jobs and wherever one is wanted.
 *
 * What nearly every job needs is seen at once; the other options of ENQUEUE are one click away.  It
 * also serves "Add one like it": first holds the values of another job then. */
import {act, dialog, field, h, parseDuration, select, shortDuration, TIERS, toast} from './lib.js';
import {given, text} from './parts.js';

const NUMBERS = ['priority', 'attempts', 'keymax'];
const DURATIONS = ['in', 'timeout', 'expires', 'resultfor', 'uniquefor'];
const TEXTS = ['hook', 'queue', 'group', 'tier', 'backoff', 'unique', 'scope', 'conflict', 'key', 'limit',
        'target', 'batch', 'when'];

/* JSON as it is typed; with raw JSON where the browser has it, so that no digit is lost. */
function parseArgs(typed)
{
        const s = typed.trim();
        if (s === '')
                return null;
        try {
                return JSON.rawJSON ? JSON.parse(s, (name, value, from) => (typeof value === 'number' && from
                        && from.source !== undefined && String(value) !== from.source
                        ? JSON.rawJSON(from.source) : value)) : JSON.parse(s);
        } catch (e) {
                throw new Error(`The arguments are not JSON: ${e.message}.`);
        }
}

function duration(name, value)
{
        const ms = parseDuration(value);
        if (!Number.isFinite(ms))
                throw new Error(`"${name}" is a time such as 500ms, 30s, 5m, 2h or 1d.`);
        return ms;
}

/* The body of ENQUEUE from the values of the form. */
export function jobBody(values)
{
        const body = given(values, TEXTS);
        body.args = parseArgs(values.args || '');
        for (const [name, v] of Object.entries(given(values, NUMBERS))) {
                if (!/^\d+$/.test(v))
                        throw new Error(`"${name}" is a whole number.`);
                body[name] = Number(v);
        }
        for (const [name, v] of Object.entries(given(values, DURATIONS)))
                if (!(name === 'in' && v === 'now'))
                        body[name] = duration(name, v);
        const after = String(values.after || '').trim();
        if (after !== '') {
                body.after = after.split(/[\s,]+/).map(Number);
                if (body.after.some((id) => !Number.isSafeInteger(id) || id < 1))
                        throw new Error('"After" takes the ids of jobs: 17, 18.');
        }
        return body;
}

/* The values of a job, for one like it. */
export function likeJob(job)
{
        const o = job.options || {};
        const time = (ms) => (ms ? shortDuration(Number(ms)) : '');
        return {
                hook: job.hook, queue: job.queue, group: job.group, priority: job.priority,
                attempts: job.attempts, timeout: time(job.timeout), tier: o.tier, backoff: o.backoff,
                key: o.key, keymax: o.keymax, limit: o.limit, target: o.target, batch: o.batch,
                unique: o.unique, scope: o.scope, conflict: o.conflict,
                args: job.args === undefined ? '' : JSON.stringify(job.args, null, 2),
        };
}

function moreFields(first)
{
        const f = (label, name, props, hint) => field(label, text(name, {value: first[name] ?? '', ...props}),
                hint);
        const isOpen = ['group', 'priority', 'attempts', 'timeout', 'backoff', 'unique', 'key', 'limit', 'target',
                'batch'].some((name) => first[name] !== undefined && first[name] !== '');
        return h('details', {open: isOpen}, h('summary.hint', {}, 'More options'), h('div.options', {},
                f('Group', 'group', {placeholder: 'none'}),
                f('Priority', 'priority', {inputmode: 'numeric', placeholder: '100'}, '0 to 255, lower first'),
                f('Attempts', 'attempts', {inputmode: 'numeric', placeholder: '3'}),
                f('Backoff', 'backoff', {placeholder: 'the queue\'s'}, 'fixed:5s or exp:5s,2,5m,15%'),
                f('Timeout', 'timeout', {placeholder: '5m'}, 'lease of an attempt'),
                f('Expires', 'expires', {placeholder: 'never'}, 'not started by then: canceled'),
                f('Unique key', 'unique', {placeholder: 'none'}, '* makes it from hook, group and args'),
                field('Unique while', select([['', 'pending'], 'running', 'after'], first.scope || '',
                        {name: 'scope'})),
                field('If it exists', select([['', 'answer with the first'], ['replace', 'replace its args'],
                        ['reject', 'refuse']], first.conflict || '', {name: 'conflict'})),
                f('Key', 'key', {placeholder: 'none'}, 'one of them runs at a time'),
                f('… or so many', 'keymax', {inputmode: 'numeric', placeholder: '1'}),
                f('Rate limit', 'limit', {placeholder: 'none'}),
                f('Breaker', 'target', {placeholder: 'none'}, 'of what it calls'),
                f('Batch', 'batch', {placeholder: 'none'}),
                f('After jobs', 'after', {placeholder: 'none'}, 'ids: 17, 18'),
                field('When those are', select([['', 'complete'], 'failed', 'ended'], '', {name: 'when'})),
                f('Keep result', 'resultfor', {placeholder: 'as the job'}, 'after the end')));
}

function grow(el)
{
        el.classList.add('grow');
        return el;
}

/* The form; done(id) is called when the job is on disk. */
export function addJobForm(ctx, done, first = {})
{
        const args = h('textarea', {name: 'args', rows: 4, spellcheck: 'false', value: first.args ?? '{}'});
        const said = h('p.error', {role: 'alert'});
        const submit = h('button.primary', {type: 'submit'}, 'Add the job');
        const el = h('form.form.wide-form', {onsubmit: (ev) => {
                ev.preventDefault();
                said.textContent = '';
                act(submit, async () => {
                        try {
                                const body = jobBody(Object.fromEntries(new FormData(el).entries()));
                                const answer = await ctx.api.post('jobs', body);
                                toast(`Job ${answer.id} was added.`);
                                done(answer.id);
                        } catch (e) {
                                said.textContent = e.message;
                        }
                });
        }},
        h('div.row', {},
                grow(field('Hook: what to run', text('hook', {required: true, placeholder: 'send_mail',
                        value: first.hook ?? '', 'data-add-job': true}))),
                field('Queue', text('queue', {placeholder: 'default', size: 12, value: first.queue ?? ''})),
                field('In', text('in', {placeholder: 'now', size: 6})),
                field('Tier', select([['', 'as its hook'], ...TIERS], first.tier || '', {name: 'tier'}))),
        field('Arguments, as JSON', args), moreFields(first), said, h('div.actions', {}, submit));
        return el;
}

/* Resolves with the id, or undefined. */
export function addJobDialog(ctx, done, first)
{
        return dialog(first ? 'Add a job like it' : 'Add a job', (close) => {
                const el = addJobForm(ctx, (id) => {
                        close(id);
                        if (done)
                                done(id);
                }, first);
                el.querySelector('.actions').prepend(h('button', {type: 'button', onclick: () => close()},
                        'Close'));
                return el;
        });
}
