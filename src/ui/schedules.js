/* Schedules: what runs when, what came of it, and the next times it will.
 *
 * A new schedule is saved first and then shown with its next runs, as the server counts them:
 * nobody has to trust a second reading of a cron expression.  Wrong ones are refused when they are
 * saved, and one that reads differently than meant is changed or removed from the same dialog. */
import {readArgs} from './add_job.js';
import {cronWords} from './cron_words.js';
import {
        badge,
        button,
        confirm,
        debounce,
        dialog,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        h,
        note,
        panel,
        path,
        pretty,
        select,
        shortDuration,
        toast
} from './lib.js';
import {
        allPages,
        by,
        crumbs,
        CUT,
        duration,
        formDialog,
        given,
        livePanel,
        menu,
        rowTable,
        running,
        runTimes,
        text,
        textBox,
        whole
} from './parts.js';

const BADGES = {
        active: 'on',
        paused: 'paused',
        stopped: 'failed',
        ended: 'complete'
};

function stateBadge(s)
{
        return badge(BADGES[s.state] || s.state, s.state);
}

function whenCell(s)
{
        if (s.every_ms)
                return `every ${fmtDuration(s.every_ms)}`;
        const words = [cronWords(s.cron), s.zone || 'UTC'].filter(Boolean).join(', ');
        return [h('span.mono', {}, s.cron), h('span.sub', {}, words)];
}

function lastCell(ctx, s)
{
        return s.last_job ? h('a', {href: ctx.link('job', s.last_job)}, s.last_job) : '–';
}

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

function slots(list)
{
        const one = (ms) => h('li', {}, slotTimes.format(ms), ' · ', running(ms));
        return h('ol.slots', {}, list.map(one));
}

/* --- actions --------------------------------------------------------------------------------- */

async function setPause(ctx, name, is, after)
{
        await ctx.api.post(path('schedules', name, is ? 'pause' : 'resume'));
        const said = is ? 'was paused' : 'goes on';
        toast(`Schedule ${name} ${said}.`, {undo: () => setPause(ctx, name, !is, after)});
        await after();
}

async function runNow(ctx, s, after)
{
        const answer = await ctx.api.post(path('schedules', s.name, 'run'));
        const id = answer && typeof answer === 'object' ? answer.id : answer;
        const undo = async () => {
                await ctx.api.del(path('jobs', id));
                toast(`Job ${id} was canceled.`);
        };
        toast(`Job ${id} was made of ${s.name}.`, {undo});
        await after();
}

async function remove(ctx, s, gone)
{
        const question = {
                title: `Delete schedule ${s.name}?`,
                text: 'It makes no more jobs. Those it has made stay.',
                yes: 'Delete it',
                danger: true,
        };
        if (!await confirm(question))
                return;
        await ctx.api.del(path('schedules', s.name));
        toast(`Schedule ${s.name} was deleted.`);
        await gone();
}

/* The list has only some fields of each: all of them are asked for. */
async function change(ctx, name, after)
{
        await edit(ctx, await ctx.api.get(path('schedules', name)), after);
}

function pauseItem(ctx, s, after)
{
        const isOn = s.state === 'active';
        return {
                text: isOn ? 'Pause' : 'Resume',
                run: () => setPause(ctx, s.name, isOn, after),
        };
}

function items(ctx, s, after, gone = after)
{
        return [
                {text: 'Run now', run: () => runNow(ctx, s, after)},
                {text: 'Change', run: () => change(ctx, s.name, after)},
                {text: 'Delete', danger: true, run: () => remove(ctx, s, gone)},
        ];
}

/* --- adding and changing --------------------------------------------------------------------- */

/* The server's own reading of what was saved. */
async function showNext(ctx, name, after)
{
        const {next} = await ctx.api.get(path('schedules', name, 'next'), {count: 5});
        const what = await dialog(`Schedule ${name} is saved`,
                (close) => [h('p', {},
                                    next.length ? 'Its next runs, in your time:'
                                                : 'It will never run: there is no such time.'),
                        next.length ? slots(next) : null,
                        h('div.actions', {},
                                h('button.danger', {type: 'button', onclick: () => close('remove')},
                                        'Remove it'),
                                h('button', {type: 'button', onclick: () => close('change')},
                                        'Change it'),
                                h('button.primary', {type: 'button', onclick: () => close('keep')},
                                        'That is right')),
        ]);
        if (what === 'remove') {
                await ctx.api.del(path('schedules', name));
                toast(`Schedule ${name} was removed.`);
                await after();
        } else if (what === 'change') {
                await change(ctx, name, after);
        }
}

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

function read(values)
{
        const out = given(values, TEXTS);
        if (values.how === 'cron')
                Object.assign(out, given(values, ['cron', 'zone']));
        else
                out.every = duration(values.every, 'Every');
        for (const [name, words] of Object.entries(TIMES))
                if (values[name].trim())
                        out[name] = duration(values[name], words);
        for (const [name, words] of Object.entries(NUMBERS))
                if (values[name].trim())
                        out[name] = whole(values[name], words);
        return Object.assign(out, readArgs(values.args));
}

function zones()
{
        const all = Intl.supportedValuesOf ? Intl.supportedValuesOf('timeZone') : [];
        const names = new Set(['UTC', ...all]);
        return h('datalist', {id: 'zones'}, [...names].map((value) => h('option', {value})));
}

const HOW = [['cron', 'at times (cron)'], ['every', 'every so often']];

/* A time by cron and zone, or a span; only the fields of the chosen way are seen. */
function whenFields(s)
{
        const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
        const input = text('cron', {
                value: (s && s.cron) || '',
                placeholder: '30 4 * * *',
                maxlength: 512,
                oninput: () => show(),
        });
        const zoneText = text('zone', {
                value: s ? s.zone || '' : here,
                placeholder: 'UTC',
                list: 'zones',
        });
        const span = s && s.every_ms ? shortDuration(s.every_ms) : '';
        const cron = field('Cron', input, 'minute hour day month weekday, or @hourly');
        const zone = field('Time zone', zoneText);
        const every =
                field('Every', text('every', {value: span, placeholder: '5m'}), '30s, 5m, 1h30m');
        const said = h('p.hint', {role: 'status'});
        const show = () => {
                const isCron = how.value === 'cron';
                const words = isCron && input.value.trim() ? cronWords(input.value) : null;
                cron.hidden = !isCron;
                zone.hidden = !isCron;
                every.hidden = isCron;
                said.textContent = words ? `Reads as: ${words}.` : '';
        };
        const how = select(HOW, span ? 'every' : 'cron', {name: 'how', onchange: show});
        show();
        return [h('div.options', {}, field('When', how), cron, zone, every), said, zones()];
}

const OVERLAP = [
        ['skip', 'make none'], ['queue', 'let it wait'], ['allow', 'run both'],
        ['cancel', 'cancel the old one']
];
const MISSED = [['skip', 'are skipped'], ['one', 'make one job'], ['all', 'make one job each']];

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

function argsText(s)
{
        if (!s || s.args === '' || s.args === null || s.args === undefined)
                return '';
        return JSON.stringify(s.args, null, 2);
}

function fields(s)
{
        const name = {required: true, readOnly: Boolean(s), placeholder: 'nightly-report'};
        const from = (key) => (s ? s[key] : '');
        const args =
                h('textarea', {name: 'args', rows: 2, spellcheck: 'false', value: argsText(s)});
        return h('div.form.wide-form', {},
                h('div.options', {}, field('Name', text('name', {...name, value: from('name')})),
                        field('Hook: what to run',
                                text('hook', {required: true, value: from('hook')})),
                        field('Queue',
                                text('queue', {value: from('queue'), placeholder: 'default'}))),
                whenFields(s), field('Arguments, as JSON', args), moreFields(s));
}

async function edit(ctx, s, after)
{
        const name = await formDialog(s ? `Change schedule ${s.name}` : 'Add a schedule', {
                fields: fields(s),
                yes: s ? 'Save and show the next runs' : 'Add and show the next runs',
                submit: async (values) => {
                        await ctx.api.post(path('schedules', values.name.trim()), read(values));
                        return values.name.trim();
                },
        });
        if (!name)
                return;
        await after();
        await showNext(ctx, name, after);
}

/* --- screens --------------------------------------------------------------------------------- */

function columns(ctx, again)
{
        const name = (s) => h('a', {href: ctx.link('schedules', s.name)}, s.name);
        const actions = (s) => {
                const {text: verb, run} = pauseItem(ctx, s, again);
                return h('div.actions', {},
                        button(verb, run, {kind: 'small', label: `${verb} schedule ${s.name}`}),
                        menu('⋯', () => items(ctx, s, again),
                                {label: `Actions for schedule ${s.name}`}));
        };
        return [
                {key: 'name', label: 'Schedule', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'state', label: 'State', sort: by('state'), cell: stateBadge},
                {key: 'hook', label: 'Hook', cls: 'mono wrap', sort: by('hook')},
                {key: 'when', label: 'When', cell: whenCell},
                {
                        key: 'next',
                        label: 'Next run',
                        cls: 'nowrap',
                        sort: by('next_ms'),
                        cell: (s) => running(s.next_ms),
                },
                {key: 'last', label: 'Last job', cell: (s) => lastCell(ctx, s)},
                {key: 'failures', label: 'Failed in a row', num: true, sort: by('failures')},
                {key: 'do', cls: 'act', cell: actions},
        ];
}

async function list(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const cut = h('p.hint', {hidden: true}, CUT);
        const find = text('match', {
                type: 'search',
                value: params.match || '',
                placeholder: 'part of its name',
                oninput: debounce(() => {
                        ctx.setQuery({match: find.value.trim()});
                        again();
                }),
        });
        const t = rowTable(ctx, {
                caption: 'Schedules',
                hideCaption: true,
                key: by('name'),
                empty: 'No schedule.',
                sort: {key: 'name', desc: false},
                open: (s) => ctx.link('schedules', s.name),
                columns: columns(ctx, again),
        });
        ({refresh} = await livePanel(ctx, root, {
                title: 'All schedules',
                content: h('div.form', {}, h('div.row', {}, field('Search', find)), t.node, cut),
                actions: button(
                        'Add a schedule', () => edit(ctx, null, again), {kind: 'primary.small'}),
                load: () => allPages(ctx, 'schedules', 'schedules', {match: find.value.trim()}),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                },
        }));
}

function about(ctx, s)
{
        const stops = s.stop_after ? `, stops at ${s.stop_after}` : '';
        return facts([
                ['Hook', s.hook],
                ['When', h('span', {}, whenCell(s))],
                ['Queue', h('a', {href: ctx.link('queues', s.queue)}, s.queue)],
                s.group ? ['Group', s.group] : null,
                ['Last job', lastCell(ctx, s)],
                ['Last slot', running(s.last_slot_ms)],
                ['Jobs made', fmtNumber(s.jobs)],
                ['Not ended', fmtNumber(s.live_jobs)],
                ['Missed', fmtNumber(s.missed_slots)],
                ['Left out', `${fmtNumber(s.overlapped_slots)}, the last had not ended`],
                ['Failed in a row', `${fmtNumber(s.failures)}${stops}`],
                ['If the last has not ended', s.overlap],
                ['Slots that went by', s.missed],
                s.jitter_ms ? ['Jitter', fmtDuration(s.jitter_ms)] : null,
                s.until_ms ? ['Until', running(s.until_ms)] : null,
                ['Attempts', fmtNumber(s.attempts)],
                ['Priority', fmtNumber(s.priority)],
                s.key ? ['Key', s.key] : null,
                s.limit ? ['Limit', h('a', {href: ctx.link('limits', s.limit)}, s.limit)] : null,
                s.target ? ['Breaker', h('a', {href: ctx.link('breakers', s.target)}, s.target)]
                         : null,
        ]);
}

function nextRuns(s)
{
        const isOn = s.state === 'active';
        return [
                isOn ? null : h('p', {}, `It is ${s.state} and makes no jobs.`),
                s.next && s.next.length ? slots(s.next) : h('p.empty', {}, 'None.'),
        ];
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const what = panel('What and when');
        const next = panel('Next runs');
        const args = panel('Arguments');
        const grid = h('div.grid', {}, what.node, next.node, args.node);
        root.append(crumbs(ctx, 'schedules', 'All schedules', top), grid);
        let shown = '';

        function draw(s)
        {
                const typed = argsText(s);
                const all = [
                        pauseItem(ctx, s, load),
                        ...items(ctx, s, load, () => ctx.navigate('schedules'))
                ];
                fill(top, stateBadge(s),
                        all.map((i) => button(i.text, i.run,
                                        {kind: i.danger ? 'small.danger' : 'small'})));
                fill(what.body, s.reason ? note('warn', h('p', {}, s.reason)) : null,
                        about(ctx, s));
                fill(next.body, nextRuns(s));
                fill(args.body,
                        typed ? textBox(pretty(s.args), 'arguments')
                              : h('p.empty', {}, 'It has none.'));
        }

        async function load()
        {
                let s;
                try {
                        s = await ctx.api.get(path('schedules', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        fill(what.body, note('info', h('p', {}, e.message)));
                        next.node.hidden = true;
                        args.node.hidden = true;
                        fill(top);
                        return;
                }
                const sign = JSON.stringify(s);
                if (sign !== shown)
                        draw(s);
                shown = sign;
        }

        await ctx.every(3000, load);
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, params, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
