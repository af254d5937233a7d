/* What the browser tests share: weir as a process, a RESP client, a worker, the browser, and a
 * runner that prints one line per check.
 *
 * A test is test('a sentence that is true when it passes', async (t) => {...}).  t.server() starts
 * weir with a fresh folder, t.page(server) opens a page in a fresh browser context; both end with
 * the test.  A page is watched from its first byte: console errors, uncaught exceptions, violations
 * of the policy, dialogs and answers of 400 and more are collected, and a test that does not expect
 * them (page.watch.allow) fails by them.
 *
 * Nothing sleeps: playwright waits for elements, until() asks again and again for what only the
 * server knows.  run() runs the tests of a file, or those whose sentence contains a word given on
 * the command line.  Those of the outer ring, test('...', fn, {outer: true}), run with --outer, and
 * then alone. */
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {chromium} from 'playwright-core';

export const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.dirname(path.dirname(HERE));
export const WEIR = process.env.WEIR || path.join(ROOT, 'build', 'weir');
const SHOTS = path.join(ROOT, 'build', 'browser');
export const SECONDS = 90; /* ends a test that hangs, on a machine that is busy too */
export const FOREIGN = 'evil.example'; /* the browser takes it for this machine */
const CONNECT_MS = 30000;
const IS_OUTER = process.argv.includes('--outer');

/* --- running tests --------------------------------------------------------------------------- */

const tests = [];

export function test(sentence, fn, {outer = false} = {})
{
        tests.push({sentence, fn, isOuter: outer});
}

let whole = null; /* what tests of a file share ends with it */

/* Something that the tests of a file share, made by the first that asks for it. */
export function once(make)
{
        let made = null;
        return () => {
                whole = whole || new Turn();
                made = made || make(whole);
                return made;
        };
}

export function expect(condition, why)
{
        if (!condition)
                throw new Error(why);
}

export function equal(got, wanted, what = 'value')
{
        const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
        if (a !== b)
                throw new Error(`${what} is ${a}, wanted ${b}`);
}

/* Asks until the answer is true and gives it; less often when it takes long. */
export async function until(ask, what, seconds = SECONDS)
{
        const end = Date.now() + seconds * 1000;
        for (let pause = 10;; pause = Math.min(2 * pause, 100)) {
                const value = await ask();
                if (value)
                        return value;
                if (Date.now() > end)
                        throw new Error(`${what} did not come true in ${seconds} s`);
                await new Promise((resolve) => { setTimeout(resolve, pause); });
        }
}

/* Debian's Chromium, or the one that CHROMIUM names.  Its headless shell is the same engine without
 * the windows and menus around it, which are not seen here and take half of the processor. */
const CHROMIUM = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

export const LAUNCH = {
        executablePath: process.env.CHROMIUM || CHROMIUM.find((file) => fs.existsSync(file)),
        args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                /* Pages live for seconds: processes and code that is made fast do not pay. */
                '--in-process-gpu', '--enable-features=NetworkServiceInProcess2', '--js-flags=--no-opt',
                '--renderer-process-limit=1', /* none in advance, each context has its own */
                `--host-resolver-rules=MAP ${FOREIGN} 127.0.0.1`],
};

let browser = null;

/* The browser that WEIR_CHROMIUM names, if it answers, else one of this script alone.  Closing it
 * ends the connection to the one and the process of the other. */
async function openBrowser()
{
        const address = process.env.WEIR_CHROMIUM;
        if (!browser && address)
                browser = await chromium.connect(address, {timeout: CONNECT_MS}).catch(() => null);
        if (!browser || !browser.isConnected())
                browser = await chromium.launch(LAUNCH);
        return browser;
}

async function runOne({sentence, fn})
{
        const t = new Turn();
        let line = `ok - ${sentence}`;
        const begin = Date.now();
        try {
                await fn(t);
                t.judge();
        } catch (e) {
                const why = String(e.message || e).replace(/\x1b\[\d+m/g, '').split('\n');
                line = `not ok - ${sentence}: ${why.slice(0, 4).join(' ').slice(0, 900)}`;
                const at = String(e.stack).split('\n').filter((x) => x.includes('tests/browser/'));
                line += at.map((x) => `\n#   ${x.trim()}`).join('');
                line += t.watches.flatMap((w) => w.seen).map((x) => `\n#   seen: ${x}`).join('');
                await t.failed(sentence);
        }
        await t.end();
        if (t.problems.length && line.startsWith('ok'))
                line = `not ok - ${sentence}: ${t.problems.join(' ')}`;
        const [first, ...more] = line.split('\n');
        const took = process.env.TIMES ? ` (${((Date.now() - begin) / 1000).toFixed(1)} s)` : '';
        process.stdout.write(`${[first + took, ...more].join('\n')}\n`);
        return line.startsWith('ok');
}

export async function run()
{
        const words = process.argv.slice(2).filter((a) => !a.startsWith('-'));
        let failed = 0;
        for (const one of tests)
                if (one.isOuter === IS_OUTER &&
                        (words.length === 0 || words.some((w) => one.sentence.includes(w))))
                        failed += await runOne(one) ? 0 : 1;
        if (whole) {
                await whole.end();
                if (whole.problems.length) {
                        failed += 1;
                        process.stdout.write(`not ok - the end: ${whole.problems.join(' ')}\n`);
                }
        }
        if (browser)
                await browser.close();
        process.exitCode = failed ? 1 : 0;
}

/* --- one test's things ----------------------------------------------------------------------- */

class Turn
{
        constructor()
        {
                this.ends = [];
                this.watches = [];
                this.pages = [];
                this.problems = []; /* that came up while ending */
        }

        later(fn)
        {
                this.ends.push(fn);
        }

        folder()
        {
                const made = fs.mkdtempSync(path.join(os.tmpdir(), 'weir-browser.'));
                this.later(() => fs.rmSync(made, {recursive: true, force: true}));
                return made;
        }

        async server(options)
        {
                const server = new Server(this.folder(), options);
                this.later(async () => {
                        const code = await server.stop();
                        if (code !== 0)
                                this.problems.push(
                                        `weir ended with ${code}: ${server.log.slice(-900)}`);
                });
                await server.isReady;
                return server;
        }

        worker(server, ...words)
        {
                const child = spawn(WEIR, ['work', '--quiet', '--url', server.resp, ...words],
                        {stdio: ['ignore', 'ignore', 'inherit']});
                const ended = new Promise((resolve) => { child.on('exit', resolve); });
                const stop = async () => {
                        child.kill('SIGTERM');
                        await ended;
                };
                this.later(stop);
                return {stop};
        }

        async resp(server)
        {
                const client = new Resp(server.resp);
                this.later(() => client.close());
                await client.isOpen;
                return client;
        }

        async context(options = {})
        {
                const it = await (await openBrowser()).newContext({
                        viewport: {width: 1280, height: 900},
                        reducedMotion: 'reduce',
                        ...options,
                });
                it.setDefaultTimeout(SECONDS * 1000);
                this.later(() => it.close());
                return it;
        }

        /* A page at an address of the server ('#/jobs'), watched. */
        async page(server, where = '', options = {})
        {
                const context = options.context || await this.context(options);
                const page = await context.newPage();
                page.watch = watch(page);
                this.watches.push(page.watch);
                this.pages.push(page);
                page.base = options.base || `${server.url}/`;
                page.to = (hash) => go(page, hash);
                await page.goto(`${page.base}${where}`);
                if (options.isReady !== false)
                        await isShown(page);
                return page;
        }

        /* What was seen and not expected fails the test. */
        judge()
        {
                for (const w of this.watches)
                        w.judge();
        }

        async failed(sentence)
        {
                const name = sentence.replace(/\W+/g, '-').slice(0, 60);
                for (const [i, page] of this.pages.entries())
                        await picture(page, `failed-${name}-${i}`).catch(() => {});
        }

        async end()
        {
                for (const fn of this.ends.reverse())
                        await Promise.resolve(fn()).catch(() => {});
        }
}

/* --- the page -------------------------------------------------------------------------------- */

function watch(page)
{
        const seen = [];
        const allowed = [];
        page.on('console', (m) => {
                if (m.type() === 'error' || m.type() === 'warning')
                        seen.push(`console ${m.type()}: ${m.text()} ${m.location().url || ''}`);
        });
        page.on('pageerror', (e) => seen.push(`exception: ${e.stack || e}`));
        page.on('dialog', (d) => {
                seen.push(`dialog: ${d.message()}`);
                d.dismiss().catch(() => {});
        });
        /* What was asked for and is not answered, apart from the stream, which never ends.  The
         * end of a request that a page makes just when another one takes its place is not told. */
        const open = new Set();
        let next = null; /* the document that is on its way */
        page.on('request', (r) => {
                if (r.isNavigationRequest() && r.frame() === page.mainFrame())
                        next = r;
                if (!r.url().endsWith('/v1/live'))
                        open.add(r);
        });
        page.on('framenavigated', (frame) => {
                if (frame !== page.mainFrame() || !next)
                        return;
                for (const r of open)
                        if (r !== next)
                                open.delete(r);
                next = null;
        });
        page.on('requestfinished', (r) => open.delete(r));
        page.on('requestfailed', (r) => {
                open.delete(r);
                const why = r.failure() ? r.failure().errorText : '';
                if (why !== 'net::ERR_ABORTED')
                        seen.push(`request failed: ${r.method()} ${r.url()} ${why}`);
        });
        return {
                seen,
                open,
                allow: (...patterns) => allowed.push(...patterns),
                judge() {
                        const bad = seen.filter((s) => !allowed.some((p) => p.test(s)));
                        if (bad.length)
                                throw new Error(`the page said: ${bad.slice(0, 5).join(' | ')}`);
                },
        };
}

/* The screen of the address is drawn: its module has run and said so by its heading. */
async function isShown(page)
{
        await page.waitForFunction(() => {
                const screen = document.querySelector('#main .screen, #main form.login');
                return screen && screen.childElementCount > 0;
        });
}

/* What came before this is drawn. */
export function isDrawn(page)
{
        return page.evaluate(() => new Promise((resolve) => {
                requestAnimationFrame(() => requestAnimationFrame(resolve));
        }));
}

/* Everything a screen asks for at first is there, and drawn. */
export async function isCalm(page)
{
        await page.waitForSelector('#state .badge');
        await until(() => page.watch.open.size === 0, 'answers to all requests');
        await isDrawn(page);
        await until(() => page.watch.open.size === 0, 'answers to all requests');
}

async function go(page, hash)
{
        await page.evaluate((to) => {
                document.querySelector('#main').dataset.old = '1';
                for (const el of document.querySelectorAll('#main .screen'))
                        el.remove();
                location.hash = to;
        }, hash);
        await isShown(page);
}

/* Requests to an address wait from now on, until free() lets them through or cut() fails them, and
 * those that follow; asked() when one waits. */
export async function hold(page, pattern)
{
        const waiting = [];
        let end = null;
        await page.route(pattern, (route) => (end ? end(route) : waiting.push(route)));
        const finish = async (how) => {
                end = how;
                await Promise.all(waiting.splice(0).map(how));
        };
        return {
                asked: () => until(() => waiting.length > 0, `a request to ${pattern}`),
                free: () => finish((route) => route.continue()),
                cut: () => finish((route) => route.abort()),
        };
}

/* Stops the page's clock: after page.clock.install() it would go on by itself, and a busy machine
 * would let it reach what the test wants to see first.  runFor() moves it.  It jumps ahead a little,
 * because it cannot be stopped in the past. */
export async function stopClock(page)
{
        await page.clock.install();
        const now = await page.evaluate(() => Date.now());
        await page.clock.pauseAt(now + 4000);
}

/* The first answer to a GET of an address waits as the server gave it then, until free(); later
 * ones overtake it.  asked() when it waits. */
export async function overtake(page, pattern)
{
        let free = null;
        const isFree = new Promise((resolve) => { free = resolve; });
        let isAsked = false;
        let isKept = false;
        await page.route(pattern, async (route) => {
                if (isAsked || route.request().method() !== 'GET') {
                        await route.continue();
                        return;
                }
                isAsked = true;
                const response = await route.fetch();
                isKept = true;
                await isFree;
                await route.fulfill({response});
        });
        return {asked: () => until(() => isKept, `an answer of ${pattern}`), free};
}

/* In the page: true when the element's text matches, false when the page has changed for so many
 * times or the element was taken away, so that it must be looked for again. */
function hasText(element, [source, flags])
{
        const pattern = new RegExp(source, flags);
        let left = 20;
        return new Promise((resolve) => {
                if (globalThis.lastWait)
                        globalThis.lastWait.disconnect();
                const look = () => {
                        const is = pattern.test(element.textContent);
                        left--;
                        if (!is && left > 0 && element.isConnected)
                                return;
                        watcher.disconnect();
                        resolve(is);
                };
                const watcher = new MutationObserver(look);
                globalThis.lastWait = watcher;
                watcher.observe(document, {childList: true, characterData: true, subtree: true});
                look();
        });
}

/* A shown value that changes: waits until the element's text matches.  The page tells when it does;
 * it is asked anew now and then, because another element may have come before the first. */
export async function says(page, where, pattern, seconds = SECONDS)
{
        const locator = typeof where === 'string' ? page.locator(where).first() : where.first();
        const words = [pattern.source, pattern.flags];
        await until(() => {
                let late = null;
                const isLate = new Promise((resolve) => {
                        late = setTimeout(resolve, 500, false);
                });
                const is = locator.evaluate(hasText, words, {timeout: 1000}).catch(() => false);
                return Promise.race([is, isLate]).finally(() => clearTimeout(late));
        }, `"${pattern}" in ${where}`, seconds);
}

/* A message below the screen; gives it. */
export async function toast(page, pattern)
{
        const it = page.locator('.toast').filter({hasText: pattern}).last();
        await it.waitFor();
        return it;
}

export async function undo(page, pattern)
{
        await (await toast(page, pattern)).getByRole('button', {name: 'Undo'}).click();
}

/* Answers the dialog that asks.  What it was opened for goes on when it is taken away, a little
 * after it is no longer open. */
export async function answer(page, name)
{
        const box = page.locator('dialog[open]');
        const dialog = await box.elementHandle();
        await box.getByRole('button', {name}).click();
        await page.waitForFunction((el) => !el.isConnected, dialog);
}

/* A picture in build/browser, for people: with SHOTS=1 in the environment. */
export async function shot(page, name)
{
        if (process.env.SHOTS)
                await picture(page, name);
}

async function picture(page, name)
{
        fs.mkdirSync(SHOTS, {recursive: true});
        await page.screenshot({path: path.join(SHOTS, `${name}.png`), fullPage: true});
}

/* --- how it looks ---------------------------------------------------------------------------- */

const AXE = fs.readFileSync(path.join(HERE, 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');
const SERIOUS = new Set(['serious', 'critical']);

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const COLORS = {type: 'rule', values: ['color-contrast', 'link-in-text-block']};

/* Serious findings of axe-core as lines. */
export async function findings(page, rules = RULES)
{
        if (!await page.evaluate(() => Boolean(globalThis.axe)))
                await page.evaluate(AXE);
        const found = await page.evaluate((runOnly) => {
                /* What a rule finds has its impact, if it has one. */
                const isMild = (rule) => rule.impact === 'minor' || rule.impact === 'moderate';
                const mild = globalThis.axe._audit.rules.filter(isMild);
                return globalThis.axe.run(document, {
                        resultTypes: ['violations'],
                        runOnly,
                        rules: Object.fromEntries(mild.map((rule) => [rule.id, {enabled: false}])),
                });
        }, rules);
        return found.violations.filter((v) => SERIOUS.has(v.impact))
                .flatMap((v) => v.nodes.slice(0, 3).map(
                                 (n) => `${v.id} ${n.target.join(' ')}: ${
                                         n.failureSummary.split('\n').pop().trim()}`));
}

/* Those in light, and in dark, where only the rules that look at colors can find something else.
 * Lines begin with the name.  Pictures are called name-light and name-dark. */
export async function findingsOfBoth(page, name)
{
        const out = [];
        for (const [colorScheme, rules] of [['light', RULES], ['dark', COLORS]]) {
                await page.emulateMedia({colorScheme, reducedMotion: 'reduce'});
                await isDrawn(page);
                await shot(page, `${name}-${colorScheme}`);
                out.push(...(await findings(page, rules))
                                .map((f) => `${name} in ${colorScheme}: ${f}`));
        }
        await page.emulateMedia({colorScheme: 'light', reducedMotion: 'reduce'});
        return out;
}

/* What no person would write: a value that was shown as the program holds it. */
export async function isForPeople(page, name)
{
        const text = await page.locator('body').innerText();
        const odd = /\[object|undefined|\bNaN\b|\bnull\b|Invalid Date/.exec(text);
        expect(!odd, `${name} shows "${odd && text.slice(odd.index - 40, odd.index + 30)}"`);
}

/* What would be there if a string had been taken for markup. */
export async function isClean(page, where)
{
        const found = await page.evaluate(() => {
                const all = 'x-evil, img[src="x"], [onerror], [onclick], script:not([src]), ' +
                        'a[href^="javascript"], [style*="xss"], iframe, object, embed, base';
                return {
                        xss: globalThis.__xss,
                        tags: [...document.querySelectorAll(all)].map((e) => e.outerHTML),
                };
        });
        equal(found, {tags: []}, `what ran or was made in ${where}`);
}

/* --- weir as a process ----------------------------------------------------------------------- */

/* With a target "shop" whose metric is the number in a file; load(n) changes it.  more: further
 * sections. */
function config(file, mode, dwell)
{
        return `throttle {
        mode = "${mode}"
        check_mode = "enforce"
        starved_after = "1s"
        ramp_cycles = 2
        ramp_cycle = "1s"
}
target "shop" {
        kind = "command"
        command = {"cat", "${file}"}
        interval = "100ms"
        dwell = "${dwell}"
        metric "threads" { elevated = {5, 3} critical = {15, 10} }
}
`;
}

const READY = /^ready http=(\S+) resp=(\S+)(?: http_tls=(\S+))?(?: resp_tls=\S+)?(?: mysql=(\S+))?\n/m;

class Server
{
        constructor(
                folder, {token, target = false, mode = 'enforce', dwell = '200ms', more = '', settings = ''} = {})
        {
                const words = [
                        'serve', '--data', path.join(folder, 'data'), '--resp', '127.0.0.1:0',
                        '--http', '127.0.0.1:0'
                ];
                this.folder = folder;
                this.token = token;
                this.loadFile = path.join(folder, 'load');
                if (token) {
                        const file = path.join(folder, 'token');
                        fs.writeFileSync(file, `${token}\n`, {mode: 0o600});
                        words.push('--token-file', file);
                }
                if (settings) {
                        const file = path.join(folder, 'weir.conf');
                        fs.writeFileSync(file, settings);
                        words.push('-c', file);
                }
                if (target) {
                        const file = path.join(folder, 'weir.conf');
                        this.load(1);
                        fs.writeFileSync(file, config(this.loadFile, mode, dwell) + more);
                        words.push('-c', file);
                }
                this.log = '';
                this.words = words;
                this.start();
        }

        start()
        {
                this.child = spawn(WEIR, this.words, {stdio: ['ignore', 'pipe', 'pipe']});
                this.ended = new Promise((resolve) => { this.child.on('exit', resolve); });
                this.child.stderr.on('data', (bytes) => { this.log += bytes; });
                this.isReady = this.waitReady();
        }

        /* After stop(): at the same addresses, with the same data. */
        async again()
        {
                this.words.push('--http', this.http, '--resp', this.resp);
                this.start();
                await this.isReady;
        }

        waitReady()
        {
                return new Promise((resolve, reject) => {
                        let text = '';
                        this.child.stdout.on('data', (bytes) => {
                                text += bytes;
                                const found = READY.exec(text);
                                if (!found)
                                        return;
                                /* After again() there are two of each: the last is the old one. */
                                this.http = found[1].split(',').pop();
                                this.url = `http://${this.http}`;
                                this.resp = found[2].split(',').pop();
                                this.httpTls = found[3];
                                this.mysql = found[4];
                                resolve(this);
                        });
                        this.child.on('error', reject);
                        this.ended.then(() => reject(new Error(`weir ended: ${this.log}`)));
                });
        }

        /* A rename, so that the command never reads half a number. */
        load(n)
        {
                fs.writeFileSync(`${this.loadFile}.new`, `${n}\n`);
                fs.renameSync(`${this.loadFile}.new`, this.loadFile);
        }

        /* The exit code; null when a signal ended it. */
        stop()
        {
                this.child.kill('SIGTERM');
                return this.ended;
        }

        async ask(method, where, body)
        {
                const headers = {};
                if (body !== undefined)
                        headers['Content-Type'] = 'application/json';
                if (this.token)
                        headers.Authorization = `Bearer ${this.token}`;
                const res = await fetch(`${this.url}/v1/${where}`, {
                        method,
                        headers,
                        body: body === undefined ? undefined : JSON.stringify(body)
                });
                const text = await res.text();
                if (!res.ok)
                        throw new Error(`${method} ${where}: ${res.status} ${text}`);
                return text ? JSON.parse(text) : null;
        }

        get(where)
        {
                return this.ask('GET', where);
        }

        post(where, body = {})
        {
                return this.ask('POST', where, body);
        }

        async add(hook, more = {})
        {
                return (await this.post('jobs', {hook, args: {}, ...more})).id;
        }

        /* Waits until a job has a status, and gives the job. */
        status(id, wanted)
        {
                return until(async () => {
                        const job = await this.get(`jobs/${id}`);
                        return job.status === wanted && job;
                }, `status ${wanted} of job ${id}`);
        }

        level(wanted)
        {
                return until(async () => (await this.get('throttle')).level === wanted,
                        `level ${wanted}`);
        }
}

/* --- RESP ------------------------------------------------------------------------------------ */

/* As much of it as the tests need: arrays of texts out, one answer after the other back. */
class Resp
{
        constructor(address)
        {
                const [host, port] = address.split(':');
                this.buffer = Buffer.alloc(0);
                this.waiting = [];
                this.socket = net.connect(Number(port), host);
                this.isOpen = new Promise((resolve, reject) => {
                        this.socket.on('connect', resolve);
                        this.socket.on('error', reject);
                });
                this.socket.on('data', (bytes) => {
                        this.buffer = Buffer.concat([this.buffer, bytes]);
                        this.read();
                });
        }

        ask(...words)
        {
                const parts = words.map((w) => Buffer.from(String(w)));
                const head = Buffer.from(`*${parts.length}\r\n`);
                const bytes = parts.flatMap(
                        (p) => [Buffer.from(`$${p.length}\r\n`), p, Buffer.from('\r\n')]);
                return new Promise((resolve, reject) => {
                        this.waiting.push({resolve, reject});
                        this.socket.write(Buffer.concat([head, ...bytes]));
                });
        }

        read()
        {
                while (this.waiting.length) {
                        const found = parse(this.buffer, 0);
                        if (!found)
                                return;
                        this.buffer = this.buffer.subarray(found.next);
                        const {resolve, reject} = this.waiting.shift();
                        if (found.value instanceof Error)
                                reject(found.value);
                        else
                                resolve(found.value);
                }
        }

        close()
        {
                this.socket.destroy();
        }
}

/* {value, next}, or null while bytes are missing. */
function parse(buffer, at)
{
        const end = buffer.indexOf('\r\n', at);
        if (end < 0)
                return null;
        const line = buffer.toString('utf8', at + 1, end);
        const next = end + 2;
        switch (String.fromCharCode(buffer[at])) {
        case '+':
                return {value: line, next};
        case '-':
                return {value: new Error(line), next};
        case ':':
                return {value: Number(line), next};
        case '_':
                return {value: null, next};
        case '$': {
                const size = Number(line);
                if (size < 0)
                        return {value: null, next};
                if (buffer.length < next + size + 2)
                        return null;
                return {value: buffer.toString('utf8', next, next + size), next: next + size + 2};
        }
        default:
                return parseMany(buffer, Number(line), next);
        }
}

function parseMany(buffer, count, from)
{
        const value = [];
        let next = from;
        for (let i = 0; i < count; i++) {
                const one = parse(buffer, next);
                if (!one)
                        return null;
                value.push(one.value);
                next = one.next;
        }
        return {value: count < 0 ? null : value, next};
}
