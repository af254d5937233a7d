#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * The way in: a token, a session, the way out; and the page below a path of a proxy. */
import http from 'node:http';

import {equal, expect, run, says, shot, test, toast, until} from './lib.js';

const TOKEN = 'correct horse battery staple';
const DENIED = /401 \(Unauthorized\)|429 \(Too Many Requests\)/;

/* Not while the last try is under way: the page takes no other then. */
async function logIn(page, token = TOKEN)
{
        await page.getByLabel('Access token').fill(token);
        await page.locator('.login button:not([aria-busy])').click();
}

async function addJob(page, hook)
{
        await page.to('#/jobs');
        await page.getByRole('button', {name: 'Add a job'}).click();
        await page.getByLabel('Hook: what to run').fill(hook);
        await page.getByRole('button', {name: 'Add the job'}).click();
        await toast(page, 'was added.');
}

test('a wrong token is told, the right one opens the screen that was asked for', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server, '#/queues');
        page.watch.allow(DENIED);
        await page.getByRole('heading', {name: 'Log in'}).waitFor();
        await shot(page, 'login');
        equal(await page.locator('#nav').isVisible(), false, 'whether the menu is seen');
        await logIn(page, 'wrong');
        await says(page, '.login .error', /\w/);
        await shot(page, 'login-wrong');
        await logIn(page);
        await page.getByRole('heading', {name: 'Queues', level: 1}).waitFor();
        await addJob(page, 'by_cookie');
        equal((await server.get('jobs')).jobs[0].hook, 'by_cookie', 'hook');
        await page.reload();
        await page.getByRole('button', {name: 'Log out'}).waitFor();
        await says(page, '#link', /live/);
});

test('who logs out is out in every tab, and nothing of before is seen', async (t) => {
        const server = await t.server({token: TOKEN});
        const context = await t.context();
        await server.add('secret_hook');
        const one = await t.page(server, '', {context});
        one.watch.allow(DENIED);
        await logIn(one);
        await one.getByText('secret_hook').first().waitFor();
        const two = await t.page(server, '#/jobs', {context});
        two.watch.allow(DENIED);
        await two.getByText('secret_hook').first().waitFor();
        await one.getByRole('button', {name: 'Log out'}).click();
        await one.getByRole('heading', {name: 'Log in'}).waitFor();
        expect(!(await one.locator('body').innerText()).includes('secret_hook'),
                'it is still seen');
        await two.bringToFront();
        await two.getByRole('link', {name: 'Queues'}).click();
        await two.getByRole('heading', {name: 'Log in'}).waitFor();
        expect(!(await two.locator('body').innerText()).includes('secret_hook'),
                'it is seen there');
        await one.reload();
        await one.getByRole('heading', {name: 'Log in'}).waitFor();
});

test('who logs in to a second weir on the host stays logged in to the first', async (t) => {
        const context = await t.context();
        const pages = [];
        for (const name of ['one', 'two']) {
                const server = await t.server({token: TOKEN});
                const page = await t.page(server, '#/queues', {context});
                page.watch.allow(DENIED);
                await logIn(page);
                await addJob(page, name);
                pages.push(page);
        }
        for (const page of pages) {
                await page.reload();
                await page.getByRole('button', {name: 'Log out'}).waitFor();
                await says(page, '#link', /live/);
        }
        await pages[1].getByRole('button', {name: 'Log out'}).click();
        await pages[1].getByRole('heading', {name: 'Log in'}).waitFor();
        await pages[0].to('#/queues');
        await says(pages[0], 'tbody', /default/);
});

test('after five wrong tokens the page says to wait', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server);
        page.watch.allow(DENIED);
        const status = () => page.waitForResponse((r) => r.url().endsWith('/login'));
        for (let i = 0; i < 5; i++) {
                const said = status();
                await logIn(page, `guess ${i}`);
                equal((await said).status(), 401, 'status');
        }
        const said = status();
        await logIn(page);
        equal((await said).status(), 429, 'status of the sixth');
        await says(page, '.login .error', /wrong tokens/i);
});

/* --- behind a proxy --------------------------------------------------------------------------- */

/* Takes a path off and passes everything else on, the stream as well, as docs/page.md says. */
async function proxy(t, server, prefix)
{
        const [host, port] = server.http.split(':');
        const front = http.createServer((req, res) => {
                if (!req.url.startsWith(prefix)) {
                        res.writeHead(404).end('elsewhere');
                        return;
                }
                const on = http.request({
                        host,
                        port,
                        method: req.method,
                        path: `/${req.url.slice(prefix.length)}`,
                        headers: req.headers,
                },
                        (from) => {
                                res.writeHead(from.statusCode, from.headers);
                                from.pipe(res);
                        });
                on.on('error', () => res.destroy());
                res.on('close', () => on.destroy());
                req.pipe(on);
        });
        await new Promise((resolve) => { front.listen(0, '127.0.0.1', resolve); });
        t.later(() => new Promise((resolve) => {
                front.close(resolve);
                front.closeAllConnections();
        }));
        return `http://127.0.0.1:${front.address().port}${prefix}`;
}

test('below a path of a proxy every screen, the stream, the login and a change work', async (t) => {
        const server = await t.server({token: TOKEN, target: true});
        const base = await proxy(t, server, '/ops/weir/');
        const page = await t.page(server, '', {base});
        page.watch.allow(DENIED);
        const asked = [];
        page.on('request', (r) => asked.push(r.url()));
        await logIn(page);
        await says(page, '#link', /live/);
        for (const name of ['now', 'jobs', 'queues', 'schedules', 'workers', 'batches', 'throttle',
                     'clients', 'locks', 'limits', 'breakers', 'settings'])
                await page.to(`#/${name}`);
        await addJob(page, 'through_the_proxy');
        equal((await server.get('jobs')).jobs[0].hook, 'through_the_proxy', 'hook');
        equal(asked.filter((url) => !url.startsWith(base)), [], 'addresses outside of the path');
        await page.reload();
        await page.getByRole('button', {name: 'Log out'}).click();
        await page.getByRole('heading', {name: 'Log in'}).waitFor();
});

test('when weir goes away the page says so, and goes on by itself when it is back', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/now');
        page.watch.allow(/./s);
        await says(page, '#link', /live/);
        await server.stop();
        await says(page, '#link', /no connection|no live data/);
        await shot(page, 'gone');
        await server.again();
        await says(page, '#link', /live|every 2 s/, 45);
        await until(async () => await page.locator('#main .missing').count() === 0, 'no gap');
});

run();
