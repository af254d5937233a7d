/* The form of a schedule.
 *
 * It tells the next runs of what is typed while it is typed, as the server counts them
 * (SCHEDULETRY), or what is wrong with it: nobody has to trust a second reading of a cron
 * expression, or to save one to find out.
 *
 * A schedule is saved whole, so what the form has no field for is kept from the one that is
 * changed. */
import {cronWords} from './cron_words.js';
import {debounce, field, fill, h, note, path, select, shortDuration} from './lib.js';
import {duration, given, running, text, whole} from './parts.js';
import {argsField, readArgs, sameArgs} from './payload.js';

/* --- values ---------------------------------------------------------------------------------- */

const TEXTS = ['hook', 'queue', 'group', 'overlap', 'missed', 'backoff', 'key', 'limit', 'target'];
const TIMES = {
        jitter: 'Jitter',
        timeout: 'Timeout',
        expires: 'Expires'
};
const NUMBERS = {
        priority: 'Priority',
        attempts: 'Attempts',
        stopafter: 'Stop after'
};

/* The times alone. */
function readTimes(values, s)
{
        const out = {};
        if (values.how === 'cron')
                Object.assign(out, given(values, ['cron', 'zone']));
        else
                out.every = duration(values.every, 'Every');
        return Object.assign(out, keptTimes(s, out));
}

/* What the form has no field for, of the schedule it changes.  The first slot of another interval
 * is found anew. */
function keptTimes(s, to)
{
        if (!s)
                return {};
        const isSame = s.cron ? to.cron : to.every === s.every_ms;
        return {
                ...(s.until_ms ? {until: s.until_ms} : {}),
                ...(s.first_ms && isSame ? {first: s.first_ms} : {}),
        };
}

/* How late a job may be made, where nobody said it: that is no choice to keep. */
const WINDOWS = {
        skip: 60000,
        all: 86400000
};

function keptOptions(s, to)
{
        if (!s)
                return {};
        const isOwnWindow = s.window_ms && s.window_ms !== WINDOWS[s.missed];
        return {
                ...(isOwnWindow && to.missed === s.missed ? {window: s.window_ms} : {}),
                ...(s.key_max && to.key ? {keymax: s.key_max} : {}),
                ...(s.result_ms ? {resultfor: s.result_ms} : {}),
                ...(s.maxrun_ms ? {maxrun: s.maxrun_ms} : {}),
                ...(s.traceparent ? {traceparent: s.traceparent} : {}),
        };
}

function read(values, s)
{
        const out = {...given(values, TEXTS), ...readTimes(values, s)};
        for (const [name, typed] of Object.entries(given(values, Object.keys(TIMES))))
                out[name] = duration(typed, TIMES[name]);
        for (const [name, typed] of Object.entries(given(values, Object.keys(NUMBERS))))
                out[name] = whole(typed, NUMBERS[name]);
        return {...out, ...keptOptions(s, out), ...readArgs(values, s)};
}

/* What SCHEDULE takes to make it as it is. */
function body(s)
{
        const out = s.cron ? {cron: s.cron, zone: s.zone} : {every: s.every_ms};
        for (const name of TEXTS)
                if (s[name])
                        out[name] = s[name];
        return {
                ...out,
                ...keptTimes(s, out),
                ...keptOptions(s, out),
                jitter: s.jitter_ms || undefined,
                timeout: s.timeout_ms || undefined,
                expires: s.expires_ms || undefined,
                priority: s.priority,
                attempts: s.attempts,
                stopafter: s.stop_after,
                ...sameArgs(s),
        };
}

/* One that made no jobs before it was deleted makes none when it is back. */
async function finish(ctx, s)
{
        if (s.state === 'paused' || s.state === 'stopped')
                await ctx.api.post(path('schedules', s.name, 'pause'));
}

/* --- the next runs --------------------------------------------------------------------------- */

const slotTimes = new Intl.DateTimeFormat(undefined, {
        weekday: 'short',
        year: 'numeric',
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
        hourCycle: 'h23',
        timeZoneName: 'short',
});

export function slots(list)
{
        const one = (ms) => h('li', {}, slotTimes.format(ms), ' · ', running(ms));
        return h('ol.slots', {}, list.map(one));
}

/* In the time of who looks. */
function nextRuns(list, cron)
{
        if (list.length === 0)
                return h('p.error', {}, 'It would never run: there is no such time.');
        const words = cron ? cronWords(cron) : null;
        const read = words ? `Reads as: ${words}. ` : '';
        return [h('p.hint', {}, `${read}Its next runs, in your time:`), slots(list)];
}

const NEXT_SHOWN = 5;
const NOTHING_TYPED = 'Its next runs are shown here while you type.';

/* Tells in `box` what the server makes of the times that are typed. */
function preview(ctx, s, box)
{
        let asked = 0;
        return async (values) => {
                const mine = ++asked;
                let said = h('p.hint', {}, NOTHING_TYPED);
                try {
                        if ((values.how === 'cron' ? values.cron : values.every).trim() !== '') {
                                const times = readTimes(values, s);
                                const name = s ? s.name : '';
                                const ask = {...times, name, count: NEXT_SHOWN};
                                const {next} = await ctx.api.get('schedules-try', ask);
                                said = nextRuns(next, times.cron);
                        }
                } catch (e) {
                        said = h('p.error', {}, e.message);
                }
                if (mine === asked)
                        fill(box, said);
        };
}

/* --- fields ---------------------------------------------------------------------------------- */

function zones()
{
        const all = Intl.supportedValuesOf ? Intl.supportedValuesOf('timeZone') : [];
        const names = new Set(['UTC', ...all]);
        return h('datalist', {id: 'zones'}, [...names].map((value) => h('option', {value})));
}

const HOW = [['cron', 'at times (cron)'], ['every', 'every so often']];

/* A time by cron and zone, or a span; only the fields of the chosen way are seen. */
function whenFields(ctx, s)
{
        const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
        const cronText = text('cron', {
                value: (s && s.cron) || '',
                placeholder: '30 4 * * *',
                maxlength: 512,
        });
        const zoneText = text('zone', {
                value: s && s.cron ? s.zone : here,
                placeholder: 'UTC',
                list: 'zones',
        });
        const span = s && s.every_ms ? shortDuration(s.every_ms) : '';
        const everyText = text('every', {value: span, placeholder: '5m'});
        const how = select(HOW, span ? 'every' : 'cron', {name: 'how'});
        const cron = field('Cron', cronText, 'minute hour day month weekday, or @hourly');
        const zone = field('Time zone', zoneText);
        const every = field('Every', everyText, '30s, 5m, 1h30m');
        const box = h('div.preview', {role: 'status', 'aria-label': 'Next runs'});
        const tell = preview(ctx, s, box);
        const look = () => tell({
                how: how.value,
                cron: cronText.value,
                zone: zoneText.value,
                every: everyText.value,
        });
        const show = () => {
                const isCron = how.value === 'cron';
                cron.hidden = !isCron;
                zone.hidden = !isCron;
                every.hidden = isCron;
        };
        const soon = debounce(look);
        [cronText, zoneText, everyText].forEach((el) => el.addEventListener('input', soon));
        how.addEventListener('change', () => {
                show();
                look();
        });
        show();
        look();
        return [h('div.options', {}, field('When', how), cron, zone, every), box, zones()];
}

const OVERLAP = [
        ['skip', 'make none'], ['queue', 'let it wait'], ['allow', 'run both'],
        ['cancel', 'cancel the old one']
];
const MISSED = [['skip', 'are skipped'], ['one', 'make one job'], ['all', 'make one job each']];

/* What a policy does, in the words of the form. */
export function policyText({overlap, missed})
{
        const words = (list, value) => Object.fromEntries(list)[value] || value;
        return {overlap: words(OVERLAP, overlap), missed: words(MISSED, missed)};
}

function moreFields(s)
{
        const value = (name) =>
                (s && s[name] !== null && s[name] !== undefined ? String(s[name]) : '');
        const time = (name) => (s && s[name] ? shortDuration(s[name]) : '');
        const one = (label, name, from, placeholder, hint) =>
                field(label, text(name, {value: from, placeholder}), hint);
        const overlap = select(OVERLAP, value('overlap') || 'skip', {name: 'overlap'});
        const missed = select(MISSED, value('missed') || 'skip', {name: 'missed'});
        return h('details', {open: Boolean(s)}, h('summary.hint', {}, 'More options'),
                h('div.options', {}, field('If the last has not ended', overlap),
                        field('Slots that went by', missed),
                        one('Jitter', 'jitter', time('jitter_ms'), 'none', 'at random, up to'),
                        one('Stop after', 'stopafter', value('stop_after'), '5',
                                'failed in a row; 0: never'),
                        one('Group', 'group', value('group'), 'none'),
                        one('Priority', 'priority', value('priority'), '100'),
                        one('Attempts', 'attempts', value('attempts'), '3'),
                        one('Backoff', 'backoff', value('backoff'), 'the queue\'s'),
                        one('Timeout', 'timeout', time('timeout_ms'), '5m'),
                        one('Expires', 'expires', time('expires_ms'), 'never'),
                        one('Key', 'key', value('key'), 'none', 'one at a time'),
                        one('Rate limit', 'limit', value('limit'), 'none'),
                        one('Breaker', 'target', value('target'), 'none')));
}

const SIGNED =
        'It is signed. Saved here it loses its signature: where jobs must be signed, change ' +
        'it where it was signed.';

function fields(ctx, s)
{
        const name = {required: true, readOnly: Boolean(s), placeholder: 'nightly-report'};
        const from = (key) => (s ? s[key] : '');
        return h('div.form.wide-form', {},
                h('div.options', {}, field('Name', text('name', {...name, value: from('name')})),
                        field('Hook: what to run',
                                text('hook', {required: true, value: from('hook')})),
                        field('Queue',
                                text('queue', {value: from('queue'), placeholder: 'default'}))),
                whenFields(ctx, s), argsField(s, 2), moreFields(s),
                s && s.is_signed ? note('warn', h('p', {}, SIGNED)) : null);
}

export const scheduleForm = {
        fields,
        read,
        body,
        finish
};
