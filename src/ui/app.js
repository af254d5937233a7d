/* The shell: which screen is shown, the live stream, the login, keys, theme.
 *
 * Routes are in the hash (#/jobs?status=failed), so filters can be shared, Back works, and the page
 * runs below any path of a proxy.  A screen is a module that is loaded when it is first wanted:
 *
 *   export const title = 'Jobs';                  or a function (params) -> text
 *   export async function mount(root, params, ctx) { ...; return () => { clean up }; }
 *
 * README.md in this folder says what ctx offers. */
import {
        act,
        api,
        badge,
        button,
        closeDialogs,
        dialog,
        fill,
        fmtSeconds,
        h,
        may,
        recall,
        remember,
        select,
        toast
} from './lib.js';
import {Live} from './live.js';

const noun = () => import('./nouns.js');
/* name: loader of its module, key after g, name of the first path part after the screen's own, and
 * the command that it cannot do without where that is not NOW, which needs the role reader. */
const ROUTES = {
        now: {load: () => import('./now.js'), key: 'n', text: 'Now'},
        jobs: {load: () => import('./jobs.js'), key: 'j', text: 'Jobs'},
        job: {load: () => import('./job.js'), part: 'id', nav: 'jobs', text: 'Job'},
        queues: {load: noun, key: 'q', part: 'name', text: 'Queues'},
        schedules: {load: noun, key: 's', part: 'name', text: 'Schedules'},
        workers: {load: noun, key: 'w', part: 'name', text: 'Workers'},
        batches: {load: noun, key: 'b', part: 'name', text: 'Batches'},
        throttle: {load: () => import('./throttle.js'), key: 't', text: 'Throttle'},
        clients: {load: () => import('./clients.js'), key: 'c', part: 'name', text: 'Clients'},
        sql: {load: () => import('./proxy.js'), key: 'm', part: 'name', text: 'SQL'},
        locks: {load: noun, key: 'l', part: 'name', text: 'Locks'},
        limits: {load: noun, key: 'i', part: 'name', text: 'Limits'},
        breakers: {load: noun, key: 'r', part: 'name', text: 'Breakers'},
        sites: {load: () => import('./sites.js'), key: 'p', part: 'name', text: 'Sites'},
        settings: {load: () => import('./settings.js'), key: 'e', text: 'Settings'},
        tokens: {load: () => import('./tokens.js'), key: 'o', text: 'Tokens', needs: 'TOKENS'},
        audit: {load: () => import('./audit.js'), key: 'a', text: 'Audit', needs: 'AUDIT'},
};

const isThere = (screen) => may(screen.needs || 'NOW');

const main = document.getElementById('main');
const live = new Live();
let session = null;
let current = null; /* {route, hash, title, unmount, abort} of the screen that is shown */
let turn = 0;       /* a screen that loads slowly must not replace a later one */

/* --- routes --------------------------------------------------------------------------------- */

/* '#/queues/mail?x=1' -> {route: 'queues', params: {noun: 'queues', name: 'mail', x: '1'}} */
function parse(hash)
{
        const [where, query] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
        const parts = where.split('/').map(decode);
        const route = Object.hasOwn(ROUTES, parts[0]) ? parts[0] : parts[0] === '' ? 'now' : null;
        const params = Object.fromEntries(new URLSearchParams(query || ''));
        if (!route)
                return {route: null, params: {asked: where}};
        params.noun = route;
        if (ROUTES[route].part && parts.length > 1 && parts[1] !== '')
                params[ROUTES[route].part] = parts.slice(1).join('/');
        return {route, params};
}

function decode(part)
{
        try {
                return decodeURIComponent(part);
        } catch {
                return part;
        }
}

/* link('jobs', {status: 'failed'}), link('job', 17), link('clients', name, {minutes: 60}) */
function link(route, part, query)
{
        if (part !== null && typeof part === 'object') {
                query = part;
                part = undefined;
        }
        const search = new URLSearchParams();
        for (const [name, value] of Object.entries(query || {}))
                if (value !== '' && value !== null && value !== undefined)
                        search.set(name, value);
        const tail = search.toString();
        return `#/${route}${part === undefined ? '' : `/${encodeURIComponent(part)}`}${
                tail ? `?${tail}` : ''}`;
}

function navigate(to)
{
        const hash = to.startsWith('#') ? to : `#/${to.replace(/^\//, '')}`;
        if (hash === location.hash)
                show();
        else
                location.hash = hash;
}

function leave()
{
        closeDialogs();
        if (!current)
                return;
        current.abort.abort();
        try {
                if (typeof current.unmount === 'function')
                        current.unmount();
        } catch (e) {
                console.error(e);
        }
        current = null;
}

/* What a screen may use; all of it ends by itself when the screen is left. */
function context(route, abort)
{
        const signal = abort.signal;
        return {
                api,
                navigate,
                link,
                session,
                signal,
                route,
                live: {
                        on(kind, fn) {
                                const off = live.on(kind, fn);
                                signal.addEventListener('abort', off);
                                return off;
                        },
                        last: () => live.last,
                },
                /* Calls fn now and every ms while the tab is seen, one call at a time. */
                every(ms, fn) {
                        return every(ms, fn, signal);
                },
                /* Puts the filters into the address without showing the screen anew. */
                setQuery(query, part) {
                        if (signal.aborted)
                                return; /* a debounced field of a screen that was left */
                        const hash =
                                part === undefined ? link(route, query) : link(route, part, query);
                        history.replaceState(null, '', hash);
                        if (current)
                                current.hash = hash;
                },
                setTitle: (text) => signal.aborted || setTitle(text),
                reload: () => show(),
        };
}

function every(ms, fn, signal)
{
        let timer = 0;
        const run = async () => {
                clearTimeout(timer);
                if (signal.aborted)
                        return;
                if (!document.hidden) {
                        try {
                                await fn();
                        } catch (e) {
                                if (e.name !== 'AbortError')
                                        console.error(e);
                        }
                }
                if (!signal.aborted && !document.hidden)
                        timer = setTimeout(run, ms);
        };
        document.addEventListener('visibilitychange', () => {
                if (!document.hidden)
                        run();
        }, {signal});
        signal.addEventListener('abort', () => clearTimeout(timer));
        return run();
}

function setTitle(text)
{
        document.title = `${text} · weir`;
        if (current)
                current.title.textContent = text;
}

function markNav(route)
{
        const name = ROUTES[route] ? ROUTES[route].nav || route : '';
        for (const a of document.querySelectorAll('#nav a')) {
                if (a.dataset.route === name)
                        a.setAttribute('aria-current', 'page');
                else
                        a.removeAttribute('aria-current');
        }
        openMenu(false);
}

function failure(text, err)
{
        return h('div.note.bad', {role: 'alert'}, h('p', {}, text),
                h('p.muted', {}, err.message || String(err)), button('Try again', () => show()));
}

/* "producer", or "producer and worker".  Whoever is an operator or admin has those below, too. */
function rolesText()
{
        const roles = session.roles || [];
        const [top] = ['admin', 'operator'].filter((role) => roles.includes(role));
        return top || roles.join(', ').replace(/, ([^,]*)$/, ' and $1') || 'none';
}

function noReader()
{
        const s = session.roles.length > 1 ? 's' : '';
        return `This token has the role${s} ${rolesText()}; the page needs reader.`;
}

/* The screen that is left stays until the next one has something to show, but not longer than
 * somebody who clicked waits for an answer: a page that is blank for a moment flickers. */
const LEFT_MS = 300;

async function show()
{
        const {route, params} = parse(location.hash);
        const mine = ++turn;
        leave();
        markNav(route);
        const root = h('div.screen');
        const title = h('h1', {id: 'title'}, route ? ROUTES[route].text : 'Not found');
        const swap = () => {
                clearTimeout(late);
                if (mine === turn && !root.isConnected)
                        fill(main, title, root);
        };
        const late = setTimeout(swap, LEFT_MS);
        for (const old of main.querySelectorAll('.screen'))
                old.inert = true;
        if (!route) {
                root.append(h('p', {}, `There is no screen "${params.asked}". `,
                        h('a', {href: '#/now'}, 'Go to Now')));
                swap();
                return;
        }
        document.title = `${ROUTES[route].text} · weir`;
        if (!may('NOW')) {
                root.append(h('div.note.info', {}, h('p', {}, noReader())));
                swap();
                return;
        }
        const abort = new AbortController();
        current = {route, hash: location.hash, title, unmount: null, abort};
        try {
                await mount(route, root, params, mine);
        } catch (e) {
                if (e.name === 'AbortError' || mine !== turn)
                        return;
                console.error(e);
                root.append(failure('This screen could not be shown.', e));
        }
        swap();
}

async function mount(route, root, params, mine)
{
        const {abort} = current;
        const module = await ROUTES[route].load();
        if (mine !== turn)
                return;
        const name = typeof module.title === 'function' ? module.title(params) : module.title;
        setTitle(name || ROUTES[route].text);
        const unmount = await module.mount(root, params, context(route, abort));
        if (mine === turn)
                current.unmount = unmount;
        else if (typeof unmount === 'function')
                unmount();
}

/* --- header --------------------------------------------------------------------------------- */

const stateBox = document.getElementById('state');
const linkBox = document.getElementById('link');
let shown = '';

/* The level is that of the targets that enforce; one that is only observed, or whose mode is off,
 * is told apart, in no colour of alarm: it makes no job wait. */
function levelBadges({level, targets, observed_level: observed})
{
        const modes = (targets || []).map((t) => t.mode);
        const enforces = modes.includes('enforce');
        const observes = modes.some((m) => m !== 'enforce' && m !== 'off');
        if (!modes.length)
                return badge('off', 'nothing measured');
        if (!enforces && !observes) {
                const found = targets.map((t) => t.level);
                const worst = ['critical', 'elevated', 'unknown'].find((l) => found.includes(l));
                return badge('off', `measured load ${worst || 'normal'}`);
        }
        return [
                enforces ? badge(level, `load ${level}`) : null,
                observes && (!enforces || observed !== 'normal')
                        ? badge('off', `observed load ${observed}`)
                        : null,
        ];
}

/* A door enforces whatever the mode of jobs is, so that one is not called the throttle's then. */
function modeBadges(now)
{
        const named = (mode, of) => badge(mode, `${of} ${String(mode).replace(/_/g, ' ')}`);
        const hasDoors = now.doors_mode && now.doors_mode !== 'off';
        return [
                now.throttle_enabled === false ? badge('off', 'throttle switched off')
                                               : named(now.mode, hasDoors ? 'jobs' : 'throttle'),
                hasDoors ? named(now.doors_mode, 'doors') : null,
        ];
}

function showState(now)
{
        const left = now.pause_left_ms;
        const key = JSON.stringify([
                now.level, now.mode, now.doors_mode, now.throttle_enabled, now.paused, Math.round(left / 1000),
                now.target, now.observed_level, (now.targets || []).map((t) => [t.mode, t.level]),
                now.ramp && now.ramp.running
        ]);
        if (key === shown)
                return;
        shown = key;
        fill(stateBox,
                h('a.plain',
                        {href: '#/throttle', title: now.target ? `decided by ${now.target}` : null},
                        levelBadges(now)),
                h('a.plain', {href: '#/throttle'}, h('span.quiet', {}, 'Mode '), modeBadges(now)),
                now.paused ? h('a.plain', {href: '#/throttle'},
                                     badge('paused',
                                             left < 0 ? 'paused until resumed'
                                                      : `paused, ${fmtSeconds(left)} left`))
                                                      : null,
                now.ramp && now.ramp.running ? badge('observe', 'ramp') : null);
}

function showLink(state, why)
{
        const words = {
                live: 'live',
                polling: 'every 2 s',
                hidden: 'paused',
                lost: 'no connection',
                none: 'no live data',
                connecting: 'connecting'
        };
        linkBox.textContent = words[state] || state;
        linkBox.dataset.state = state;
        linkBox.title = why || '';
}

function openMenu(is)
{
        document.getElementById('nav').classList.toggle('open', is);
        document.getElementById('menu').setAttribute('aria-expanded', String(is));
}

const THEMES = ['auto', 'light', 'dark'];
function setTheme(theme)
{
        if (theme === 'auto')
                delete document.documentElement.dataset.theme;
        else
                document.documentElement.dataset.theme = theme;
        remember('theme', theme === 'auto' ? null : theme);
        const el = document.getElementById('theme');
        el.textContent = {auto: '◐', light: '☀', dark: '☾'}[theme];
        el.title = `Theme: ${theme}`;
        el.setAttribute('aria-label', `Theme: ${theme}. Change it`);
        document.dispatchEvent(new CustomEvent('weir:theme'));
}

/* --- keys ----------------------------------------------------------------------------------- */

let waitsForGo = 0; /* time until which the key after g counts */

function typing(el)
{
        return el && (el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName));
}

function onKey(ev)
{
        if (ev.ctrlKey || ev.metaKey || ev.altKey || ev.defaultPrevented ||
                recall('keys') === 'off' || document.querySelector('dialog[open]'))
                return;
        if (typing(ev.target)) {
                if (ev.key === 'Escape')
                        ev.target.blur();
                return;
        }
        if (Date.now() < waitsForGo) {
                waitsForGo = 0;
                const to = Object.entries(ROUTES).find(([, r]) => r.key === ev.key && isThere(r));
                if (to) {
                        ev.preventDefault();
                        navigate(to[0]);
                }
                return;
        }
        if (ev.key === 'g') {
                waitsForGo = Date.now() + 1500;
        } else if (ev.key === '/') {
                const search = main.querySelector('[data-search], input[type=search]');
                if (search) {
                        ev.preventDefault();
                        search.focus();
                        search.select();
                }
        } else if (ev.key === '?') {
                ev.preventDefault();
                showKeys();
        }
}

function showKeys()
{
        const rows = Object.values(ROUTES)
                             .filter((r) => r.key && isThere(r))
                             .map((r) => [`g ${r.key}`, r.text]);
        rows.push(['/', 'Search or filter'], ['Esc', 'Leave a field, close a dialog'],
                ['?', 'This list']);
        dialog('Keys', (close) => [
                h('table.keys', {}, h('caption.quiet', {}, 'Keys and what they do'),
                        h('tbody', {}, rows.map(([keys, text]) => h('tr', {},
                                h('th', {scope: 'row'}, keys.split(' ').map((k) => [h('kbd', {}, k),
                                        ' '])), h('td', {}, text))))),
                h('div.field', {}, h('label', {for: 'keys-on'}, 'Single keys'),
                        select([['on', 'on'], ['off', 'off']], recall('keys') === 'off' ? 'off' : 'on',
                                {id: 'keys-on', onchange: (ev) => remember('keys',
                                        ev.target.value === 'off' ? 'off' : null)})),
                h('div.actions', {}, h('button.primary', {type: 'button', onclick: () => close()},
                        'Close')),
        ]);
}

/* --- login ---------------------------------------------------------------------------------- */

async function readSession()
{
        try {
                session = await api.get('session');
        } catch (e) {
                session = session || {
                        needs_login: false,
                        is_logged_in: false,
                        csrf: '',
                        version: '',
                        error: e.status === 0 ? e.message : ''
                };
        }
        api.csrf = session.csrf || '';
        api.commands = session.commands ? new Set(session.commands) : null;
        document.getElementById('logout').hidden = !session.is_logged_in;
        showWho();
        return !session.needs_login || session.is_logged_in;
}

/* Who is logged in, and the screens that are there for that. */
function showWho()
{
        const {name, version, is_logged_in: isIn} = session;
        const who = isIn && name ? `${name} · ${rolesText()}` : '';
        const box = document.getElementById('who');
        fill(box, who ? [h('b', {}, name), ` ${rolesText()}`] : null);
        box.title = who ? `Logged in with the token ${name}: ${session.roles.join(', ')}` : '';
        fill(document.getElementById('foot'), who ? [h('span.who-foot', {}, who), h('br')] : null,
                version ? `weir ${version}` : null);
        for (const a of document.querySelectorAll('#nav a'))
                a.parentNode.hidden = !isThere(ROUTES[a.dataset.route]);
}

function askLogin()
{
        turn += 1;
        leave();
        live.stop();
        markNav(null);
        fill(stateBox);
        fill(document.getElementById('toasts'));
        shown = '';
        document.body.classList.add('locked');
        const token = h('input', {
                type: 'password',
                name: 'token',
                autocomplete: 'current-password',
                required: true
        });
        const said = h('p.error', {role: 'alert'});
        const go = h('button.primary', {type: 'submit'}, 'Log in');
        const enter = async () => {
                said.textContent = '';
                try {
                        await api.post('login', {token: token.value});
                        document.body.classList.remove('locked');
                        await begin();
                } catch (e) {
                        said.textContent = e.message;
                        token.select();
                }
        };
        const form = h('form.form.login', {
                action: 'login',
                method: 'post',
                onsubmit: (ev) => {
                        ev.preventDefault();
                        act(go, enter);
                }
        },
                h('p', {},
                        'Give an access token of this weir: that of token_file, of a section token, or ',
                        'one that weir token add has made.'),
                h('div.field', {}, h('label', {for: 'token'
                }, 'Access token'), token), said, h('div.actions', {}, go));
        token.id = 'token';
        fill(main, h('h1', {id: 'title'}, 'Log in'), form);
        document.title = 'Log in · weir';
        token.focus();
}

async function logout()
{
        try {
                await api.post('logout');
        } catch (e) {
                toast(e.message, {kind: 'bad'});
                return;
        }
        await begin();
}

async function begin()
{
        if (!await readSession()) {
                askLogin();
                return;
        }
        if (may('NOW'))
                live.start();
        else
                showLink('none', noReader());
        await show();
}

/* A weir that was away may be another one when it is back, and this page is of the old one. */
async function askVersion()
{
        const {version} = session;
        await readSession();
        if (version && session.version && session.version !== version)
                toast(`weir is now version ${session.version}, this page is of ${version}.`,
                        {undo: () => location.reload(), does: 'Load the page anew', stays: true});
}

let wasAway = false;
function onLink({state, why})
{
        showLink(state, why);
        if (['lost', 'none', 'hidden'].includes(state)) {
                wasAway = true;
        } else if (wasAway && state !== 'connecting') {
                wasAway = false;
                askVersion();
        }
}

/* --- start ---------------------------------------------------------------------------------- */

live.on('now', showState);
live.on('link', onLink);
/* Another tab may have logged in anew, and the cookie is of all tabs. */
api.onForbidden = async (sent) => {
        await readSession();
        return Boolean(api.csrf) && sent['X-Weir-Csrf'] !== api.csrf;
};
api.onUnauthorized = () => {
        if (!document.body.classList.contains('locked'))
                askLogin();
};
document.getElementById('skip').addEventListener('click', (ev) => {
        ev.preventDefault();
        main.focus();
});
document.getElementById('menu').addEventListener(
        'click', () => openMenu(!document.getElementById('nav').classList.contains('open')));
document.getElementById('keys').addEventListener('click', showKeys);
document.getElementById('logout').addEventListener('click', logout);
document.getElementById('theme').addEventListener('click', () => {
        const now = recall('theme') || 'auto';
        setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
document.addEventListener('keydown', onKey);
window.addEventListener('hashchange', () => {
        if (location.hash !== '' && !location.hash.startsWith('#/'))
                return;
        if (document.body.classList.contains('locked'))
                return;
        if (!current || location.hash !== current.hash) {
                show();
                main.focus({preventScroll: true});
                window.scrollTo(0, 0);
        }
});
/* A request of a screen that was left ends like this, and nobody waits for it any more. */
window.addEventListener('unhandledrejection', (ev) => {
        if (ev.reason && ev.reason.name === 'AbortError')
                ev.preventDefault();
});
setTheme(recall('theme') || 'auto');
begin();
