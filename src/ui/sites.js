/* Sites: what weir sees and does at the Action Scheduler of each WordPress site.
 *
 * A card tells how a site is; its own screen adds hooks, repairs, advice, the last moves, its
 * actions and its locks (site_actions.js), and a report (site_report.js).  Cards are answered from
 * weir's memory, actions and locks by the site's database: these are asked for less often, and the
 * report only when a person wants it. */
import {
        append,
        badge,
        copyLine,
        covered,
        facts,
        fill,
        fmtDuration,
        fmtNumber,
        fmtTime,
        h,
        note,
        panel,
        path,
        plural,
        refill,
        sentence,
        table
} from './lib.js';
import {by, cards, crumbs, running, runTimes, styled} from './parts.js';
import {modeControl, offBox} from './settings.js';
import {actionLink,
        actionScreen,
        actionsPanel,
        hostOf,
        locksPanel,
        outside} from './site_actions.js';
import {reportPanel} from './site_report.js';

export const title = (params) => {
        if (params.name === undefined)
                return 'Sites';
        return params.action === undefined ? `Site ${params.name}`
                                           : `Action ${params.action} of ${params.name}`;
};

const LAST = 10;        /* moves that are shown */
const COUNT_CAP = 1000; /* of one hook the server counts no further: SITE_COUNT_CAP */

const MODES = {
        off: 'weir does not connect to the site.',
        test_observe: 'weir reads and counts; it decides nothing.',
        observe: 'weir reads, and tells what it would move; it changes nothing.',
        enforce: 'While the database is under load, weir moves due actions of less important ' +
                'hooks to a later date; afterwards it gives them back.',
};

const words = (mode) => String(mode).replace(/_/g, ' ');

/* "1,000+" of what was not counted to its end. */
function count(n)
{
        return n > COUNT_CAP ? `${fmtNumber(COUNT_CAP)}+` : fmtNumber(n);
}

/* --- mode ------------------------------------------------------------------------------------- */

/* What a change would do, as sentences. */
function consequences(site, to)
{
        const out = [MODES[to]];
        if (to === 'enforce') {
                if (site.mode === 'observe')
                        out.push(`As the load is now, it would move ${
                                site.would_move ? plural(site.would_move, 'action') : 'nothing'}.`);
                out.push('Each move is told in the log of its action in WordPress.');
        } else if (site.moved) {
                out.push(
                        `${plural(site.moved, 'action was', 'actions were')} moved and not given ` +
                        'back yet. In this mode weir gives nothing back: they run at the date ' +
                        'that they were moved to.');
        }
        return out;
}

/* Asks before enforce, and before it is left while actions are moved. */
function question(site, to)
{
        if (to !== 'enforce' && !(site.mode === 'enforce' && site.moved > 0))
                return null;
        return {
                title: `Site ${site.name}: from ${words(site.mode)} to ${words(to)}?`,
                text: consequences(site, to),
                yes: `Change to ${words(to)}`,
        };
}

function siteMode(ctx, again)
{
        return modeControl(ctx, {
                modes: MODES,
                setting: (s) => `site.${s.name}.mode`,
                label: (s) => `Mode of site ${s.name}`,
                question,
                again,
        });
}

/* --- a card ----------------------------------------------------------------------------------- */

function tile(value, text, {href, sub, title: why} = {})
{
        return h(href ? 'a.tile' : 'div.tile', {href, title: why}, append(h('b'), value),
                h('span', {}, text), sub ? h('span.sub', {}, sub) : null);
}

function tiles(ctx, s)
{
        const of = (status) => ({href: ctx.link('sites', s.name, {status})});
        return [
                tile(`${fmtNumber(s.due)}${s.capped ? '+' : ''}`, 'due',
                        {...of('due'), sub: `${count(s.claimed)} claimed`}),
                tile(fmtNumber(s.moved), 'moved',
                        {...of('moved'), sub: s.returning ? 'coming back' : null}),
                s.mode === 'observe' ? tile(fmtNumber(s.would_move), 'would be moved',
                                               {title: 'In the mode enforce, as the load is now'})
                                     : null,
                tile(count(s.running), 'running', of('in-progress')),
                tile(count(s.failed), 'failed', of('failed')),
                tile(s.oldest_due_ms ? running(s.oldest_due_ms, 'for') : '–', 'oldest is due', {
                        sub: s.oldest_due_ms || !s.next_due_ms ? null
                                                               : ['next ', running(s.next_due_ms)]
                }),
        ];
}

const AGE = {
        key: 'oldest_due_ms',
        label: 'Oldest due for',
        cls: 'nowrap',
        sort: (r) => r.oldest_due_ms || null,
        cell: (r) => running(r.oldest_due_ms, 'for'),
};

const number = (key, label, cell) => ({key, label, num: true, sort: by(key), cell});
const NUMBERS = [
        number('due', 'Due', (r) => count(r.due)),
        number('moved', 'Moved'),
        number('running', 'Running', (r) => count(r.running)),
];

/* What the gate says to the actions of a row now. */
function verdict(site, r)
{
        if (!r.delay_ms)
                return badge('granted', 'runs');
        const text = fmtDuration(r.delay_ms);
        return site.mode === 'enforce' ? badge('deferred', `waits ${text}`)
                                       : badge('would_defer', `would wait ${text}`);
}

function tierTable(name, of)
{
        const sum = (r) => `${fmtNumber(r.due)}${of().capped && r.due > COUNT_CAP ? '+' : ''}`;
        return table({
                caption: `Actions of ${name} by tier`,
                hideCaption: true,
                key: by('tier'),
                columns: [
                        {key: 'tier', label: 'Tier'},
                        {key: 'due', label: 'Due', num: true, cell: sum},
                        {key: 'moved', label: 'Moved', num: true},
                        {key: 'running', label: 'Running', num: true},
                        {...AGE, sort: undefined},
                        {key: 'delay', label: 'Now', cell: (r) => verdict(of(), r)},
                ],
        });
}

/* What is wrong, or not known yet; null: nothing. */
function problem(s)
{
        if (s.error)
                return note('bad',
                        h('p', {}, h('strong', {}, 'weir cannot look after this site: '),
                                sentence(s.error)),
                        h('p', {},
                                s.surveyed_ms
                                        ? ['What is shown is of ', running(s.surveyed_ms), '. ']
                                        : null,
                                'This tells what weir finds there, and which privileges are missing:'),
                        copyLine('weir wordpress check -c weir.conf'));
        if (s.mode === 'off')
                return note('info',
                        h('p', {}, 'The guard of this site is off: weir neither reads nor changes ',
                                'anything there.'),
                        s.surveyed_ms
                                ? h('p', {}, 'What is shown is of ', running(s.surveyed_ms), '.')
                                : null,
                        s.moved ? h('p', {},
                                          'Moved actions run at the date that they were moved to.')
                                : null);
        return s.surveyed_ms ? null
                             : note('info', h('p', {}, 'weir has not looked at this site yet.'));
}

function about(ctx, s)
{
        return facts([
                ['Target', s.target ? h('a', {href: ctx.link('throttle')}, s.target) : '–'],
                s.surveyed_ms ? ['Looked at', [running(s.surveyed_ms), ', in ',
                                                      fmtDuration(Math.max(1, s.survey_us / 1000))]]
                              : null,
                s.server ? ['Database', s.server] : null,
                s.store ? ['Action Scheduler', s.store] : null,
                s.url ? ['WordPress', outside(s.url, hostOf(s.url))] : null,
        ]);
}

/* One site: made once, updated with each answer.  head: its name, or a link with it. */
function card(ctx, name, head, again)
{
        let site = null;
        let told = '';
        const state = h('span.row.mid');
        const p = panel(head, {actions: state});
        const said = h('div');
        const reason = h('p');
        const figures = h('div.tiles', {role: 'group', 'aria-label': `Actions of ${name}`});
        const more = h('div');
        const mode = siteMode(ctx, again);
        const tiers = tierTable(name, () => site);
        append(p.body, said, reason, figures, tiers.node, h('div.grid', {}, mode.node, more));
        const update = (s) => {
                const isOther = !site || site.mode !== s.mode;
                const isKnown = s.surveyed_ms > 0;
                site = s;
                refill(state, badge(s.level, `load ${s.level}`), badge(s.mode),
                        s.returning ? badge('observe', 'ramp') : null);
                const trouble = JSON.stringify(
                        [s.error, s.mode, isKnown, s.moved > 0, s.error ? s.surveyed_ms : 0]);
                if (trouble !== told)
                        refill(said, problem(s));
                told = trouble;
                reason.textContent = sentence(s.reason);
                refill(figures, tiles(ctx, s));
                figures.hidden = tiers.node.hidden = !isKnown;
                tiers.update(s.tiers);
                if (isOther)
                        tiers.redraw();
                refill(more, about(ctx, s));
                mode.update(s);
        };
        return {node: p.node, update};
}

/* --- all sites -------------------------------------------------------------------------------- */

const SECTION = `wordpress "shop" {
        host = "127.0.0.1"
        user = "weir"
        password_file = "/etc/weir/shop.password"
        database = "wordpress"        # DB_NAME in wp-config.php
        prefix = "wp_"
        target = "shop"               # whose load decides
        mode = "observe"              # changes nothing
}`;

function howTo()
{
        const p = panel('Guard a WordPress site');
        append(p.body,
                h('p', {},
                        'weir makes Action Scheduler, the job queue of WooCommerce, mind the load ',
                        'of its database: while that is high, less important actions wait and ',
                        'payments do not. It needs no plugin. Put this into weir.conf, beside a ',
                        'target for the same database:'),
                h('pre', {tabindex: '0'}, SECTION),
                h('p', {},
                        'Ask first what weir finds there and may do, then restart or reload it:'),
                copyLine('weir wordpress check -c weir.conf'),
                h('p.hint', {}, 'All settings are in weir.conf(5), section wordpress: ',
                        h('code', {}, 'man weir.conf'), '.'));
        return p.node;
}

/* --- one site --------------------------------------------------------------------------------- */

function hooksPanel(ctx, name, of)
{
        const p = panel('By hook', {hint: 'Hooks with actions that are due, moved or running.'});
        const hook = (r) => h('a', {href: ctx.link('sites', name, {hook: r.hook})}, r.hook);
        const t = table({
                caption: `Actions of ${name} by hook`,
                hideCaption: true,
                key: by('hook'),
                sort: {key: 'due', desc: true},
                empty: 'No action is due, moved or running.',
                columns: [
                        {
                                key: 'hook',
                                label: 'Hook',
                                cls: 'wrap mono',
                                sort: by('hook'),
                                cell: hook
                        },
                        {key: 'tier', label: 'Tier', sort: by('tier')},
                        ...NUMBERS,
                        AGE,
                        {key: 'delay', label: 'Now', cell: (r) => verdict(of(), r)},
                ],
        });
        p.body.append(h('div.tall', {}, t.node));
        return {node: p.node, t};
}

const REPAIRS = {
        lost: 'Lost actions',
        claims: 'Claims of dead runners',
        claim_rows: 'Empty claims',
        retention: 'Old finished actions',
        retries: 'Failed, to be retried',
        restored: 'Forgotten moves',
        past_due: 'Past due',
        duplicates: 'Duplicates',
};

function repairsPanel(name)
{
        const p = panel('Repairs', {
                hint: 'What weir found at the last look, and mended since it started. It mends ' +
                        'only while the mode of the site and that of the repair are enforce.',
        });
        const what = (r) => [REPAIRS[r.repair] || words(r.repair), h('span.sub', {}, r.text)];
        const t = table({
                caption: `Repairs of ${name}`,
                hideCaption: true,
                key: by('repair'),
                empty: 'Nothing to repair is known.',
                columns: [
                        {key: 'repair', label: 'What', cls: 'wrap', cell: what},
                        {key: 'mode', label: 'Mode', cell: (r) => badge(r.mode)},
                        {key: 'found', label: 'Found', num: true, cell: (r) => count(r.found)},
                        {key: 'mended', label: 'Mended', num: true},
                ],
        });
        t.node.classList.add('rows');
        p.body.append(t.node);
        return {node: p.node, t};
}

function advicePanel()
{
        const p = panel('Advice');
        return {
                node: p.node,
                update(lines) {
                        p.node.hidden = lines.length === 0;
                        fill(p.body, h('ul.story', {}, lines.map((line) => h('li', {}, line))));
                }
        };
}

function lastPanel(ctx, name)
{
        const total = h('p.hint');
        const all = h(
                'a', {href: ctx.link('sites', name, {status: 'moved'})}, 'All that are moved now');
        const p = panel('Last moves', {actions: all});
        const time = (key) => (r) => fmtTime(r[key]);
        const t = table({
                caption: `Actions of ${name} that were moved last`,
                hideCaption: true,
                key: (r) => `${r.id} ${r.at_ms}`,
                empty: 'weir has moved no action of this site since it started.',
                columns: [
                        {
                                key: 'id',
                                label: 'Action',
                                cell: (r) => h('a', {href: actionLink(ctx, name, r.id)}, r.id),
                        },
                        {key: 'hook', label: 'Hook', cls: 'wrap mono'},
                        {key: 'tier', label: 'Tier'},
                        {key: 'level', label: 'Load', cell: (r) => badge(r.level)},
                        {key: 'at', label: 'Moved', cls: 'nowrap', cell: (r) => running(r.at_ms)},
                        {key: 'original', label: 'From', cls: 'nowrap', cell: time('original_ms')},
                        {key: 'to', label: 'To', cls: 'nowrap', cell: time('to_ms')},
                ],
        });
        append(p.body, total, t.node);
        return {
                node: p.node,
                update(s) {
                        total.textContent =
                                `Since weir started: ${fmtNumber(s.total_moved)} moved, ${
                                        fmtNumber(s.total_shifted)} moved on, ${
                                        fmtNumber(s.total_returned)} given back, ${
                                        fmtNumber(s.total_fronted)} put in front.`;
                        t.update(s.last.slice(0, LAST));
                }
        };
}

async function siteScreen(root, params, ctx)
{
        const {name} = params;
        let site = null;
        const box = h('div.screen');
        const main = card(ctx, name, 'State', () => refresh());
        const hooks = hooksPanel(ctx, name, () => site);
        const repairs = repairsPanel(name);
        const advice = advicePanel();
        const last = lastPanel(ctx, name);
        const report = reportPanel(ctx, name);
        const actions = actionsPanel(ctx, name, params);
        const locks = h('div');
        append(box, main.node, advice.node, hooks.node, last.node,
                h('div.grid', {}, repairs.node, locks), report.node, actions.node);
        append(root, crumbs(ctx, 'sites', 'All sites'), box);
        /* Who comes by a number of a card wants to see the actions that it counts. */
        const begin = async () => {
                await Promise.all([
                        actions.start(() => site.hooks.map((r) => r.hook)),
                        locksPanel(ctx, locks, name)
                ]);
                if ((params.status || params.hook) && !ctx.signal.aborted)
                        actions.node.scrollIntoView();
        };
        const ask = () => ctx.api.get(path('sites', name), {}, ctx.signal);
        const refresh = covered(box, ask, (s) => {
                const isFirst = site === null;
                const isOther = isFirst || site.mode !== s.mode;
                site = s;
                main.update(s);
                hooks.t.update(s.hooks);
                if (isOther)
                        hooks.t.redraw();
                repairs.t.update(s.repairs);
                advice.update(s.advice);
                last.update(s);
                if (isFirst)
                        begin();
        });
        await ctx.every(2000, refresh);
}

/* --- the screen ------------------------------------------------------------------------------- */

function switchedOff(ctx)
{
        return offBox(ctx, {
                flag: 'throttle_enabled',
                name: 'throttle.enabled',
                what: 'The throttle is switched off.',
                means: 'Whatever is configured, every site is in the mode off.',
                link: 'Switch it on in Settings',
        });
}

export async function mount(root, params, ctx)
{
        await styled;
        root.append(switchedOff(ctx));
        runTimes(root, ctx);
        if (params.name === undefined) {
                const head = (name) => h('a', {href: ctx.link('sites', name)}, name);
                const all = cards(
                        howTo(), (name) => card(ctx, name, head(name), () => refresh()));
                const ask = () => ctx.api.get('sites', {}, ctx.signal);
                const refresh = covered(all.node, ask, ({sites}) => all.update(sites));
                root.append(all.node);
                await ctx.every(2000, refresh);
        } else if (params.action === undefined) {
                await siteScreen(root, params, ctx);
        } else {
                await actionScreen(root, params, ctx);
        }
}
