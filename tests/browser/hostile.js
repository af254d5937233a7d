#!/usr/bin/env node
/* weir-test: timeout=240
 *
 * Tries to break in through the browser: markup and scripts in every string that a user can give,
 * pages of other origins that ask in the user's name, a foreign name for weir's address, a frame.
 */
import http from 'node:http';

import {answer, equal, expect, FOREIGN, isClean, run, test, toast, until} from './lib.js';
import {populate, screens} from './lib_world.js';

const TOKEN = 'correct horse battery staple';
const enc = encodeURIComponent;

/* --- markup in every string ------------------------------------------------------------------- */

/* Names of identities take neither spaces nor slashes, so theirs is as near as one can come; those
 * of hosts take no spaces, and a tag does as well with slashes. */
const IMAGE = '<img src=x onerror=window.__xss=1>';
const SCRIPT = '"><script>window.__xss=1</script><x-evil onclick=__xss=1>';
const ADDRESS = 'javascript:window.__xss=1';

const hostile = (payload) => (kind) => {
        if (kind === 'identity')
                return payload === ADDRESS ? 'javascript:window.__xss=1' : '"\'><x-evil><script>';
        if (kind === 'pattern')
                return `${payload}*`;
        if (kind === 'host')
                return payload.replaceAll(' ', '/');
        return payload;
};

async function openAll(page)
{
        for (const el of await page.locator('#main summary').all())
                await el.click();
}

/* Every screen, with its folded parts open and the titles and labels it has. */
async function visit(page, ids, name)
{
        for (const [where, hash] of Object.entries(screens(ids, name))) {
                await page.to(hash);
                await openAll(page);
                const shown = [name('hook'), name('identity')];
                if (where !== 'settings')
                        await until(async () => {
                                const text = await page.locator('#main').innerText();
                                return shown.some((s) => text.includes(s));
                        }, `its string in ${where}`);
                await isClean(page, where);
        }
}

/* Dialogs, menus and messages that repeat names. */
async function touch(page, name)
{
        await page.to('#/queues');
        await page.getByRole('button', {name: /^Pause queue/}).click();
        await toast(page, 'was paused');
        await page.to('#/locks');
        await page.getByRole('button', {name: /^Release lock/}).click();
        await isClean(page, 'the question about a lock');
        await answer(page, 'Release the lock');
        await toast(page, 'was released');
        await page.to('#/schedules');
        await page.getByRole('button', {name: /^Actions for schedule/}).click();
        await page.getByRole('menuitem', {name: 'Change'}).click();
        await page.locator('dialog').waitFor();
        await isClean(page, 'the form of a schedule');
        await page.keyboard.press('Escape');
        await page.to('#/breakers');
        await page.getByRole('button', {name: /^Change breaker/}).click();
        await isClean(page, 'the form of a breaker');
        await page.keyboard.press('Escape');
        await page.to('#/throttle');
        await page.getByRole('button', {name: /^Remove the rule/}).click();
        await toast(page, 'was removed');
        await page.getByLabel('Which tier is this hook?').fill(name('hook'));
        await page.locator('output strong').waitFor();
        await page.to('#/schedules');
        await page.getByRole('button', {name: 'Add a schedule'}).click();
        await page.getByLabel('Name', {exact: true}).fill(name('text'));
        await page.getByLabel('Hook: what to run').fill(name('hook'));
        await page.getByLabel('Cron', {exact: true}).fill(name('text'));
        await page.locator('dialog .preview .error').filter({hasText: /\w/}).waitFor();
        await isClean(page, 'a preview that repeats what was typed');
        await page.getByRole('button', {name: 'Add the schedule'}).click();
        await page.locator('dialog .error[role=alert]').filter({hasText: /\w/}).waitFor();
        await isClean(page, 'an answer that repeats what was typed');
}

for (const [what, payload] of [['an image', IMAGE], ['a script', SCRIPT], ['an address', ADDRESS]])
        test(`${what} in every string a user can give is shown as the text it is`, async (t) => {
                const server = await t.server({target: true});
                const name = hostile(payload);
                const ids = await populate(server, name);
                const page = await t.page(server);
                page.watch.allow(/400 \(Bad Request\).*\/v1\/schedules/);
                await visit(page, ids, name);
                await page.to(`#/job/${ids.failed}`);
                await page.getByLabel('Text: error').filter({hasText: payload}).waitFor();
                await page.to(`#/job/${ids.complete}`);
                await page.getByLabel('Text: result').filter({hasText: payload}).waitFor();
                await touch(page, name);
                await isClean(page, 'the end');
        });

test('an address with markup in it is shown as text', async (t) => {
        const server = await t.server();
        const page = await t.page(server);
        page.watch.allow(/404 \(Not Found\)/, /400 \(Bad Request\)/);
        for (const hash of [`#/${IMAGE}`, `#/${enc(IMAGE)}`, `#/jobs?match=${enc(IMAGE)}`,
                     `#/jobs?status=${enc(IMAGE)}&cursor=${enc(IMAGE)}`, `#/job/${enc(IMAGE)}`,
                     `#/locks/${enc(SCRIPT)}`, `#/clients/${enc(SCRIPT)}`, '#/now?help=__proto__',
                     '#/constructor', `#/settings?match=${enc(SCRIPT)}`, '#/%E0%A4%A', '#//']) {
                await page.to(hash);
                await isClean(page, hash);
        }
});

/* --- other pages ------------------------------------------------------------------------------ */

/* A page of somebody else, on an origin of its own. */
async function foreignPage(t, html)
{
        const server = http.createServer((req, res) => {
                res.setHeader('Content-Type', 'text/html');
                res.end(html);
        });
        await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
        t.later(() => new Promise((resolve) => {
                server.close(resolve);
                server.closeAllConnections();
        }));
        return server.address().port;
}

/* All that a page can send without being asked: a form, a fetch of each kind. */
async function attack(page, url)
{
        return page.evaluate(async (to) => {
                const body = JSON.stringify({hook: 'evil', args: {}});
                const tries = [
                        ['v1/jobs', {body}],
                        ['v1/jobs', {body, mode: 'no-cors'}],
                        ['v1/jobs', {body, headers: {'Content-Type': 'application/json'}}],
                        ['v1/jobs', {body, headers: {'X-Weir-Csrf': '0'}}],
                        ['v1/throttle', {body: '{"action":"pause","for":60000}', mode: 'no-cors'}],
                        ['v1/queues/q/pause', {mode: 'no-cors'}],
                        ['logout', {mode: 'no-cors'}],
                        ['login', {body: 'token=x', mode: 'no-cors'}],
                ];
                const got = [];
                for (const [where, how] of tries)
                        got.push(await fetch(`${to}/${where}`, {
                                method: 'POST',
                                credentials: 'include',
                                ...how
                        }).then((r) => r.type === 'opaque' ? 'opaque' : r.status, () => 'blocked'));
                for (const where of ['v1/now', 'v1/session', 'v1/jobs', 'throttle-app/evil'])
                        got.push(await fetch(`${to}/${where}`, {
                                credentials: 'include'
                        }).then(() => 'read', () => 'blocked'));
                return got;
        }, url);
}

async function sendForm(page, url)
{
        const [res] = await Promise.all([
                page.waitForResponse((r) => r.url() === `${url}/v1/jobs`),
                page.evaluate(
                        (to) => {
                                const form = document.createElement('form');
                                form.method = 'post';
                                form.enctype = 'text/plain';
                                form.action = `${to}/v1/jobs`;
                                const input = document.createElement('input');
                                input.name = '{"hook":"evil","args":{"x":"';
                                input.value = '"}}';
                                form.append(input);
                                document.body.append(form);
                                form.submit();
                        },
                        url),
        ]);
        return res.status();
}

async function untouched(server)
{
        equal((await server.get('jobs')).jobs, [], 'jobs');
        equal((await server.get('throttle')).paused, false, 'paused');
        equal((await server.get('queues')).queues.filter((q) => q.paused), [], 'paused queues');
        equal((await server.get('rules')).rules, [], 'rules');
}

/* host: 127.0.0.1 is another origin of the same site, which gets the cookie even so; localhost is
 * another site. */
for (const [what, host] of [['another port', '127.0.0.1'], ['another site', 'localhost']])
        for (const token of [undefined, TOKEN])
                test(`a page of ${what} changes and reads nothing ${
                             token ? 'in the name of who is logged in' : 'without a login'}`,
                        async (t) => {
                                const server = await t.server({token});
                                const context = await t.context();
                                const mine = await t.page(server, '', {context});
                                if (token) {
                                        await mine.getByLabel('Access token').fill(token);
                                        await mine.getByRole('button', {name: 'Log in'}).click();
                                        await mine.getByRole('button', {name: 'Log out'}).waitFor();
                                }
                                const port =
                                        await foreignPage(t, '<!doctype html><title>x</title>');
                                const other = await t.page(server, '', {
                                        context,
                                        base: `http://${host}:${port}/`,
                                        isReady: false,
                                });
                                other.watch.allow(/./s);
                                const got = await attack(other, server.url);
                                equal(got.filter((x) => x !== 'opaque' && x !== 'blocked'), [],
                                        'answers it could read');
                                /* From another site the cookie does not even come along. */
                                const is = token && host === 'localhost' ? 401 : 403;
                                equal(await sendForm(other, server.url), is, 'answer to the form');
                                await untouched(server);
                                await mine.reload();
                                await mine.locator('#state .badge').first().waitFor();
                        });

test('a request with the cookie and without the value of the session is refused', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server);
        await page.getByLabel('Access token').fill(TOKEN);
        await page.getByRole('button', {name: 'Log in'}).click();
        await page.getByRole('button', {name: 'Log out'}).waitFor();
        page.watch.allow(/403 \(Forbidden\)/);
        const status = await page.evaluate(async () => {
                const send = (headers) => fetch('v1/jobs', {
                        method: 'POST',
                        headers: {'Content-Type': 'application/json', ...headers},
                        body: '{"hook":"evil","args":{}}',
                }).then((r) => r.status);
                return [await send({}), await send({'X-Weir-Csrf': '0'.repeat(32)})];
        });
        equal(status, [403, 403], 'status');
        equal((await server.get('jobs')).jobs, [], 'jobs');
        equal(await page.evaluate(() => document.cookie), '', 'cookies that a script can read');
});

test('another name for the address of weir gets neither the page nor an answer', async (t) => {
        const server = await t.server();
        const port = server.http.split(':')[1];
        const page = await (await t.context()).newPage();
        for (const where of ['', 'ui/app.js', 'v1/now', 'v1/session', 'v1/live']) {
                const res = await page.goto(`http://${FOREIGN}:${port}/${where}`);
                equal(res.status(), 421, `status of /${where}`);
        }
        const got = await page.evaluate(() => fetch('v1/jobs', {
                method: 'POST',
                headers: {'Content-Type': 'application/json'},
                body: '{"hook":"evil","args":{}}',
        }).then((r) => r.status, () => 'blocked'));
        equal(got, 421, 'a job');
        await untouched(server);
});

test('no other page can show weir in a frame', async (t) => {
        const server = await t.server();
        const port = await foreignPage(t, `<!doctype html><iframe src="${server.url}/"></iframe>`);
        const page = await t.page(server, '', {base: `http://127.0.0.1:${port}/`, isReady: false});
        page.watch.allow(/frame|ERR_BLOCKED_BY_RESPONSE/i);
        const refused = await until(
                () => page.watch.seen.find((s) => /frame-ancestors|X-Frame-Options|frame/i.test(s)),
                'a word about the frame');
        expect(refused, 'it was not refused');
        const frame = page.frames().find((f) => f !== page.mainFrame());
        await until(
                async () => !(await frame.content().catch(() => '')).includes('Skip to content'),
                'an empty frame');
        expect(frame.url().startsWith('chrome-error:'), `the frame is at ${frame.url()}`);
});

run();
