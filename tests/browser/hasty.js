#!/usr/bin/env node
/* weir-test: timeout=300 long
 *
 * Hasty hands, slow and lost answers, two people at the same thing: what is seen is what is, a
 * click does what it says, and nobody's work is lost without a word. */
import {
        answer,
        equal,
        expect,
        hold,
        isCalm,
        isDrawn,
        overtake,
        run,
        says,
        stopClock,
        test,
        toast,
        undo,
        until
} from './lib.js';

const TOKEN = 'correct horse battery staple';
const LOST = /ERR_FAILED/;
const LATER = {
        in : 3600000
};
const inRow = (page, text) => page.locator('tbody tr').filter({hasText: text});
const openDialog = (page) => page.locator('dialog[open]');
const heading = (page, name) => page.getByRole('heading', {name, level: 1});
const nav = (page, name) => page.locator('#nav').getByRole('link', {name});

async function logIn(page)
{
        await page.getByLabel('Access token').fill(TOKEN);
        await page.getByRole('button', {name: 'Log in'}).click();
        await heading(page, 'Log in').waitFor({state: 'detached'});
}

/* --- answers that come late ------------------------------------------------------------------- */

test('an answer that a later one has overtaken is not shown any more', async (t) => {
        const server = await t.server();
        const id = await server.add('x', {queue: 'mail', ...LATER});
        for (const [where, asks, press, is] of [
                     ['#/queues', /\/v1\/queues$/, 'Pause queue mail', /paused/],
                     ['#/queues/mail', /\/v1\/queues\/mail$/, 'Resume queue mail', /open/],
                     [`#/job/${id}`, /\/v1\/jobs\/1$/, 'Cancel', /canceled/]]) {
                const page = await t.page(server, where);
                page.watch.allow(/409 \(Conflict\).*\/why/); /* for the old answer */
                await isCalm(page);
                const old = await overtake(page, asks);
                await old.asked();
                await page.locator('main').getByRole('button', {name: press}).click();
                await says(page, '#main', is);
                await page.locator('main').getByRole('button', {name: press}).waitFor({
                        state: 'detached'
                });
                old.free();
                await isCalm(page);
                equal(await page.locator('main').getByRole('button', {name: press}).count(), 0,
                        `buttons "${press}" after the old answer`);
                await page.close();
        }
});

test('what is typed last is what is found, whichever answer comes last', async (t) => {
        const server = await t.server();
        for (const name of ['alpha', 'beta'])
                await server.post(`schedules/${name}`, {hook: 'h', every: 3600000});
        const page = await t.page(server, '#/schedules');
        await isCalm(page);
        const old = await overtake(page, /\/v1\/schedules\?.*match=alpha/);
        await page.getByLabel('Search').fill('alpha');
        await old.asked();
        await page.getByLabel('Search').fill('beta');
        await inRow(page, 'alpha').waitFor({state: 'detached'});
        old.free();
        await isCalm(page);
        equal(await page.locator('main tbody a').allInnerTexts(), ['beta'], 'found');
});

test('a search that is left at once does not change the address of the next screen', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/schedules');
        await isCalm(page);
        await stopClock(page);
        await page.getByLabel('Search').fill('a');
        await nav(page, 'Queues').click();
        await heading(page, 'Queues').waitFor();
        await page.clock.runFor(1000);
        equal(await page.evaluate(() => location.hash), '#/queues', 'address');
});

/* --- hands ------------------------------------------------------------------------------------ */

test('what is drawn anew while it is pressed still does what it says', async (t) => {
        const server = await t.server();
        await server.post('locks/nightly', {ttl: 3600000, owner: 'web-1'});
        await server.add('x', {queue: 'mail', ...LATER});
        const page = await t.page(server, '#/locks');
        const answered = (asks) => async () => (await page.waitForResponse(asks)).finished();
        /* The second one of a stream that begins now: the page has heard one since. */
        const told = () => page.evaluate(() => new Promise((resolve) => {
                const stream = new EventSource('v1/live');
                let n = 0;
                stream.addEventListener('now', () => {
                        n += 1;
                        if (n < 2)
                                return;
                        stream.close();
                        resolve();
                });
        }));
        /* Scrolled to and measured in one go, and again if it was drawn anew before that. */
        const middle = async (what) => {
                for (;;) {
                        const at = await what.evaluate((element) => {
                                element.scrollIntoView({block: 'center'});
                                const box = element.getBoundingClientRect();
                                return element.isConnected &&
                                        {x: box.x + box.width / 2, y: box.y + box.height / 2};
                        });
                        if (at)
                                return at;
                }
        };
        const press = async (what, isTold) => {
                const {x, y} = await middle(what);
                await page.mouse.move(x, y);
                await page.mouse.down();
                await isTold();
                await isDrawn(page);
                await page.mouse.up();
        };
        await isCalm(page);
        await press(page.getByRole('button', {name: 'Release lock nightly'}),
                answered(/\/v1\/locks\?/));
        await says(page, openDialog(page), /Held by web-1/);
        await page.keyboard.press('Escape');
        await page.to('#/queues/mail');
        await press(page.getByRole('button', {name: 'Pause queue mail'}),
                answered(/\/v1\/queues\/mail$/));
        await toast(page, 'Queue mail was paused');
        await page.to('#/now');
        await says(page, '#link', /live/);
        await press(page.locator('.tiles').getByRole('link').first(), told);
        await heading(page, 'Jobs').waitFor();
});

test('Enter twice at what takes something away closes the question and changes nothing',
        async (t) => {
                const server = await t.server();
                await server.post('locks/nightly', {ttl: 3600000, owner: 'web-1'});
                const page = await t.page(server, '#/locks');
                const sent = [];
                page.on('request', (r) => r.method() === 'GET' || sent.push(r.url()));
                await page.getByRole('button', {name: 'Release lock nightly'}).focus();
                await page.keyboard.press('Enter');
                await openDialog(page).waitFor();
                await page.keyboard.press('Enter');
                await openDialog(page).waitFor({state: 'detached'});
                await isCalm(page);
                equal(sent, [], 'what was sent');
                equal((await server.get('locks/nightly')).holders.length, 1, 'holders');
        });

test('Back takes an open dialog away with its screen', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/queues');
        await nav(page, 'Jobs').click();
        await page.getByRole('button', {name: 'Add a job'}).click();
        await openDialog(page).waitFor();
        await page.goBack();
        await heading(page, 'Queues').waitFor();
        equal(await openDialog(page).count(), 0, 'dialogs over the other screen');
});

test('a dialog that is closed while it saves tells what became of it', async (t) => {
        const server = await t.server();
        for (const [where, add, fill, save, asks] of [[
                     '#/limits', 'Add a limit', {Name: 'a', 'How many': '1', In: '1s'},
                     'Add the limit', /\/v1\/limits\/a$/
             ],
                     [
                             '#/jobs', 'Add a job', {'Hook: what to run': 'a'}, 'Add the job',
                             /\/v1\/jobs$/
                     ]]) {
                const page = await t.page(server, where);
                page.watch.allow(LOST);
                await page.getByRole('button', {name: add}).click();
                for (const [label, value] of Object.entries(fill))
                        await openDialog(page).getByLabel(label, {exact: true}).fill(value);
                const held = await hold(page, asks);
                await openDialog(page).getByRole('button', {name: save}).click();
                await held.asked();
                await page.keyboard.press('Escape');
                await openDialog(page).waitFor({state: 'detached'});
                await held.cut();
                await toast(page, 'weir does not answer.');
                await page.close();
        }
});

test('marks that are set while others are treated stay, those of jobs that went do not',
        async (t) => {
                const server = await t.server();
                for (let i = 0; i < 3; i++)
                        await server.add('a', LATER);
                const page = await t.page(server, '#/jobs?status=pending');
                const row = (id) => page.locator(`.jobs tr[data-key="${id}"]`);
                const bar = page.getByRole('region', {name: 'Selected jobs'});
                await row(1).getByRole('checkbox').check();
                const held = await hold(page, /\/v1\/jobs\/run$/);
                await bar.getByRole('button', {name: 'Run now'}).click();
                await held.asked();
                await row(2).getByRole('checkbox').check();
                await row(3).getByRole('checkbox').check();
                await held.free();
                await toast(page, '1 job may run now.');
                await bar.getByText('2 jobs selected').waitFor();
                await row(3).getByRole('button', {name: 'Actions for job 3'}).click();
                await page.getByRole('menuitem', {name: 'Cancel'}).click();
                await row(3).waitFor({state: 'detached'});
                await bar.getByText('1 job selected').waitFor();
        });

test('another page of jobs that could not be had is the next one still', async (t) => {
        const server = await t.server();
        for (let i = 0; i < 105; i++)
                await server.add('a', LATER);
        const page = await t.page(server, '#/jobs');
        page.watch.allow(LOST);
        await isCalm(page);
        const held = await hold(page, /\/v1\/jobs\?/);
        const older = page.getByRole('button', {name: 'Older →'});
        await older.click();
        await held.asked();
        await held.cut();
        await page.locator('main .missing').waitFor();
        await held.free();
        await older.click();
        await says(page, '.pager', /page 2/);
        equal(await page.locator('.jobs tbody tr').count(), 50, 'rows');
        equal(await page.locator('.jobs tr[data-key]').first().getAttribute('data-key'), '55',
                'the first of them');
});

test('modes cannot be chosen before the present one is known', async (t) => {
        const server = await t.server({target: true, mode: 'observe'});
        const page = await t.page(server, '#/queues');
        const held = await hold(page, /\/v1\/throttle$/);
        await nav(page, 'Throttle').click();
        await held.asked();
        const modes = page.getByRole('radiogroup', {name: 'Mode of the throttle'});
        await modes.waitFor();
        equal(await modes.getByRole('radio').evaluateAll((all) => all.every((el) => el.disabled)),
                true, 'whether all are disabled');
        await held.free();
        await modes.getByRole('radio', {name: 'enforce', exact: true}).click();
        await answer(page, /^Change to/);
        await toast(page, 'The mode is enforce.');
});

test('of tiers that are chosen one after the other the last one is asked about', async (t) => {
        const server = await t.server();
        await server.post('registry/erp_*', {tier: 'high'});
        const page = await t.page(server, '#/throttle');
        const tier = page.getByLabel('Tier of erp_*');
        await tier.waitFor();
        const held = await hold(page, /\/v1\/registry-try/);
        await tier.selectOption('normal');
        await held.asked();
        await tier.selectOption('deferrable');
        await held.free();
        await openDialog(page).first().waitFor();
        await isCalm(page);
        equal(await openDialog(page).getByRole('heading').allInnerTexts(),
                ['erp_*: from high to deferrable?'], 'questions');
});

test('a rule that is removed on the screen of a client can be put back', async (t) => {
        const server = await t.server();
        await server.post('check', {identity: 'etl'});
        await server.post('rules/etl', {
                kind: 'hold', for: 3600000, reason: 'moved'
        });
        const page = await t.page(server, '#/clients/etl');
        const remove = page.getByRole('button', {name: 'Remove the rule for etl'});
        await remove.click();
        await remove.waitFor({state: 'detached'});
        equal((await server.get('rules')).rules, [], 'rules');
        await undo(page, 'The rule for etl was removed.');
        await remove.waitFor();
        const [rule] = (await server.get('rules')).rules;
        equal([rule.kind, rule.reason], ['hold', 'moved'], 'rule');
        expect(rule.left_ms <= 3600000, `${rule.left_ms} ms are left`);
});

/* --- connections ------------------------------------------------------------------------------ */

test('one thing that cannot be asked for stays as it was shown, and that is said', async (t) => {
        const server = await t.server();
        const id = await server.add('x', {queue: 'mail', ...LATER});
        await server.post('check', {identity: 'etl'});
        for (const [where, asks] of [['#/queues/mail', /\/v1\/queues\/mail$/],
                     [`#/job/${id}`, /\/v1\/jobs\/1$/], ['#/clients/etl', /\/v1\/clients\/etl/]]) {
                const page = await t.page(server, where);
                page.watch.allow(LOST);
                await isCalm(page);
                const panels = () => page.locator('main section.panel:visible').count();
                const before = await panels();
                const held = await hold(page, asks);
                await held.asked();
                await held.cut();
                await says(page, 'main .missing', /weir does not answer/);
                equal(await panels(), before, `panels of ${where}`);
                expect(await page.locator('main .facts').first().isVisible(),
                        `facts of ${where} are gone`);
                await held.free();
                await page.locator('main .missing').waitFor({state: 'detached'});
                await page.close();
        }
});

test('what the gate did is asked for again when it could not be had', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/queues');
        page.watch.allow(LOST);
        let failed = 0;
        page.on('requestfailed', () => { failed += 1; });
        const held = await hold(page, /\/v1\/throttle\/history/);
        await held.cut();
        await page.to('#/now');
        await until(() => failed >= 3, 'a third question');
        await says(page, 'main .missing', /weir does not answer/);
        await held.free();
        await page.locator('main .missing').waitFor({state: 'detached'});
});

test('events of a job that could not be had are not told to be none', async (t) => {
        const server = await t.server();
        const id = await server.add('x', LATER);
        const page = await t.page(server, '#/queues');
        page.watch.allow(/500 \(Internal/);
        await page.route(/\/v1\/jobs\/1\/events/, (route) => route.fulfill({status: 500}));
        await page.to(`#/job/${id}`);
        await says(page, 'main', /The server answered 500/);
        equal(await page.getByText('No events are kept').count(), 0, 'claims');
});

test('an undo that failed is offered still', async (t) => {
        const server = await t.server();
        await server.add('x', {queue: 'mail', ...LATER});
        const page = await t.page(server, '#/queues');
        page.watch.allow(LOST);
        await page.getByRole('button', {name: 'Pause queue mail'}).click();
        await toast(page, 'Queue mail was paused');
        const held = await hold(page, /\/v1\/queues\/mail\/resume$/);
        await undo(page, 'Queue mail was paused');
        await held.asked();
        await held.cut();
        await toast(page, 'weir does not answer.');
        await held.free();
        await undo(page, 'Queue mail was paused');
        await until(async () => !(await server.get('queues/mail')).paused, 'resumed');
});

test('a tier that could not be set is not shown as if it were', async (t) => {
        const server = await t.server();
        await server.post('registry/erp_*', {tier: 'high'});
        const page = await t.page(server, '#/throttle');
        page.watch.allow(LOST);
        const tier = page.getByLabel('Tier of erp_*');
        await tier.waitFor();
        await page.route(/\/v1\/registry\/erp_/, (route) => route.abort());
        await tier.selectOption('normal');
        await answer(page, 'Change');
        await toast(page, 'weir does not answer.');
        await until(async () => await tier.inputValue() === 'high', 'the tier as it is');
});

test('a session that ended closes the dialog, and the way in is free', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server, '#/jobs');
        page.watch.allow(/./s);
        await logIn(page);
        await page.getByRole('button', {name: 'Add a job'}).click();
        await openDialog(page).getByLabel('Hook: what to run').fill('x');
        await server.stop();
        await server.again();
        await heading(page, 'Log in').waitFor();
        equal(await openDialog(page).count(), 0, 'dialogs');
        await logIn(page);
        await heading(page, 'Jobs').waitFor();
        await page.locator('#state .badge').first().waitFor();
});

test('who logs in anew in one tab can go on in the other', async (t) => {
        const server = await t.server({token: TOKEN});
        const page = await t.page(server, '#/queues');
        page.watch.allow(/401 \(Unauth|403 \(Forbidden/);
        await server.add('x', {queue: 'mail', ...LATER});
        await logIn(page);
        await page.getByRole('button', {name: 'Pause queue mail'}).waitFor();
        await page.evaluate((token) => fetch('login', {
                method: 'POST',
                headers: {'Content-Type': 'application/json'},
                body: JSON.stringify({token}),
        }),
                TOKEN);
        await page.getByRole('button', {name: 'Pause queue mail'}).click();
        await toast(page, 'Queue mail was paused');
});

test('a screen that could not be loaded is loaded by trying again', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/queues');
        page.watch.allow(/./s);
        const held = await hold(page, /\/ui\/locks\.js/);
        await nav(page, 'Locks').click();
        await held.asked();
        await held.cut();
        await page.getByText('This screen could not be shown.').waitFor();
        await held.free();
        await page.getByRole('button', {name: 'Try again'}).click();
        await page.getByText('No lock is held.').waitFor();
});

test('a weir of another version is told of, with a way to load its page', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/queues');
        page.watch.allow(/./s);
        await says(page, '#link', /live/);
        await page.route(/\/v1\/session$/, async (route) => {
                const json = await (await route.fetch()).json();
                await route.fulfill({json: {...json, version: '99.0.0'}});
        });
        await server.stop();
        await says(page, '#link', /no connection|no live data/);
        await server.again();
        await toast(page, 'weir is now version 99.0.0');
        await page.getByRole('button', {name: 'Load the page anew'}).click();
        await says(page, '#foot', /99\.0\.0/);
        equal(await page.locator('.toast').count(), 0, 'messages');
});

/* --- two people ------------------------------------------------------------------------------- */

test('a name that there is already is not taken by adding one', async (t) => {
        const server = await t.server();
        await server.post('limits/stripe', {amount: 5, period: 60000});
        const page = await t.page(server, '#/limits');
        await page.getByRole('button', {name: 'Add a limit'}).click();
        for (const [label, value] of Object.entries({Name: 'stripe', 'How many': '2', In: '1h'}))
                await openDialog(page).getByLabel(label, {exact: true}).fill(value);
        await openDialog(page).getByRole('button', {name: 'Add the limit'}).click();
        await says(page, openDialog(page), /There is a limit stripe already/);
        equal((await server.get('limits/stripe')).amount, 5, 'amount');
});

test('what somebody else changed or deleted meanwhile is not overwritten by a form', async (t) => {
        const server = await t.server();
        const set = (priority) =>
                server.post('schedules/sync', {hook: 'pull', every: 300000, priority, args: {}});
        await set(1);
        const page = await t.page(server, '#/schedules/sync');
        page.watch.allow(/404 \(Not Found/);
        await page.getByRole('button', {name: 'Change schedule sync'}).click();
        await openDialog(page).getByLabel('Attempts').fill('9');
        await set(2);
        const save = openDialog(page).getByRole('button', {name: 'Change it'});
        await save.click();
        await says(page, openDialog(page), /was changed by somebody else meanwhile/);
        equal((await server.get('schedules/sync')).attempts, 3, 'attempts');
        await openDialog(page).getByRole('button', {name: 'Close'}).click();
        await page.getByRole('button', {name: 'Change schedule sync'}).click();
        await openDialog(page).getByLabel('Attempts').fill('9');
        await save.click();
        await toast(page, 'Schedule sync was changed.');
        const {attempts, priority} = await server.get('schedules/sync');
        equal([attempts, priority], [9, 2], 'attempts and priority');
        await page.getByRole('button', {name: 'Change schedule sync'}).click();
        await openDialog(page).waitFor();
        await server.ask('DELETE', 'schedules/sync');
        await save.click();
        await says(page, openDialog(page), /was deleted meanwhile/);
        equal((await server.get('schedules')).schedules, [], 'schedules');
});

test('undo does not overwrite what somebody else has done since', async (t) => {
        const server = await t.server();
        const set = (amount) => server.post('limits/stripe', {amount, period: 60000});
        const amount = async () => (await server.get('limits/stripe')).amount;
        await set(5);
        const page = await t.page(server, '#/limits');
        await page.getByRole('button', {name: 'Change limit stripe'}).click();
        await openDialog(page).getByLabel('How many').fill('6');
        await answer(page, 'Change it');
        await toast(page, 'Limit stripe was changed.');
        await set(7);
        await undo(page, 'Limit stripe was changed.');
        await toast(page, 'was changed by somebody else meanwhile');
        equal(await amount(), 7, 'amount');
        await page.getByRole('button', {name: 'Delete limit stripe'}).click();
        await answer(page, 'Delete it');
        await toast(page, 'Limit stripe was deleted.');
        await set(8);
        await undo(page, 'Limit stripe was deleted.');
        await toast(page, 'There is a limit stripe already');
        equal(await amount(), 8, 'amount of the new one');
});

test('a paused schedule that is deleted by mistake comes back paused', async (t) => {
        const server = await t.server();
        await server.post('schedules/sync', {hook: 'pull', every: 300000, args: {}});
        await server.post('schedules/sync/pause');
        const page = await t.page(server, '#/schedules');
        await page.getByRole('button', {name: 'Actions for schedule sync'}).click();
        await page.getByRole('menuitem', {name: 'Delete'}).click();
        await answer(page, 'Delete it');
        await undo(page, 'Schedule sync was deleted.');
        await says(page, inRow(page, 'sync'), /paused/);
        equal((await server.get('schedules/sync')).state, 'paused', 'state');
});

test('settings of a queue: what is typed stays while others change them, and only it is saved',
        async (t) => {
                const server = await t.server();
                await server.post('queues/mail', {cap: 5, claims: 2});
                const page = await t.page(server, '#/queues/mail');
                const cap = page.getByLabel('Jobs at once');
                const field = page.getByLabel('Claims at once');
                const now = async () => {
                        const q = await server.get('queues/mail');
                        return [q.cap, q.claims, q.lease];
                };
                await cap.fill('7');
                await server.post('queues/mail', {claims: 3, lease: 30000});
                const drawn = () => page.waitForResponse(/\/v1\/queues\/mail$/);
                await drawn();
                await drawn();
                equal(await cap.inputValue(), '7', 'what is typed');
                await page.getByRole('button', {name: 'Save'}).click();
                await toast(page, 'Queue mail was changed.');
                equal(await now(), [7, 3, 30000], 'saved');
                await until(async () => await field.inputValue() === '3', 'the form as it is now');
                await server.post('queues/mail', {claims: 4});
                await undo(page, 'Queue mail was changed.');
                await toast(page, 'As it was before.');
                equal(await now(), [5, 4, 30000], 'undone');
        });

test('a value that is being typed stays when another is saved', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/throttle');
        const change = (name) => page.getByRole('button', {name: new RegExp(`^${name} is`)});
        const value = (name) => page.getByLabel(new RegExp(`^${name}:`));
        await change('target.shop.threads.elevated').click();
        await value('target.shop.threads.elevated').fill('6,4');
        await change('throttle.delay.elevated.normal').click();
        await value('throttle.delay.elevated.normal').fill('77s');
        await page.keyboard.press('Enter');
        await toast(page, 'throttle.delay.elevated.normal is set.');
        await isCalm(page);
        equal(await value('target.shop.threads.elevated').inputValue(), '6,4', 'what is typed');
});

test('a pause that was ended by mistake is put back with its own end', async (t) => {
        const server = await t.server();
        await server.post('throttle', {
                action: 'pause', for: 1800000
        });
        const page = await t.page(server, '#/queues');
        await page.clock.install();
        await page.to('#/throttle');
        const resume = page.getByRole('button', {name: 'Resume now'});
        await resume.waitFor();
        const held = await hold(page, /\/v1\/throttle$/);
        await page.clock.fastForward(1200000);
        await resume.click();
        await held.asked();
        await held.free();
        await until(async () => !(await server.get('throttle')).paused, 'resumed');
        await undo(page, 'Resumed.');
        await until(async () => (await server.get('throttle')).paused, 'paused again');
        const left = (await server.get('throttle')).pause_left_ms;
        expect(left > 0 && left <= 600000, `${left} ms are left`);
});

run();
