/* Schedules: what runs when, what came of it, and the next times it will.
 *
 * A new schedule is saved first and then shown with its next runs, as the server counts them: nobody has
 * to trust a second reading of a cron expression.  Wrong ones are refused when they are saved, and one
 * that reads differently than meant is changed or removed from the same dialog. */
import {badge, button, confirm, debounce, dialog, facts, field, fill, fmtDuration, fmtNumber, h, note, panel,
        parseDuration, path, pretty, select, shortDuration, toast} from './lib.js';
import {allPages, crumbs, exactTime, formDialog, given, livePanel, menu, rowTable, running, runTimes, text,
        textBox} from './parts.js';

const DAYS = ['Sundays', 'Mondays', 'Tuesdays', 'Wednesdays', 'Thursdays', 'Fridays', 'Saturdays', 'Sundays'];

/* The commonest expressions in words; null for all others. */
function cronWords(cron)
{
        const s = String(cron).trim();
        const every = {'@hourly': 'every hour', '@daily': 'every day at 00:00', '@midnight': 'every day at 00:00',
                '@weekly': 'Sundays at 00:00', '@monthly': 'on the 1st at 00:00', '@yearly': 'on January 1st',
                '@annually': 'on January 1st', '* * * * *': 'every minute'};
        if (every[s])
                return every[s];
        const f = s.split(/\s+/);
        if (f.length !== 5)
                return null;
        const [min, hour, day, month, week] = f;
        const step = /^\*\/(\d+)$/.exec(min);
        if (step && [hour, day, month, week].every((x) => x === '*'))
                return `every ${step[1]} minutes`;
        if (!/^\d+$/.test(min))
                return null;
        if ([hour, day, month, week].every((x) => x === '*'))
                return `every hour at minute ${min}`;
        if (!/^\d+$/.test(hour) || month !== '*')
                return null;
        const at = `${hour.padStart(2, '0')}:${min.padStart(2, '0')}`;
        if (day === '*' && week === '*')
                return `every day at ${at}`;
        if (day === '*' && /^[0-7]$/.test(week))
                return `${DAYS[Number(week)]} at ${at}`;
        if (day === '*' && /^(1-5|mon-fri)$/i.test(week))
                return `Monday to Friday at ${at}`;
        return week === '*' && /^\d+$/.test(day) ? `on day ${day} of the month at ${at}` : null;
}

function whenCell(s)
{
        if (s.every_ms)
                return `every ${fmtDuration(s.every_ms)}`;
        const words = cronWords(s.cron);
        return [h('span.mono', {}, s.cron), h('span.sub', {}, [words, s.zone || 'UTC'].filter(Boolean).join(', '))];
}

function stateBadge(s)
{
        const map = {active: 'on', paused: 'paused', stopped: 'failed', ended: 'complete', done: 'complete'};
        return badge(map[s.state] || s.state, s.state);
}

/* --- actions ---------------------------------------------------------------------------------------- */

async function setPause(ctx, name, is, after)
{
        await ctx.api.post(path('schedules', name, is ? 'pause' : 'resume'));
        toast(is ? `Schedule ${name} was paused.` : `Schedule ${name} goes on.`,
                {undo: () => setPause(ctx, name, !is, after)});
        await after();
}

async function runNow(ctx, s, after)
{
        const answer = await ctx.api.post(path('schedules', s.name, 'run'));
        const id = answer && typeof answer === 'object' ? answer.id : answer;
        toast(`Job ${id} was made of ${s.name}.`, {undo: async () => {
                await ctx.api.del(path('jobs', id));
                toast(`Job ${id} was canceled.`);
        }});
        await after();
}

async function remove(ctx, s, gone)
{
        if (!await confirm({title: `Delete schedule ${s.name}?`, yes: 'Delete it', danger: true,
                text: 'It makes no more jobs. Those it has made stay.'}))
                return;
        await ctx.api.del(path('schedules', s.name));
        toast(`Schedule ${s.name} was deleted.`);
        await gone();
}

function items(ctx, s, after, gone)
{
        const isOn = s.state === 'active';
        return [
                {text: 'Run now', run: () => runNow(ctx, s, after)},
                {text: isOn ? 'Pause' : 'Resume', run: () => setPause(ctx, s.name, isOn, after)},
                {text: 'Change', run: async () => edit(ctx, await ctx.api.get(path('schedules', s.name)), after)},
                {text: 'Delete', danger: true, run: () => remove(ctx, s, gone || after)},
        ];
}

/* --- adding and changing ------------------------------------------------------------------------------ */

function slots(list)
{
        return h('ol.slots', {}, list.map((ms) => h('li', {}, exactTime(ms), ' · ', running(ms))));
}

/* The server's own reading of what was saved. */
async function showNext(ctx, name, after)
{
        const {next} = await ctx.api.get(path('schedules', name, 'next'), {count: 5});
        const what = await dialog(`Schedule ${name} is saved`, (close) => [
                next.length ? [h('p', {}, 'Its next runs, in your time:'), slots(next)]
                        : h('p', {}, 'It will never run: there is no such time.'),
                h('div.actions', {},
                        h('button.danger', {type: 'button', onclick: () => close('remove')}, 'Remove it'),
                        h('button', {type: 'button', onclick: () => close('change')}, 'Change it'),
                        h('button.primary', {type: 'button', onclick: () => close('keep')}, 'That is right'))]);
        if (what === 'remove') {
                await ctx.api.del(path('schedules', name));
                toast(`Schedule ${name} was removed.`);
                await after();
        } else if (what === 'change') {
                await edit(ctx, await ctx.api.get(path('schedules', name)), after);
        }
}

function readArgs(typed)
{
        const s = typed.trim();
        if (s === '')
                return undefined;
        try {
                return JSON.parse(s);
        } catch (e) {
                throw new Error(`The arguments are not JSON: ${e.message}.`);
        }
}

function time(value, name)
{
        const ms = parseDuration(value);
        if (!Number.isFinite(ms))
                throw new Error(`"${name}" is a time such as 30s, 5m or 1d.`);
        return ms;
}

function readSchedule(v)
{
        const out = given(v, ['hook', 'queue', 'group', 'overlap', 'missed', 'backoff', 'key', 'limit', 'target']);
        if (v.how === 'cron')
                Object.assign(out, given(v, ['cron', 'zone']));
        else
                out.every = time(v.every, 'Every');
        const args = readArgs(v.args);
        if (args !== undefined)
                out.args = args;
        for (const [name, words] of [['jitter', 'Jitter'], ['timeout', 'Timeout'], ['expires', 'Expires']])
                if (v[name].trim())
                        out[name] = time(v[name], words);
        for (const [name, words] of [['priority', 'Priority'], ['attempts', 'Attempts'],
                ['stopafter', 'Stop after']]) {
                const s = v[name].trim();
                if (s !== '' && !/^\d+$/.test(s))
                        throw new Error(`"${words}" is a whole number.`);
                if (s !== '')
                        out[name] = Number(s);
        }
        return out;
}

function zones()
{
        const all = Intl.supportedValuesOf ? Intl.supportedValuesOf('timeZone') : [];
        return h('datalist', {id: 'zones'}, ['UTC', ...all].map((value) => h('option', {value})));
}

function whenFields(s)
{
        const cron = field('Cron', text('cron', {value: (s && s.cron) || '', placeholder: '30 4 * * *',
                maxlength: 512, oninput: () => words()}), 'minute hour day month weekday, or @hourly');
        const zone = field('Time zone', text('zone', {value: (s && s.zone) || (s ? '' : Intl.DateTimeFormat()
                .resolvedOptions().timeZone), placeholder: 'UTC', list: 'zones'}));
        const every = field('Every', text('every', {value: s && s.every_ms ? shortDuration(s.every_ms) : '',
                placeholder: '5m'}), '30s, 5m, 1h30m; never drifts');
        const how = select([['cron', 'at times (cron)'], ['every', 'every so often']],
                s && s.every_ms ? 'every' : 'cron', {name: 'how', onchange: () => show()});
        const said = h('p.hint', {role: 'status'});
        const words = () => {
                const input = cron.querySelector('input');
                const w = input.value.trim() ? cronWords(input.value) : null;
                said.textContent = how.value === 'cron' && w ? `Reads as: ${w}.` : '';
        };
        const show = () => {
                cron.hidden = how.value !== 'cron';
                zone.hidden = how.value !== 'cron';
                every.hidden = how.value === 'cron';
                words();
        };
        show();
        return [h('div.options', {}, field('When', how), cron, zone, every), said, zones()];
}

function edit(ctx, s, after)
{
        const v = (name, or = '') => (s && s[name] !== null && s[name] !== undefined ? String(s[name]) : or);
        const t = (name) => (s && s[name] ? shortDuration(s[name]) : '');
        const args = s && s.args !== '' && s.args !== null && s.args !== undefined ? s.args : null;
        const result = formDialog(s ? `Change schedule ${s.name}` : 'Add a schedule', {
                yes: s ? 'Save and show the next runs' : 'Add and show the next runs',
                fields: h('div.form.wide-form', {}, h('div.options', {},
                        field('Name', text('name', {required: true, value: v('name'), readOnly: Boolean(s),
                                placeholder: 'nightly-report'})),
                        field('Hook: what to run', text('hook', {required: true, value: v('hook')})),
                        field('Queue', text('queue', {value: v('queue'), placeholder: 'default'}))),
                whenFields(s),
                field('Arguments, as JSON', h('textarea', {name: 'args', rows: 2, spellcheck: 'false',
                        value: args === null ? '' : typeof args === 'string' ? JSON.stringify(args)
                                : pretty(args)})),
                h('details', {open: Boolean(s)}, h('summary.hint', {}, 'More options'), h('div.options', {},
                        field('If the last has not ended', select([['skip', 'make none'], ['queue', 'let it wait'],
                                ['allow', 'run both'], ['cancel', 'cancel the old one']], v('overlap', 'skip'),
                        {name: 'overlap'})),
                        field('Slots that went by', select([['skip', 'are skipped'], ['one', 'make one job'],
                                ['all', 'make one job each']], v('missed', 'skip'), {name: 'missed'})),
                        field('Jitter', text('jitter', {value: t('jitter_ms'), placeholder: 'none'}), 'at random, up to'),
                        field('Stop after', text('stopafter', {value: v('stop_after'), placeholder: '5',
                                inputmode: 'numeric'}), 'failed jobs in a row; 0: never'),
                        field('Group', text('group', {value: v('group')})),
                        field('Priority', text('priority', {value: v('priority'), placeholder: '100',
                                inputmode: 'numeric'})),
                        field('Attempts', text('attempts', {value: v('attempts'), placeholder: '3',
                                inputmode: 'numeric'})),
                        field('Backoff', text('backoff', {value: v('backoff'), placeholder: 'the queue\'s'})),
                        field('Timeout', text('timeout', {value: t('timeout_ms'), placeholder: '5m'})),
                        field('Expires', text('expires', {value: t('expires_ms'), placeholder: 'never'})),
                        field('Key', text('key', {value: v('key')}), 'one at a time'),
                        field('Rate limit', text('limit', {value: v('limit')})),
                        field('Breaker', text('target', {value: v('target')}))))),
                submit: async (values) => {
                        const name = values.name.trim();
                        await ctx.api.post(path('schedules', name), readSchedule(values));
                        await after();
                        return name;
                }});
        return result.then((name) => (name ? showNext(ctx, name, after) : undefined));
}

/* --- screens -------------------------------------------------------------------------------------------- */

async function list(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const find = text('match', {type: 'search', value: params.match || '', placeholder: 'part of its name',
                oninput: debounce(() => {
                        ctx.setQuery({match: find.value.trim()});
                        refresh();
                })});
        const cut = h('p.hint', {hidden: true}, 'Only the first 2,000 by name are shown: search by name.');
        const t = rowTable(ctx, {caption: 'Schedules', hideCaption: true, key: (s) => s.name, empty: 'No schedule.',
                open: (s) => ctx.link('schedules', s.name), sort: {key: 'name', desc: false},
                columns: [
                        {key: 'name', label: 'Schedule', cls: 'wrap', sort: (s) => s.name,
                                cell: (s) => h('a', {href: ctx.link('schedules', s.name)}, s.name)},
                        {key: 'state', label: 'State', sort: (s) => s.state, cell: stateBadge},
                        {key: 'hook', label: 'Hook', cls: 'mono wrap', sort: (s) => s.hook},
                        {key: 'when', label: 'When', cell: whenCell},
                        {key: 'next', label: 'Next run', cls: 'nowrap', sort: (s) => s.next_ms,
                                cell: (s) => running(s.next_ms)},
                        {key: 'last', label: 'Last job', cell: (s) => (s.last_job
                                ? h('a', {href: ctx.link('job', s.last_job)}, s.last_job) : '–')},
                        {key: 'failures', label: 'Failed in a row', num: true, sort: (s) => s.failures},
                        {key: 'do', label: '', cls: 'act', cell: (s) => h('div.actions', {},
                                button(s.state === 'active' ? 'Pause' : 'Resume', () => setPause(ctx, s.name,
                                        s.state === 'active', again), {kind: 'small', label: `${
                                        s.state === 'active' ? 'Pause' : 'Resume'} schedule ${s.name}`}),
                                menu('⋯', () => items(ctx, s, again).filter((i) => !/Pause|Resume/.test(i.text)),
                                        {label: `Actions for schedule ${s.name}`}))},
                ]});
        root.append(h('div.row', {}, field('Search', find)));
        ({refresh} = await livePanel(ctx, root, {title: 'All schedules', content: h('div', {}, t.node, cut),
                actions: button('Add a schedule', () => edit(ctx, null, again), {kind: 'primary.small'}),
                load: () => allPages(ctx, 'schedules', 'schedules', find.value.trim()
                        ? {match: find.value.trim()} : {}),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                }}));
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const about = panel('What and when');
        const next = panel('Next runs');
        const args = panel('Arguments');
        root.append(crumbs(ctx, 'schedules', 'All schedules', top), h('div.grid', {}, about.node, next.node,
                args.node));
        const show = (s) => {
                fill(about.body, s.reason ? note('warn', h('p', {}, s.reason)) : null, facts([
                        ['Hook', s.hook], ['When', h('span', {}, whenCell(s))],
                        ['Queue', h('a', {href: ctx.link('queues', s.queue)}, s.queue)],
                        s.group ? ['Group', s.group] : null,
                        ['Last job', s.last_job ? h('a', {href: ctx.link('job', s.last_job)}, s.last_job) : '–'],
                        ['Last slot', running(s.last_slot_ms)], ['Jobs made', fmtNumber(s.jobs)],
                        ['Not ended', fmtNumber(s.live_jobs)], ['Missed', fmtNumber(s.missed_slots)],
                        ['Skipped, as the last had not ended', fmtNumber(s.overlapped_slots)],
                        ['Failed in a row', `${fmtNumber(s.failures)}${s.stop_after
                                ? `, stops at ${s.stop_after}` : ''}`],
                        ['If the last has not ended', s.overlap], ['Missed slots', s.missed],
                        s.jitter_ms ? ['Jitter', fmtDuration(s.jitter_ms)] : null,
                        s.until_ms ? ['Until', running(s.until_ms)] : null,
                        ['Attempts', fmtNumber(s.attempts)], ['Priority', fmtNumber(s.priority)],
                        s.key ? ['Key', s.key] : null, s.limit ? ['Limit', s.limit] : null,
                        s.target ? ['Breaker', s.target] : null]));
                fill(next.body, s.state !== 'active' ? h('p', {}, `It is ${s.state} and makes no jobs.`) : null,
                        s.next && s.next.length ? slots(s.next) : h('p.empty', {}, 'None.'));
                fill(args.body, s.args === '' || s.args === null || s.args === undefined
                        ? h('p.empty', {}, 'It has none.') : textBox(pretty(s.args), 'arguments'));
        };
        let shown = '';
        const load = async () => {
                let s;
                try {
                        s = await ctx.api.get(path('schedules', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        fill(about.body, note('info', h('p', {}, e.message)));
                        next.node.hidden = true;
                        args.node.hidden = true;
                        fill(top);
                        return;
                }
                const sign = JSON.stringify(s);
                if (sign === shown)
                        return;
                shown = sign;
                show(s);
                fill(top, stateBadge(s), items(ctx, s, load, () => ctx.navigate('schedules')).map((i) =>
                        button(i.text, i.run, {kind: i.danger ? 'small.danger' : 'small'})));
        };
        await ctx.every(3000, load);
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, params, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
