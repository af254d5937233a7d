/* Throttle: the gate's switches.  Mode and pause, thresholds and delays, which hook is how
 * important, and the rules for those who ask.
 *
 * Whatever would make work wait says beforehand what would change, ends by itself where the server
 * lets it, and can be taken back from the message that confirms it. */
import {advicePanel} from './advice.js';
import {
        act,
        append,
        badge,
        button,
        confirm,
        countdown,
        covered,
        durationPicker,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        fmtSeconds,
        fmtTime,
        form,
        h,
        LEVELS,
        may,
        notAvailable,
        note,
        panel,
        parseDuration,
        path,
        plural,
        select,
        table,
        TIERS,
        toast,
        turns
} from './lib.js';
import {eventsPanel, starvedNotices} from './now.js';
import {registryPanel} from './registry.js';
import {RULE_MAX_MS, rulesPanel} from './rules.js';
import {editInPlace, saveSetting, shownValue, THROTTLE_OFF} from './settings.js';

export const title = 'Throttle';

const MODES = [
        ['off', 'off', 'Nothing is measured against, everything runs.'],
        [
                'test_observe', 'test observe',
                'Levels are computed and shown; no decisions, everything runs.'
        ],
        [
                'observe', 'observe',
                'Decisions are made, counted and told as "would defer"; everything runs.'
        ],
        [
                'enforce', 'enforce',
                'Decisions hold: less important jobs wait while a target is under load.'
        ],
];

const CAPS = [['claim_size', 'jobs per claim'], ['claims', 'claims per queue']];
const PAUSE_TEXT = 'For a migration, a restore, a large import: only critical jobs start, ' +
        'whatever the level and the mode. What runs goes on. It ends by itself.';

/* --- mode ------------------------------------------------------------------------------------- */

/* What a change of the mode would do, as sentences, from the state of the gate. */
function consequences(state, to)
{
        const out = [];
        const sum = (key) => state.tiers.reduce((a, t) => a + t[key], 0);
        const waits = state.tiers.filter((t) => t.delay_ms > 0);
        if (to === 'enforce') {
                const who =
                        state.tiers.filter((t) => t.enforce_delay_ms > 0)
                                .map((t) => `${t.tier} jobs ${fmtDuration(t.enforce_delay_ms)}`);
                const told = state.tiers.filter((t) => t.would_defer)
                                     .map((t) => `${fmtNumber(t.would_defer)} ${t.tier}`);
                out.push(who.length ? `As the load is now, these would wait: ${who.join(', ')}.`
                                    : 'As the load is now, nothing would wait.');
                out.push('What runs is not stopped.');
                if (told.length)
                        out.push(`Since weir started, observe has announced ${
                                plural(sum('would_defer'), 'deferral')}: ${told.join(', ')}.`);
                if (!state.targets.length)
                        out.push('No target is measured, so only a pause would make jobs wait.');
                return out;
        }
        if (state.mode === 'enforce' && waits.length && !state.paused)
                out.push('Jobs of every tier would start again at once.');
        if (sum('parked'))
                out.push(`${plural(sum('parked'), 'job is', 'jobs are')} parked now.`,
                        'They return at their time at the latest.');
        else
                out.push('No job is parked now.');
        if (to === 'off')
                out.push('Levels do not count any more, and nothing tells what would have waited.');
        return out;
}

function modePanel(ctx, reload)
{
        const p = panel('Mode');
        const name = 'throttle-mode';
        const text = h('p.hint');
        const radios = MODES.map(
                ([value, word]) => h('label', {},
                        h('input', {type: 'radio', name, value, onchange: () => change(value)}),
                        h('span', {}, word)));
        const checks = may('THROTTLE')
                ? select(MODES.map(([v, w]) => [v, w]), 'enforce',
                          {needs: 'THROTTLE', onchange: () => changeChecks()})
                : h('output');
        const checksBox = field('Mode of checks, for programs that ask before each step', checks);
        let state = null;
        let checkMode = '';
        const can = may('THROTTLE');
        const said = h('p');

        append(p.body,
                h('div.segments', {
                        needs: 'THROTTLE',
                        role: 'radiogroup',
                        'aria-label': 'Mode of the throttle'
                },
                        radios),
                can ? null : said, text, checksBox);

        function show()
        {
                for (const {firstChild: radio} of radios) {
                        radio.disabled = !state;
                        radio.checked = state && radio.value === state.mode;
                }
                const row = MODES.find(([v]) => state && v === state.mode);
                text.textContent = row ? row[2] : '';
                fill(said, row ? badge(row[0], row[1]) : null);
        }
        show();
        async function set(mode, action)
        {
                await ctx.api.post('throttle', {action, set: mode});
                await reload();
        }
        async function change(to)
        {
                const from = state.mode;
                const words = (m) => m.replace(/_/g, ' ');
                const ok = to !== from && await confirm({
                        title: `From ${words(from)} to ${words(to)}?`,
                        yes: `Change to ${words(to)}`,
                        text: [MODES.find(([v]) => v === to)[2], ...consequences(state, to)]
                });
                if (!ok) {
                        show();
                        return;
                }
                await act(null, async () => {
                        await set(to, 'mode');
                        toast(`The mode is ${words(to)}.`, {undo: () => set(from, 'mode')});
                });
                show();
        }
        async function changeChecks()
        {
                const to = checks.value;
                const from = checkMode;
                await act(checks, async () => {
                        await set(to, 'checkmode');
                        checkMode = to;
                        toast(`Checks are now in mode ${to.replace(/_/g, ' ')}.`,
                                {undo: () => set(from, 'checkmode')});
                });
                checks.value = checkMode;
        }
        return {
                node: p.node,
                update(s) {
                        state = s;
                        show();
                },
                now(now) {
                        checksBox.hidden = !now || !now.check_mode;
                        if (now && now.check_mode && document.activeElement !== checks) {
                                checkMode = now.check_mode;
                                checks.value = can ? checkMode : checkMode.replace(/_/g, ' ');
                        }
                }
        };
}

/* --- pause ------------------------------------------------------------------------------------ */

function pausePanel(ctx, reload)
{
        const p = panel('Pause');
        const picker = durationPicker({
                value: 1800000,
                max: RULE_MAX_MS,
                label: 'Ends after',
                presets: ['10m', '30m', '1h', '4h', '1d'],
                endless: 'until resumed'
        });
        const go = h('button.primary', {type: 'submit'}, 'Pause');
        const off = h('div', {}, form('THROTTLE', async () => {
                const ms = picker.check();
                await pause(ms);
                toast(ms < 0 ? 'Paused until resumed.' : `Paused for ${fmtDuration(ms)}.`,
                        {undo: resume});
        }, h('p.hint', {}, PAUSE_TEXT), h('div.row', {}, picker.node, go)));
        const on = h('div.form', {hidden: true});
        let ticker = null;
        let key = '';

        append(p.body, on, off);
        async function pause(ms)
        {
                await ctx.api.post('throttle',
                        ms < 0 ? {action: 'pause', untilresumed: true}
                               : {action: 'pause', for: Math.max(1000, Math.round(ms))});
                await reload();
        }
        async function resume()
        {
                await ctx.api.post('throttle', {action: 'resume'});
                await reload();
        }
        return {
                node: p.node,
                update(s) {
                        on.hidden = !s.paused;
                        off.hidden = s.paused;
                        p.node.hidden = !s.paused && !may('THROTTLE');
                        const end = s.pause_left_ms < 0
                                ? -1
                                : Math.round((Date.now() + s.pause_left_ms) / 3000);
                        const mine = s.paused ? `${end}` : '';
                        if (mine === key)
                                return;
                        key = mine;
                        ticker = null;
                        if (!s.paused)
                                return;
                        ticker = countdown(s.pause_left_ms, 'until it is resumed');
                        const until = Date.now() + s.pause_left_ms;
                        const left = () =>
                                (s.pause_left_ms < 0 ? -1 : Math.max(0, until - Date.now()));
                        fill(on,
                                note('warn',
                                        h('p', {}, h('strong', {}, 'Paused'),
                                                s.pause_left_ms < 0 ? ' ' : ', ends in ',
                                                ticker.node, '.'),
                                        h('p', {}, 'Critical jobs start, all others wait.'),
                                        button('Resume now', async () => {
                                                await resume();
                                                toast('Resumed.', {undo: () => pause(left())});
                                        }, {kind: 'primary', needs: 'THROTTLE'})));
                },
                tick: () => ticker && ticker.tick()
        };
}

const clickHint = () => (may('SETTINGSET') ? ' Click a value to change it.' : '');

/* --- thresholds and delays -------------------------------------------------------------------- */

function named(settings, ...words)
{
        const name = words.join('.');
        return settings.find((s) => s.name === name);
}

function targetsPanel(ctx, reload)
{
        const p = panel('Targets and thresholds', {
                hint: 'A level rises at once when a metric reaches its threshold, and falls when all ' +
                        'have been below their exits for a while.' + clickHint()
        });
        let settings = [];
        let isOld = false; /* drawn with other settings */
        const own = (what) => (r) => {
                const s = named(settings, 'target', r.target, r.name, what);
                if (s)
                        return editInPlace(s, ctx, reload,
                                (v) => (v === 'auto' ? `auto (${fmtNumber(r[what])})`
                                                     : shownValue(s, v)));
                return r[what] === null || r[what] === undefined ? '–' : fmtNumber(r[what]);
        };
        const dwell = (r) => {
                const s = named(settings, 'target', r.target, 'dwell');
                return s ? editInPlace(s, ctx, reload) : '';
        };
        const t = table({
                caption: 'Metrics of the targets',
                hideCaption: true,
                key: (r) => `${r.target}/${r.name}`,
                empty: 'No target is measured.',
                columns: [
                        {key: 'target', label: 'Target', cls: 'wrap'},
                        {key: 'name', label: 'Metric', cls: 'wrap mono'},
                        {key: 'value', label: 'Value', num: true, cell: (r) => fmtNumber(r.value)},
                        {key: 'elevated', label: 'Elevated: enter / exit', cell: own('elevated')},
                        {key: 'critical', label: 'Critical: enter / exit', cell: own('critical')},
                        {key: 'check', label: 'Checks refused above', cell: own('check')},
                        {key: 'dwell', label: 'Falls after', cell: dwell},
                        {key: 'level', label: 'Level', cell: (r) => badge(r.level)},
                        {
                                key: 'note',
                                label: 'Note',
                                cls: 'wrap',
                                cell: (r) => r.error ||
                                        [
                                                r.note,
                                                /* One word is the usual case: file, default. */
                                                r.from && r.from.includes(' ')
                                                        ? `thresholds: ${r.from}`
                                                        : '',
                                                r.mode ? `mode ${r.mode.replace(/_/g, ' ')}` : ''
                                        ].filter((x) => x)
                                                .join('; ')
                        },
                ]
        });
        const none = h('p', {hidden: true},
                h('a', {href: '#/now?help=target'}, 'How to measure a database'));
        append(p.body, t.node, none);
        return {
                node: p.node,
                update(state, list) {
                        isOld = isOld || JSON.stringify(list) !== JSON.stringify(settings);
                        settings = list;
                        const rows = state.targets.flatMap((x) => x.metrics.map((m) => ({
                                target: x.name,
                                name: m.name,
                                value: m.value,
                                elevated: m.elevated,
                                critical: m.critical,
                                level: m.level,
                                error: m.error,
                                note: m.note,
                                from: m.thresholds_from,
                                mode: x.mode === state.mode ? '' : x.mode
                        })));
                        none.hidden = rows.length > 0;
                        if (p.node.querySelector('.edit form'))
                                return; /* somebody types */
                        if (isOld)
                                t.redraw();
                        isOld = false;
                        t.update(rows);
                }
        };
}

function matrixPanel(ctx, reload)
{
        const p = panel('What a level does', {
                hint: 'A job that must wait is asked for again after this time. Critical jobs always ' +
                        'run, and at level normal everything does.' + clickHint()
        });
        const body = h('tbody');
        const heads = ['At level', ...TIERS, ...CAPS.map(([, text]) => text)];
        p.body.append(h('div.table-scroll', {tabindex: '0', role: 'region', 'aria-label': 'Delays'},
                h('table', {}, h('caption.quiet', {}, 'Delays by level and tier, and caps'),
                        h('thead', {}, h('tr', {}, heads.map((x) => h('th', {scope: 'col'}, x)))),
                        body)));
        let key = '';
        return {
                node: p.node,
                update(state, settings) {
                        const now = state.paused ? 'critical' : state.level;
                        const seen = state.observed_target ? state.observed_level : '';
                        const mine = JSON.stringify([
                                now, seen, settings,
                                state.tiers.map((t) => [t.delay_ms, t.parked, t.returning])
                        ]);
                        if (mine === key || body.querySelector('form'))
                                return;
                        key = mine;
                        const cell = (level, tier) => {
                                if (level === 'normal' || tier === 'critical')
                                        return 'runs';
                                const s = named(settings, 'throttle.delay', level, tier);
                                if (s)
                                        return editInPlace(s, ctx, reload,
                                                (v) => (parseDuration(v) ? shownValue(s, v)
                                                                         : 'runs'));
                                const told =
                                        level === now && state.tiers.find((t) => t.tier === tier);
                                if (told)
                                        return told.delay_ms ? fmtDuration(told.delay_ms) : 'runs';
                                return h('span.muted', {}, '?');
                        };
                        const cap = (level, what) => {
                                const s = named(settings, 'throttle.cap', level, what);
                                return s ? editInPlace(
                                                   s, ctx, reload, (v) => (v === '0' ? 'any' : v))
                                         : 'any';
                        };
                        const line = (level) => {
                                const head = h('th', {scope: 'row'}, badge(level),
                                        level === now ? ' · now' : '',
                                        level === seen ? ' · observed now' : '',
                                        level === 'critical' ? ' · also while paused' : '');
                                return h(`tr${level === now ? '.selected' : ''}`, {}, head,
                                        TIERS.map((tier) => h('td', {}, cell(level, tier))),
                                        CAPS.map(([what]) => h('td', {}, cap(level, what))));
                        };
                        const focused = [...body.querySelectorAll('button')].indexOf(
                                document.activeElement);
                        fill(body, LEVELS.map(line),
                                h('tr', {}, h('th', {scope: 'row'}, 'parked now'),
                                        state.tiers.map((t) => h('td', {}, fmtNumber(t.parked))),
                                        h('td', {colspan: CAPS.length})),
                                h('tr', {}, h('th', {scope: 'row'}, 'returning'),
                                        state.tiers.map((t) => h('td', {}, fmtNumber(t.returning))),
                                        h('td', {colspan: CAPS.length})));
                        if (focused >= 0 && body.querySelectorAll('button')[focused])
                                body.querySelectorAll('button')[focused].focus();
                }
        };
}

function gatePanel()
{
        const p = panel('Returning and adapting');
        const ramp = (r) => (r.running ? `cycle ${r.cycle} of ${r.cycles}, next in ${
                                                 fmtSeconds(Math.max(0, r.next_in_ms))}`
                                       : 'not running');
        const adaptive = (a) => (a.mode === 'off'
                        ? 'off'
                        : `${a.mode}: ${fmtNumber(a.limit)}, ${fmtNumber(a.running)} running`);
        const any = (n) => (n ? fmtNumber(n) : 'any');
        function update(s)
        {
                const sum = (key) => fmtNumber(s.tiers.reduce((a, t) => a + t[key], 0));
                fill(p.body, facts([
                        ['Ramp', ramp(s.ramp)],
                        ['Counted since', fmtTime(s.start_ms)],
                        ['Deferred', sum('deferred')],
                        ['Would have been', sum('would_defer')],
                        ['Let go by the ramp', sum('released')],
                        ['Of these not due yet', sum('returning')],
                        ['Jobs per claim', any(s.caps.claim_size)],
                        ['Claims per queue', any(s.caps.claims)],
                        ['Adaptive limit', adaptive(s.adaptive)],
                        s.adaptive.mode === 'off' ? null
                                                  : ['Pressure', fmtNumber(s.adaptive.pressure)],
                ]));
        }
        return {node: p.node, update};
}

/* --- hosts ------------------------------------------------------------------------------------ */

function hostsPanel(ctx)
{
        const p = panel('Replicas left out', {
                hint: 'A replica that is being repaired should not make everybody wait. It ' +
                        'counts again by itself.'
        });
        const t = table({
                caption: 'Skipped replicas',
                hideCaption: true,
                key: (r) => r.host,
                empty: 'Every replica counts.',
                columns: [
                        {key: 'host', label: 'Host', cls: 'mono wrap', cell: (r) => r.host},
                        {
                                key: 'left',
                                label: 'Ends in',
                                cell: (r) => (r.left_ms === undefined ? '' : fmtDuration(r.left_ms))
                        },
                        {
                                key: 'act',
                                needs: 'RECOVERHOST',
                                label: '',
                                cell: (r) => button('Count it again', () => recover(r),
                                        {kind: 'small', needs: 'RECOVERHOST'})
                        },
                ]
        });
        const host = h('input', {
                required: true,
                maxlength: 255,
                placeholder: 'db3 or 10.0.0.3:3306',
                autocomplete: 'off',
                spellcheck: 'false',
                size: 20
        });
        const picker = durationPicker({
                value: 3600000,
                presets: ['10m', '1h', '4h', '1d'],
                max: RULE_MAX_MS,
                label: 'For'
        });
        const listBox = h('div', {}, t.node);
        async function skip(name, ms)
        {
                await ctx.api.post(path('hosts', name, 'skip'), {for: Math.max(1000, ms)
                });
                await load();
        }
        async function recover(r)
        {
                await ctx.api.post(path('hosts', r.host, 'recover'));
                toast(`${r.host} counts again.`, {undo: () => skip(r.host, r.left_ms)});
                await load();
        }
        const load = covered(listBox, () => ctx.api.get('hosts/skipped', {}, ctx.signal),
                ({hosts}) => t.update(hosts));
        append(p.body, listBox,
                form('SKIPHOST',
                        async () => {
                                const name = host.value.trim();
                                await ctx.api.post(path('hosts', name, 'skip'), {for: picker.check()
                                });
                                toast(`${name} is left out.`, {
                                        undo: async () => {
                                                await ctx.api.post(path('hosts', name, 'recover'));
                                                await load();
                                        }
                                });
                                host.value = '';
                                await load();
                        },
                        h('div.row', {}, field('Host', host), picker.node,
                                h('button', {type: 'submit'}, 'Leave out'))));
        return {node: p.node, load};
}

/* Switched off, whatever the mode says: that must not be overlooked. */
function showOff(box, setting, ctx, reload)
{
        if (!setting || setting.value === 'true') {
                fill(box);
                return;
        }
        const on = button('Switch it on', () => saveSetting(setting, 'true', ctx, reload),
                {needs: 'SETTINGSET'});
        fill(box,
                note('warn',
                        h('p', {}, h('strong', {}, 'The throttle is switched off. '), THROTTLE_OFF),
                        on));
}

/* --- the screen ------------------------------------------------------------------------------- */

async function fillNames(list, ctx)
{
        try {
                const {clients} =
                        await ctx.api.get('clients', {order: 'asks', limit: 100}, ctx.signal);
                fill(list, clients.map((c) => h('option', {value: c.name})));
        } catch {
                /* The field takes any name without them. */
        }
}

export async function mount(root, params, ctx)
{
        const names = h('datalist', {id: 'client-names'});
        const starvedBox = h('div.screen');
        const failed = h('div');
        const offBox = h('div');
        const parts = {};
        const turn = turns();
        let settings = [];

        async function load()
        {
                const isLast = turn();
                try {
                        const state = await ctx.api.get('throttle', {}, ctx.signal);
                        if (!isLast())
                                return;
                        fill(failed);
                        parts.mode.update(state);
                        parts.pause.update(state);
                        parts.targets.update(state, settings);
                        parts.advice.update(state);
                        parts.matrix.update(state, settings);
                        parts.gate.update(state);
                        parts.rules.update(state);
                } catch (e) {
                        if (e.name !== 'AbortError')
                                fill(failed, notAvailable(e));
                }
        }
        async function loadSettings()
        {
                try {
                        settings = (await ctx.api.get('settings', {}, ctx.signal)).settings || [];
                } catch {
                        settings = [];
                }
                showOff(offBox, named(settings, 'throttle', 'enabled'), ctx, reload);
        }
        const reload = async () => {
                await loadSettings();
                await load();
        };
        parts.mode = modePanel(ctx, load);
        parts.pause = pausePanel(ctx, load);
        parts.targets = targetsPanel(ctx, reload);
        parts.advice = advicePanel(ctx, reload);
        parts.matrix = matrixPanel(ctx, reload);
        parts.gate = gatePanel();
        parts.registry = registryPanel(ctx);
        parts.rules = rulesPanel(ctx, names.id);
        parts.hosts = hostsPanel(ctx);
        const events = eventsPanel(ctx, 30);

        append(root, names, failed, offBox, h('div.grid', {}, parts.mode.node, parts.pause.node),
                starvedBox, parts.rules.node, parts.targets.node, parts.advice.node,
                parts.matrix.node, parts.gate.node, parts.registry.node, parts.hosts.node,
                events.node);
        parts.mode.now(ctx.live.last());
        ctx.live.on('now', async (now) => {
                parts.mode.now(now);
                const enabled = named(settings, 'throttle', 'enabled');
                if (enabled && now.throttle_enabled !== (enabled.value === 'true'))
                        await loadSettings(); /* somebody else switched it */
        });
        await loadSettings();
        ctx.every(2000, load);
        ctx.every(3000, parts.rules.load);
        ctx.every(10000, async () => {
                await Promise.all(
                        [parts.registry.load(), parts.hosts.load(), fillNames(names, ctx)]);
                try {
                        const {starved} = await ctx.api.get('starved', {}, ctx.signal);
                        const key = (starved || []).map((s) => s.name).join('\n');
                        if (key !== starvedBox.dataset.key)
                                fill(starvedBox,
                                        starvedNotices(starved || [], ctx, parts.rules.load));
                        starvedBox.dataset.key = key;
                } catch {
                        fill(starvedBox);
                }
        });
        ctx.every(1000, () => {
                parts.rules.tick();
                parts.pause.tick();
        });
        events.load();
        return null;
}
