/* The audit trail: who changed what, from where, and why.
 *
 * The newest page is asked for again while it is looked at; an older one stays as it is.  Pages are
 * asked for by the number of their last entry, so that new entries move nothing. */
import {
        api,
        button,
        cover,
        debounce,
        dialog,
        facts,
        field,
        fill,
        fmtNumber,
        fmtTime,
        h,
        note,
        panel,
        sentence,
        turns
} from './lib.js';
import {exactTime, isBusy, rowTable, runTimes, styled, text} from './parts.js';

export const title = 'Audit';

const PAGE = 50;
const EVERY_MS = 5000;

/* --- before and after ------------------------------------------------------------------------ */

/* A value, or the text of one; undefined: there is none. */
function valueOf(given)
{
        if (given === null || given === undefined || given === '')
                return undefined;
        if (typeof given !== 'string')
                return given;
        try {
                return JSON.parse(given);
        } catch {
                return given;
        }
}

/* {a: {b: 1}} -> Map('a.b' -> '1'); what is no object has the name ''. */
function members(value, name = '', out = new Map())
{
        if (value !== null && typeof value === 'object' && !Array.isArray(value))
                for (const [key, one] of Object.entries(value))
                        members(one, name ? `${name}.${key}` : key, out);
        else if (value !== undefined)
                out.set(name, typeof value === 'string' ? value : JSON.stringify(value));
        return out;
}

/* [name, before, after, isChanged] of every member of either. */
export function diff(before, after)
{
        const [old, now] = [members(valueOf(before)), members(valueOf(after))];
        return [...new Set([...old.keys(), ...now.keys()])].map(
                (name) => [name, old.get(name), now.get(name), old.get(name) !== now.get(name)]);
}

function diffTable(e)
{
        const rows = diff(e.before, e.after);
        if (!rows.length)
                return h('p.hint', {}, 'No values were noted with it.');
        const changed = rows.filter(([, , , is]) => is);
        const same = rows.length - changed.length;
        const cell = (mark, kind, value) =>
                h(`td.mono.wrap${value === undefined ? '' : `.${kind}`}`, {},
                        value === undefined ? h('span.muted', {}, 'none') : `${mark} ${value}`);
        return [
                h('div.table-scroll', {tabindex: '0', role: 'region', 'aria-label': 'Changes'},
                        h('table.diff', {}, h('caption.quiet', {}, 'Values before and after'),
                                h('thead', {}, h('tr', {}, ['Member', 'Before',
                                        'After'].map((x) => h('th', {scope: 'col'}, x)))),
                                h('tbody', {},
                                        changed.map(([name, old, now]) => h('tr', {},
                                                            h('th.mono', {scope: 'row'},
                                                                    name || 'value'),
                                                            cell('−', 'old', old),
                                                            cell('+', 'new', now)))))),
                same ? h('p.hint', {}, `${fmtNumber(same)} more did not change.`) : null,
        ];
}

function details(e)
{
        return dialog(`${e.command} ${e.what || ''}`,
                (close) => [facts([
                        ['Time', exactTime(e.at_ms)],
                        ['Who', e.who || '–'],
                        ['Role', e.role || '–'],
                        ['From', [e.address || 'weir itself', e.door ? ` over ${e.door}` : '']],
                        e.times > 1 ? ['Times', fmtNumber(e.times)] : null,
                        e.reason ? ['Why', e.reason] : null,
                        ['Entry', String(e.number)],
                ]),
                        diffTable(e),
                        h('div.actions', {},
                                h('button.primary', {type: 'button', onclick: () => close()},
                                        'Close')),
        ]);
}

/* --- the list -------------------------------------------------------------------------------- */

function columns()
{
        const opener = (e) => h('button.link', {
                type: 'button',
                'aria-label': `Details of ${e.command} ${e.what || ''}`,
                onclick: () => details(e)
        },
                e.command);
        return [
                {
                        key: 'at',
                        label: 'Time',
                        cls: 'nowrap',
                        plain: true,
                        cell: (e) => fmtTime(e.at_ms)
                },
                {
                        key: 'command',
                        label: 'Command',
                        cls: 'nowrap',
                        cell: (e) => [opener(e),
                                e.times > 1 ? h('span.muted', {}, ` × ${fmtNumber(e.times)}`)
                                            : null]
                },
                {
                        key: 'what',
                        label: 'What',
                        cls: 'wrap',
                        cell: (e) => [e.what || '–', e.reason ? h('span.sub', {}, e.reason) : null]
                },
                {
                        key: 'who',
                        label: 'Who',
                        cls: 'wrap',
                        cell: (e) => [e.who || '–', e.role ? h('span.sub', {}, e.role) : null]
                },
                {
                        key: 'address',
                        label: 'From',
                        cls: 'nowrap',
                        cell: (e) => [h('span.mono', {}, e.address || '–'),
                                e.door ? h('span.sub', {}, e.door) : null]
                },
        ];
}

function filterForm(params, changed)
{
        const soon = debounce(changed);
        const names = h('datalist', {id: 'audit-commands'},
                [...api.commands || []].map((value) => h('option', {value})));
        const one = (name, props) =>
                text(name, {value: params[name] || '', oninput: soon, ...props});
        const inputs = [
                field('Text', one('match', {type: 'search', placeholder: 'mail'})),
                field('Who', one('who', {placeholder: 'name of a token', size: 14})),
                field('Command', one('command', {list: names.id, placeholder: 'PAUSE', size: 14})),
                field('Since', one('since', {type: 'datetime-local'})),
                field('Until', one('until', {type: 'datetime-local'})),
        ];
        const node = h('form.row', {onsubmit: (ev) => ev.preventDefault()}, inputs, names);
        const read = () => Object.fromEntries(
                [...new FormData(node).entries()].map(([name, value]) => [name, value.trim()]));
        return {node, read};
}

/* As the server wants it: times in milliseconds. */
function asked(filter)
{
        const time = (typed) => (typed ? Date.parse(typed) : '');
        const command = filter.command.toUpperCase();
        return {...filter, command, since: time(filter.since), until: time(filter.until)};
}

export async function mount(root, params, ctx)
{
        await styled;
        const trail = []; /* where the pages before this one began */
        let before = '';
        let cursor = '';
        const form = filterForm(params, () => go('', true));
        const t = rowTable(ctx, {
                caption: 'Audit trail, newest first',
                hideCaption: true,
                key: (e) => e.number,
                empty: 'No entry is like that.',
                open: details,
                columns: columns(),
        });
        const turn = turns();
        const trouble = h('div');
        const part = cover(t.node);
        const load = async () => {
                const isLast = turn();
                try {
                        const query = {...asked(form.read()), limit: PAGE, before};
                        const answer = await ctx.api.get('audit', query, ctx.signal);
                        if (!isLast())
                                return;
                        cursor = answer.cursor;
                        part.ok();
                        fill(trouble,
                                answer.problem ? note('warn', h('p', {}, sentence(answer.problem)))
                                               : null);
                        t.update(answer.entries);
                        newer.disabled = !trail.length;
                        older.disabled = !cursor;
                } catch (e) {
                        if (e.name === 'AbortError' || !isLast())
                                return;
                        t.busy(false);
                        part.fail(e);
                }
        };
        const go = (to, isNew) => {
                if (isNew)
                        trail.length = 0;
                before = to;
                ctx.setQuery(form.read());
                t.busy(true);
                return load();
        };
        const newer = button('← Newer', () => go(trail.pop()), {kind: 'small', disabled: true});
        const older = button('Older →', () => {
                trail.push(before);
                return go(cursor);
        }, {kind: 'small', disabled: true});
        const p = panel('Changes, newest first', {
                hint: 'Every change by a person or a token, and logins that failed. Choose one to see ' +
                        'its values before and after.'
        });
        p.body.append(form.node, trouble, t.node, h('div.actions', {}, newer, older));
        root.append(p.node);
        await load();
        ctx.every(EVERY_MS, async () => {
                if (!before && !isBusy())
                        await load();
        });
        runTimes(root, ctx);
}
