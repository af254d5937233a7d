/* The classes of a MySQL door, and the rules that steer them.
 *
 * A class is an identity with the section of weir.conf that it matched.  Rules go by identity, so
 * the question before one names everything else that it applies to. */
import {
        append,
        badge,
        countdown,
        covered,
        debounce,
        durationPicker,
        field,
        fmtDuration,
        fmtNumber,
        h,
        panel,
        recall,
        remember,
        table
} from './lib.js';
import {bar, by, formDialog, text} from './parts.js';
import {observedBadge, removeButton, removeRule, RULE_MAX_MS, ruleText, setRule} from './rules.js';

const SHOWN = 200; /* rows of the table; a door has up to 1,024 classes */
const NAMED = 3;   /* other classes that a question names */

/* 850 µs, 12.4 ms, 3.1 s */
export function fmtMicros(us)
{
        const n = Number(us);
        if (n < 1000)
                return n > 0 ? `${Math.round(n)} µs` : '0';
        return n < 1000000 ? `${fmtNumber(Number((n / 1000).toPrecision(3)))} ms`
                           : fmtDuration(n / 1000);
}

/* --- one rule by one click ---------------------------------------------------------------------
 */

function waits(c)
{
        return `waits for up to ${
                fmtDuration(c.wait_ms)}; then its client gets an error and can retry`;
}

/* kind of the rule: the button, the question and what the rule does. */
const STEERS = {
        hold: {
                verb: 'Hold',
                does: (c) => `Each new transaction of ${c.class} ${waits(c)}. ` +
                        'Transactions that run go on.',
                done: 'is held',
                danger: true,
        },
        ratio: {
                verb: 'Ration',
                does: (c) => `A share of the new transactions of ${c.class} is refused: each of ` +
                        `them ${waits(c)}. The rule does not touch the others.`,
                done: 'is rationed',
        },
        exempt: {
                verb: 'Prioritise',
                does: (c) => `New transactions of ${c.class} start whatever the load is. ` +
                        'The limits of the class and of the door still apply.',
                done: 'comes first',
        },
};

/* Whom else the rule applies to, since rules go by identity and target. */
function scope(door, c)
{
        const others =
                door.classes
                        .filter((o) => o.class !== c.class && o.class.split(':').includes(c.class))
                        .map((o) => o.class);
        const more = others.length > NAMED ? ` and ${others.length - NAMED} more` : '';
        const where = door.target ? `on the target ${door.target}` : 'on every target';
        return [
                `The rule applies to ${c.class} ${where}, also when it asks weir by a check.`,
                others.length ? `It includes ${others.slice(0, NAMED).join(', ')}${more}.` : '',
        ].join(' ');
}

async function steerDialog(ctx, door, c, kind, changed)
{
        const steer = STEERS[kind];
        let isOpen = true; /* rows are drawn anew when the button has its focus back */
        const share = h(
                'input', {type: 'number', min: 1, max: 100, step: 1, required: true, value: '50'});
        const picker = durationPicker({
                value: 3600000,
                max: RULE_MAX_MS,
                label: 'Ends after',
                presets: ['10m', '1h', '4h', '1d', '7d']
        });
        const submit = async ({reason, author}) => {
                const body = { kind, for: picker.check(), mode: 'enforce' };
                if (kind === 'ratio')
                        body.ratio = String(Number(share.value) / 100);
                if (door.target)
                        body.target = door.target;
                if (reason.trim())
                        body.reason = reason.trim();
                if (author.trim())
                        body.author = author.trim();
                remember('author', author.trim() || null);
                const said = `${c.class} ${steer.done} for ${fmtDuration(body.for)}.`;
                const done = () => (isOpen ? null : changed());
                await setRule(ctx, c.class, body, {
                        text: said, done, isSeen: true
                });
        };
        const isSet = await formDialog(`${steer.verb} ${c.class}?`, {
                fields: [
                        h('p', {}, steer.does(c)),
                        h('p', {}, scope(door, c)),
                        c.mode === 'enforce'
                                ? null
                                : h('p', {},
                                          h('strong', {}, `The mode of this class is ${c.mode}: `),
                                          'nothing waits until that is changed to enforce.'),
                        kind === 'ratio' ? field('Refused, percent', share) : null,
                        picker.node,
                        field('Why', text('reason', {
                                maxlength: 200,
                                placeholder: 'for those who wonder later'
                        })),
                        field('Your name',
                                text('author', {maxlength: 64, value: recall('author') || ''})),
                ],
                yes: steer.verb,
                danger: steer.danger,
                submit,
        });
        isOpen = false;
        if (isSet)
                await changed();
}

/* Without act(), which would keep the focus from coming back when the dialog closes. */
function steerButtons(ctx, of, c, changed)
{
        return h('div.actions', {},
                Object.entries(STEERS).map(([kind, {verb}]) => h('button.small', {
                        type: 'button',
                        needs: 'RULESET',
                        'aria-label': `${verb} ${c.class}`,
                        onclick: () => steerDialog(ctx, of(), c, kind, changed)
                },
                                                   verb)));
}

/* --- the table -------------------------------------------------------------------------------- */

const VERDICTS = {
        run: ['granted', 'runs'],
        wait: ['deferred', 'waits'],
        observe: ['would_defer', 'would wait'],
};

/* A refusal says why, with its rule; one that lets through has only its name, after the slot it is
 * kept in. */
function now(c)
{
        const [word, said] = VERDICTS[c.verdict] || [c.verdict, c.verdict];
        const why = c.why || (c.rule ? `by the rule ${c.rule.replace(/^[a-z]+:/, '')}` : '');
        return [badge(word, said), why ? h('span.sub', {}, why) : null];
}

function limits(c)
{
        return [
                c.concurrency ? `${fmtNumber(c.concurrency)} at once` : '',
                Number(c.rate) ? `${fmtNumber(c.rate)} starts/s` : '',
                c.time_budget_ms ? `${fmtNumber(c.time_budget_ms)} ms/s of database time` : '',
        ].filter(Boolean)
                .join(', ');
}

function who(c)
{
        const most = limits(c);
        return [
                h('span.mono', {}, c.class),
                h('span.sub', {},
                        [
                                c.row ? `section ${c.row}` : '', `tier ${c.tier}`,
                                c.mode === 'enforce' ? '' : c.mode
                        ].filter(Boolean)
                                .join(' · ')),
                most ? h('span.sub', {}, `at most ${most}`) : null
        ];
}

/* Load lets go what is usual; what executes beyond that is in the window. */
function running(c)
{
        const known = [
                c.executing ? `${fmtNumber(c.executing)} execute` : '',
                c.usual === null ? '' : `usually ${fmtNumber(c.usual)}`,
                c.excess ? `${fmtNumber(c.excess)} in the window` : '',
        ];
        return [fmtNumber(c.running), known.filter(Boolean).map((text) => h('span.sub', {}, text))];
}

function time(c)
{
        return [`${fmtNumber(c.busy_ms_per_s)} ms/s`, bar([[c.busy_ms_per_s, 'busy']], c.most)];
}

/* p50 with p99 below it; nothing was measured while both are 0. */
const pair = (key) => (c) => (c[`${key}_p99`]
                ? [fmtMicros(c[`${key}_p50`]), h('span.sub', {}, fmtMicros(c[`${key}_p99`]))]
                : '');
const number = (key, label, cell) => ({key, label, num: true, sort: by(key), cell});
const some = (key) => (c) => (c[key] ? fmtNumber(c[key]) : '');
const COLUMNS = [
        {key: 'class', label: 'Class', cls: 'wrap', sort: by('class'), cell: who},
        {key: 'verdict', label: 'Now', cls: 'wrap', sort: by('verdict'), cell: now},
        number('running', 'Running', running),
        number('waiting', 'Waiting',
                (c) => (c.waiting ? [fmtNumber(c.waiting), h('span.sub', {}, fmtDuration(c.oldest_ms))]
                                  : '')),
        {
                ...number('transactions_per_s', 'Trans./s', (c) => fmtNumber(c.transactions_per_s)),
                sort: (c) => Number(c.transactions_per_s) /* a text, as all decimals */
        },
        number('busy_ms_per_s', 'Database time', time),
        number('held', 'Held', some('held')),
        number('refused', 'Refused', some('refused')),
        number('observed', 'Would hold', some('observed')),
        number('wait_us_p99', 'Wait p50, p99', pair('wait_us')),
        number('service_us_p99', 'Service p50, p99', pair('service_us')),
];

/* Classes that must wait come first, then those that used most database time: an order that
 * changes rarely, so that rows do not move away under the hand. */
function ranked(classes)
{
        const rank = (c) => (c.verdict === 'wait' ? 0 : 1);
        return [...classes].sort((a, b) => rank(a) - rank(b) || b.busy_ms - a.busy_ms);
}

/* filters: of the address, with set(name, value). */
export function classesPanel(ctx, filters, of, changed)
{
        const find = h('input', {
                type: 'search',
                value: filters.match || '',
                placeholder: 'part of a name',
                'aria-label': 'Find a class'
        });
        const p = panel('Classes', {
                actions: [find],
                hint: 'Who sends transactions. Classes that must wait come first, then those that used ' +
                        'most database time. A class that uses 1,000 ms/s keeps one connection busy.'
        });
        const t = table({
                caption: 'Classes of transactions',
                hideCaption: true,
                key: (c) => `${c.row}/${c.class}`,
                empty: 'No transaction has passed yet. Connect a client to an address of this door.',
                columns: [
                        ...COLUMNS, {
                                key: 'do',
                                needs: 'RULESET',
                                cls: 'act',
                                cell: (c) => steerButtons(ctx, of, c, changed)
                        }
                ],
        });
        t.node.classList.add('rows', 'dense', 'classes');
        const more = h('p.hint', {hidden: true});
        append(p.body, t.node, more);
        const draw = () => {
                const all = of().classes;
                const word = find.value.trim().toLowerCase();
                const match = all.filter(
                        (c) => !word || `${c.class} ${c.row}`.toLowerCase().includes(word));
                const most = Math.max(...all.map((c) => Number(c.busy_ms_per_s)), 0);
                t.update(ranked(match).slice(0, SHOWN).map((c) => ({...c, most})));
                find.hidden = all.length < 6 && !word;
                more.hidden = match.length <= SHOWN;
                more.textContent = `The first ${fmtNumber(SHOWN)} of ${
                        fmtNumber(match.length)}. Narrow them down with a part of a name.`;
        };
        find.addEventListener('input', debounce(() => {
                filters.set('match', find.value.trim());
                draw();
        }));
        return {node: p.node, update: draw};
}

/* --- rules ------------------------------------------------------------------------------------ */

/* all, a whole identity, or a part of one; on every target or on that of the door. */
function applies(door, r)
{
        return (r.target === '' || r.target === door.target) &&
                (r.name === 'all' ||
                        door.classes.some(
                                (c) => c.class === r.name || c.class.split(':').includes(r.name)));
}

/* The rules that apply at this door; hidden while there is none. */
export function rulesHere(ctx, of, changed)
{
        const p = panel('Rules that apply here',
                {actions: h('a', {href: ctx.link('throttle')}, 'All rules')});
        const counts = [];
        const t = table({
                caption: 'Rules that apply at this door',
                hideCaption: true,
                key: (r) => `${r.slot}:${r.name}/${r.target}/${r.mode}`,
                columns: [
                        {key: 'name', label: 'For', cls: 'wrap mono'},
                        {
                                key: 'what',
                                label: 'What',
                                cls: 'wrap',
                                cell: (r) => [ruleText(r, 'transaction'), observedBadge(r)]
                        },
                        {
                                key: 'by',
                                label: 'Set by',
                                cls: 'wrap',
                                cell: (r) => [r.author,
                                        r.reason ? h('span.sub', {}, r.reason) : null]
                        },
                        {
                                key: 'left',
                                label: 'Ends in',
                                cls: 'nowrap',
                                cell: (r) => {
                                        const c = countdown(r.left_ms, 'never');
                                        counts.push(c);
                                        return c.node;
                                }
                        },
                        {
                                key: 'do',
                                needs: 'RULEUNSET',
                                cls: 'act',
                                cell: (r) => removeButton(
                                        r, () => removeRule(ctx, r, r.left_ms, changed))
                        },
                ]
        });
        t.node.classList.add('rows');
        p.body.append(t.node);
        p.node.hidden = true;
        const ask = async () => {
                try {
                        return await ctx.api.get('rules', {limit: 200}, ctx.signal);
                } catch (e) {
                        p.node.hidden = false; /* where the reason is said */
                        throw e;
                }
        };
        const load = covered(t.node, ask, ({rules}) => {
                const here = rules.filter((r) => applies(of(), r));
                counts.length = 0;
                t.update(here);
                p.node.hidden = here.length === 0;
        });
        ctx.every(1000, () => counts.forEach((c) => c.tick()));
        return {node: p.node, load};
}
