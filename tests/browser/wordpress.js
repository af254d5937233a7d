#!/usr/bin/env node
/* weir-test: timeout=240 long
 *
 * Tools > weir in Debian's WordPress: what it shows, every change it offers, and who may not. */
import {execFileSync, spawn} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

import {equal, expect, ROOT, run, says, shot, test, until} from './lib.js';

/* WordPress on a MariaDB of its own, served by PHP: one for all tests, it ends with this process. */
let started = null;

function start()
{
        const child = spawn('/usr/bin/python3', [path.join(ROOT, 'tests/integration/lib_wordpress.py')],
                {stdio: ['pipe', 'pipe', 'inherit']});
        return new Promise((resolve, reject) => {
                let text = '';
                child.on('exit', () => reject(new Error('WordPress did not start')));
                child.stdout.on('data', (bytes) => {
                        text += bytes;
                        if (!text.includes('\n'))
                                return;
                        resolve(JSON.parse(text));
                        for (const it of [child, child.stdin, child.stdout])
                                it.unref();
                });
        });
}

function startOnce()
{
        started = started || start();
        return started;
}

/* It talks to this weir from now on. */
async function wordpress(server)
{
        const site = await startOnce();
        fs.writeFileSync(site.weir_url, server.url);
        return site;
}

/* A page of WordPress after the login, watched as a page of weir is. */
async function logIn(t, site, [user, password])
{
        const page = await t.page(null, 'wp-login.php', {base: `${site.url}/`, isReady: false});
        page.watch.allow(/JQMIGRATE/, /404 \(Not Found\).*favicon\.ico/);
        /* A moment after it is loaded, the page moves the focus here: what is typed elsewhere just then
         * would come here, too. */
        await page.locator('#user_login:focus').waitFor();
        await page.getByLabel('Username or Email Address').fill(user);
        await page.getByLabel('Password', {exact: true}).fill(password);
        await page.getByRole('button', {name: 'Log In'}).click();
        await page.locator('#wpadminbar').waitFor();
        return page;
}

async function toolsPage(t, site)
{
        const page = await logIn(t, site, site.admin);
        await page.goto(`${site.url}/wp-admin/tools.php?page=weir`);
        await page.getByRole('heading', {name: 'weir', exact: true}).waitFor();
        return page;
}

function isClean(site)
{
        const text = fs.existsSync(site.complaints) ? fs.readFileSync(site.complaints, 'utf8') : '';
        equal(text.split('\n').filter((x) => x.includes('weir.php')), [], 'what PHP complains about');
}

const SAVED = '.notice-success';
const REFUSED = '.notice-error';

test('the page shows and changes mode, thresholds, delays, tiers and the pause', async (t) => {
        const server = await t.server({target: true});
        const site = await wordpress(server);
        await server.level('normal');
        const page = await toolsPage(t, site);
        await says(page, '.form-table', /normal/);

        const jobs = page.locator('tr', {hasText: "Mode of weir's own jobs"});
        await jobs.getByRole('combobox').selectOption('observe');
        await jobs.getByRole('button', {name: 'Change'}).click();
        await page.locator(SAVED).waitFor();
        equal((await server.get('throttle')).mode, 'observe', 'mode');
        equal(await jobs.getByRole('combobox').inputValue(), 'observe', 'the shown mode');
        await page.reload();
        equal(await page.locator(SAVED).count(), 0, 'messages after a reload');

        /* Both levels move past each other: whichever is set first must not be refused for it. */
        for (const [enter, exit] of [[50, 40], [7, 6]]) {
                await page.getByLabel('threads elevated enter').fill(String(enter));
                await page.getByLabel('threads elevated exit').fill(String(exit));
                await page.getByLabel('threads critical enter').fill(String(enter + 2));
                await page.getByLabel('threads critical exit').fill(String(enter));
                await page.getByRole('row', {name: /threads/})
                        .getByRole('button', {name: 'Save'})
                        .click();
                await page.locator(SAVED).waitFor();
                const all = (await server.get('settings')).settings;
                const value = (name) => all.find((s) => s.name === `target.shop.threads.${name}`).value;
                equal([value('elevated'), value('critical')], [`${enter},${exit}`, `${enter + 2},${enter}`]);
        }
        await page.getByLabel('threads elevated exit').fill('100');
        await page.getByLabel('threads critical enter').fill('90');
        await page.getByRole('row', {name: /threads/}).getByRole('button', {name: 'Save'}).click();
        await page.locator(REFUSED).waitFor();
        const kept = (await server.get('settings')).settings;
        equal(kept.find((s) => s.name === 'target.shop.threads.critical').value, '9,7', 'both or none');

        await page.getByLabel('elevated deferrable').fill('20m');
        await page.getByLabel('critical high').fill('90s');
        await page.getByRole('button', {name: 'Save delays'}).click();
        await page.locator(SAVED).waitFor();
        equal(await page.getByLabel('elevated deferrable').inputValue(), '20m', 'a delay');
        await page.getByLabel('elevated high').fill('1m');
        await page.getByLabel('critical normal').fill('soon');
        await page.getByRole('button', {name: 'Save delays'}).click();
        await says(page, REFUSED, /throttle\.delay\.critical\.normal: /);
        equal(await page.getByLabel('elevated high').inputValue(), '0s', 'all or none');
        const delays = (await server.get('settings')).settings;
        equal(delays.find((d) => d.name === 'throttle.delay.elevated.high').is_changed, false,
                'whether a setting that was taken back counts as changed');

        await page.getByLabel('Minutes').fill('5');
        await page.getByRole('button', {name: 'Pause'}).click();
        await page.getByText('Paused: only critical work starts.').waitFor();
        expect((await server.get('throttle')).paused, 'it does not pause');
        await page.getByRole('button', {name: 'Resume'}).click();
        await page.locator(SAVED).waitFor();
        expect(!(await server.get('throttle')).paused, 'it still pauses');
        isClean(site);
});

function section(site)
{
        return `wordpress "shop" { port = ${site.port} user = "root" database = "${site.database}"
                target = "shop" mode = "observe" interval = "1h" }`;
}

test('the mode of the site is changed, and what was moved there is shown', async (t) => {
        const site = await startOnce();
        const server = await t.server({target: true, more: section(site)});
        await wordpress(server);
        server.load(20);
        await until(async () => (await server.get('sites/shop')).level === 'critical', 'level critical');
        const page = await toolsPage(t, site);
        await says(page, '.form-table', /critical.*shop is critical: threads 20/);
        const mode = page.locator('tr', {hasText: 'Mode of this site'});
        equal(await mode.getByRole('combobox').inputValue(), 'observe', 'the configured mode');
        await mode.getByRole('combobox').selectOption('enforce');
        await mode.getByRole('button', {name: 'Change'}).click();
        await page.locator(SAVED).waitFor();
        equal((await server.get('sites/shop')).mode, 'enforce', 'mode');
        equal((await server.get('throttle')).mode, 'enforce', "mode of weir's own jobs");
        const due = Math.floor(Date.now() / 1000) - 5;
        const moved = await server.post('sites/shop/defer', {id: 4711, hook: 'klaviyo_<i>sync', date: due});
        expect(moved.is_wait, JSON.stringify(moved));
        await page.reload();
        const row = page.locator('tr', {hasText: 'klaviyo_<i>sync'});
        await says(page, row, /4711\s*klaviyo_<i>sync\s*deferrable\s*critical load: moved to 20/);
        equal(await row.getByRole('link', {name: '4711'}).getAttribute('href'),
                `${site.url}/wp-admin/tools.php?page=action-scheduler&s=klaviyo_%3Ci%3Esync`, 'where the id leads');
        await shot(page, 'wordpress-site');
        isClean(site);
});

test('patterns are added, changed and removed, whatever they contain', async (t) => {
        const server = await t.server();
        const site = await wordpress(server);
        const page = await toolsPage(t, site);
        const evil = '<img src=x onerror=alert(1)>"\'&%41\\';
        for (const pattern of ['erp_export_*', evil]) {
                await page.getByLabel('New pattern', {exact: true}).fill(pattern);
                await page.getByLabel('Tier of the new pattern').selectOption('deferrable');
                await page.getByRole('button', {name: 'Add'}).click();
                await page.locator(SAVED).waitFor();
                const row = page.locator('tr').filter({has: page.getByText(pattern, {exact: true})});
                equal(await row.getByRole('combobox').inputValue(), 'deferrable', 'the tier');
                await row.getByRole('combobox').selectOption('high');
                await row.getByRole('button', {name: 'Save'}).click();
                await page.locator(SAVED).waitFor();
                const found = (await server.get('registry')).patterns;
                equal(found.filter((p) => p.pattern === pattern).map((p) => p.tier), ['high'], 'tier');
                await row.getByRole('button', {name: 'Remove'}).click();
                await page.locator(SAVED).waitFor();
                equal(await row.count(), 0, 'rows');
        }
        await page.getByLabel('New pattern', {exact: true}).fill('');
        await page.getByRole('button', {name: 'Add'}).click();
        await page.locator(REFUSED).waitFor();
        isClean(site);
});

test('the last 20 throttled actions are shown, newest first', async (t) => {
        const server = await t.server({target: true});
        const site = await wordpress(server);
        server.load(20);
        await server.level('critical');
        const resp = await t.resp(server);
        for (let i = 0; i < 25; i++)
                await server.add(`klaviyo_${i}<b>`);
        await resp.ask('CLAIM', 'w', 'MAX', '30', 'QUEUES', 'default');
        await until(async () => (await server.get('throttled')).actions.length === 20, '20 actions');
        const page = await toolsPage(t, site);
        await says(page, '.form-table', /critical.*shop/);
        const rows = page.locator('table').filter({hasText: 'What'}).last().locator('tbody tr');
        equal(await rows.count(), 20, 'rows');
        const shown = await rows.first().innerText();
        expect(/klaviyo_24<b>\s+deferrable/.test(shown), `the first row is ${shown}`);
        await shot(page, 'wordpress');
        isClean(site);
});

test('without weir the page says so, and a change too', async (t) => {
        const server = await t.server();
        const site = await wordpress(server);
        const page = await toolsPage(t, site);
        await server.stop();
        server.stop = () => 0;
        await page.getByLabel('New pattern', {exact: true}).fill('a*');
        await page.getByRole('button', {name: 'Add'}).click();
        await says(page, REFUSED, /weir does not answer at http:/);
        await says(page, '.notice-warning', /Actions run as usual/);
        await shot(page, 'wordpress-away');
        isClean(site);
});

test('repairs, advice and the report are shown; the mutex and what the queue needs, too', async (t) => {
        const site = await startOnce();
        const server = await t.server({target: true, more: section(site)});
        await wordpress(server);
        await until(async () => (await server.get('sites/shop')).surveyed_ms, 'a survey');
        const page = await toolsPage(t, site);
        const repairs = page.locator('table', {hasText: 'Mended'});
        await says(page, repairs, /lost\s*observe\s*0\s*0\s*failed by a deadlock before they ran/);
        await says(page, '#weir-metric', /metric "actions_due" \{\s*source = "sql:SELECT COUNT/);
        const mutex = page.getByLabel('Mutex');
        equal(await mutex.inputValue(), 'on', 'the mutex');
        for (const [value, words] of [['off', /They exclude as before/], ['on', /asked for at weir first/]]) {
                await mutex.selectOption(value);
                await page.locator('tr', {has: mutex}).getByRole('button', {name: 'Change'}).click();
                await page.locator(SAVED).waitFor();
                await says(page, page.locator('tr', {has: mutex}), words);
        }
        equal(await page.locator('#weir-report').count(), 0, 'reports that nobody asked for');
        await page.getByRole('link', {name: 'Make a report'}).click();
        await says(page, '#weir-report', /actionscheduler_actions.*Past their time of retention: 0 finished/s);
        await shot(page, 'wordpress-report');
        isClean(site);
});

test('a lock is taken from its holder with a reason and a tick, and weir hears of it', async (t) => {
        const server = await t.server({target: true});
        const site = await wordpress(server);
        const key = 'night<b>ly "export"';
        const code = `require '${site.root}/wp-load.php';
                echo weir_acquire_lock('${key}', 600) ? 'mine' : 'refused';`;
        const take = () => execFileSync('php', ['-r', code], {encoding: 'utf8'});
        equal(take(), 'mine', 'the first');
        equal((await server.get('locks')).locks.length, 1, 'locks in weir');
        const page = await toolsPage(t, site);
        const row = page.locator('tr', {hasText: key});
        await row.getByLabel('Reason').fill('its host is gone');
        await row.locator('form').evaluate((form) => { form.noValidate = true; });
        await row.getByRole('button', {name: 'Release'}).click();
        await says(page, REFUSED, /with a reason and a tick/);
        equal(take(), 'refused', 'without a tick');
        await row.getByLabel('Reason').fill('its host is gone');
        await row.getByLabel('Its holder is gone').check();
        await row.getByRole('button', {name: 'Release'}).click();
        await page.locator(SAVED).waitFor();
        await page.getByText('No lock is held.').waitFor();
        equal((await server.get('locks')).locks, [], 'locks in weir');
        equal(take(), 'mine', 'after it');
        isClean(site);
});

/* --- the plugin as a zip ---------------------------------------------------------------------- */

/* Takes what a must-use installation is made of away, for the time of a test. */
function withoutMustUse(t, site)
{
        for (const name of ['weir.php', 'a_weir_address.php']) {
                const file = path.join(site.root, 'wp-content/mu-plugins', name);
                fs.renameSync(file, `${file}.away`);
                t.later(() => fs.renameSync(`${file}.away`, file));
        }
}

function unpack(t, site)
{
        const zip = path.join(t.folder(), 'weir.zip');
        const code = 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])';
        execFileSync(path.join(ROOT, 'tools/wordpress-zip'), [zip]);
        execFileSync('/usr/bin/python3', ['-c', code, zip, path.join(site.root, 'wp-content/plugins')]);
}

async function connect(page, fields, button)
{
        for (const [label, value] of Object.entries(fields))
                await page.getByLabel(label, {exact: true}).fill(value);
        await page.getByRole('button', {name: button}).click();
        await page.locator('.notice').first().waitFor();
        return page.locator('#weir-test').innerText({timeout: 1}).catch(() => '');
}

const TOKEN = 'correct-horse-battery-staple';

test('from the zip the plugin is activated, set up by its form, shows the site, and is deleted', async (t) => {
        const site = await startOnce();
        const server = await t.server({target: true, token: TOKEN, more: section(site)});
        const other = await t.server({token: TOKEN});
        await server.level('normal');
        withoutMustUse(t, site);
        unpack(t, site);
        const page = await logIn(t, site, site.admin);
        await page.goto(`${site.url}/wp-admin/plugins.php`);
        await page.locator('[data-slug=weir] .activate a').click();
        await page.locator('[data-slug=weir] .deactivate a').waitFor();
        await page.goto(`${site.url}/wp-admin/tools.php?page=weir`);
        await says(page, '.notice-info, .notice-warning', /actions run as usual/i);

        const address = 'Address of weir';
        const name = 'Name of this site';
        await connect(page, {[address]: 'ftp://weir'}, 'Save and test');
        await says(page, REFUSED, /'ftp:..weir' is no address of weir; it must be http:.*Nothing was changed/);
        await connect(page, {[address]: server.url, 'Access token': 'wrong-wrong-wrong-wrong'}, 'Test connection');
        await says(page, '#weir-test', /weir answers at.*weir does not know this access token/);
        equal(await page.getByLabel(address).inputValue(), server.url, 'what was typed');
        await connect(page, {'Access token': TOKEN, [name]: 'shoe'}, 'Test connection');
        await says(page, '#weir-test', /no section wordpress "shoe"; weir knows: shop/);
        await page.getByText('none is stored').waitFor();
        await connect(page, {'Access token': TOKEN, [name]: 'shop'}, 'Save and test');
        await says(page, '#weir-test', /weir \d+\.\d+.*shop: mode observe, level normal.*weir reads .*MariaDB/s);
        equal(await page.locator('#weir-test .weir-bad').count(), 0, 'lines of what does not work');
        await shot(page, 'wordpress-setup');
        await page.reload();
        await says(page, '.form-table', /normal/);
        expect(!(await page.content()).includes(TOKEN), 'the token is in the page');

        await page.locator('.weir-setup summary').click();
        await connect(page, {[address]: other.url}, 'Save and test');
        await says(page, REFUSED, /type the access token again/);
        await page.reload();
        equal(await page.getByLabel(address, {exact: true}).inputValue(), server.url, 'the stored address');

        await page.goto(`${site.url}/wp-admin/plugins.php`);
        await page.locator('[data-slug=weir] .deactivate a').click();
        page.removeAllListeners('dialog');
        page.on('dialog', (d) => d.accept());
        await page.locator('[data-slug=weir] .activate a').waitFor();
        await page.waitForLoadState('load'); // before that a click is a link to another page
        await page.locator('[data-slug=weir] .delete a').click();
        await until(() => !fs.existsSync(path.join(site.root, 'wp-content/plugins/weir')), 'deletion');
        isClean(site);
});

/* --- who may not ------------------------------------------------------------------------------ */

const CHANGE = {action: 'weir', weir_do: 'mode', of: 'jobs', mode: 'enforce'};

function send(page, url, fields)
{
        return page.evaluate(async ([to, body]) => {
                const res = await fetch(to, {method: 'POST', body: new URLSearchParams(body)});
                return [res.status, res.redirected, await res.text()];
        }, [`${url}/wp-admin/admin-post.php`, fields]);
}

test('a subscriber neither sees the page nor changes anything, with a nonce or without', async (t) => {
        const server = await t.server({mode: 'observe', target: true});
        const site = await wordpress(server);
        const page = await logIn(t, site, site.subscriber);
        page.watch.allow(/403 \(Forbidden\)/);
        expect((await page.goto(`${site.url}/wp-admin/tools.php?page=weir`)).status() === 403, 'it is shown');
        for (const change of [CHANGE, {...CHANGE, weir_do: 'setup'}, {...CHANGE, weir_do: 'unlock'}])
                equal((await send(page, site.url, change))[0], 403, 'without a nonce');
        const admin = await toolsPage(t, site);
        const nonce = await admin.locator('form:has([value=mode]) [name=_wpnonce]').first().inputValue();
        equal((await send(page, site.url, {...CHANGE, _wpnonce: nonce}))[0], 403, 'with a stolen nonce');
        equal((await server.get('throttle')).mode, 'observe', 'mode');
        isClean(site);
});

test('who is not logged in changes nothing', async (t) => {
        const server = await t.server({mode: 'observe', target: true});
        const site = await wordpress(server);
        const body = new URLSearchParams(CHANGE);
        const res = await fetch(`${site.url}/wp-admin/admin-post.php`, {method: 'POST', body, redirect: 'manual'});
        await res.text();
        equal((await server.get('throttle')).mode, 'observe', 'mode');
});

test('a form of another site, and one with a wrong nonce, are refused', async (t) => {
        const server = await t.server({mode: 'observe', target: true});
        const site = await wordpress(server);
        const page = await toolsPage(t, site);
        page.watch.allow(/403 \(Forbidden\)/);
        for (const change of [CHANGE, {...CHANGE, weir_do: 'setup'}, {...CHANGE, weir_do: 'unlock'}]) {
                equal((await send(page, site.url, change))[0], 403, 'without a nonce');
                equal((await send(page, site.url, {...change, _wpnonce: '0123456789'}))[0], 403, 'a wrong one');
        }
        const other = await page.locator('form:has([value=pause]) [name=_wpnonce]').first().inputValue();
        equal((await send(page, site.url, {...CHANGE, _wpnonce: other}))[0], 403, 'that of another change');

        const fields = Object.entries(CHANGE).map(([k, v]) => `<input name="${k}" value="${v}">`).join('');
        const html = `<form method="post" action="${site.url}/wp-admin/admin-post.php">${fields}</form>`;
        const foreign = http.createServer((req, res) => {
                res.setHeader('Content-Type', 'text/html');
                res.end(html);
        });
        await new Promise((resolve) => { foreign.listen(0, '127.0.0.1', resolve); });
        t.later(() => foreign.close());
        /* Another port is another origin of the same site, so that the cookies come along. */
        await page.goto(`http://127.0.0.1:${foreign.address().port}/`);
        const [res] = await Promise.all([
                page.waitForResponse((r) => r.url().endsWith('admin-post.php')),
                page.evaluate(() => document.querySelector('form').submit()),
        ]);
        equal(res.status(), 403, 'answer to the form');
        equal((await server.get('throttle')).mode, 'observe', 'mode');
        isClean(site);
});

run();
