/* What is at a MySQL door now and what passed it: clients, statements, and the explain tool. */
import {
        append,
        badge,
        covered,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        form,
        h,
        note,
        panel,
        path,
        select,
        table
} from './lib.js';
import {bar, by, fromNow, text} from './parts.js';
import {fmtMicros} from './proxy_classes.js';

const CLIENTS = 100;
const STATEMENTS = 50;
const HELD = 5;

/* --- clients ---------------------------------------------------------------------------------- */

/* state of the API: word of its badge, what it means. */
const STATES = {
        held: ['deferred', 'waits'],
        running: ['running', 'runs a statement'],
        open: ['running', 'in a transaction'],
        idle: ['free', 'idle'],
        login: ['waiting', 'logs in'],
        blind: ['off', 'unread'],
};

const SHOW = [
        ['held', 'clients that wait'], ['all', 'all clients'], ['running', 'running'],
        ['open', 'in a transaction'], ['idle', 'idle'], ['login', 'logging in'], ['blind', 'unread']
];

function state(c)
{
        const [word, said] = STATES[c.state] || [c.state, c.state];
        return [badge(word, said), c.has_locks ? [' ', badge('held', 'holds locks')] : null];
}

const account = (c) => [h('span.mono', {}, c.user || '–'),
        h('span.sub', {}, [c.address, c.program].filter(Boolean).join(' · '))];

function clientTable(empty)
{
        const t = table({
                caption: 'Clients of the door',
                hideCaption: true,
                key: by('id'),
                empty,
                columns: [
                        {
                                key: 'class',
                                label: 'Class',
                                cls: 'wrap mono',
                                sort: by('class'),
                                cell: (c) => c.class || '–'
                        },
                        {key: 'state', label: 'State', sort: by('state'), cell: state},
                        {
                                key: 'state_ms',
                                label: 'For',
                                cls: 'nowrap',
                                sort: by('state_ms'),
                                cell: (c) => fromNow(-c.state_ms, 'for')
                        },
                        {
                                key: 'why',
                                label: 'Why',
                                cls: 'wrap',
                                cell: (c) => [c.why || '',
                                        c.text ? h('span.sub.mono', {}, c.text) : null]
                        },
                        {key: 'user', label: 'User', cls: 'wrap', sort: by('user'), cell: account},
                        {key: 'database', label: 'Database', cls: 'wrap', sort: by('database')},
                        {
                                key: 'transactions',
                                label: 'Transactions',
                                num: true,
                                sort: by('transactions')
                        },
                        {
                                key: 'id',
                                label: 'Connection',
                                num: true,
                                sort: by('id'),
                                cell: (c) => String(c.id)
                        },
                ],
        });
        t.node.classList.add('rows', 'dense');
        return t;
}

export function clientsPanel(ctx, filters, name)
{
        const which = select(SHOW, filters.state || 'held', {
                'aria-label': 'Show',
                onchange: () => {
                        filters.set('state', which.value === 'held' ? '' : which.value);
                        t.busy(true);
                        load();
                }
        });
        const p = panel('Who waits', {
                actions: [which],
                hint: 'A client waits before its transaction reaches the server. The number of the ' +
                        'connection is that of the server: KILL takes it.'
        });
        const none = h('span');
        const t = clientTable(none);
        const more =
                h('p.hint', {hidden: true}, `The first ${CLIENTS}. Choose a state to see fewer.`);
        append(p.body, h('div.tall', {}, t.node), more);
        const ask = () => ctx.api.get(path('proxies', name, 'clients'),
                {limit: CLIENTS, state: which.value === 'all' ? '' : which.value}, ctx.signal);
        const load = covered(t.node, ask, (answer) => {
                t.update(answer.clients);
                const isHeld = which.value === 'held';
                p.head.firstChild.textContent = isHeld ? 'Who waits' : 'Clients';
                none.textContent = isHeld ? 'No client waits.' : 'No client is in this state.';
                more.hidden = !answer.more;
        });
        return {node: p.node, load};
}

/* --- statements ------------------------------------------------------------------------------- */

const statement =
        (s) => [h('span.mono.sql', {}, s.text), s.class ? h('span.sub', {}, s.class) : null];

/* How often; and how long altogether, unless that rounds to nothing. */
const holds = (s) =>
        (s.held ? [fmtNumber(s.held), s.held_ms ? h('span.sub', {}, fmtDuration(s.held_ms)) : null]
                : '');

/* The statements that waited most; hidden while none has. */
export function heldPanel(ctx, name)
{
        const p =
                panel('What was held', {hint: 'Statements that began a transaction that waited.'});
        const t = table({
                caption: 'Statements that were held most',
                hideCaption: true,
                key: by('digest'),
                columns: [
                        {key: 'text', label: 'Statement', cls: 'wrap', cell: statement},
                        {key: 'held', label: 'Times', num: true, sort: by('held')},
                        {
                                key: 'held_ms',
                                label: 'Time held',
                                num: true,
                                sort: by('held_ms'),
                                cell: (s) => fmtDuration(s.held_ms)
                        },
                        {
                                key: 'mean',
                                label: 'Each',
                                num: true,
                                cell: (s) => fmtDuration(s.held_ms / s.held)
                        },
                ],
        });
        t.node.classList.add('rows', 'dense');
        p.body.append(t.node);
        p.node.hidden = true;
        const ask = () => ctx.api.get(
                path('proxies', name, 'statements'), {sort: 'held', limit: HELD}, ctx.signal);
        const load = covered(t.node, ask, ({statements}) => {
                const held = statements.filter((s) => s.held_ms > 0);
                t.update(held);
                p.node.hidden = held.length === 0;
        });
        return {node: p.node, load};
}

const SORTS = [
        ['time', 'most database time'], ['count', 'most often'], ['rows', 'most rows'],
        ['held', 'most held']
];

export function statementsPanel(ctx, filters, name)
{
        const sort = select(SORTS, filters.sort || 'time', {
                'aria-label': 'Order of the statements',
                onchange: () => {
                        filters.set('sort', sort.value === 'time' ? '' : sort.value);
                        t.busy(true);
                        load();
                }
        });
        const p = panel('Statements', {
                actions: [sort],
                hint: `The first ${STATEMENTS} since weir started, without their literals.`
        });
        const number = (key, label, cell) => ({key, label, num: true, cell});
        const t = table({
                caption: 'Statements by digest',
                hideCaption: true,
                key: by('digest'),
                empty: 'No statement has passed yet.',
                columns: [
                        {key: 'text', label: 'Statement', cls: 'wrap', cell: statement},
                        number('count', 'Count'),
                        number('busy_us', 'Database time',
                                (s) => [fmtMicros(s.busy_us), bar([[s.busy_us, 'busy']], s.most)]),
                        number('mean_us', 'Mean', (s) => fmtMicros(s.mean_us)),
                        number('max_us', 'Longest', (s) => fmtMicros(s.max_us)),
                        number('rows', 'Rows'),
                        number('errors', 'Errors', (s) => s.errors || ''),
                        number('held', 'Held', holds),
                ],
        });
        t.node.classList.add('rows', 'dense');
        p.body.append(h('div.tall', {}, t.node));
        const ask = () => ctx.api.get(path('proxies', name, 'statements'),
                {sort: sort.value, limit: STATEMENTS}, ctx.signal);
        const load = covered(t.node, ask, ({statements}) => {
                /* Milliseconds would be 0 of what is quick. */
                const rows = statements.map((s) => ({...s, busy_us: s.mean_us * s.count}));
                const most = Math.max(...rows.map((s) => s.busy_us), 0);
                t.update(rows.map((s) => ({...s, most})));
        });
        return {node: p.node, load};
}

/* --- explain ---------------------------------------------------------------------------------- */

const words = (s) => String(s).replace(/_/g, ' ');

function explained(e)
{
        const waits = e.verdict === 'wait' || e.verdict === 'observe';
        return [
                note(waits ? 'warn' : 'good',
                        h('p', {},
                                h('strong', {},
                                        e.verdict === 'wait' ? 'It would wait now. '
                                                : waits      ? 'It would wait in the mode enforce. '
                                                : e.can_wait ? 'It would run now. '
                                                             : 'It never waits at the door. '),
                                e.why ? `${e.why}.` : '')),
                facts([
                        ['Class', h('span.mono', {}, e.class || '–')],
                        ['Told by', words(e.identity_from || '–')],
                        ['Section', e.row || 'none'],
                        ['Tier', e.tier],
                        ['Mode', e.mode],
                        ['Load', e.load],
                        ['Kind', words(e.kind)],
                        ['Digest', h('span.mono', {}, e.digest)],
                ]),
                e.digest_text ? h('pre', {
                        tabindex: '0',
                        'aria-label': 'Statement without literals',
                        role: 'group'
                },
                                        e.digest_text)
                              : null,
        ];
}

/* Which class a statement would belong to, and what would become of it. */
export function explainPanel(ctx, name)
{
        const p = panel('Explain a statement', {
                hint: 'Shows the class that a statement would belong to, and whether it would wait ' +
                        'now. weir does not run it.'
        });
        const sql = h('textarea', {
                name: 'sql',
                rows: 3,
                required: true,
                spellcheck: 'false',
                placeholder: '/* weir: id=job:nightly */ DELETE FROM old_orders LIMIT 1000'
        });
        const said = h('div.stacked', {'aria-live': 'polite'});
        const box = form('PROXYEXPLAIN',
                async (values) => {
                        const given = Object.entries(values).filter(([, v]) => v.trim() !== '');
                        try {
                                const answer = await ctx.api.post(path('proxies', name, 'explain'),
                                        Object.fromEntries(given));
                                fill(said, explained(answer));
                        } catch (e) {
                                fill(said, h('p.error', {}, e.message));
                        }
                },
                field('Statement', sql),
                h('div.row', {}, field('User', text('user', {size: 12})),
                        field('Database', text('database', {size: 12})),
                        field('Program', text('program', {size: 14})),
                        field('Address', text('address', {size: 14, placeholder: '10.0.0.7'})),
                        h('button.primary', {type: 'submit'}, 'Explain')));
        append(p.body, box, said);
        return p.node;
}
