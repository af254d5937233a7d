/* Tables; lib.js gives them on. */
import {allowed, append, fmtNumber, h} from './lib.js';

/* A real table whose rows are kept by key, so that a live update neither loses the focus nor
 * flickers.  The roles are said aloud because narrow screens show each row as a block, and a table
 * whose display is changed would lose them.
 *
 * columns: {key, label, cell(row) -> node or text, sort(row) -> value, num, cls, plain}.  Without
 * cell, row[key] is shown; a column with sort gets a button in its header; the first one holds the
 * headers of the rows unless it is plain; one that needs a command is there for who may send it.
 *
 *   const t = table({caption, columns, key: (row) => row.id, empty: 'Nothing here.'});
 *   root.append(t.node); t.update(rows);
 *
 * sort: {key, desc} is the first order; onsort(key, desc) is told of a change (for orders that the
 * server makes: give columns sort: true then, and rows are left as they are).
 *
 * Until the first update it says that it loads.  busy(true) while other rows are on their way:
 * those that are shown stay until then. */
export function table(
        {caption, columns: all, key, empty, sort, onsort, hideCaption, rowClass, onrow})
{
        const columns = allowed(all);
        let order = sort || null;
        let rows = [];
        const kept = new Map();
        const tbody = h('tbody', {role: 'rowgroup'});
        const heads = columns.map((c) => header(c));
        const none = h('div.empty', {hidden: true}, empty || 'Nothing here.');
        const loads = h('p.loading', {}, 'Loading.');
        const node = h('div.table', {'aria-busy': 'true'}, loads,
                h('div.table-scroll',
                        {tabindex: '0', role: 'region', 'aria-label': caption, hidden: true},
                        h('table.stack', {role: 'table'},
                                h(`caption${hideCaption ? '.quiet' : ''}`, {}, caption),
                                h('thead', {role: 'rowgroup'},
                                        h('tr', {role: 'row'}, heads.map((x) => x.node))),
                                tbody)),
                none);
        const scroll = tbody.closest('.table-scroll');

        function header(c)
        {
                const cls = `${c.num ? 'num ' : ''}${c.cls || ''}`;
                if (!c.sort)
                        return {
                                node: h('th', {scope: 'col', role: 'columnheader', class: cls},
                                        c.head || c.label || h('span.quiet', {}, 'Actions')),
                                c
                        };
                const th = h('th', {scope: 'col', role: 'columnheader', class: cls},
                        h('button.sort', {type: 'button', onclick: () => turn(c)}, c.label));
                return {node: th, c};
        }

        function turn(c)
        {
                const desc = order && order.key === c.key ? !order.desc : Boolean(c.num);
                order = {key: c.key, desc};
                if (onsort)
                        onsort(c.key, desc);
                draw();
        }

        function sorted()
        {
                const c = order && columns.find((x) => x.key === order.key);
                if (!c || typeof c.sort !== 'function')
                        return rows;
                const by = (a, b) => {
                        const x = c.sort(a);
                        const y = c.sort(b);
                        if (x === y)
                                return 0;
                        if (x === null || x === undefined)
                                return 1;
                        if (y === null || y === undefined)
                                return -1;
                        return (x < y ? -1 : 1) * (order.desc ? -1 : 1);
                };
                return [...rows].sort(by);
        }

        function line(row)
        {
                const tr = h('tr', {role: 'row', class: rowClass ? rowClass(row) : ''});
                columns.forEach((c, i) => {
                        const value = c.cell ? c.cell(row) : row[c.key];
                        const isHead = i === 0 && !c.plain;
                        const td = h(isHead ? 'th' : 'td', {
                                scope: isHead ? 'row' : null,
                                role: isHead ? 'rowheader' : 'cell',
                                'data-label': c.label || null,
                                class: `${c.num ? 'num ' : ''}${c.cls || ''}`
                        });
                        append(td, c.num && typeof value === 'number' ? fmtNumber(value) : value);
                        tr.append(td);
                });
                if (onrow)
                        onrow(tr, row);
                return tr;
        }

        /* The focused control of a row that is made anew gets its focus back, by its place. */
        function focusedIn(tr)
        {
                const el = document.activeElement;
                if (!el || !tr.contains(el))
                        return -1;
                return [...tr.querySelectorAll('a,button,input,select')].indexOf(el);
        }

        function draw()
        {
                for (const {node: th, c} of heads) {
                        if (!c.sort)
                                continue;
                        if (order && order.key === c.key)
                                th.setAttribute(
                                        'aria-sort', order.desc ? 'descending' : 'ascending');
                        else
                                th.removeAttribute('aria-sort');
                }
                const seen = new Set();
                let place = tbody.firstChild;
                sorted().forEach((row, i) => {
                        const k = key ? key(row) : i;
                        const sign = JSON.stringify(row);
                        seen.add(k);
                        let have = kept.get(k);
                        if (!have || have.sign !== sign) {
                                const tr = line(row);
                                if (have) {
                                        const at = focusedIn(have.tr);
                                        if (place === have.tr)
                                                place = tr;
                                        have.tr.replaceWith(tr);
                                        if (at >= 0) {
                                                const all = tr.querySelectorAll(
                                                        'a,button,input,select');
                                                if (all[at])
                                                        all[at].focus();
                                        }
                                }
                                have = {tr, sign};
                                kept.set(k, have);
                        }
                        if (place === have.tr)
                                place = place.nextSibling;
                        else
                                tbody.insertBefore(have.tr, place);
                });
                for (const [k, {tr}] of kept)
                        if (!seen.has(k)) {
                                tr.remove();
                                kept.delete(k);
                        }
                none.hidden = rows.length > 0;
                scroll.hidden = rows.length === 0;
        }

        function busy(is)
        {
                if (is)
                        node.setAttribute('aria-busy', 'true');
                else
                        node.removeAttribute('aria-busy');
        }

        return {
                node,
                busy,
                update(newRows) {
                        rows = newRows || [];
                        loads.remove();
                        busy(false);
                        draw();
                },
                /* Makes every row anew: for cells that depend on more than the row. */
                redraw() {
                        for (const have of kept.values())
                                have.sign = '';
                        draw();
                },
                rows: () => rows,
                order: () => order,
        };
}
