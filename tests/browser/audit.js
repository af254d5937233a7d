#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * The screens Tokens and Audit: how they look, and what the audit trail can be asked for.  The
 * entries are those of lib_audit.js, but for the test that reads weir's own. */
import {equal,
        expect,
        findingsOfBoth,
        isCalm,
        isClean,
        isForPeople,
        run,
        says,
        test,
        until} from './lib.js';
import {auditEntries, stubAudit} from './lib_audit.js';

const TOKEN = 'correct horse battery staple';
const DENIED = /401 \(Unauthorized\)|403 \(Forbidden\)/;

async function open(t, server, where, options = {})
{
        const context = await t.context(options);
        const asked = await stubAudit(context, options);
        const page = await t.page(server, where, {context});
        page.watch.allow(DENIED);
        await page.getByLabel('Access token').fill(TOKEN);
        await page.locator('.login button').click();
        await page.getByRole('button', {name: 'Log out'}).waitFor();
        return {page, asked};
}

async function tokens(server)
{
        const add = (name, body) => server.post(`tokens/${name}`, body);
        await add('ci', {
                role: 'producer', queues: 'build-*,deploy', for: 30 * 86400000
        });
        await add('workers', {role: 'worker,checker', identities: 'etl:*'});
        await add('a-name-of-a-token-that-is-as-long-as-a-name-of-a-token-can-be.12',
                {role: 'reader,producer,worker,checker,locker', names: 'nightly-report,stripe'});
        await add('anna', {role: 'operator'});
        await server.post('tokens/anna/rotate', {keep: 3600000});
}

const rows = (page) => page.locator('main tbody tr');

test('tokens and the audit trail look right, wide and narrow, in light and dark', async (t) => {
        const server = await t.server({token: TOKEN});
        await tokens(server);
        for (const [width, height] of [[1280, 900], [390, 800]]) {
                const {page} = await open(t, server, '#/tokens', {viewport: {width, height}});
                const bad = [];
                const look = async (name) => {
                        await isCalm(page);
                        await isForPeople(page, name);
                        bad.push(...await findingsOfBoth(page, `${name}-${width}`));
                        const is = await page.evaluate(() => document.scrollingElement.scrollWidth);
                        expect(is <= width, `${name} is ${is} wide in ${width}`);
                };
                await says(page, 'tbody', /anna/);
                await look('tokens');
                await page.to('#/audit');
                await says(page, 'tbody', /PAUSE/);
                await look('audit');
                await page.getByRole('button', {name: 'Details of SCHEDULE'}).first().click();
                await look('audit-details');
                equal(bad, [], 'serious findings');
                await page.context().close();
        }
});

test('what somebody did is told by weir, with who, from where and what was before', async (t) => {
        const server = await t.server({token: TOKEN});
        await server.post('jobs', {hook: 'send', queue: 'mail'});
        await server.post('queues/mail/pause', {});
        await server.post('limits/api', {amount: 5, period: 1000});
        const context = await t.context();
        const page = await t.page(server, '#/audit', {context});
        page.watch.allow(DENIED);
        await page.getByLabel('Access token').fill(TOKEN);
        await page.locator('.login button:not([aria-busy])').click();
        await says(page, 'tbody', /LIMIT[^]*PAUSE/);
        await says(page, 'tbody', /default[^]*127\.0\.0\.1|127\.0\.0\.1[^]*default/);
        await page.getByRole('button', {name: 'Details of PAUSE'}).click();
        await says(page, 'dialog .diff', /paused/);
});

test('the audit trail is filtered, paged and told in detail', async (t) => {
        const server = await t.server({token: TOKEN});
        const {page, asked} = await open(t, server, '#/audit');
        await until(async () => await rows(page).count() === 50, 'a page of entries');
        await isClean(page, 'the audit trail');
        await page.getByRole('button', {name: 'Older →'}).click();
        await until(() => asked.at(-1).before === '71', 'the next page');
        await says(page, 'tbody tr:first-child', /SCHEDULE/);
        await page.getByRole('button', {name: 'Older →'}).click();
        await until(async () => await rows(page).count() === 20, 'the last page');
        equal(await page.getByRole('button', {name: 'Older →'}).isDisabled(), true,
                'no more pages');
        await page.getByRole('button', {name: '← Newer'}).click();
        await until(() => asked.at(-1).before === '71', 'the page before');
        await page.getByRole('button', {name: '← Newer'}).click();
        await until(() => asked.at(-1).before === undefined, 'the first page');

        await page.getByRole('button', {name: 'Details of PAUSE'}).first().click();
        const lines = await page.locator('dialog .diff tbody tr').allTextContents();
        equal(lines, ['paused− false+ true'], 'members that changed');
        await says(page, 'dialog', /1 more did not change/);
        await says(page, 'dialog', /the mail server is away/);
        await page.keyboard.press('Escape');

        await page.getByLabel('Who').fill('anna');
        await page.getByLabel('Command').fill('PAUSE');
        await until(() => asked.at(-1).who === 'anna' && asked.at(-1).command === 'PAUSE',
                'the filter');
        await until(async () => await rows(page).count() === 30, 'the entries of anna');
        expect(page.url().includes('who=anna'), 'the filter is in the address');
        await page.getByLabel('Text').fill('no such text');
        await says(page, '.empty', /No entry is like that/);
        await page.reload();
        await says(page, '.empty', /No entry is like that/);
        equal(await page.getByLabel('Who').inputValue(), 'anna', 'the filter after a reload');
        await page.getByLabel('Text').fill('');
        await page.getByLabel('Since').fill('2026-11-17T00:00');
        await until(() => Number(asked.at(-1).since) === new Date('2026-11-17T00:00').getTime(),
                'the time');
});

test('values that were not there before, or at all, are told as such', async (t) => {
        const server = await t.server({token: TOKEN});
        const {page} = await open(t, server, '#/audit', {entries: auditEntries(4)});
        const diff = async (name) => {
                await page.getByRole('button', {name: `Details of ${name}`}).click();
                await page.locator('dialog').waitFor();
                const lines = await page.locator('dialog .diff tbody tr').allTextContents();
                await page.keyboard.press('Escape');
                return lines;
        };
        equal(await diff('SETTINGSET'), ['value− true+ false'], 'of a setting');
        equal(await diff('SCHEDULE'),
                ['cronnone+ 0 4 * * *', 'options.tiernone+ high', 'options.tagsnone+ [1,2]'],
                'of what is new');
        equal(await diff('AUTH'), [], 'of a failed login');
        await says(page, 'tbody', /× 12/);
});

run();
