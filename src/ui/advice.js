/* Proposed thresholds, on the screen Throttle: what is usual for each metric, what its thresholds
 * did to the last day, and what the proposed ones would have done.
 *
 * An answer reads a week of history, so it is asked for when a target is opened, not every two
 * seconds. */
import {
        append,
        button,
        confirm,
        covered,
        fill,
        fmtDuration,
        fmtNumber,
        h,
        panel,
        path,
        plural,
        table,
        toast
} from './lib.js';
import {shownValue} from './settings.js';

const LEVELS = ['elevated', 'critical'];

const pair = (text) => shownValue({type: 'pair'}, text);
const both = (t) =>
        (t ? h('div', {}, LEVELS.map((l) => h('div', {}, `${l}: ${pair(t[l])}`))) : '–');

/* "3 times: 48 min elevated, 2 min critical" */
function effect(t)
{
        if (!t)
                return '–';
        const d = t.last_day;
        if (!d.elevated_minutes && !d.critical_minutes)
                return 'never above normal';
        const minutes = LEVELS.filter((l) => d[`${l}_minutes`])
                                .map((l) => `${fmtDuration(d[`${l}_minutes`] * 60000)} ${l}`);
        return `${plural(d.entered, 'time')}: ${minutes.join(', ')}`;
}

function usual(m)
{
        if (m.usual_most === null)
                return '–';
        const hours = m.usual.map((v) => fmtNumber(v));
        const words = new Set(hours).size === 1 ? 'at every hour'
                                                : `by hour of the day, UTC: ${hours.join(' ')}`;
        return [`up to ${fmtNumber(m.usual_most)}`, h('div.hint', {}, words)];
}

/* Where a level is entered, of "5,3". */
const enter = (text) => Number(text.split(',')[0]);

/* The settings that apply a proposal, in the order in which the server takes them: at no time may
 * critical begin below elevated. */
function steps(m)
{
        const now = m.present;
        const isRaised = now.critical && enter(m.proposed.elevated) > enter(now.critical);
        return (isRaised ? [...LEVELS].reverse() : LEVELS)
                .filter((l) => now[l] !== m.proposed[l])
                .map((l) => ({
                        level: l,
                        name: `target.${m.target}.${m.name}.${l}`,
                        value: m.proposed[l]
                }));
}

async function apply(m, ctx, changed)
{
        const changes = steps(m);
        const ok = await confirm({
                title: `Change the thresholds of ${m.name}?`,
                yes: 'Apply',
                text: [
                        ...changes.map((s) => `${s.level}: ${pair(m.present[s.level])} becomes ${
                                            pair(m.proposed[s.level])}.`),
                        `In the last day the present ones were reached: ${effect(m.present)}.`,
                        `The proposed ones would have been: ${effect(m.proposed)}.`,
                        'They hold at once, are kept over restarts, and come before the ' +
                                'configuration file.'
                ]
        });
        if (!ok)
                return;
        const {settings} = await ctx.api.get('settings');
        const before = changes.map((s) => settings.find((x) => x.name === s.name));
        for (const s of changes)
                await ctx.api.post(path('settings', s.name), {value: s.value});
        toast(`The thresholds of ${m.name} are set.`, {
                undo: async () => {
                        for (const s of before.filter(Boolean).reverse())
                                await (s.is_changed ? ctx.api.post(path('settings', s.name),
                                                              {value: String(s.value)})
                                                    : ctx.api.del(path('settings', s.name)));
                        await changed();
                }
        });
        await changed();
}

function applyCell(m, ctx, changed)
{
        if (!m.proposed)
                return h('span.hint', {}, m.reason);
        if (!steps(m).length)
                return h('span.hint', {}, 'as they are');
        return button('Apply', () => apply(m, ctx, changed), {
                kind: 'small',
                needs: 'SETTINGSET',
                label: `Apply the proposed thresholds of ${m.name}`
        });
}

/* One target: its metrics are asked for when it is opened. */
function targetDetails(name, ctx, reload)
{
        const problem = h('p.hint');
        const box = h('div');
        const changed = async () => {
                await load();
                await reload();
        };
        const t = table({
                caption: `Proposed thresholds of ${name}`,
                hideCaption: true,
                key: (m) => m.name,
                columns: [
                        {key: 'name', label: 'Metric', cls: 'wrap mono'},
                        {
                                key: 'learned',
                                label: 'Learned over',
                                cell: (m) => fmtDuration(m.learned_hours * 3600000)
                        },
                        {key: 'usual', label: 'Usual', cls: 'wrap', cell: usual},
                        {key: 'present', label: 'Present', cell: (m) => both(m.present)},
                        {
                                key: 'did',
                                label: 'In the last day',
                                cls: 'wrap',
                                cell: (m) => effect(m.present)
                        },
                        {key: 'proposed', label: 'Proposed', cell: (m) => both(m.proposed)},
                        {
                                key: 'would',
                                label: 'Would have been',
                                cls: 'wrap',
                                cell: (m) => effect(m.proposed)
                        },
                        {
                                key: 'act',
                                label: '',
                                cls: 'wrap',
                                cell: (m) => applyCell(m, ctx, changed)
                        },
                ]
        });
        append(box, t.node, problem);
        const load = covered(
                box, () => ctx.api.get('throttle/advice', {target: name}, ctx.signal), (answer) => {
                        problem.textContent = answer.problem;
                        problem.hidden = !answer.problem;
                        t.update(answer.targets.flatMap(
                                (g) => g.metrics.map((m) => ({...m, target: g.name}))));
                });
        const node = h('details', {}, h('summary', {}, name), box);
        node.addEventListener('toggle', () => node.open && load());
        return node;
}

export function advicePanel(ctx, reload)
{
        const p = panel('Proposed thresholds', {
                hint: 'weir learns the usual values of each metric from the last 7 days. Open a ' +
                        'target to see the proposal. Only thresholds that are auto follow it.'
        });
        let key = '';
        return {
                node: p.node,
                update(state) {
                        const names = state.targets.map((g) => g.name);
                        const mine = JSON.stringify(names);
                        p.node.hidden = !names.length;
                        if (mine === key)
                                return;
                        key = mine;
                        fill(p.body, names.map((name) => targetDetails(name, ctx, reload)));
                }
        };
}
