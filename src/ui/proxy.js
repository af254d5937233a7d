/* SQL: the MySQL doors of weir, the transactions that pass them and those that wait.
 *
 * A card tells the state of a door; its own screen adds charts, classes and rules
 * (proxy_classes.js), clients, statements and the explain tool (proxy_traffic.js).  With one door
 * there is nothing to choose, so its own screen is the first one. */
import {chart} from './chart.js';
import {
        append,
        badge,
        button,
        confirm,
        copyLine,
        covered,
        facts,
        fmtBytes,
        fmtNumber,
        h,
        note,
        panel,
        path,
        plural,
        refill,
        sentence,
        toast
} from './lib.js';
import {cards, crumbs, isBusy, runTimes, styled} from './parts.js';
import {classesPanel, rulesHere} from './proxy_classes.js';
import {clientsPanel, explainPanel, heldPanel, statementsPanel} from './proxy_traffic.js';
import {modeControl} from './settings.js';

export const title = (params) => (params.name === undefined ? 'SQL' : `SQL: ${params.name}`);

const EVERY_MS = 2000;
const SLOW_MS = 5000; /* of rules and statements */
const POINTS = 600;   /* of the series */
const NAMED = 3;      /* classes that a question names */

const MODES = {
        off: 'The door passes everything on and decides nothing.',
        observe: 'Nothing waits. weir counts the transactions that enforce would hold.',
        enforce:
                'A transaction waits at its start while the load, a rule or a limit requires it. ' +
                'If it waits too long, its client gets an error and can retry.',
};

/* --- mode and drain --------------------------------------------------------------------------- */

/* The classes that a change to enforce would hold, as a sentence; "" while they are not known. */
function wouldWait(classes)
{
        if (!classes)
                return '';
        const names = classes.filter((c) => c.verdict === 'observe').map((c) => c.class);
        if (!names.length)
                return 'At the current load, no class would wait.';
        const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : '';
        return `At the current load, ${names.slice(0, NAMED).join(', ')}${more} would wait.`;
}

function doorMode(ctx, again)
{
        return modeControl(ctx, {
                modes: MODES,
                setting: (p) => `mysql.${p.name}.mode`,
                label: (p) => `Mode of door ${p.name}`,
                question: (p, to) => (to !== 'enforce' ? null : {
                        title: `Door ${p.name}: from ${p.mode} to enforce?`,
                        text: [
                                MODES.enforce, wouldWait(p.classes),
                                'Classes that have a mode of their own keep it.'
                        ],
                        yes: 'Change to enforce',
                }),
                again,
        });
}

async function setDrain(ctx, name, on, again)
{
        await ctx.api.post(path('proxies', name, 'drain'), {on});
        const text = on ? `Door ${name} drains.` : `Door ${name} accepts connections again.`;
        toast(text, {undo: () => setDrain(ctx, name, !on, again)});
        await again();
}

async function drain(ctx, p, again)
{
        const open = plural(p.connections, 'connection is', 'connections are');
        const ok = await confirm({
                title: `Drain door ${p.name}?`,
                text: [
                        'It refuses new connections, and closes each open one after its transaction.',
                        `${open} open. ${fmtNumber(p.in_transaction)} in a transaction.`,
                ],
                yes: 'Drain',
                danger: true,
        });
        if (ok)
                await setDrain(ctx, p.name, true, again);
}

/* --- a card ----------------------------------------------------------------------------------- */

function tile(value, text, {sub, title: why} = {})
{
        return h('div.tile', {title: why}, h('b', {}, value), h('span', {}, text),
                sub ? h('span.sub', {}, sub) : null);
}

const WINDOW = 'What usually executes at once never waits for load. What goes beyond that shares ' +
        'the window: it grows while the database is well, and is halved when it is not.';

/* "learning" until weir knows what is usual. */
function loadWord(p)
{
        if (p.over)
                return 'over';
        return p.learned ? 'well' : 'learning';
}

function tiles(p)
{
        const rate = (p.classes || []).reduce((sum, c) => sum + Number(c.transactions_per_s), 0);
        const most = (n) => (n > 0 ? `of ${fmtNumber(n)}` : null);
        return [
                tile(fmtNumber(p.connections), 'connections', {
                        sub: [
                                most(p.connections_max),
                                `${fmtNumber(p.in_transaction)} in a transaction`
                        ].filter(Boolean)
                                     .join(', ')
                }),
                tile(fmtNumber(p.running), 'running', {
                        sub: [most(p.concurrency), `${fmtNumber(p.executing)} executing`]
                                     .filter(Boolean)
                                     .join(', ')
                }),
                tile(fmtNumber(p.waiting), 'waiting'),
                tile(`${fmtNumber(p.excess)} of ${fmtNumber(p.window)}`, 'in the window',
                        {title: WINDOW, sub: p.why}),
                p.classes ? tile(fmtNumber(rate), 'transactions/s',
                                    {sub: `${fmtNumber(p.transactions)} so far`})
                          : tile(fmtNumber(p.transactions), 'transactions'),
                tile(fmtNumber(p.held), 'held', {
                        sub: [
                                `${fmtNumber(p.refused)} refused`,
                                p.left ? `${fmtNumber(p.left)} left` : ''
                        ].filter(Boolean)
                                     .join(', '),
                        title: 'Transactions that had to wait at their start; refused: with an ' +
                                'error; left: the client closed its connection first'
                }),
                p.observed || p.mode === 'observe'
                        ? tile(fmtNumber(p.observed), 'would have waited',
                                  {title: 'Transactions that the mode enforce would have held'})
                        : null,
        ];
}

function about(ctx, p)
{
        const some = (n, text) => (n ? [text, fmtNumber(n)] : null);
        return facts([
                ['Listens on', h('span.mono', {}, p.listens || '–')],
                ['Server', h('span.mono', {}, p.server || '–')],
                [
                        'Target',
                        p.target ? h('a', {href: ctx.link('throttle')}, p.target)
                                 : 'none: only rules and limits apply'
                ],
                ['Statements', fmtNumber(p.statements)],
                ['From clients', fmtBytes(p.bytes_in)],
                ['To clients', fmtBytes(p.bytes_out)],
                ['Accepted', plural(p.accepted, 'connection')],
                some(p.refused_connections, 'Refused connections'),
                some(p.with_locks, 'Connections with locks'),
                some(p.blind, 'Unread connections'),
        ]);
}

/* What needs attention before the numbers do. */
function notes(ctx, p, again)
{
        const accept = () => setDrain(ctx, p.name, false, again);
        return [
                p.problem ? note('bad',
                                    h('p', {role: 'alert'},
                                            h('strong', {}, `The server of ${p.name} is away: `),
                                            sentence(p.problem)),
                                    h('p', {}, 'New clients get an error at once. Each new ',
                                            'connection tries the server again.'))
                          : null,
                p.draining ? note('warn',
                                     h('p', {}, h('strong', {}, 'This door drains. '),
                                             'It refuses new connections and closes open ones ',
                                             'after their transactions.'),
                                     button('Accept connections', accept, {needs: 'PROXYDRAIN'}))
                           : null,
        ];
}

/* One door: made once, updated with each answer.  head: its name, or a link with it. */
function card(ctx, head, again)
{
        let door = null;
        let told = '';
        const state = h('span.row.mid');
        const drains = button('Drain', () => drain(ctx, door, again), {needs: 'PROXYDRAIN'});
        const p = panel(head, {actions: [state, drains]});
        const said = h('div.screen');
        const figures = h('div.tiles', {role: 'group'});
        const more = h('div');
        const mode = doorMode(ctx, again);
        append(p.body, said, figures, h('div.grid', {}, mode.node, more));
        const update = (now) => {
                door = now;
                if (drains) {
                        drains.setAttribute('aria-label', `Drain door ${now.name}`);
                        drains.hidden = now.draining;
                }
                refill(state, now.problem ? badge('critical', 'server away') : null,
                        badge(now.over ? 'elevated' : 'normal', `load: ${loadWord(now)}`), badge(now.mode),
                        now.draining ? badge('paused', 'drains') : null);
                const trouble = JSON.stringify([now.problem, now.draining]);
                if (trouble !== told)
                        refill(said, notes(ctx, now, again));
                told = trouble;
                said.hidden = !said.firstChild;
                figures.setAttribute('aria-label', `Transactions of door ${now.name}`);
                refill(figures, tiles(now));
                refill(more, about(ctx, now));
                mode.update(now);
        };
        return {node: p.node, update};
}

/* --- all doors -------------------------------------------------------------------------------- */

const SECTION = `mysql "shop" {
        listen = {"127.0.0.1:3307"}   # where clients connect
        server = "127.0.0.1:3306"     # where the database listens
        target = "shop"               # whose load decides
        mode = "observe"              # nothing waits yet
}
class "etl" {                         # optional: name your clients
        user = "etl*"
        tier = "deferrable"
}`;

function howTo()
{
        const p = panel('Put weir in front of a MySQL or MariaDB server');
        append(p.body,
                h('p', {}, 'Checks work for programs that ask first. The MySQL door is for all ',
                        'others: clients connect to weir in place of the server, and while the ',
                        'database is under load, transactions of less important clients wait at ',
                        'their start. weir needs no password for it, and programs need no change.'),
                h('p', {}, 'Add this to weir.conf, beside a target for the same server:'),
                h('pre', {tabindex: '0'}, SECTION),
                h('p', {}, 'Check the file and reload it. No restart is needed:'),
                copyLine('weir config check weir.conf && weir config reload'),
                h('p', {}, 'Connect a client to the new port:'),
                copyLine('mariadb -h 127.0.0.1 -P 3307 -u app -p'),
                h('p.hint', {}, 'All settings are in weir.conf(5), sections mysql and class: ',
                        h('code', {}, 'man weir.conf'), '. Test which class a statement gets: ',
                        h('code', {}, 'weir proxy explain'), '.'));
        return p.node;
}

/* --- one door -------------------------------------------------------------------------------- */

/* A young door has no 10 minutes yet: what is missing is not known. */
const padded = (line) => [...Array(Math.max(0, POINTS - line.length)).fill(null), ...line];

/* The series has no date: its last point is the second that has just ended. */
function charts()
{
        const held = chart({
                title: 'Time held, counted when a wait ends',
                area: true,
                unit: 's',
                series: [{name: 'held', color: 's4'}]
        });
        const flow = chart({
                title: 'Transactions that run and wait',
                series: [{name: 'running', color: 's1'}, {name: 'waiting', color: 's4'}]
        });
        const node = h('div.grid', {}, [held, flow].map((c) => h('div.panel', {}, c.node)));
        const update = (s) => {
                const step = s.step_ms;
                const end = Math.floor(Date.now() / step) * step;
                const base = {from_ms: end - POINTS * step, step_ms: step};
                held.update({...base, values: [padded(s.held_ms.map((ms) => ms / 1000))]});
                flow.update({...base, values: [padded(s.running), padded(s.waiting)]});
        };
        return {node, update, destroy: () => [held, flow].forEach((c) => c.destroy())};
}

/* What the panels of a screen filter and sort by, kept in the address. */
function filtersOf({match, state, sort, name}, ctx)
{
        const now = {match, state, sort};
        const set = (key, value) => {
                now[key] = value;
                ctx.setQuery(now, name);
        };
        return {...now, set};
}

async function doorScreen(root, params, ctx, name)
{
        let door = null;
        const box = h('div.screen');
        const filters = filtersOf(params, ctx);
        const state = card(ctx, params.name === undefined ? name : 'State', () => load());
        const drawn = charts();
        const changed = () => Promise.all([load(), rules.load()]);
        const rules = rulesHere(ctx, () => door, changed);
        const classes = classesPanel(ctx, filters, () => door, changed);
        const clients = clientsPanel(ctx, filters, name);
        const held = heldPanel(ctx, name);
        const statements = statementsPanel(ctx, filters, name);
        append(box, state.node, drawn.node, classes.node, rules.node, clients.node, held.node,
                statements.node, explainPanel(ctx, name));
        root.append(box);
        /* A dialog that was opened by a button of a row gives the focus back to that button. */
        const calm = (fn) => () => (isBusy() ? null : fn());
        const begin = () => {
                ctx.every(EVERY_MS, calm(clients.load));
                for (const part of [rules, held, statements])
                        ctx.every(SLOW_MS, calm(part.load));
        };
        const ask = () => ctx.api.get(path('proxies', name), {}, ctx.signal);
        const load = covered(box, ask, (p) => {
                const isFirst = door === null;
                door = p;
                state.update(p);
                drawn.update(p.series);
                classes.update();
                if (isFirst)
                        begin();
        });
        await ctx.every(EVERY_MS, calm(load));
        return drawn.destroy;
}

/* --- the screen ------------------------------------------------------------------------------- */

export async function mount(root, params, ctx)
{
        await styled;
        runTimes(root, ctx);
        if (params.name !== undefined) {
                root.append(crumbs(ctx, 'sql', 'All MySQL doors'));
                return doorScreen(root, params, ctx, params.name);
        }
        let only = null; /* the name of the only door, "" when there are others */
        const head = (name) => h('a', {href: ctx.link('sql', name)}, name);
        const all = cards(howTo(), (name) => card(ctx, head(name), () => refresh()));
        const ask = () => ctx.api.get('proxies', {}, ctx.signal);
        const refresh = covered(all.node, ask, (answer) => {
                if (only === null)
                        only = answer.proxies.length === 1 ? answer.proxies[0].name : '';
                if (!only)
                        all.update(answer.proxies);
        });
        root.append(all.node);
        await refresh();
        if (only) {
                all.node.remove();
                return doorScreen(root, params, ctx, only);
        }
        only = '';
        await ctx.every(EVERY_MS, refresh);
        return null;
}
