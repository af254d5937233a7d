/* What every screen is built from: elements, requests, formats, tables, dialogs, toasts.
 *
 * No string is ever parsed as HTML: h() makes elements and text nodes, so whatever a user put into
 * a hook, an error or a reason is shown as the text it is.  Styles are classes; a computed length
 * is set through the CSSOM (style: {width: '3em'}), which the page's policy allows, while a style
 * attribute in markup it does not.  All addresses are relative, so the page works below any path.
 */

/* --- elements ------------------------------------------------------------------------------- */

const PROPERTIES = new Set([
        'value', 'checked', 'disabled', 'hidden', 'open', 'indeterminate', 'selected', 'readOnly',
        'required', 'placeholder', 'min', 'max', 'step', 'rows', 'htmlFor'
]);

/* Whether the one who is logged in may send this command, or one of these.  The server tells which;
 * before it has, and after it could not be asked, it is the server that refuses. */
export function may(needs)
{
        return !needs || !api.commands || [].concat(needs).some((name) => api.commands.has(name));
}

/* Of actions {needs, ...} or null, those that are there. */
export function allowed(actions)
{
        return actions.filter((a) => a && may(a.needs));
}

/* h('td.num', {title: 'x', onclick: f}, 'text', node, [more]).  null, undefined and false are left
 * out; numbers and strings become text.  What needs a command that may not be sent is not there:
 * null. */
export function h(spec, props, ...children)
{
        const [tag, ...classes] = spec.split('.');
        const el = document.createElement(tag || 'div');
        if (classes.length)
                el.className = classes.join(' ');
        if (props !== null && props !== undefined &&
                (typeof props !== 'object' || props instanceof Node || Array.isArray(props))) {
                children.unshift(props);
                props = null;
        }
        if (props && !may(props.needs))
                return null;
        for (const [name, value] of Object.entries(props || {})) {
                if (value === null || value === undefined ||
                        value === false && !PROPERTIES.has(name))
                        continue;
                if (name.startsWith('on') && typeof value === 'function')
                        el.addEventListener(name.slice(2), value);
                else if (name === 'class')
                        el.className = `${el.className} ${value}`.trim();
                else if (name === 'dataset')
                        Object.assign(el.dataset, value);
                else if (name === 'needs')
                        el.dataset.needs = value;
                else if (name === 'style')
                        Object.assign(el.style, value);
                else if (PROPERTIES.has(name))
                        el[name] = value;
                else
                        el.setAttribute(name, value === true ? '' : value);
        }
        append(el, children);
        return el;
}

export function append(el, ...children)
{
        for (const child of children.flat(Infinity)) {
                if (child === null || child === undefined || child === false)
                        continue;
                el.append(child instanceof Node ? child : String(child));
        }
        return el;
}

/* Replaces what an element holds. */
export function fill(el, ...children)
{
        el.replaceChildren();
        return append(el, ...children);
}

/* The same for what is drawn again and again: the control in focus gets it back, by its place. */
export function refill(el, ...children)
{
        const controls = () => [...el.querySelectorAll('a, button, input, select, [tabindex]')];
        const at = controls().indexOf(document.activeElement);
        fill(el, ...children);
        const again = at < 0 ? null : controls()[at];
        if (again)
                again.focus();
        return el;
}

/* --- hands ---------------------------------------------------------------------------------- */

const PRESS_MS = 10000; /* whoever presses longer than that does not mean a click */
let press = null;       /* {over: a promise, end} while something is pressed */

function endPress()
{
        if (press)
                setTimeout(press.end); /* the click comes first */
        press = null;
}

document.addEventListener('pointerdown', (ev) => {
        endPress();
        if (ev.button !== 0)
                return;
        let end = null;
        const over = new Promise((resolve) => { end = resolve; });
        press = {over, end};
        setTimeout(end, PRESS_MS);
}, {capture: true});
for (const name of ['pointerup', 'pointercancel', 'contextmenu'])
        document.addEventListener(name, endPress, {capture: true});
window.addEventListener('blur', endPress);

/* Waits while something is pressed: what is drawn anew between press and release gets no click. */
export async function released()
{
        if (press)
                await press.over;
}

let nextId = 0;
export function uid(stem)
{
        nextId += 1;
        return `${stem || 'id'}-${nextId}`;
}

/* --- requests ------------------------------------------------------------------------------- */

/* What the server answered when it refused; message is a sentence for people. */
export class ApiError extends Error
{
        constructor(status, code, sentence)
        {
                super(sentence);
                this.status = status;
                this.code = code;
        }
}

/* path('jobs', id, 'why') -> v1/jobs/17/why, with every part encoded. */
export function path(...parts)
{
        return 'v1/' + parts.map((p) => encodeURIComponent(p)).join('/');
}

function address(where, query)
{
        const search = new URLSearchParams();
        for (const [name, value] of Object.entries(query || {}))
                if (value !== null && value !== undefined && value !== '')
                        search.set(name, value);
        const text = search.toString();
        const full = where.startsWith('v1/') || where === 'login' || where === 'logout'
                ? where
                : `v1/${where}`;
        return text ? `${full}?${text}` : full;
}

export function sentence(text)
{
        const s = String(text || '').trim();
        if (!s)
                return '';
        const big = /^weir\b/.test(s) ? s : s[0].toUpperCase() + s.slice(1);
        return /[.!?]$/.test(big) ? big : `${big}.`;
}

async function problem(res)
{
        let body = null;
        try {
                body = await res.json();
        } catch {
                /* Not JSON: the status must do. */
        }
        const said = body && (body.detail || body.message || body.title);
        const text = sentence(said ||
                `The server answered ${res.status}${res.statusText ? ` ${res.statusText}` : ''}`);
        return new ApiError(res.status, (body && (body.code || body.title)) || '', text);
}

async function request(method, where, {query, body, signal, isText} = {})
{
        const headers = {Accept: 'application/json'};
        if (method !== 'GET' && api.csrf)
                headers['X-Weir-Csrf'] = api.csrf;
        if (body !== undefined)
                headers['Content-Type'] = 'application/json';
        let res;
        try {
                res = await fetch(address(where, query), {
                        method,
                        headers,
                        signal,
                        cache: 'no-store',
                        credentials: 'same-origin',
                        body: body === undefined ? undefined : JSON.stringify(body),
                });
        } catch (e) {
                if (e.name === 'AbortError')
                        throw e;
                throw new ApiError(0, 'UNREACHABLE', 'weir does not answer.');
        }
        if (!res.ok) {
                const err = await problem(res);
                /* What only asks carries no value that could be old: it lacks a role. */
                if (res.status === 403 && method !== 'GET' && api.onForbidden &&
                        await api.onForbidden(headers))
                        return request(method, where, {query, body, signal, isText});
                if (res.status === 401 && api.onUnauthorized && where !== 'login')
                        api.onUnauthorized();
                throw err;
        }
        if (res.status === 204)
                return null;
        const text = await res.text();
        if (isText)
                return text;
        try {
                return text ? JSON.parse(text) : null;
        } catch {
                return text;
        }
}

/* What is asked for is there to be drawn. */
function ask(where, options)
{
        return request('GET', where, options).finally(released);
}

/* The public HTTP API.  where is relative to v1/ ('jobs', 'queues/mail/pause'), or from path(). */
export const api = {
        csrf: '',
        commands: null, /* names of those that may be sent; null: not known */
        onUnauthorized: null,
        onForbidden: null, /* (headers) -> whether it is worth to send it again */
        get: (where, query, signal) => ask(where, {query, signal}),
        text: (where, query, signal) => ask(where, {query, signal, isText: true}),
        post: (where, body = {}, query) => request('POST', where, {body, query}),
        del: (where, query) => request('DELETE', where, {query}),
};

/* --- formats -------------------------------------------------------------------------------- */

const numbers = new Intl.NumberFormat();
const times = new Intl.DateTimeFormat(
        undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const days = new Intl.DateTimeFormat(undefined, {
        year: 'numeric',
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
        hourCycle: 'h23'
});

export function fmtNumber(n)
{
        if (n === null || n === undefined || n === '')
                return '–';
        const v = Number(n);
        if (!Number.isFinite(v))
                return String(n);
        return numbers.format(Math.abs(v) >= 100 ? Math.round(v) : Math.round(v * 100) / 100);
}

export function plural(n, one, many)
{
        return `${fmtNumber(n)} ${Number(n) === 1 ? one : many || `${one}s`}`;
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

export function fmtBytes(n)
{
        let size = Number(n);
        let unit = 0;
        for (; size >= 1000 && unit < SIZES.length - 1; unit++)
                size /= 1000;
        return `${fmtNumber(unit ? Number(size.toPrecision(3)) : size)} ${SIZES[unit]}`;
}

const UNITS = [['d', 86400000], ['h', 3600000], ['min', 60000], ['s', 1000]];

/* 95000 -> "1 min 35 s": two units at most. */
export function fmtDuration(ms)
{
        let left = Math.round(Number(ms));
        if (!Number.isFinite(left))
                return '–';
        if (left < 0)
                return `-${fmtDuration(-left)}`;
        if (left < 1000)
                return left === 0 ? '0 s' : `${left} ms`;
        if (left < 10000 && left % 1000)
                return `${(left / 1000).toFixed(1)} s`;
        const out = [];
        for (const [name, size] of UNITS) {
                const n = Math.floor(left / size);
                if (n > 0) {
                        out.push(`${n} ${name}`);
                        left -= n * size;
                } else if (out.length) {
                        break;
                }
                if (out.length === 2)
                        break;
        }
        return out.join(' ');
}

/* The same without parts of a second: for what runs while it is looked at. */
export function fmtSeconds(ms)
{
        return fmtDuration(Math.round(Number(ms) / 1000) * 1000);
}

/* "90", "1h30m", "2 d", "500ms" -> milliseconds; a bare number is seconds; NaN when it is neither.
 */
export function parseDuration(text)
{
        const s = String(text).trim().toLowerCase();
        if (/^\d+(\.\d+)?$/.test(s))
                return Math.round(Number(s) * 1000);
        const size = {
                ms: 1,
                s: 1000,
                sec: 1000,
                m: 60000,
                min: 60000,
                h: 3600000,
                d: 86400000,
                w: 604800000
        };
        let total = 0;
        const rest = s.replace(/(\d+(?:\.\d+)?)\s*(ms|sec|s|min|m|h|d|w)\s*/g, (all, n, unit) => {
                total += Number(n) * size[unit];
                return '';
        });
        return s === '' || rest !== '' ? NaN : Math.round(total);
}

/* Milliseconds as the configuration and the API's texts write them: 5m, 90s, 1500ms. */
export function shortDuration(ms)
{
        for (const [name, size] of [['d', 86400000], ['h', 3600000], ['m', 60000], ['s', 1000]])
                if (ms >= size && ms % size === 0)
                        return `${ms / size}${name}`;
        return ms === 0 ? '0s' : `${ms}ms`;
}

function utc(ms)
{
        return `${new Date(ms).toISOString().replace('T', ' ').replace('Z', '')} UTC`;
}

/* A <time> in local time; UTC in the title.  Only the time of day for the last 20 hours. */
export function fmtTime(ms)
{
        const v = Number(ms);
        if (!v || v < 0)
                return h('span.muted', {}, '–');
        const near = Math.abs(Date.now() - v) < 20 * 3600000;
        return h('time', {datetime: new Date(v).toISOString(), title: utc(v)},
                (near ? times : days).format(v));
}

/* "3 min ago" or "in 5 s", as a <time>. */
export function fmtAgo(ms, now = Date.now())
{
        const v = Number(ms);
        if (!v || v < 0)
                return h('span.muted', {}, '–');
        const d = v - now;
        const size = Math.abs(d);
        const text = size < 1000 ? 'now'
                : d > 0          ? `in ${fmtSeconds(size)}`
                                 : `${fmtSeconds(size)} ago`;
        return h('time',
                {datetime: new Date(v).toISOString(), title: `${days.format(v)} · ${utc(v)}`},
                text);
}

/* A text that counts down; ctx.every or a screen's own timer calls tick(). -1: no end. */
export function countdown(leftMs, endless = 'no end')
{
        const end = Date.now() + Number(leftMs);
        const node = h('span.countdown');
        const tick = () => {
                node.textContent = Number(leftMs) < 0
                        ? endless
                        : fmtDuration(Math.max(0, Math.round((end - Date.now()) / 1000) * 1000));
        };
        if (Number(leftMs) >= 0)
                node.title = days.format(end);
        tick();
        return {node, tick};
}

/* --- small parts ---------------------------------------------------------------------------- */

/* Word and shape, so that colour is never alone. */
const SHAPES = {
        normal: ['●', 'good'],
        elevated: ['▲', 'warn'],
        critical: ['■', 'bad'],
        unknown: ['?', 'odd'],
        pending: ['○', 'calm'],
        'in-progress': ['▶', 'info'],
        running: ['▶', 'info'],
        complete: ['✓', 'good'],
        failed: ['✕', 'bad'],
        canceled: ['–', 'calm'],
        ready: ['○', 'calm'],
        scheduled: ['◷', 'calm'],
        waiting: ['◷', 'calm'],
        parked: ['◷', 'warn'],
        granted: ['✓', 'good'],
        refused: ['✕', 'bad'],
        deferred: ['◷', 'warn'],
        would_defer: ['◌', 'odd'],
        would_refuse: ['◌', 'odd'],
        paused: ['‖', 'warn'],
        open: ['■', 'bad'],
        half_open: ['▲', 'warn'],
        closed: ['●', 'good'],
        off: ['○', 'calm'],
        test_observe: ['◌', 'odd'],
        observe: ['◌', 'info'],
        enforce: ['●', 'good'],
        on: ['●', 'good'],
        held: ['■', 'info'],
        free: ['○', 'calm'],
        leader: ['●', 'good'],
        follower: ['○', 'calm'],
        gone: ['✕', 'bad'],
        same: ['✓', 'good'],
        differs: ['✕', 'bad'],
};

export function badge(word, text)
{
        const [shape, kind] = SHAPES[word] || ['·', 'calm'];
        return h(`span.badge.${kind}`, {}, h('span', {'aria-hidden': 'true'}, shape), ' ',
                text || String(word).replace(/_/g, ' '));
}

export function kindOf(word)
{
        return (SHAPES[word] || ['·', 'calm'])[1];
}

export function shapeOf(word)
{
        return (SHAPES[word] || ['·', 'calm'])[0];
}

/* A titled part of a screen: {node, body, head}.  actions go right of the title. */
export function panel(title, {actions, hint, wide} = {})
{
        const id = uid('panel');
        const body = h('div.panel-body');
        const head = h('div.panel-head', {}, h('h2', {id}, title),
                actions ? h('div.actions', {}, actions) : null);
        const node = h(`section.panel${wide ? '.wide' : ''}`, {'aria-labelledby': id}, head,
                hint ? h('p.hint', {}, hint) : null, body);
        return {node, body, head};
}

/* Shown where a part could not be had: the page goes on without it. */
export function notAvailable(err)
{
        return h('p.missing', {}, `Not available: ${err && err.message ? err.message : err}`);
}

/* For a part that is asked for again and again: fail(err) says the reason above it, ok() takes that
 * away.  What was shown before stays, and looks old; a part that never had anything is hidden. */
export function cover(part)
{
        let said = null;
        let hasShown = false;
        const clear = () => {
                if (said)
                        said.remove();
                said = null;
                part.hidden = false;
                part.classList.remove('stale');
        };
        const ok = () => {
                clear();
                hasShown = true;
        };
        const fail = (err) => {
                clear();
                said = notAvailable(err);
                part.before(said);
                part.hidden = !hasShown;
                part.classList.add('stale');
        };
        return {ok, fail};
}

/* For what is asked for again and again: an answer that a later one has overtaken is old.
 *   const turn = turns(); ... const isLast = turn(); await ...; if (isLast()) ... */
export function turns()
{
        let last = 0;
        return () => {
                const mine = ++last;
                return () => mine === last;
        };
}

/* cover() with the asking: a function that runs ask() and gives what came to draw(). */
export function covered(part, ask, draw)
{
        const {ok, fail} = cover(part);
        const turn = turns();
        return async () => {
                const isLast = turn();
                try {
                        const answer = await ask();
                        if (!isLast())
                                return;
                        draw(answer);
                        ok();
                } catch (e) {
                        if (e.name !== 'AbortError' && isLast())
                                fail(e);
                }
        };
}

export function note(kind, ...children)
{
        return h(`div.note.${kind}`, {}, ...children);
}

/* A labelled control.  field('Queue', h('input', {name: 'queue'}), 'hint') */
export function field(label, control, hint)
{
        const id = control.id || uid('f');
        control.id = id;
        let help = null;
        if (hint) {
                help = h('span.hint', {id: `${id}-hint`}, hint);
                control.setAttribute('aria-describedby', help.id);
        }
        return h('div.field', {}, h('label', {for: id
        }, label), control, help);
}

/* options: texts, or [value, text] pairs. */
export function select(options, value, props)
{
        const el = h('select', props || {}, options.map((o) => {
                const [v, t] = Array.isArray(o) ? o : [o, o];
                return h('option', {value: v}, t);
        }));
        if (value !== undefined && value !== null)
                el.value = value;
        return el;
}

/* needs: the command that it sends; without the role for it, null. */
export function button(text, onclick, {kind, title, label, disabled, needs} = {})
{
        return h(`button${kind ? `.${kind}` : ''}`, {
                type: 'button',
                needs,
                title,
                'aria-label': label,
                disabled: Boolean(disabled),
                onclick: (ev) => act(ev.currentTarget, () => onclick(ev))
        },
                text);
}

/* Runs an action of a control: disabled meanwhile, an error becomes a toast. */
export async function act(control, fn)
{
        if (control && control.getAttribute('aria-busy') === 'true')
                return;
        const busy = (is) => {
                if (!control)
                        return;
                if (is)
                        control.setAttribute('aria-busy', 'true');
                else
                        control.removeAttribute('aria-busy');
        };
        busy(true);
        try {
                await fn();
        } catch (e) {
                if (e.name !== 'AbortError')
                        toast(e.message || String(e), {kind: 'bad'});
        } finally {
                busy(false);
        }
}

/* A form whose Enter works: onsubmit(values) with the names of its controls.  needs: as in button.
 */
export function form(needs, onsubmit, ...children)
{
        const el = h('form.form', {novalidate: true, needs}, children);
        if (!el)
                return null;
        el.addEventListener('submit', (ev) => {
                ev.preventDefault();
                if (!el.reportValidity())
                        return;
                const values = Object.fromEntries(new FormData(el).entries());
                act(el.querySelector('[type=submit]'), () => onsubmit(values, el));
        });
        return el;
}

export function copyLine(text)
{
        const done = async () => {
                try {
                        await navigator.clipboard.writeText(text);
                        toast('Copied.');
                } catch {
                        const range = document.createRange();
                        range.selectNodeContents(code);
                        const sel = getSelection();
                        sel.removeAllRanges();
                        sel.addRange(range);
                        toast('Selected: copy it with Ctrl+C.');
                }
        };
        const code = h('code', {tabindex: '0'}, text);
        return h('div.copy', {}, code,
                button('Copy', done, {kind: 'small', label: `Copy: ${text}`}));
}

/* Terms and values. rows: [term, value], null left out. */
export function facts(rows)
{
        return h('dl.facts', {}, rows.filter(Boolean).map(([term,
                value]) => h('div', {}, h('dt', {}, term), append(h('dd'), value))));
}

/* --- dialogs and toasts --------------------------------------------------------------------- */

/* A modal <dialog>; what() gets close(value).  Resolves with that value, undefined on Escape.
 * stays: also when its screen is left, for what is shown only once. */
export function dialog(title, what, {stays} = {})
{
        return new Promise((resolve) => {
                const id = uid('dialog');
                let result;
                const el = h(`dialog${stays ? '.stays' : ''}`, {'aria-labelledby': id});
                const close = (value) => {
                        result = value;
                        el.close();
                };
                append(el, h('h2', {id}, title), what(close));
                if (stays)
                        el.addEventListener('cancel', (ev) => ev.preventDefault());
                el.addEventListener('close', () => {
                        el.remove();
                        resolve(result);
                });
                document.body.append(el);
                el.showModal();
        });
}

/* Whatever they ask for is not wanted any more. */
export function closeDialogs()
{
        for (const el of document.querySelectorAll('dialog[open]:not(.stays)'))
                el.close();
}

/* confirm({title, text, yes: 'Release', danger: true, typed: 'word'}) -> true or false.  typed: a
 * word that must be typed first, for what touches very much. */
export async function confirm({title, text, yes, danger, typed})
{
        const answer = await dialog(title, (close) => {
                const ok = h(
                        `button${danger ? '.danger' : '.primary'}`, {type: 'submit'}, yes || 'Yes');
                const no =
                        h('button', {type: 'button', onclick: () => close(false)}, 'Keep as it is');
                const word = typed ? h('input', {
                        type: 'text',
                        autocomplete: 'off',
                        oninput: () => { ok.disabled = word.value !== typed; }
                })
                                   : null;
                if (typed)
                        ok.disabled = true;
                const parts = Array.isArray(text) ? text : [text];
                return h('form', {
                        onsubmit: (ev) => {
                                ev.preventDefault();
                                close(true);
                        }
                },
                        parts.map((p) => (p instanceof Node ? p
                                                  : p       ? h('p', {}, p)
                                                            : null)),
                        word ? field(`Type ${typed} to go on`, word) : null,
                        h('div.actions', {}, no, ok));
        });
        return answer === true;
}

/* A short message below; undo: an async function offered for ten seconds, and until it went well.
 * does: other words for it; stays: until it is closed. */
export function toast(text, {undo, does = 'Undo', stays, kind} = {})
{
        const box = document.getElementById('toasts');
        let timer = 0;
        const el = h(`div.toast${kind ? `.${kind}` : ''}`, {}, h('span', {}, text));
        const gone = () => {
                clearTimeout(timer);
                el.remove();
        };
        if (undo)
                el.append(button(does, async () => {
                        await undo();
                        gone();
                }, {kind: 'small'}));
        el.append(h(
                'button.icon.small', {type: 'button', 'aria-label': 'Close', onclick: gone}, '×'));
        const start = () => {
                clearTimeout(timer);
                if (!stays)
                        timer = setTimeout(gone, undo || kind === 'bad' ? 10000 : 4000);
        };
        el.addEventListener('mouseenter', () => clearTimeout(timer));
        el.addEventListener('mouseleave', start);
        el.addEventListener('focusin', () => clearTimeout(timer));
        el.addEventListener('focusout', start);
        box.append(el);
        while (box.children.length > 4)
                box.firstChild.remove();
        start();
        return gone;
}

/* Chooses how long: presets and a free text.  value() is ms, -1 without an end, NaN when wrong.
 *   durationPicker({value: 3600000, presets: ['10m', '1h'], endless: 'until resumed', max: ms}) */
export function durationPicker({
        value = 3600000,
        presets = ['10m', '30m', '1h', '4h', '1d'],
        endless,
        max,
        label = 'For how long'
} = {})
{
        const options = presets.map((p) => [p, fmtDuration(parseDuration(p))]);
        options.push(['other', 'other …']);
        if (endless)
                options.push(['endless', endless]);
        const preset =
                value < 0 ? 'endless' : presets.find((p) => parseDuration(p) === value) || 'other';
        const free = h('input', {
                type: 'text',
                value: value < 0 ? '' : shortDuration(value),
                size: 8,
                'aria-label': `${label}, as 90s, 20m, 2h or 1d`,
                spellcheck: 'false'
        });
        const choice = select(options, preset, {onchange: () => show(true)});
        const show = (focus) => {
                free.hidden = choice.value !== 'other';
                if (focus && !free.hidden)
                        free.focus();
        };
        show(false);
        const read = () => {
                if (choice.value === 'endless')
                        return -1;
                return parseDuration(choice.value === 'other' ? free.value : choice.value);
        };
        const check = () => {
                const ms = read();
                if (!Number.isFinite(ms) || ms === 0)
                        throw new Error('Say how long: 90s, 20m, 2h or 1d.');
                if (max && ms > max)
                        throw new Error(`At most ${fmtDuration(max)}.`);
                return ms;
        };
        const wrap = field(label, choice);
        wrap.append(free);
        return {node: wrap, value: read, check};
}

/* --- keeping things -------------------------------------------------------------------------- */

export function remember(name, value)
{
        try {
                if (value === null)
                        localStorage.removeItem(`weir.${name}`);
                else
                        localStorage.setItem(`weir.${name}`, value);
        } catch {
                /* Storage may be forbidden; the choice lasts until the page is closed. */
        }
}

export function recall(name)
{
        try {
                return localStorage.getItem(`weir.${name}`);
        } catch {
                return null;
        }
}

/* Calls fn once after the last call, ms later: for search boxes. */
export function debounce(fn, ms = 250)
{
        let timer = 0;
        return (...args) => {
                clearTimeout(timer);
                timer = setTimeout(() => fn(...args), ms);
        };
}

export const TIERS = ['critical', 'high', 'normal', 'deferrable'];
export const LEVELS = ['normal', 'elevated', 'critical', 'unknown'];

export {table} from './table.js';
