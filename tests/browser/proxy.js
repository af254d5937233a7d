#!/usr/bin/env node
/* weir-test: timeout=300 long
 *
 * The screen of MySQL doors, with real clients of a real MariaDB behind them. */
import {
        answer,
        equal,
        expect,
        findingsOfBoth,
        isCalm,
        isClean,
        isForPeople,
        run,
        says,
        shot,
        test,
        toast,
        undo,
        until
} from './lib.js';
import {guarded, sql} from './lib_doors.js';

const CLASSES = `class "checkout" { user = "app" tier = "critical" }
class "etl" { user = "etl" identity = "reports:etl" tier = "deferrable" }
`;
const READ = 'SELECT COUNT(*) FROM shop.orders WHERE id < 17';

const region = (page, name) => page.getByRole('region', {name, exact: true});
const classes = (page) => region(page, 'Classes');
const rowOf = (page, name) => classes(page).locator('tbody tr').filter({
        has: page.locator('th .mono').getByText(name, {exact: true})
});

/* A statement of each user, so that there is a class of each. */
async function both(t, world)
{
        for (const user of ['app', 'etl'])
                equal((await sql(t, world.port, user, READ)).out, '3\n', `answer to ${user}`);
}

/* Asks the dialog that holds, rations or prioritises a class. */
async function steer(page, verb, name)
{
        await rowOf(page, name).getByRole('button', {name: `${verb} ${name}`}).click();
        return page.locator('dialog[open]');
}

/* --- what it shows ---------------------------------------------------------------------------- */

test('without a door the screen says how to set one up', async (t) => {
        const page = await t.page(await t.server(), '#/sql');
        await page.getByRole('heading', {name: /Put weir in front of/}).waitFor();
        await says(page, '#main', /mysql "shop" \{/);
        await says(page, '#main', /weir\.conf\(5\)/);
        await page.to('#/now');
        await isCalm(page);
        equal(await page.getByRole('heading', {name: 'SQL'}).isVisible(), false, 'SQL on Now');
});

test('a door tells who sends what, and the key m leads to it', async (t) => {
        const world = await guarded(t, {classes: CLASSES});
        const page = await t.page(world.server, '#/now');
        await says(page, region(page, 'SQL'), /shop.*normal.*enforce/s);
        await says(page, '#state', /jobs enforce.*doors enforce/s);
        await page.keyboard.press('g');
        await page.keyboard.press('m');
        await page.getByRole('heading', {name: 'SQL', level: 1}).waitFor();
        await says(page, classes(page), /No transaction has passed yet/);
        await both(t, world);
        await says(page, rowOf(page, 'checkout'), /section checkout · tier critical.*runs/s);
        await says(page, rowOf(page, 'reports:etl'), /section etl · tier deferrable.*runs/s);
        await says(page, region(page, 'shop'), /load: learning.*0 of 4in the window/s);
        await says(page, region(page, 'shop'), new RegExp(`Server127.0.0.1:${world.maria.port}`));
        await says(page, region(page, 'Statements'), /shop\.orders where id < \?/);
        await says(page, region(page, 'Who waits'), /No client waits/);
        equal(await region(page, 'Rules that apply here').isVisible(), false, 'rules');
});

test('statements are sorted by what is chosen, and the address keeps it', async (t) => {
        const world = await guarded(t, {classes: CLASSES});
        await both(t, world);
        await sql(t, world.port, 'app', ...Array(5).fill('SELECT id FROM shop.orders LIMIT 1'));
        const page = await t.page(world.server, '#/sql');
        const panel = region(page, 'Statements');
        const first = panel.locator('tbody tr').first();
        await panel.getByLabel('Order of the statements').selectOption('count');
        await says(page, first, /select id from shop\.orders limit \?.*5/s);
        expect(page.url().endsWith('#/sql?sort=count'), page.url());
        await page.reload();
        equal(await panel.getByLabel('Order of the statements').inputValue(), 'count', 'order');
        await says(page, first, /limit \?/);
});

test('a statement is explained without being run', async (t) => {
        const world = await guarded(t, {classes: CLASSES});
        await world.server.post('throttle', {action: 'pause', for: 600000});
        const page = await t.page(world.server, '#/sql');
        const panel = region(page, 'Explain a statement');
        await panel.getByLabel('Statement').fill('DELETE FROM shop.orders WHERE id = 1');
        await panel.getByLabel('User').fill('etl');
        await panel.getByRole('button', {name: 'Explain'}).click();
        await says(page, panel, /It would wait now.*Classreports:etl.*Sectionetl.*Tierdeferrable/s);
        await says(page, panel, /Loadlearning: nothing waits for load yet/);
        await says(page, panel.locator('pre'), /delete from shop\.orders where id = \?/);
        equal(await world.maria.call('ask', 'SELECT COUNT(*) FROM shop.orders'), [['3']], 'rows');
});

test('of several doors there is a card each, with the way to its screen', async (t) => {
        const world = await guarded(t, {doors: ['shop', 'blog'], mode: 'observe'});
        const page = await t.page(world.server, '#/sql');
        await says(page, region(page, 'blog'), /observe.*0connections/s);
        await page.getByRole('link', {name: 'blog'}).click();
        await page.getByRole('heading', {name: 'SQL: blog', level: 1}).waitFor();
        await page.getByRole('link', {name: /All MySQL doors/}).click();
        await region(page, 'shop').waitFor();
});

/* --- what it changes -------------------------------------------------------------------------- */

test('a class is held by one click, who waits is seen, and it goes on without the rule',
        async (t) => {
                const world = await guarded(t, {classes: CLASSES});
                await both(t, world);
                const page = await t.page(world.server, '#/sql');
                const box = await steer(page, 'Hold', 'reports:etl');
                await says(page, box, /waits for up to 30 s.*on the target shop/s);
                await box.getByLabel('Why').fill('the nightly run is early');
                await answer(page, 'Hold');
                await toast(page, 'reports:etl is held for 1 h.');
                await says(page, rowOf(page, 'reports:etl'), /waits.*rule/s);
                const held = sql(t, world.port, 'etl', READ);
                const waits = region(page, 'Who waits');
                await says(page, waits, /reports:etl.*waits.*a rule holds it.*etl.*127\.0\.0\.1/s);
                equal((await sql(t, world.port, 'app', READ)).out, '3\n', 'the other class');
                const rules = region(page, 'Rules that apply here');
                await says(page, rules, /reports:etl.*every transaction is refused.*nightly run/s);
                await rules.getByRole('button', {name: 'Remove the rule for reports:etl'}).click();
                equal((await held).out, '3\n', 'answer to the held one');
                await says(page, waits, /No client waits/);
                await says(page, region(page, 'What was held'), /shop\.orders where id < \?/);
                await says(page, rowOf(page, 'reports:etl'), /runs/);
        });

test('a class is rationed or prioritised, and undo takes the rule back', async (t) => {
        const world = await guarded(t, {classes: CLASSES});
        await both(t, world);
        const page = await t.page(world.server, '#/sql');
        const rules = async () => (
                await world.server.get(
                        'rules')).rules.map((r) => [r.name, r.kind, r.target, Number(r.ratio)]);
        let box = await steer(page, 'Ration', 'reports:etl');
        await box.getByLabel('Refused, percent').fill('250');
        await box.getByRole('button', {name: 'Ration'}).click();
        equal(await box.getByLabel('Refused, percent').evaluate((el) => el.validity.valid), false,
                'a share of 250 %');
        equal(await rules(), [], 'rules after a mistake');
        await box.getByLabel('Refused, percent').fill('80');
        await answer(page, 'Ration');
        await toast(page, 'reports:etl is rationed for 1 h.');
        equal(await rules(), [['reports:etl', 'ratio', 'shop', 0.8]], 'rules');
        box = await steer(page, 'Prioritise', 'reports:etl');
        await answer(page, 'Prioritise');
        await undo(page, 'reports:etl comes first for 1 h.');
        await until(async () => JSON.stringify(await rules()) ===
                        JSON.stringify([['reports:etl', 'ratio', 'shop', 0.8]]),
                'the rule before it');
});

test('the mode is changed after a question that names who would wait', async (t) => {
        const world = await guarded(t, {mode: 'observe', classes: CLASSES});
        await both(t, world);
        const page = await t.page(world.server, '#/sql');
        await world.server.post('throttle', {action: 'pause', for: 600000});
        await says(page, rowOf(page, 'reports:etl'), /would wait/);
        equal((await sql(t, world.port, 'etl', READ)).out, '3\n', 'answer in the mode observe');
        const mode = page.getByLabel('Mode of door shop');
        await mode.selectOption('enforce');
        await says(page, 'dialog', /At the current load, reports:etl would wait/);
        await answer(page, 'Keep as it is');
        equal(await mode.inputValue(), 'observe', 'mode after no');
        await mode.selectOption('enforce');
        await answer(page, 'Change to enforce');
        await says(page, rowOf(page, 'reports:etl'), /◷ waits/);
        await page.to('#/settings?match=mysql.shop');
        await says(page, region(page, 'MySQL doors'), /mysql\.shop\.mode.*enforce.*changed/s);
        await page.to('#/sql');
        await mode.selectOption('off');
        await toast(page, 'mysql.shop.mode is set.');
        await says(page, region(page, 'shop'), /decides nothing/);
});

test('a door is drained after a question, refuses connections, and takes them again', async (t) => {
        const world = await guarded(t);
        const page = await t.page(world.server, '#/sql');
        await page.getByRole('button', {name: 'Drain door shop'}).click();
        await says(page, 'dialog', /It refuses new connections/);
        await answer(page, 'Drain');
        await says(page, '.note.warn', /This door drains/);
        const refused = await sql(t, world.port, 'app', READ);
        expect(refused.code !== 0, 'a connection to a door that drains');
        await page.getByRole('button', {name: 'Accept connections'}).click();
        await toast(page, 'Door shop accepts connections again.');
        equal((await sql(t, world.port, 'app', READ)).out, '3\n', 'answer afterwards');
});

test('a server that is away is said on the door and on Now, until it is back', async (t) => {
        const world = await guarded(t, {isOwn: true});
        await world.maria.call('halt');
        const page = await t.page(world.server, '#/sql');
        const failed = await sql(t, world.port, 'app', READ);
        expect(failed.code !== 0, 'a connection without a server');
        await says(page, '.note.bad', /The server of shop is away/);
        await page.to('#/now');
        await says(page, region(page, 'SQL'), /server away/);
        await world.maria.call('start');
        await until(async () => (await sql(t, world.port, 'app', 'SELECT 1')).out === '1\n',
                'an answer');
        await page.to('#/sql');
        await page.locator('.note.bad').waitFor({state: 'detached'});
});

/* --- how it looks, and hostile texts ---------------------------------------------------------- */

/* A rule, a held client, statements: something in every panel. */
async function busy(t)
{
        const world = await guarded(t, {classes: CLASSES});
        await both(t, world);
        await world.server.post('rules/reports:etl', {kind: 'hold', target: 'shop'});
        sql(t, world.port, 'etl', READ);
        await until(
                async () => (await world.server.get('proxies/shop')).waiting === 1, 'a held one');
        return world;
}

test('doors are shown without a serious finding, in light and dark', async (t) => {
        const world = await busy(t);
        const page = await t.page(world.server, '#/sql');
        await says(page, region(page, 'Rules that apply here'), /reports:etl/);
        await isCalm(page);
        equal(await page.locator('.missing').allTextContents(), [], 'missing parts');
        await isForPeople(page, 'SQL');
        equal(await findingsOfBoth(page, 'sql'), [], 'findings');
        await steer(page, 'Hold', 'reports:etl');
        equal(await findingsOfBoth(page, 'sql-dialog'), [], 'findings of the dialog');
        await page.keyboard.press('Escape');
        await page.locator('dialog[open]').waitFor({state: 'detached'});
        equal(await page.evaluate(() => document.activeElement.ariaLabel), 'Hold reports:etl',
                'focus after the dialog');
});

test('the screen is not wider than a narrow window', async (t) => {
        const world = await busy(t);
        for (const width of [360, 1280]) {
                const page = await t.page(world.server, '#/sql', {viewport: {width, height: 740}});
                await says(page, region(page, 'Rules that apply here'), /reports:etl/);
                await isCalm(page);
                await shot(page, `sql-${width}`);
                const is = await page.evaluate(() => document.scrollingElement.scrollWidth);
                expect(is <= width, `it is ${is} px wide`);
        }
});

test('hostile names and statements are shown as the text they are', async (t) => {
        const world = await guarded(t, {isOwn: true});
        const evil = '<img src=x onerror=window.__xss=1>';
        await world.maria.call('ask', `CREATE USER \`${evil}\`@'127.0.0.1'`,
                `GRANT ALL ON *.* TO \`${evil}\`@'127.0.0.1'`, `CREATE DATABASE \`${evil}\``,
                `CREATE TABLE \`${evil}\`.\`<x-evil>\` (id INT)`);
        const bad = `/* weir: id=<x-evil>:evil */ SELECT id AS \`${evil}\` FROM \`${
                evil}\`.\`<x-evil>\``;
        equal((await sql(t, world.port, evil, bad)).code, 0, 'a statement of a hostile user');
        equal((await sql(t, world.port, evil, `USE \`${evil}\``, 'SELECT id FROM `<x-evil>`')).code,
                0, 'one without a comment');
        const open =
                sql(t, world.port, evil, `USE \`${evil}\``, 'SELECT SLEEP(60) FROM shop.orders');
        await until(async () => (await world.server.get('proxies/shop/clients?state=running'))
                                        .clients.length === 1,
                'a running one');
        const page = await t.page(world.server, '#/sql?state=all');
        await says(page, region(page, 'Clients'), new RegExp(evil.replace(/[.?]/g, '\\$&')));
        await says(page, region(page, 'Statements'), /<img src=x onerror=window\.__xss=1>/);
        await says(page, classes(page), /<x-evil>:evil/);
        await isClean(page, 'the screen');
        const box = await steer(page, 'Hold', '<x-evil>:evil');
        await isClean(page, 'the dialog');
        await box.getByLabel('Why').fill(evil);
        await answer(page, 'Hold');
        await toast(page, '<x-evil>:evil is held');
        await says(page, region(page, 'Rules that apply here'), /<img src=x/);
        await isClean(page, 'the rules');
        const panel = region(page, 'Explain a statement');
        await panel.getByLabel('Statement').fill(bad);
        await panel.getByRole('button', {name: 'Explain'}).click();
        await says(page, panel, /It would wait now/);
        await isClean(page, 'the explanation');
        await world.maria.call('halt');
        await open;
});

run();
