#!/usr/bin/env node
/* weir-test: timeout=240 long
 *
 * What a token lets its owner see and do on the page.  Every control that sends a command carries
 * its name (data-needs), so that what is there can be compared with the roles that /openapi.json
 * tells; a reader presses everything that is left, and nothing changes. */
import {equal, expect, isCalm, isDrawn, run, says, shot, test, toast, until} from './lib.js';
import {plain, populate, screens} from './lib_world.js';

const TOKEN = 'correct horse battery staple';
/* Its server is away: the screen has its switches all the same. */
const DOOR = `mysql "shop" { listen = {"127.0.0.1:0"} server = "127.0.0.1:1" target = "shop" }\n`;
const DENIED = /401 \(Unauthorized\)|403 \(Forbidden\)/;

async function logIn(page, token)
{
        await page.getByLabel('Access token').fill(token);
        await page.locator('.login button:not([aria-busy])').click();
        await page.getByRole('button', {name: 'Log out'}).waitFor();
}

/* A page of somebody with these roles; the token is called after them. */
async function pageOf(t, server, role, where = '', more = {})
{
        const name = role.replace(/,/g, '-');
        const {secret} = await server.post(`tokens/${name}`, {role, ...more});
        const page = await t.page(server, where);
        page.watch.allow(DENIED);
        await logIn(page, secret);
        page.secret = secret;
        return page;
}

/* command -> {role, method, path, body} of all that HTTP has. */
async function commands(server)
{
        const res = await fetch(
                `${server.url}/openapi.json`, {headers: {Authorization: `Bearer ${TOKEN}`}});
        const {paths, components: {schemas}} = await res.json();
        const out = new Map();
        for (const [path, methods] of Object.entries(paths))
                for (const [method, it] of Object.entries(methods))
                        if (it['x-weir-role'])
                                out.set(it.operationId, {...it, path, method, schemas});
        return out;
}

/* The commands that controls of the screen send, those in menus as well. */
function needed(page)
{
        return page.evaluate(async () => {
                const found = new Set();
                const collect = () => {
                        for (const el of document.querySelectorAll('[data-needs]'))
                                found.add(el.dataset.needs);
                };
                collect();
                for (const opener of document.querySelectorAll('[aria-haspopup=menu]')) {
                        opener.click();
                        collect();
                        for (const list of document.querySelectorAll('.menu-list:popover-open'))
                                list.hidePopover();
                }
                return [...found].sort();
        });
}

async function walk(page, ids, then)
{
        const out = {};
        for (const [name, hash] of Object.entries({...screens(ids, plain), sql: '#/sql/shop'})) {
                await page.to(hash);
                await isCalm(page);
                if (name === 'now' || name === 'throttle')
                        await page.getByText('is starved').first().waitFor(); /* has an action */
                equal(await page.locator('.missing').allTextContents(), [], `parts of ${name}`);
                out[name] = await needed(page);
                if (then)
                        await then(name);
        }
        return out;
}

/* Presses all that can be pressed, and turns every choice to its last. */
function pressAll(page)
{
        return page.evaluate(() => {
                for (const el of document.querySelectorAll('main button, main summary'))
                        el.click();
                for (const el of document.querySelectorAll('main select')) {
                        el.selectedIndex = el.options.length - 1;
                        el.dispatchEvent(new Event('change', {bubbles: true}));
                }
                for (const el of document.querySelectorAll('main form'))
                        el.requestSubmit();
        });
}

/* A value that the schema takes. */
function valueOf(schema)
{
        if (schema.enum)
                return schema.enum[0];
        if (schema.type === 'integer')
                return schema.minimum || 1;
        if (schema.type === 'array')
                return [valueOf(schema.items)];
        return schema.type === 'boolean' ? true : 'x';
}

async function send(server, secret, {path, method, requestBody, schemas})
{
        let schema = requestBody ? requestBody.content['application/json'].schema : {};
        if (schema.oneOf || schema.anyOf)
                [schema] = schema.oneOf || schema.anyOf;
        if (schema.$ref)
                schema = schemas[schema.$ref.split('/').pop()];
        const of = schema.properties || {};
        const body = Object.fromEntries((schema.required || []).map((k) => [k, valueOf(of[k])]));
        const url = path.replace(/\{id\}/, '1').replace(/\{\w+\}/g, 'x');
        const res = await fetch(`${server.url}${url}`, {
                method: method.toUpperCase(),
                headers: {Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json'},
                body: method === 'post' ? JSON.stringify(body) : undefined,
        });
        return {status: res.status, text: await res.text()};
}

test('each role sees the actions that its commands allow, and a reader none', async (t) => {
        const server = await t.server({token: TOKEN, target: true, more: DOOR});
        const ids = await populate(server);
        const table = await commands(server);
        const admin = await t.page(server);
        admin.watch.allow(DENIED);
        await logIn(admin, TOKEN);
        const all = await walk(admin, ids);
        const seen = new Set(Object.values(all).flat());
        expect(seen.size > 30, `an admin sees actions of ${seen.size} commands`);
        equal([...seen].filter((name) => !table.has(name)), [], 'commands that there are not');

        for (const role of ['reader', 'reader,producer', 'operator']) {
                const page = await pageOf(t, server, role);
                const sent = [];
                page.on('request',
                        (r) => r.method() === 'GET' || sent.push(`${r.method()} ${r.url()}`));
                await says(page, '#who', new RegExp(role.replace(',', ' and ')));
                const {roles} = await page.evaluate(async () => (await fetch('v1/session')).json());
                const has = await walk(page, ids, async () => {
                        if (role === 'reader')
                                await pressAll(page);
                });
                for (const [name, wanted] of Object.entries(all))
                        equal(has[name],
                                wanted.filter((c) => roles.includes(table.get(c)['x-weir-role'])),
                                `actions on ${name} with ${role}`);
                equal(sent.filter((x) => !x.endsWith('/explain')), [], `what ${role} sent`);
                if (role === 'reader')
                        await isRefused(server, page, [...seen].map((c) => [c, table.get(c)]));
                await page.close();
        }
});

/* What is not there would have been refused as well. */
async function isRefused(server, page, list)
{
        for (const [name, row] of list) {
                if (row['x-weir-role'] === 'reader')
                        continue;
                const {status, text} = await send(server, page.secret, row);
                equal([status, text.includes(`needs the role ${row['x-weir-role']}`)], [403, true],
                        `${name}: ${text}`);
        }
}

test('without the role reader the page is one sentence, and a way out', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await pageOf(t, server, 'producer,worker', '#/queues');
        await says(page, '.screen',
                /^This token has the roles producer and worker; the page needs reader\.$/);
        await says(page, '#who', /producer-worker producer and worker/);
        equal(await page.locator('#nav a:visible').count(), 0, 'links to screens');
        equal(await page.locator('[data-needs]').count(), 0, 'actions');
        await shot(page, 'no-reader');
        await page.to('#/jobs');
        await says(page, '.screen', /needs reader/);
        await page.getByRole('button', {name: 'Log out'}).click();
        await page.getByRole('heading', {name: 'Log in'}).waitFor();
        equal(await page.locator('#who').textContent(), '', 'who is told after that');
        await logIn(page, TOKEN);
        await page.getByRole('link', {name: 'Tokens'}).waitFor();
        await says(page, '#who', /default admin/);
});

test('keys and links offer only screens and actions that are allowed', async (t) => {
        const server = await t.server({token: TOKEN});
        await server.add('some_hook');
        const page = await pageOf(t, server, 'reader', '#/jobs');
        await page.getByText('some_hook').first().waitFor();
        equal(await page.locator('#nav a[data-route=tokens]').isVisible(), false,
                'Tokens in the menu');
        await page.locator('main').focus();
        await page.keyboard.press('j');
        await page.keyboard.press('x');
        equal(await page.locator('.bulk').isVisible(), false, 'whether a job can be marked');
        await page.keyboard.press('g');
        await page.keyboard.press('o');
        await page.keyboard.press('?');
        await says(page, 'dialog', /Settings/);
        expect(!(await page.locator('dialog').innerText()).includes('Tokens'), 'a key to Tokens');
        await page.keyboard.press('Escape');
        await page.to('#/tokens');
        await says(page, '.screen', /TOKENS needs the role admin; the token 'reader' has reader/);
});

test('what is refused for its name shows the sentence of the server', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await pageOf(t, server, 'reader,producer', '#/jobs', {queues: 'build-*'});
        await page.getByRole('button', {name: 'Add a job'}).click();
        await page.getByLabel('Hook: what to run').fill('compile');
        await page.getByLabel('Queue').last().fill('mail');
        await page.getByRole('button', {name: 'Add the job'}).click();
        await says(page, 'dialog .error', /is for the queues build-\*, not for 'mail'/);
        await page.getByLabel('Queue').last().fill('build-7');
        await page.getByRole('button', {name: 'Add the job'}).click();
        await toast(page, 'was added.');
        equal((await server.get('jobs')).jobs.map((j) => j.queue), ['build-7'], 'queues of jobs');
});

/* --- the screen of tokens --------------------------------------------------------------------- */

async function secretOf(page)
{
        await says(page, 'dialog.stays', /cannot be shown again/);
        return (await page.locator('dialog.stays .copy code').textContent()).trim();
}

/* A dialog is taken out of the page a moment after it closes. */
async function closeSecret(page)
{
        await page.getByRole('button', {name: 'I have copied it'}).click();
        await page.locator('dialog.stays').waitFor({state: 'detached'});
}

async function isLet(server, secret)
{
        const res =
                await fetch(`${server.url}/v1/now`, {headers: {Authorization: `Bearer ${secret}`}});
        return res.status;
}

test('a token is added, shown once, rotated and removed; those of the file stay', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server, '#/tokens');
        page.watch.allow(DENIED);
        await logIn(page, TOKEN);
        await says(page, 'tbody', /default/);
        await says(page, 'tbody', /configuration file/);
        equal(await page.locator('tbody button').count(), 0, 'actions on tokens of the file');

        await page.getByRole('button', {name: 'Add a token'}).click();
        await page.getByRole('button', {name: 'Add the token'}).click();
        await page.getByLabel('Name').fill('ci');
        await page.getByRole('button', {name: 'Add the token'}).click();
        await says(page, 'dialog .error', /Choose a role\./);
        equal(await page.getByLabel('Queues').isVisible(), false, 'queues without a role for them');
        await page.getByLabel(/^reader /).check();
        await page.getByLabel(/^producer /).check();
        await page.getByLabel('Queues').fill('build-*');
        await page.getByLabel('Ends after', {exact: true}).selectOption('30d');
        await shot(page, 'token-add');
        await page.getByRole('button', {name: 'Add the token'}).click();
        const first = await secretOf(page);
        await shot(page, 'token-secret');
        await page.keyboard.press('Escape');
        await page.locator('dialog.stays').waitFor();
        await closeSecret(page);
        const row = page.locator('tr', {hasText: 'ci'});
        await row.getByText('build-*').waitFor();
        await row.getByText('in 30 d').or(row.getByText('in 29 d')).first().waitFor();
        expect(!(await page.content()).includes(first), 'the secret is still somewhere');
        equal(await isLet(server, first), 200, 'status with the first secret');

        await page.getByRole('button', {name: 'Rotate token ci'}).click();
        await page.getByLabel('The old one stays valid').selectOption('3600000');
        await page.getByRole('button', {name: 'Make a new secret'}).click();
        const second = await secretOf(page);
        expect(second !== first, 'it is another one');
        await closeSecret(page);
        await row.getByText('old secret ends').waitFor();
        equal([await isLet(server, first), await isLet(server, second)], [200, 200], 'both');

        await page.getByRole('button', {name: 'Rotate token ci'}).click();
        await page.getByLabel('The old one stays valid').selectOption('0');
        await page.getByRole('button', {name: 'Make a new secret'}).click();
        const third = await secretOf(page);
        await closeSecret(page);
        equal([await isLet(server, second), await isLet(server, third)], [401, 200], 'one');

        await page.getByRole('button', {name: 'Remove token ci'}).click();
        await says(page, 'dialog', /connections are closed/);
        await page.getByRole('button', {name: 'Remove it'}).click();
        await toast(page, 'Token ci was removed.');
        await until(async () => await isLet(server, third) === 401, 'the end of its secret');
        equal((await server.get('tokens')).tokens.map((x) => x.name), ['default'], 'tokens');
});

test('the first token of an admin locks the page, and its secret stays to be copied', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/tokens');
        page.watch.allow(DENIED);
        await page.getByRole('button', {name: 'Add a token'}).click();
        await says(page, 'dialog', /every client must show one/);
        await page.getByLabel('Name').fill('root');
        await page.getByLabel(/^admin /).check();
        await page.getByRole('button', {name: 'Add the token'}).click();
        const secret = await secretOf(page);
        await page.locator('form.login').waitFor({state: 'attached'});
        await isDrawn(page);
        equal(await secretOf(page), secret, 'the secret');
        await closeSecret(page);
        await logIn(page, secret);
        await says(page, 'tbody', /root/);
        await says(page, '#who', /root admin/);
        await page.getByRole('button', {name: 'Remove token root'}).click();
        await says(page, 'dialog', /You are logged in with it/);
});

run();
