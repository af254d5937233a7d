#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * The page without a mouse: the order of Tab, the skip link, jumps, dialogs, rows, menus. */
import {equal, expect, run, says, test, toast, until} from './lib.js';
import {populate} from './lib_world.js';

const focused = (page) => page.evaluate(() => {
        const el = document.activeElement;
        const box = el.getBoundingClientRect();
        const style = getComputedStyle(el);
        return {
                tag: el.tagName.toLowerCase(),
                id: el.id,
                text: (el.getAttribute('aria-label') || el.innerText || el.value ||
                        '').slice(0, 40),
                isSeen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0,
                hasRing: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
        };
});

/* What Tab comes by until it leaves the page; a page without an end holds the keyboard. */
async function walk(page, most)
{
        const stops = [];
        for (let i = 0; i < most; i++) {
                await page.keyboard.press('Tab');
                const at = await focused(page);
                if (at.tag === 'body' || stops.length && at.id === 'skip')
                        return stops;
                stops.push(at);
        }
        throw new Error(`Tab did not come to an end after ${most} stops`);
}

test('Tab begins with the way past the menu, goes through everything seen, and ends', async (t) => {
        const server = await t.server({target: true});
        await populate(server);
        const page = await t.page(server);
        for (const name of ['now', 'jobs', 'throttle', 'clients', 'schedules', 'settings']) {
                await page.goto('about:blank');
                await page.goto(`${page.base}#/${name}`);
                await page.locator('#main .panel').first().waitFor();
                await page.locator('#state .badge').first().waitFor();
                const stops = await walk(page, 400);
                equal(stops[0].text, 'Skip to content', `the first stop of ${name}`);
                const unseen = stops.filter((s) => !s.isSeen);
                equal(unseen, [], `stops that are not seen in ${name}`);
                const bare = stops.filter((s) => !s.hasRing).map((s) => `${s.tag} ${s.text}`);
                equal(bare, [], `stops that do not look focused in ${name}`);
        }
});

test('the skip link leads past the menu to the screen', async (t) => {
        const server = await t.server();
        await server.add('x');
        const page = await t.page(server, '#/jobs');
        await page.locator('.jobs tbody tr').first().waitFor();
        await page.keyboard.press('Tab');
        expect(await page.locator('#skip').isVisible(), 'the link is not seen');
        await page.keyboard.press('Enter');
        equal((await focused(page)).id, 'main', 'focus');
        equal(page.url().endsWith('#/jobs'), true, 'the screen stays');
        await page.keyboard.press('Tab');
        expect(await page.evaluate(
                       () => document.querySelector('#main').contains(document.activeElement)),
                'it leads elsewhere');
});

test('g and a letter lead to every screen, ? lists them, Escape closes', async (t) => {
        const server = await t.server();
        const page = await t.page(server);
        const jumps = {
                j: 'Jobs',
                q: 'Queues',
                s: 'Schedules',
                w: 'Workers',
                b: 'Batches',
                t: 'Throttle',
                c: 'Clients',
                l: 'Locks',
                i: 'Limits',
                r: 'Breakers',
                p: 'Sites',
                e: 'Settings',
                n: 'Now'
        };
        for (const [key, name] of Object.entries(jumps)) {
                await page.keyboard.press('g');
                await page.keyboard.press(key);
                await page.getByRole('heading', {name, level: 1, exact: true}).waitFor();
                equal(await page.locator('#nav [aria-current=page]').innerText(), name, 'menu');
        }
        await page.keyboard.press('?');
        await page.getByRole('dialog', {name: 'Keys'}).waitFor();
        await says(page, 'dialog', /Breakers/);
        await page.keyboard.press('Escape');
        await page.locator('dialog').waitFor({state: 'detached'});
        await page.getByRole('button', {name: 'Keyboard shortcuts'}).focus();
        await page.keyboard.press('Enter');
        await page.getByLabel('Single keys').selectOption('off');
        await page.keyboard.press('Escape');
        await page.locator('dialog').waitFor({state: 'detached'});
        equal((await focused(page)).id, 'keys', 'focus after the dialog');
        await page.keyboard.press('?');
        await page.keyboard.press('g');
        await page.keyboard.press('j');
        equal(await page.locator('dialog').count(), 0, 'dialogs with single keys off');
        equal(await page.locator('h1').innerText(), 'Now', 'screen with single keys off');
});

test('a job is found, marked, opened and canceled by keys alone', async (t) => {
        const server = await t.server();
        for (let i = 0; i < 3; i++)
                await server.add('job', {in : 3600000});
        const page = await t.page(server, '#/jobs');
        const key = (name) => page.keyboard.press(name);
        await page.locator('.jobs tbody tr').nth(2).waitFor();
        await key('/');
        equal((await focused(page)).tag, 'input', 'focus after /');
        await page.keyboard.type('job');
        await page.waitForURL(/match=job/);
        await key('Escape'); /* empties the field, and another filter takes all marks away */
        await page.waitForURL((url) => !url.hash.includes('match='));
        await key('j');
        await key('j');
        equal(await page.evaluate(() => document.activeElement.dataset.key), '2', 'row');
        await key('x');
        await page.getByText('1 job selected').waitFor();
        await key('x');
        await key('k');
        await key('Enter');
        await page.getByRole('heading', {name: 'Job 3: job'}).waitFor();
        await page.goBack();
        await page.locator('.jobs tbody tr').nth(2).waitFor();
        await key('j');
        await page.getByRole('button', {name: 'Actions for job 3'}).focus();
        await key('Enter');
        equal((await focused(page)).text, 'Run now', 'first entry');
        await key('Escape');
        await until(async () => (await focused(page)).text === 'Actions for job 3', 'focus back');
        await key('Enter');
        await key('End');
        equal((await focused(page)).text, 'Cancel', 'last entry');
        await key('Enter');
        await toast(page, 'Job 3 was canceled.');
        await server.status(3, 'canceled');
});

test('the theme is chosen with the keyboard and stays after a reload', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '', {colorScheme: 'light'});
        const theme = () => page.evaluate(() => document.documentElement.dataset.theme || 'auto');
        const button = page.getByRole('button', {name: /^Theme/});
        await button.focus();
        await page.keyboard.press('Enter');
        await page.keyboard.press('Enter');
        equal(await theme(), 'dark', 'theme');
        await page.reload();
        equal(await theme(), 'dark', 'theme after a reload');
        await button.focus();
        await page.keyboard.press('Enter');
        equal(await theme(), 'auto', 'theme after another');
});

run();
