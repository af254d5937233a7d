/* Rules as the page shows and sets them: words, forms, and the way back.
 *
 * Setting a rule may replace one that was there (hold, ratio and exempt share a place, of each
 * mode), so undo puts back what it replaced, with the time that was left, and only removes what is
 * new. */
import {
        append,
        badge,
        button,
        countdown,
        covered,
        durationPicker,
        field,
        fill,
        fmtAgo,
        fmtDuration,
        form,
        h,
        may,
        panel,
        path,
        recall,
        remember,
        select,
        table,
        toast
} from './lib.js';

export const RULE_MAX_MS = 7 * 86400000;
const HOUR_MS = 3600000;
const SHARE = ['hold', 'ratio', 'exempt'];

/* Why somebody was refused, in words: reasons as the check door names them. */
export function refusalText({reason, metric, target})
{
        const on = target ? ` on ${target}` : '';
        switch (reason) {
        case 'hold':
                return 'a rule holds it';
        case 'ratio':
                return 'a rule refuses a share of its asks';
        case 'level':
                return `the load level${on} makes its tier wait`;
        case 'unknown':
                return `${metric || 'a metric'}${on} is not known`;
        case 'threshold':
                return `${metric || 'a metric'}${on} is above its threshold`;
        case 'low_priority':
                return 'somebody more important was refused just now';
        case 'paused':
                return 'the throttle is paused';
        default:
                return String(reason || '').replace(/_/g, ' ');
        }
}

/* The rules of some names on a target as they are now, with the moment of it. */
async function rulesOf(ctx, names, target)
{
        const {rules} = await ctx.api.get('rules', {limit: 200});
        return {
                at: Date.now(),
                rules: rules.filter((r) => names.includes(r.name) && r.target === target)
        };
}

/* What removes exactly this rule, and not the one of the other mode beside it. */
function ruleQuery({kind, mode, target})
{
        return {kind, mode, target};
}

async function putBack(ctx, names, body, before)
{
        const gone = Date.now() - before.at;
        const same = (r) => r.mode === body.mode &&
                (SHARE.includes(body.kind) ? SHARE.includes(r.kind) : r.kind === body.kind);
        for (const name of names) {
                const old = before.rules.find((r) => r.name === name && same(r));
                if (old)
                        await ctx.api.post(path('rules', name), ruleBody({
                                ...old,
                                left_ms: old.left_ms < 0 ? -1 : old.left_ms - gone
                        }));
                else
                        await ctx.api.del(path('rules', name), ruleQuery(body));
        }
}

/* What the server adds to its OK, as a sentence; nothing when it has no doubts. */
function warningOf(reply)
{
        const text = reply && reply.warning;
        return text ? ` ${text[0].toUpperCase()}${text.slice(1)}.` : '';
}

/* Sets a rule, says text, and offers undo.  isSeen: the identity is known from elsewhere than
 * checks, and the server's doubt that no client has asked by that name is no news. */
export async function setRule(ctx, whom, body, {text, done, isSeen})
{
        const before = await rulesOf(ctx, [whom], body.target || '');
        const reply = await ctx.api.post(path('rules', whom), body);
        toast(`${text}${isSeen ? '' : warningOf(reply)}`, {
                undo: async () => {
                        await putBack(ctx, [whom], body, before);
                        await done();
                }
        });
        await done();
}

/* One before all others, for an hour unless body says otherwise; with undo. */
export async function prioritize(ctx, name, body, done)
{
        const full = { for: HOUR_MS, ...body };
        const before = await rulesOf(ctx, [name, 'all'], '');
        const reply = await ctx.api.post(path('prioritize', name), full);
        toast(`${name} comes first for ${fmtDuration(full.for)}.${warningOf(reply)}`, {
                undo: async () => {
                        await putBack(ctx, [name, 'all'], {kind: 'ratio', mode: 'enforce'}, before);
                        if (done)
                                await done();
                }
        });
        if (done)
                await done();
}

/* What a rule does, in words; to asks of a check unless what says otherwise. */
export function ruleText(r, what = 'ask')
{
        const share = Math.round(Number(r.ratio) * 1000) / 10;
        switch (r.kind) {
        case 'hold':
                return `every ${what} is refused`;
        case 'ratio':
                return Number(r.ratio) === 0 ? 'is never refused by chance'
                                             : `${share} % of the ${what}s are refused`;
        case 'exempt':
                return `every ${what} is granted${
                        r.self_ending ? ', ends when it is past its budget' : ''}`;
        case 'metrics':
                return `is checked by ${r.list}`;
        case 'threshold':
                return `has the thresholds ${r.list}`;
        default:
                return r.kind;
        }
}

export function observedBadge(r)
{
        return r.mode === 'observe' ? [' ', badge('observe', 'only told')] : null;
}

export function removeButton(r, remove)
{
        const which = r.mode === 'observe' ? `${r.name} that is tried out` : r.name;
        return button('Remove', () => remove(r),
                {kind: 'small', needs: 'RULEUNSET', label: `Remove the rule for ${which}`});
}

/* The body that sets a rule as it was, for undo. */
function ruleBody(r)
{
        const body = {kind: r.kind, mode: r.mode, author: r.author, reason: r.reason};
        if (r.ratio !== null && r.kind === 'ratio')
                body.ratio = r.ratio;
        if (r.kind === 'metrics')
                body.metrics = r.list;
        if (r.kind === 'threshold')
                body.threshold = r.list;
        if (r.target)
                body.target = r.target;
        if (r.self_ending)
                body.selfending = true;
        if (r.left_ms < 0)
                body.endless = true;
        else
                body.for = Math.max(1000, r.left_ms);
        return body;
}

/* left: ms until it ends by itself, -1 without an end.  With undo. */
export async function removeRule(ctx, r, left, done)
{
        const end = Date.now() + left;
        await ctx.api.del(path('rules', r.name), ruleQuery(r));
        const undo = async () => {
                const rest = left < 0 ? -1 : Math.max(0, end - Date.now());
                await ctx.api.post(path('rules', r.name), ruleBody({...r, left_ms: rest}));
                await done();
        };
        toast(`The rule for ${r.name} was removed.`, {undo});
        await done();
}

const KINDS = [
        ['hold', 'hold: refuse every ask'],
        ['ratio', 'slow down: refuse a share of the asks'],
        ['exempt', 'let through: grant every ask'],
        ['metrics', 'check by other metrics'],
        ['threshold', 'check by other thresholds'],
];

/* names: a datalist's id. */
function clientField(value, names, placeholder)
{
        return h('input', {
                required: true,
                value,
                list: names,
                maxlength: 255,
                autocomplete: 'off',
                spellcheck: 'false',
                placeholder,
                size: 22
        });
}

/* The form that sets a rule; also used for one client.  names: a datalist's id. */
export function ruleForm(ctx, {name = '', names, targets = [], done})
{
        const who = clientField(name, names, 'etl, 7f3e:copy:etl or all');
        const kind = select(KINDS, 'hold', {name: 'kind', onchange: () => show()});
        const share = h('input', {type: 'number', min: 0, max: 100, step: 1, value: '50'});
        const list = h('input', {type: 'text', spellcheck: 'false', autocomplete: 'off', size: 26});
        const target = select([['', 'every target'], ...targets], '', {});
        const picker = durationPicker({
                value: 3600000,
                max: RULE_MAX_MS,
                label: 'Ends after',
                presets: ['10m', '1h', '4h', '1d', '7d']
        });
        const mode = select(
                [['enforce', 'enforce'], ['observe', 'observe: only tell, beside what holds']],
                'enforce', {});
        const reason = h(
                'input', {type: 'text', maxlength: 200, placeholder: 'for those who wonder later'});
        const author = h('input', {
                type: 'text',
                maxlength: 64,
                value: recall('author') || '',
                size: 14,
                autocomplete: 'off'
        });
        const shareBox = field('Refused, percent', share);
        const listBox = field('Metrics', list, 'names between commas');
        const reasonBox = field('Why', reason);
        reasonBox.classList.add('grow');

        function show()
        {
                const k = kind.value;
                shareBox.hidden = k !== 'ratio';
                listBox.hidden = k !== 'metrics' && k !== 'threshold';
                listBox.querySelector('label').textContent =
                        k === 'threshold' ? 'Thresholds' : 'Metrics';
                listBox.querySelector('.hint').textContent = k === 'threshold'
                        ? 'replication_lag=30, as many as you ' +
                                'like between commas'
                        : 'names between commas';
        }
        show();
        return form('RULESET',
                async () => {
                        const body = { kind: kind.value, for: picker.check(), mode: mode.value };
                        if (kind.value === 'ratio')
                                body.ratio = String(
                                        Math.max(0, Math.min(100, Number(share.value))) / 100);
                        if (kind.value === 'metrics')
                                body.metrics = list.value.replace(/\s/g, '');
                        if (kind.value === 'threshold')
                                body.threshold = list.value.replace(/\s/g, '');
                        if (target.value)
                                body.target = target.value;
                        if (reason.value.trim())
                                body.reason = reason.value.trim();
                        if (author.value.trim())
                                body.author = author.value.trim();
                        remember('author', author.value.trim() || null);
                        const whom = who.value.trim();
                        const does = body.mode === 'observe' ? 'is tried out' : 'holds';
                        const text = `The rule for ${whom} ${does} and ends in ${
                                fmtDuration(body.for)}.`;
                        await setRule(ctx, whom, body, {text, done});
                        reason.value = '';
                },
                h('div.row', {}, field('For', who), field('Do', kind), shareBox, listBox,
                        field('On', target), picker.node, field('Mode', mode)),
                h('div.row', {}, reasonBox, field('Your name', author),
                        h('button.primary', {type: 'submit'}, 'Set the rule')));
}

function prioritizeForm(ctx, {name = '', names, done})
{
        const who = clientField(name, names, 'billing');
        const share = h('input', {type: 'number', min: 0, max: 100, step: 1, value: '90'});
        const picker = durationPicker({
                value: 3600000,
                max: RULE_MAX_MS,
                label: 'Ends after',
                presets: ['10m', '1h', '4h', '1d']
        });
        return form('PRIORITIZE',
                async () => {
                        await prioritize(ctx, who.value.trim(), {for: picker.check(),
                        ratio: String(Math.max(0, Math.min(100, Number(share.value))) / 100)
                        }, done);
                },
                h('div.row', {}, field('Client', who), field('Others refused, percent', share),
                        picker.node, h('button.primary', {type: 'submit'}, 'Prioritise')));
}

export function rulesPanel(ctx, names)
{
        const p = panel('Rules', {
                hint: 'They steer programs that ask weir before each step of their work (checks). ' +
                        'A hold beats every other rule; of the others the most specific name ' +
                        'decides. Every rule ends by itself.'
        });
        const counts = new Map(); /* key of a rule: its countdown */
        const keyOf = (r) => `${r.slot}:${r.name}/${r.target}/${r.mode}`;
        const t = table({
                caption: 'Rules that hold',
                hideCaption: true,
                key: keyOf,
                empty: `No rule holds.${
                        may('RULESET') ? ' Set one below, for as long as you choose.' : ''}`,
                columns: [
                        {
                                key: 'name',
                                label: 'For',
                                cls: 'wrap mono',
                                cell: (r) => (r.name === 'all'
                                                ? 'all'
                                                : h('a', {href: ctx.link('clients', r.name)},
                                                          r.name))
                        },
                        {
                                key: 'what',
                                label: 'What',
                                cls: 'wrap',
                                cell: (r) => [ruleText(r), observedBadge(r)]
                        },
                        {key: 'target', label: 'Target', cell: (r) => r.target || 'every'},
                        {
                                key: 'by',
                                label: 'Set by',
                                cls: 'wrap',
                                cell: (r) => [r.author, ' ', fmtAgo(r.set_ms),
                                        r.reason ? h('div.hint', {}, r.reason) : null]
                        },
                        {
                                key: 'left',
                                label: 'Ends in',
                                cls: 'nowrap',
                                cell: (r) => {
                                        const c = countdown(r.left, 'never');
                                        counts.set(keyOf(r), c);
                                        return c.node;
                                }
                        },
                        {
                                key: 'act',
                                needs: 'RULEUNSET',
                                label: '',
                                cell: (r) => removeButton(r, remove)
                        },
                ]
        });
        const listBox = h('div', {}, t.node);
        const formBox = h('div');
        const more = h('p.hint', {hidden: true});
        let known = new Map(); /* when each ends, so that a row is not drawn anew each time */
        let targets = null;

        const ask = () => ctx.api.get('rules', {limit: 200}, ctx.signal);
        const load = covered(listBox, ask, (answer) => {
                const ends = new Map();
                const rows = answer.rules.map((r) => {
                        const {left_ms: left, ...rest} = r;
                        const key = keyOf(r);
                        const end = left < 0 ? -1 : Date.now() + left;
                        const was = known.get(key);
                        const mine = was !== undefined && Math.abs(was.end - end) < 3000
                                ? was
                                : {end, left};
                        ends.set(key, mine);
                        return {...rest, left: mine.left, endsAt: mine.end};
                });
                known = ends;
                for (const key of counts.keys())
                        if (!ends.has(key))
                                counts.delete(key);
                t.update(rows);
                more.hidden = !answer.cursor;
                more.textContent = 'There are more; weir rule list shows all of them.';
        });
        const remove = (r) =>
                removeRule(ctx, r, r.endsAt < 0 ? -1 : Math.max(0, r.endsAt - Date.now()), load);
        append(p.body, listBox, more, formBox);
        return {
                node: p.node,
                load,
                update(state) {
                        const list = state.targets.map((x) => x.name);
                        if (targets && targets.join('\n') === list.join('\n'))
                                return;
                        targets = list;
                        fill(formBox,
                                h('details', {open: true, needs: 'RULESET'},
                                        h('summary', {}, 'Add a rule that ends by itself'),
                                        ruleForm(ctx, {names, targets, done: load})),
                                h('details', {needs: 'PRIORITIZE'},
                                        h('summary', {}, 'Put one client before all others'),
                                        prioritizeForm(ctx, {names, done: load})));
                },
                tick: () => counts.forEach((c) => c.tick())
        };
}
