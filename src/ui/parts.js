/* What the screens of jobs and of the other nouns share on top of lib.js: times that run by
 * themselves, menus, rows that keys walk through, lists that look after themselves.
 *
 * A list is asked for again only while nobody is in the middle of something: an open menu, an open
 * dialog or a selected row must not move away under the hand.  Times in it run without asking,
 * since a <time> knows what it counts to. */
import {
        act,
        allowed,
        append,
        button,
        copyLine,
        cover,
        dialog,
        fill,
        fmtDuration,
        h,
        note,
        panel,
        parseDuration,
        recall,
        table,
        toast,
        turns,
        uid
} from './lib.js';

/* The sheet of these screens; they are first drawn when it is there. */
export const styled = new Promise((resolve) => {
        const sheet = h('link', {
                rel: 'stylesheet',
                href: new URL('./parts.css', import.meta.url).href,
                onload: resolve,
                onerror: resolve
        });
        document.head.append(sheet);
});

/* --- times that run -------------------------------------------------------------------------- */

const days = new Intl.DateTimeFormat(undefined, {dateStyle: 'medium', timeStyle: 'medium'});

/* The longer it is, the less its last digits matter: no seconds past 10 minutes. */
function rough(ms)
{
        const step = ms < 600000 ? 1000 : ms < 36000000 ? 60000 : 3600000;
        return fmtDuration(Math.floor(ms / step) * step);
}

function say(at, how)
{
        const d = Math.round((at - Date.now()) / 1000) * 1000;
        if (how === 'left')
                return d <= 0 ? 'over' : rough(d);
        if (how === 'for')
                return rough(Math.max(0, -d));
        if (d === 0)
                return 'now';
        return d > 0 ? `in ${rough(d)}` : `${rough(-d)} ago`;
}

/* how: 'ago' ("3 min ago", "in 5 s"), 'for' ("3 min"), 'left' ("3 min", then "over"). */
export function running(ms, how = 'ago')
{
        const at = Number(ms);
        if (!at || at < 0)
                return h('span.muted', {}, '–');
        const iso = new Date(at).toISOString();
        return h('time', {
                datetime: iso,
                dataset: {at, how},
                title: `${days.format(at)} · ${iso.replace('T', ' ').replace('Z', '')} UTC`
        },
                say(at, how));
}

/* For what the server tells as time left or gone; only the screen's own clock counts then. */
export function fromNow(ms, how)
{
        return running(Date.now() + Number(ms), how);
}

/* Lets every running() of a screen go on. */
export function runTimes(root, ctx)
{
        return ctx.every(1000, () => {
                for (const el of root.querySelectorAll('time[data-at]')) {
                        const text = say(Number(el.dataset.at), el.dataset.how);
                        if (el.textContent !== text)
                                el.textContent = text;
                }
        });
}

/* Time of day with the day when it is not today; for timelines, to the millisecond. */
export function exactTime(ms)
{
        const at = new Date(Number(ms));
        const pad = (n, to = 2) => String(n).padStart(to, '0');
        const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${
                pad(at.getMilliseconds(), 3)}`;
        const isToday = at.toDateString() === new Date().toDateString();
        const iso = at.toISOString();
        return h('time', {datetime: iso, title: `${iso.replace('T', ' ').replace('Z', '')} UTC`},
                isToday ? clock
                        : `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${
                                  clock}`);
}

/* --- is somebody in the middle of something? ------------------------------------------------- */

export function isBusy()
{
        return Boolean(document.querySelector('dialog[open], .menu-list:popover-open'));
}

/* Text to copy, in a box. */
export function textBox(text, name)
{
        const pre =
                h('pre.text', {tabindex: '0', role: 'group', 'aria-label': `Text: ${name}`}, text);
        const copy = async () => {
                try {
                        await navigator.clipboard.writeText(text);
                        toast('Copied.');
                } catch {
                        getSelection().selectAllChildren(pre);
                        toast('Selected: copy it with Ctrl+C.');
                }
        };
        return h('div.text-box', {}, pre,
                button('Copy', copy, {kind: 'small', label: `Copy ${name}`}));
}

/* --- menus ----------------------------------------------------------------------------------- */

/* A button with a list of actions.  items() is asked when it opens and gives
 * {text, run, needs, danger, disabled, title} or null.  Without any at first there is no button. */
export function menu(text, items, {label, kind} = {})
{
        if (!allowed(items()).length)
                return null;
        const id = uid('menu');
        const list = h(
                'div.menu-list', {id, role: 'menu', popover: 'auto', 'aria-label': label || text});
        const opener = h(`button${kind ? `.${kind}` : '.small'}`, {
                type: 'button',
                'aria-haspopup': 'menu',
                'aria-expanded': 'false',
                'aria-label': /\w/.test(text) ? null : label,
                title: label
        },
                text);
        const entries = () => [...list.querySelectorAll('[role=menuitem]:not(:disabled)')];
        const place = () => {
                const at = opener.getBoundingClientRect();
                const size = list.getBoundingClientRect();
                const below = at.bottom + 4 + size.height <= innerHeight;
                list.style.left = `${
                        Math.max(8,
                                Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
                list.style.top =
                        `${Math.max(8, below ? at.bottom + 4 : at.top - size.height - 4)}px`;
        };
        const move = (by) => {
                const all = entries();
                const at = all.indexOf(document.activeElement);
                const next = all[(at + by + all.length) % all.length];
                if (next)
                        next.focus();
        };
        opener.addEventListener('click', () => {
                fill(list,
                        items().filter(Boolean).map(
                                (it) => h(`button${it.danger ? '.danger' : ''}`, {
                                        type: 'button',
                                        needs: it.needs,
                                        role: 'menuitem',
                                        disabled: Boolean(it.disabled),
                                        title: it.title,
                                        onclick: () => {
                                                list.hidePopover();
                                                act(opener, it.run);
                                        }
                                },
                                        it.text)));
                (opener.closest('main') || document.body).append(list);
                list.showPopover();
                place();
                const [first] = entries();
                if (first)
                        first.focus();
        });
        list.addEventListener('toggle', (ev) => {
                opener.setAttribute('aria-expanded', String(ev.newState === 'open'));
                if (ev.newState === 'open')
                        return;
                if (list.contains(document.activeElement) ||
                        document.activeElement === document.body)
                        opener.focus();
                list.remove();
        });
        list.addEventListener('keydown', (ev) => {
                if (ev.key === 'ArrowDown' || ev.key === 'ArrowUp') {
                        ev.preventDefault();
                        move(ev.key === 'ArrowDown' ? 1 : -1);
                } else if (ev.key === 'Home' || ev.key === 'End') {
                        ev.preventDefault();
                        const all = entries();
                        all[ev.key === 'Home' ? 0 : all.length - 1].focus();
                } else if (ev.key === 'Tab') {
                        list.hidePopover();
                }
        });
        return opener;
}

/* --- rows that keys walk through ------------------------------------------------------------- */

/* A table() whose rows take the focus: j and k or the arrows move, Enter opens, x marks.
 *   const t = rowTable(ctx, {caption, columns, key, open: (row) => hash, mark: (row) => {}});
 * An open() that gives no text has done it itself. */
export function rowTable(ctx, {open, mark, ...options})
{
        const lines = new Map(); /* key -> {tr, row} */
        let at = null;           /* the key that Tab comes to */
        const t = table({
                ...options,
                onrow: (tr, row) => {
                        const key = String(options.key(row));
                        lines.set(key, {tr, row});
                        tr.dataset.key = key;
                        tr.tabIndex = key === at ? 0 : -1;
                        if (options.onrow)
                                options.onrow(tr, row);
                }
        });
        t.node.classList.add('rows');
        const here = () => [...t.node.querySelectorAll('tbody > tr')];

        function stand(tr, isFocus)
        {
                for (const other of here())
                        other.tabIndex = other === tr ? 0 : -1;
                at = tr ? tr.dataset.key : null;
                if (tr && isFocus)
                        tr.focus();
        }

        function move(by)
        {
                const all = here();
                const now = all.findIndex((tr) => tr.contains(document.activeElement));
                const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1)
                                         : Math.max(0, Math.min(all.length - 1, now + by))];
                if (next)
                        stand(next, true);
        }

        function onKey(ev)
        {
                if (ev.defaultPrevented || ev.ctrlKey || ev.metaKey || ev.altKey || isBusy())
                        return;
                const el = document.activeElement;
                const row = el && el.closest ? el.closest('tr[data-key]') : null;
                const isRow = row === el && t.node.contains(el);
                const isTyping = /^(TEXTAREA|SELECT)$/.test(el.tagName) ||
                        el.tagName === 'INPUT' && el.type !== 'checkbox';
                if (isTyping)
                        return;
                const isLetter = recall('keys') !== 'off';
                const down = ev.key === 'ArrowDown' && isRow || ev.key === 'j' && isLetter;
                const up = ev.key === 'ArrowUp' && isRow || ev.key === 'k' && isLetter;
                const have = row && t.node.contains(row) ? lines.get(row.dataset.key) : null;
                if (down || up) {
                        ev.preventDefault();
                        move(down ? 1 : -1);
                } else if (ev.key === 'Enter' && isRow && have && open) {
                        ev.preventDefault();
                        const to = open(have.row);
                        if (typeof to === 'string')
                                ctx.navigate(to);
                } else if (ev.key === 'x' && isLetter && have && mark) {
                        ev.preventDefault();
                        mark(have.row);
                }
        }

        document.addEventListener('keydown', onKey, {signal: ctx.signal});
        const update = t.update;
        t.update = (rows) => {
                const el = document.activeElement;
                const held = el && el.matches && el.matches('tr[data-key]') && t.node.contains(el)
                        ? el.dataset.key
                        : null;
                update(rows);
                const keys = new Set((rows || []).map((r) => String(options.key(r))));
                for (const key of lines.keys())
                        if (!keys.has(key))
                                lines.delete(key);
                if (held !== null && lines.has(held))
                        stand(lines.get(held).tr, true);
                else if (at === null || !lines.has(at))
                        stand(here()[0] || null, false);
        };
        return t;
}

/* For columns: sort by a field of the row. */
export const by = (name) => (row) => row[name];

/* --- lists and details of a noun ------------------------------------------------------------- */

/* A command that a server of this age does not have. */
export function isMissing(err)
{
        return err.status === 404 && err.code === 'UNKNOWN' ||
                err.status === 400 && /^Id must be a whole number/.test(err.message);
}

/* A panel whose content is asked for again and again: load() -> what draw(answer) shows in it. What
 * is shown stays until the next answer is there, and when there is none (cover() of lib.js). */
export async function livePanel(
        ctx, root, {title, actions, hint, every = 2000, load, draw, content, missing})
{
        const p = panel(title, {actions, hint});
        const box = h('div', {'aria-live': 'off'});
        append(p.body, box, content);
        root.append(p.node);
        const part = cover(content);
        const turn = turns();
        let isFirst = true;
        const refresh = async () => {
                const isLast = turn();
                let answer;
                try {
                        answer = await load();
                        if (!isLast())
                                return;
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        if (!isLast())
                                return;
                        if (!missing || !isMissing(e)) {
                                part.fail(e);
                                return;
                        }
                        fill(box, note('info', h('p', {}, missing)));
                        content.hidden = true;
                        return;
                }
                fill(box);
                part.ok();
                draw(answer);
        };
        await ctx.every(every, async () => {
                if (isFirst || !isBusy())
                        await refresh();
                isFirst = false;
        });
        return {...p, refresh};
}

/* A bound that a screen can carry. */
const MOST_ROWS = 2000;
export const CUT = 'Only the first 2,000 by name are shown.';

/* All pages of a listing by name, up to that. */
export async function allPages(ctx, where, name, query = {})
{
        const out = [];
        let cursor = '';
        do {
                const answer = await ctx.api.get(where, {...query, limit: 500, cursor}, ctx.signal);
                out.push(...answer[name]);
                cursor = answer.cursor;
        } while (cursor && out.length < MOST_ROWS);
        return {rows: out, isCut: Boolean(cursor)};
}

/* The way back from one object to all of them. */
export function crumbs(ctx, route, text, ...more)
{
        return h('p.crumbs', {}, h('a', {href: ctx.link(route)}, `← ${text}`), more);
}

/* part of whole as a bar; the figures stand beside it, so that it is decoration. */
export function bar(parts, whole)
{
        const share = (n) => `${whole > 0 ? Math.max(0, Math.min(100, n / whole * 100)) : 0}%`;
        return h('div.bar', {'aria-hidden': 'true'}, parts.filter(([n]) => n > 0).map(([n,
                kind]) => h(`span.${kind}`, {style: {width: share(n)}})));
}

/* A form in a dialog: submit(values) saves; it closes when that went well. */
export function formDialog(title, {fields, yes, submit, danger, hint})
{
        return dialog(title, (close) => {
                const said = h('p.error', {role: 'alert'});
                const ok = h(`button${danger ? '.danger' : '.primary'}`, {type: 'submit'}, yes);
                const el = h('form.form', {
                        onsubmit: (ev) => {
                                ev.preventDefault();
                                said.textContent = '';
                                const values = Object.fromEntries(new FormData(el).entries());
                                act(ok, async () => {
                                        try {
                                                close(await submit(values) ?? true);
                                        } catch (e) {
                                                if (!el.isConnected)
                                                        throw e; /* closed meanwhile: a toast */
                                                said.textContent = e.message || String(e);
                                        }
                                });
                        },
                        oninput: () => { said.textContent = ''; }
                },
                        hint ? h('p.hint', {}, hint) : null, fields,
                        h('div.actions', {}, said,
                                h('button', {
                                        type: 'button',
                                        autofocus: Boolean(danger), /* of a second Enter */
                                        onclick: () => close()
                                },
                                        'Close'),
                                ok));
                return el;
        });
}

/* Names and values of a form that were given: '' is left out, spaces around are cut off. */
export function given(values, names)
{
        const out = {};
        for (const name of names) {
                const v = String(values[name] ?? '').trim();
                if (v !== '')
                        out[name] = v;
        }
        return out;
}

/* A whole number, or a complaint that names the field. */
export function whole(typed, name)
{
        if (!/^\d+$/.test(String(typed).trim()))
                throw new Error(`"${name}" is a whole number.`);
        return Number(typed);
}

/* Milliseconds of a time, or a complaint. */
export function duration(typed, name)
{
        const ms = parseDuration(typed);
        if (!Number.isFinite(ms))
                throw new Error(`"${name}" is a time such as 500ms, 30s, 5m, 2h or 1d.`);
        return ms;
}

export function text(name, props)
{
        return h('input', {
                type: 'text',
                name,
                autocomplete: 'off',
                spellcheck: 'false',
                maxlength: 255,
                ...props
        });
}

/* A reason why a job does not run, as the rest of a sentence; what to do about it is the page's to
 * offer. */
export function whyText({message})
{
        const s = message.trim().replace(/: RESUME it$/, '');
        if (/^(ready|parked|deferred)\b/.test(s))
                return `it is ${s}`;
        return /^(is|waits)\b/.test(s) ? `it ${s}` : s;
}

/* How to start a worker, for screens that miss one. */
export function workerLine(queue)
{
        const q = /^[\w.:-]+$/.test(queue) ? queue : `'${queue.replace(/'/g, `'\\''`)}'`;
        return copyLine(`weir work --queue ${q} --exec ./handler`);
}

/* --- following the stream -------------------------------------------------------------------- */

const FOLLOW_MS = 2000;

/* What tells that jobs changed: the counts, and whether anything was added, started or ended. */
function pulse(now)
{
        const r = now.rates || {};
        const moves = ['enqueued', 'started', 'completed', 'failed', 'deferred'].some(
                (k) => Number(r[k]) > 0);
        return JSON.stringify(now.jobs) + (moves ? now.at_ms : '');
}

/* Calls fn when the stream tells of a change and may() allows it, at most every FOLLOW_MS; and
 * again when fn said false: it could not be had. */
export function follow(ctx, may, fn)
{
        let last = '';
        let at = Date.now();
        let isAsking = false;
        ctx.live.on('now', async (now) => {
                const sign = pulse(now);
                if (sign === last || isAsking || Date.now() - at < FOLLOW_MS || !may())
                        return;
                last = sign;
                isAsking = true;
                try {
                        if (await fn() === false)
                                last = '';
                } finally {
                        isAsking = false;
                        at = Date.now();
                }
        });
}

/* A card for each named thing of an answer; those that stay keep their nodes.  make(name) gives a
 * new card.  help is shown while there is none. */
export function cards(help, make)
{
        const box = h('div.screen');
        const have = new Map();
        const update = (things) => {
                const names = new Set(things.map((x) => x.name));
                for (const [name, it] of have)
                        if (!names.has(name)) {
                                it.node.remove();
                                have.delete(name);
                        }
                for (const x of things) {
                        if (!have.has(x.name)) {
                                have.set(x.name, make(x.name));
                                box.append(have.get(x.name).node);
                        }
                        have.get(x.name).update(x);
                }
                if (things.length)
                        help.remove();
                else
                        box.append(help);
        };
        return {node: box, update};
}
