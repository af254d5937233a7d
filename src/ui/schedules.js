/* Schedules: what runs when, what came of it, and the next times it will. */
import {cronWords} from './cron_words.js';
import {badge, facts, fill, fmtDuration, fmtNumber, h, note, panel, path, toast} from './lib.js';
import {edit, nounList, nounOne, remove} from './noun.js';
import {by, running, runTimes, textBox} from './parts.js';
import {getWhole, payloadText} from './payload.js';
import {policyText, scheduleForm, slots} from './schedule_form.js';

const BADGES = {
        active: 'on',
        paused: 'paused',
        stopped: 'failed',
        done: 'complete'
};

function stateBadge(s)
{
        return s && badge(BADGES[s.state] || s.state, s.state);
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

function actions(ctx, s, again, gone)
{
        const isOn = s.state === 'active';
        const all = () => getWhole(ctx, path('schedules', s.name));
        const text = 'It makes no more jobs. Those it has made stay.';
        return [
                s.state === 'done' ? null : {
                        text: isOn ? 'Pause' : 'Resume',
                        needs: isOn ? 'PAUSESCHEDULE' : 'RESUMESCHEDULE',
                        run: () => setPause(ctx, s.name, isOn, again),
                },
                {
                        text: 'Run now',
                        needs: 'RUNSCHEDULE',
                        more: true,
                        run: () => runNow(ctx, s, again),
                },
                {
                        text: 'Change',
                        needs: 'SCHEDULE',
                        more: true,
                        run: async () => edit(ctx, SCHEDULES, await all(), again),
                },
                {
                        text: 'Delete',
                        needs: 'UNSCHEDULE',
                        more: true,
                        danger: true,
                        run: async () => remove(ctx, SCHEDULES, await all(), text, gone),
                },
        ];
}

/* --- screens --------------------------------------------------------------------------------- */

function columns(ctx)
{
        return [
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
        ];
}

const SCHEDULES = {
        route: 'schedules',
        one: 'schedule',
        put: 'SCHEDULE',
        del: 'UNSCHEDULE',
        title: 'All schedules',
        empty: 'No schedule yet. One makes a job at its times: every five minutes, or every night ' +
                'at half past four. Add one; it shows its next runs before it is saved.',
        isPaged: true,
        hasSearch: true,
        columns,
        actions,
        form: scheduleForm,
        ask: getWhole,
};

function about(ctx, s)
{
        const policy = policyText(s);
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
                ['If the last has not ended', policy.overlap],
                ['Slots that went by', policy.missed],
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

function one(root, name, ctx)
{
        const what = panel('What and when');
        const next = panel('Next runs');
        const args = panel('Arguments');
        let shown = '';
        return nounOne(root, ctx, SCHEDULES, name, {
                every: 3000,
                body: h('div.grid', {}, what.node, next.node, args.node),
                state: stateBadge,
                draw: (s) => {
                        const sign = JSON.stringify(s);
                        if (sign === shown)
                                return;
                        shown = sign;
                        fill(what.body, s.reason ? note('warn', h('p', {}, s.reason)) : null,
                                about(ctx, s));
                        fill(next.body,
                                s.state === 'active'
                                        ? null
                                        : h('p', {}, `It is ${s.state} and makes no jobs.`),
                                s.next.length ? slots(s.next) : h('p.empty', {}, 'None.'));
                        const given = payloadText(s, 'args');
                        fill(args.body,
                                given ? textBox(given, 'arguments')
                                      : h('p.empty', {}, 'It has none.'));
                },
        });
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? nounList(root, ctx, SCHEDULES, params)
                                         : one(root, params.name, ctx));
        runTimes(root, ctx);
}
