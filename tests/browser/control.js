#!/usr/bin/env node
/* weir-test: timeout=240 long
 *
 * What an operator does to the gate and to the other nouns: pause with an end, rules that end by
 * themselves, modes, settings, queues, schedules, locks, limits, breakers, batches. */
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';

import {answer, equal, expect, run, says, shot, test, toast, undo, until} from './lib.js';

const inRow = (page, text) => page.locator('tbody tr').filter({hasText: text});
const panel = (page, name) =>
        page.locator('section.panel').filter({has: page.getByRole('heading', {name, exact: true})});

/* Chooses a time that is not among the presets. */
async function chooseTime(box, text)
{
        await box.getByLabel('Ends after', {exact: true}).selectOption('other');
        await box.getByLabel(/Ends after, as/).fill(text);
}

/* --- the gate --------------------------------------------------------------------------------- */

test('load is seen at once: the level, its reason, and the header, up and down', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/now');
        const card = page.getByRole('article', {name: 'Target shop'});
        await says(page, card, /normal/);
        server.load(20);
        await says(page, card, /critical.*threads is 20/);
        await says(page, '#state', /critical/);
        await shot(page, 'now-critical');
        server.load(7);
        await says(page, card, /elevated/);
        server.load(1);
        await says(page, card, /normal/);
        await says(page, panel(page, 'What the gate did'), /critical/);
});

test('replicas that were left out of a value are named beside it', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/now');
        await page.route('**/v1/throttle', async (route) => {
                const got = await route.fetch();
                const state = await got.json();
                for (const m of state.targets[0].metrics)
                        m.note = 'left out: db3: skipped';
                await route.fulfill({response: got, json: state});
        });
        await page.to('#/throttle');
        await says(page, inRow(page, 'threads'), /left out: db3: skipped/);
});

test('the throttle is paused with an end, resumed, paused again by undo, and ends by itself',
        async (t) => {
                const server = await t.server({target: true});
                const page = await t.page(server, '#/throttle');
                const box = panel(page, 'Pause');
                await box.getByLabel('Ends after', {exact: true}).selectOption('10m');
                await box.getByRole('button', {name: 'Pause'}).click();
                await toast(page, 'Paused for 10 min.');
                await says(page, '#state', /paused, .* left/);
                const left = (await server.get('throttle')).pause_left_ms;
                expect(left > 0 && left <= 600000, `${left} ms are left`);
                await shot(page, 'throttle-paused');
                await box.getByRole('button', {name: 'Resume now'}).click();
                await box.getByRole('button', {name: 'Pause'}).waitFor();
                equal((await server.get('throttle')).paused, false, 'paused');
                await undo(page, 'Resumed.');
                await box.getByRole('button', {name: 'Resume now'}).click();
                await chooseTime(box, '8s');
                await box.getByRole('button', {name: 'Pause'}).click();
                await box.getByRole('button', {name: 'Resume now'}).waitFor();
                await box.getByRole('button', {name: 'Pause'}).waitFor();
                equal((await server.get('throttle')).paused, false, 'paused in the end');
        });

test('a job that waits because the throttle is paused says so', async (t) => {
        const server = await t.server({target: true});
        await server.post('throttle', {
                action: 'pause', for: 600000
        });
        const page = await t.page(server, `#/job/${await server.add('something')}`);
        await says(page, '.why', /paused/);
});

test('a rule is set, holds, counts down and ends by itself', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Rules');
        await box.getByLabel('For', {exact: true}).fill('etl');
        await chooseTime(box.locator('details').first(), '15s');
        await box.getByLabel('Why').fill('lunch');
        await box.getByLabel('Your name').fill('anna');
        await box.getByRole('button', {name: 'Set the rule'}).click();
        await toast(page, /The rule for etl holds/);
        const row = inRow(box, 'etl');
        await says(page, row, /every ask is refused.*anna.*lunch/);
        const said = await server.post('check', {identity: 'nightly:etl'});
        equal(said.verdict, 'refused', 'verdict');
        await row.waitFor({state: 'detached'});
        equal((await server.get('rules')).rules, [], 'rules');
        equal((await server.post('check', {identity: 'nightly:etl'})).verdict, 'granted',
                'verdict then');
});

test('another threshold is tried out: it refuses nobody and tells whom it would', async (t) => {
        const server = await t.server({target: true});
        server.load(4);
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Rules');
        const value = async () => (await server.get('throttle')).targets[0].metrics[0].value;
        await until(async () => await value() === '4', 'a value of 4');
        await box.getByLabel('For', {exact: true}).fill('etl');
        await box.getByLabel('Do', {exact: true}).selectOption('threshold');
        await box.getByLabel('Thresholds', {exact: true}).fill('threads=3');
        await box.getByLabel('Mode', {exact: true}).selectOption('observe');
        await box.getByRole('button', {name: 'Set the rule'}).click();
        await says(page, inRow(box, 'etl'), /only told/);
        const said = await server.post('check', {identity: 'nightly:etl'});
        equal([said.verdict, said.would, said.rule], ['granted', 'threshold', 'threshold:etl'],
                'the answer');
});

test('what is tried out stands beside the rule that holds, and goes without it', async (t) => {
        const server = await t.server({target: true});
        await server.post('rules/etl', {
                kind: 'hold', for: 3600000
        });
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Rules');
        const modes = async () =>
                (await server.get('rules')).rules.map((r) => `${r.kind} ${r.mode}`).sort();
        await box.getByLabel('For', {exact: true}).fill('etl');
        await box.getByLabel('Do', {exact: true}).selectOption('exempt');
        await box.getByLabel('Mode', {exact: true}).selectOption('observe');
        await box.getByRole('button', {name: 'Set the rule'}).click();
        await undo(page, 'The rule for etl is tried out');
        await until(async () => (await modes()).join() === 'hold enforce', 'undone alone');
        await box.getByRole('button', {name: 'Set the rule'}).click();
        await until(async () => (await modes()).join() === 'exempt observe,hold enforce', 'both');
        equal((await server.post('check', {identity: 'etl'})).verdict, 'refused', 'verdict');
        await box.getByRole('button', {name: 'Remove the rule for etl that is tried out'}).click();
        await toast(page, 'The rule for etl was removed.');
        equal(await modes(), ['hold enforce'], 'what holds goes on');
});

test('a rule is removed and comes back by undo with the time that was left', async (t) => {
        const server = await t.server({target: true});
        await server.post('rules/etl', {
                kind: 'ratio', ratio: '0.5', for: 3600000, reason: 'slow'
        });
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Rules');
        await inRow(box, 'etl').getByRole('button', {name: 'Remove the rule for etl'}).click();
        await box.getByText('No rule holds.').waitFor();
        await undo(page, 'The rule for etl was removed.');
        await says(page, inRow(box, 'etl'), /50 % of the asks are refused/);
        const [rule] = (await server.get('rules')).rules;
        expect(rule.left_ms > 3500000 && rule.left_ms <= 3600000, `${rule.left_ms} ms are left`);
        equal([rule.ratio, rule.reason], ['0.5', 'slow'], 'the rule');
});

test('a client that is refused is seen by minute and put before all others with one click',
        async (t) => {
                const server = await t.server({target: true});
                server.load(20);
                await server.level('critical');
                await server.post('check', {identity: '7f3e:copy:etl', target: 'shop'});
                const page = await t.page(server, '#/clients');
                const row = panel(page, 'Who asked').locator('tbody tr').first();
                await says(page, row, /7f3e:copy:etl.*100 %/);
                await row.getByRole('button', {name: 'Prioritise 7f3e:copy:etl'}).click();
                await toast(page, '7f3e:copy:etl comes first for 1 h.');
                const rules = async () =>
                        (await server.get('rules')).rules.map((r) => r.name).sort();
                equal(await rules(), ['7f3e:copy:etl', 'all'], 'rules');
                await undo(page, 'comes first');
                await until(async () => (await rules()).length === 0, 'no rule');
                await row.getByRole('link', {name: '7f3e:copy:etl'}).click();
                await page.getByRole('heading', {name: '7f3e:copy:etl', level: 1}).waitFor();
        });

test('the mode is changed after it said what would change, and changed back', async (t) => {
        const server = await t.server({target: true, mode: 'observe'});
        const page = await t.page(server, '#/throttle');
        const mode = async () => (await server.get('throttle')).mode;
        const radio = (name) => page.getByRole('radio', {name, exact: true});
        await until(() => radio('observe').isChecked(), 'observe is shown');
        await radio('enforce').click();
        await says(page, 'dialog', /From observe to enforce\?.*nothing would wait/);
        await shot(page, 'throttle-mode-question');
        await answer(page, 'Keep as it is');
        equal(await mode(), 'observe', 'mode after no');
        await until(() => radio('observe').isChecked(), 'observe is shown again');
        await radio('enforce').click();
        await answer(page, 'Change to enforce');
        await until(async () => await mode() === 'enforce', 'enforce');
        await says(page, '#state', /throttle enforce/);
        await undo(page, 'The mode is enforce.');
        await until(async () => await mode() === 'observe', 'observe again');
        await page.getByLabel(/Mode of checks/).selectOption('off');
        await toast(page, 'Checks are now in mode off.');
        equal((await server.get('now')).check_mode, 'off', 'mode of checks');
});

/* An answer of throttle/advice, as it would be after a week. */
function advice(proposed)
{
        const set = (elevated, critical, minutes) => ({
                elevated,
                critical,
                last_day: {elevated_minutes: minutes, critical_minutes: 0, entered: minutes ? 2 : 0}
        });
        const metric = {
                name: 'threads',
                learned_hours: 168,
                usual_most: '13',
                usual: Array.from({length: 24}, (_, i) => (i === 20 ? '13' : '4')),
                present: set('5,3', '15,10', 95),
                proposed: proposed && set(...proposed, 0),
                reason: proposed ? '' : 'too little was learned'
        };
        return {targets: [{name: 'shop', own: false, metrics: [metric]}], problem: ''};
}

test('proposed thresholds are shown with what they would have done, applied, and taken back',
        async (t) => {
                const server = await t.server({target: true});
                const page = await t.page(server, '#/throttle');
                const box = panel(page, 'Proposed thresholds');
                let proposed = null;
                await page.route('**/v1/throttle/advice*',
                        (route) => route.fulfill({json: advice(proposed)}));
                const open = () => box.locator('summary').filter({hasText: 'shop'}).click();
                const values = async () =>
                        (await server.get('settings'))
                                .settings
                                .filter((s) => s.name.startsWith('target.shop.threads.') &&
                                                s.type === 'pair')
                                .map((s) => [s.value, s.is_changed]);
                await open();
                await says(page, inRow(box, 'threads'), /too little was learned/);
                await open();
                proposed = ['20,15', '60,40'];
                await open();
                const row = inRow(box, 'threads');
                await says(
                        page, row, /7 d.*up to 13.*2 times: 1 h 35 min elevated.*20 \/ 15.*never/);
                await shot(page, 'throttle-advice');
                const apply = row.getByRole('button', {name: /Apply the proposed thresholds/});
                await apply.click();
                await says(page, 'dialog', /Change the thresholds of threads\?.*5 \/ 3 becomes 20/);
                await answer(page, 'Keep as it is');
                equal(await values(), [['5,3', false], ['15,10', false]], 'after no');
                await apply.click();
                await answer(page, 'Apply');
                await toast(page, 'The thresholds of threads are set.');
                equal(await values(), [['20,15', true], ['60,40', true]], 'after yes');
                await undo(page, 'The thresholds of threads are set.');
                await until(async () => (await values()).every(([, changed]) => !changed),
                        'as configured');
        });

test('a threshold is made automatic where it stands, and is refused in other words', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Targets and thresholds');
        const name = 'target.shop.threads.elevated';
        const edit = async (text) => {
                await box.getByRole('button', {name: new RegExp(`^${name} is .*Change it`)})
                        .click();
                await box.getByRole('textbox').fill(text);
                await box.getByRole('button', {name: 'Save'}).click();
        };
        await edit('auto');
        await toast(page, `${name} is set.`);
        await says(page, inRow(box, 'threads'), /auto \(.\)/);
        const {settings} = await server.get('settings');
        equal(settings.find((s) => s.name === name).value, 'auto', 'value');
        page.watch.allow(/400 \(Bad Request\).*settings/);
        await edit('automatic');
        await says(page, box, /two numbers.*or auto/);
        await page.keyboard.press('Escape');
});

test('a target without a day of history says so in place of a proposal', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'Proposed thresholds');
        await box.locator('summary').filter({hasText: 'shop'}).click();
        await says(page, inRow(box, 'threads'), /5 \/ 3.*too little was learned.*at least 24/);
});

test('a hook moves to another tier after the page said how many waiting jobs move', async (t) => {
        const server = await t.server({target: true});
        for (let i = 0; i < 3; i++)
                await server.add('erp_export_all', {in : 3600000});
        const page = await t.page(server, '#/throttle');
        const box = panel(page, 'How important a hook is');
        await box.getByLabel('Hooks like').fill('erp_export_*');
        await says(page, box, /3 waiting jobs would move/);
        await box.getByRole('button', {name: 'Set', exact: true}).click();
        await toast(page, 'erp_export_* is deferrable.');
        equal((await server.get('tiers/erp_export_all')).tier, 'deferrable', 'tier');
        await box.getByLabel('Which tier is this hook?').fill('erp_export_all');
        await says(page, box.locator('output'), /deferrable by erp_export_\*/);
        await box.getByRole('button', {name: 'Take back erp_export_*'}).click();
        await until(async () => (await server.get('tiers/erp_export_all')).tier === 'normal',
                'tier taken back');
});

test('a setting is changed, refused when it is wrong, taken back by undo, and exported',
        async (t) => {
                const server = await t.server({target: true});
                const page = await t.page(server, '#/settings');
                const name = 'throttle.delay.critical.normal';
                const value = async () =>
                        (await server.get('settings')).settings.find((s) => s.name === name);
                const row = inRow(page, name);
                const before = (await value()).value;
                const edit = async (text) => {
                        await row.getByRole('button', {name: /Change it/}).click();
                        await row.getByRole('textbox').fill(text);
                        await row.getByRole('button', {name: 'Save'}).click();
                };
                await edit('7m');
                await toast(page, `${name} is set.`);
                equal([(await value()).value, (await value()).is_changed], ['7m', true], 'value');
                await says(page, panel(page, 'As configuration text'), /7m/);
                await shot(page, 'settings-changed');
                await undo(page, `${name} is set.`);
                await until(async () => (await value()).value === before, 'the value before');
                equal((await value()).is_changed, false, 'is_changed');
                page.watch.allow(/400 \(Bad Request\).*settings/);
                await edit('soon');
                await says(page, row.locator('.error'), /\w/);
                await page.keyboard.press('Escape');
                equal((await value()).value, before, 'value after a wrong one');
                const off = inRow(page, 'throttle.enabled');
                await off.getByRole('button', {name: /Change it/}).click();
                await off.getByRole('combobox').selectOption('false');
                await off.getByRole('button', {name: 'Save'}).click();
                await toast(page, 'throttle.enabled is set.');
                await page.to('#/throttle');
                await page.getByText('The throttle is switched off.').waitFor();
                await page.getByRole('button', {name: 'Switch it on'}).click();
                await page.getByText('The throttle is switched off.').waitFor({state: 'detached'});
        });

test('the throttle switched off elsewhere is seen on every screen, and no more when it is on',
        async (t) => {
                const server = await t.server({target: true, mode: 'enforce'});
                const page = await t.page(server, '#/throttle');
                const off = page.getByText('The throttle is switched off.');
                await says(page, '#state', /throttle enforce/);
                await server.post('settings/throttle.enabled', {value: 'false'});
                await off.waitFor();
                const means = /no job waits for the load.*checks follow.*a pause still holds/;
                await says(page, '.note', means);
                await says(page, '#state', /throttle switched off/);
                await page.to('#/now');
                await off.waitFor();
                await says(page, '.note', means);
                await page.getByRole('link', {name: 'Switch it on in Settings'}).click();
                const row = inRow(page, 'throttle.enabled');
                await row.getByRole('button', {name: 'Reset throttle.enabled'}).click();
                await toast(page, 'throttle.enabled is as configured.');
                await says(page, '#state', /throttle enforce/);
                await page.to('#/now');
                await page.getByRole('article', {name: 'Target shop'}).waitFor();
                await off.waitFor({state: 'detached'});
        });

/* --- the other nouns -------------------------------------------------------------------------- */

test('a queue is paused, starts nothing, and is resumed; its settings are saved', async (t) => {
        const server = await t.server();
        await server.add('x', {queue: 'mail'});
        const page = await t.page(server, '#/queues');
        const row = inRow(page, 'mail');
        await row.getByRole('button', {name: 'Pause queue mail'}).click();
        await says(page, row, /paused/);
        t.worker(server, '--queue', 'mail', '--exec', 'cat');
        await row.getByRole('link', {name: 'mail'}).click();
        await page.getByRole('heading', {name: 'Queue mail'}).waitFor();
        await page.getByLabel('Jobs at once').fill('3');
        await page.getByRole('button', {name: 'Save'}).click();
        await toast(page, 'Queue mail was changed.');
        equal((await server.get('queues/mail')).cap, 3, 'cap');
        equal((await server.get('jobs/1')).status, 'pending', 'the job of the paused queue');
        await page.getByRole('button', {name: 'Resume queue mail'}).click();
        await server.status(1, 'complete');
        await undo(page, 'Queue mail was resumed.');
        await until(async () => (await server.get('queues/mail')).paused, 'paused by undo');
});

test('a queue without jobs is removed from the list and from its own screen', async (t) => {
        const server = await t.server();
        await server.add('x', {queue: 'mail'});
        await server.post('queues/mial/pause');
        await server.post('queues/mali/pause');
        const page = await t.page(server, '#/queues');
        const menuOf = (name) => inRow(page, name).getByRole(
                'button', {name: `Actions for queue ${name}`});
        await menuOf('mial').click();
        equal(await menuOf('mail').count(), 0, 'menus of a queue with a job');
        await page.getByRole('menuitem', {name: 'Remove'}).click();
        await answer(page, 'Remove it');
        await toast(page, 'Queue mial was removed.');
        await inRow(page, 'mial').waitFor({state: 'detached'});
        await inRow(page, 'mali').getByRole('link', {name: 'mali'}).click();
        await page.getByRole('button', {name: 'Remove queue mali'}).click();
        await answer(page, 'Remove it');
        await page.getByRole('heading', {name: 'Queues', level: 1}).waitFor();
        equal((await server.get('queues')).queues.map((q) => q.name), ['mail'], 'queues left');
});

test('a schedule shows its next runs and its mistakes before it is saved, is run, paused and deleted',
        async (t) => {
                const server = await t.server();
                const page = await t.page(server, '#/schedules');
                page.watch.allow(/400 \(Bad Request\).*schedules-try/);
                await page.getByRole('button', {name: 'Add a schedule'}).click();
                const dialog = page.locator('dialog[open]');
                const runs = dialog.getByRole('status', {name: 'Next runs'});
                await says(page, runs, /shown here while you type/);
                await dialog.getByLabel('Name', {exact: true}).fill('nightly');
                await dialog.getByLabel('Hook: what to run').fill('report');
                await dialog.getByLabel('Cron', {exact: true}).fill('61 4 * * *');
                await says(page, runs, /minute.*61/);
                await dialog.getByLabel('Cron', {exact: true}).fill('30 4 * * *');
                await dialog.getByLabel('Time zone').fill('Mars/Olympus');
                await says(page, runs, /Mars\/Olympus/);
                await dialog.getByLabel('Time zone').fill('Asia/Tokyo');
                await says(page, runs, /Reads as: every day at 04:30.*next runs/);
                equal(await runs.locator('li').count(), 5, 'next runs');
                await shot(page, 'schedule-form');
                const told = await runs.locator('time').first().getAttribute('datetime');
                equal((await server.get('schedules')).schedules, [],
                        'schedules before it is saved');
                await dialog.getByRole('button', {name: 'Add the schedule'}).click();
                await toast(page, 'Schedule nightly was added.');
                const {next_ms: next} = await server.get('schedules/nightly');
                equal(new Date(next).toISOString(), told, 'the next run');
                const row = inRow(page, 'nightly');
                const choose = async (name) => {
                        await row.getByRole('button', {name: 'Actions for schedule nightly'})
                                .click();
                        await page.getByRole('menuitem', {name}).click();
                };
                await choose('Run now');
                await toast(page, 'Job 1 was made of nightly.');
                equal((await server.get('jobs/1')).hook, 'report', 'hook of the job');
                await row.getByRole('button', {name: 'Pause schedule nightly'}).click();
                await says(page, row, /paused/);
                await choose('Delete');
                await answer(page, 'Delete it');
                await row.waitFor({state: 'detached'});
                await undo(page, 'Schedule nightly was deleted.');
                await says(page, row, /report/);
        });

test('a schedule whose time is over says so, and offers neither a pause nor to go on',
        async (t) => {
                const server = await t.server();
                const at = Date.now() + 400;
                await server.post('schedules/once',
                        {hook: 'h', args: {}, every: 3600000, first: at, until: at});
                await until(async () => (await server.get('schedules/once')).state === 'done',
                        'its end');
                const page = await t.page(server, '#/schedules');
                await says(page, inRow(page, 'once'), /done/);
                equal(await page.getByRole('button', {name: /^(Pause|Resume) schedule/}).count(), 0,
                        'buttons');
                await page.to('#/schedules/once');
                await says(page, 'main', /It is done and makes no jobs/);
                equal(await page.getByRole('button', {name: /^(Pause|Resume) schedule/}).count(), 0,
                        'buttons of its own screen');
        });

test('a schedule is changed: what the form has no field for stays, and undo puts all of it back',
        async (t) => {
                const server = await t.server();
                const until = Date.now() + 10 ** 10;
                const made = {
                        hook: 'pull',
                        args: {shop: 1},
                        every: 300000,
                        until,
                        missed: 'all',
                        window: 7200000,
                        key: 'k',
                        keymax: 2,
                        resultfor: 60000,
                        queue: 'sync',
                        jitter: 1000,
                };
                await server.post('schedules/sync', made);
                const before = await server.get('schedules/sync');
                const page = await t.page(server, '#/schedules/sync');
                await page.getByRole('button', {name: 'Change schedule sync'}).click();
                const dialog = page.locator('dialog[open]');
                const runs = dialog.getByRole('status', {name: 'Next runs'});
                await says(page, runs, /next runs/);
                equal(Date.parse(await runs.locator('time').first().getAttribute('datetime')),
                        before.next_ms, 'the next run as it is');
                await dialog.getByLabel('Priority').fill('7');
                await dialog.getByRole('button', {name: 'Change it'}).click();
                await toast(page, 'Schedule sync was changed.');
                equal(await server.get('schedules/sync'), {...before, priority: 7}, 'changed');
                await undo(page, 'Schedule sync was changed.');
                await says(page, page.locator('.facts'), /Priority\s*100/);
                equal(await server.get('schedules/sync'), before, 'put back');
        });

test('a lock is released after it said who holds it, and the reason is kept', async (t) => {
        const server = await t.server();
        await server.post('locks/nightly', {ttl: 3600000, owner: 'web-1'});
        const page = await t.page(server, '#/locks');
        const row = inRow(page, 'nightly');
        await says(page, row, /web-1/);
        await row.getByRole('button', {name: 'Release lock nightly'}).click();
        await says(page, 'dialog', /Held by web-1/);
        await shot(page, 'lock-question');
        await page.getByLabel('Why, for the log').fill('web-1 is dead');
        await answer(page, 'Release the lock');
        await row.waitFor({state: 'detached'});
        const again = await server.post('locks/nightly', {ttl: 1000, owner: 'web-2'});
        equal(again.acquired, true, 'acquired by another');
        await until(() => server.log.includes('web-1 is dead'), 'the reason in the log');
});

test('everything paused is said where jobs wait, and no more when it ends', async (t) => {
        const server = await t.server();
        await server.post('jobs', {hook: 'h', args: {}});
        const page = await t.page(server, '#/now');
        const paused = page.getByText('Everything is paused.');
        await server.post('settings/queues.paused', {value: 'on'});
        await paused.waitFor();
        await page.to('#/queues');
        await paused.waitFor();
        await page.getByRole('link', {name: 'End it in Settings'}).click();
        const row = inRow(page, 'queues.paused');
        await row.getByRole('button', {name: /Change it/}).click();
        await row.getByRole('combobox').selectOption('false');
        await row.getByRole('button', {name: 'Save'}).click();
        await says(page, row, /go on *off/);
        await page.to('#/queues');
        await says(page, inRow(page, 'default'), /default/);
        await paused.waitFor({state: 'detached'});
});

test('locks are switched off on the settings, say so where they are listed, and are kept',
        async (t) => {
                const server = await t.server();
                const {token} = await server.post('locks/nightly', {ttl: 3600000, owner: 'web-1'});
                const page = await t.page(server, '#/settings');
                const change = async (to) => {
                        const row = inRow(page, 'locks.enabled');
                        await row.getByRole('button', {name: /Change it/}).click();
                        await row.getByRole('combobox').selectOption(to);
                        await row.getByRole('button', {name: 'Save'}).click();
                        await says(page, row, to === 'true' ? /theirs *on/ : /theirs *off/);
                };
                const take = () => server.post('locks/other', {
                                                 ttl: 1000
                                         }).then((l) => l.acquired, (e) => e.message);
                await change('false');
                await says(
                        page, panel(page, 'As configuration text'), /locks \{\s+enabled = false/);
                expect(/locks\.enabled says so/.test(await take()), 'a lock was given');
                await page.to('#/locks');
                const off = page.getByText('Locks are switched off.');
                await off.waitFor();
                await says(page, inRow(page, 'nightly'), /web-1/);
                await shot(page, 'locks-off');
                await inRow(page, 'nightly').getByRole('link', {name: 'nightly'}).click();
                await page.getByRole('heading', {name: 'Holders'}).waitFor();
                await off.waitFor();
                await server.post('locks/nightly/renew', {token, ttl: 3600000});
                await page.getByRole('link', {name: 'Switch them on in Settings'}).click();
                await change('true');
                equal(await take(), true, 'acquired');
                await page.to('#/locks');
                await says(page, inRow(page, 'nightly'), /web-1/);
                await off.waitFor({state: 'detached'});
                await server.post('settings/locks.enabled', {value: 'off'});
                await off.waitFor();
                await server.post('settings/locks.enabled', {value: 'on'});
                await off.waitFor({state: 'detached'});
        });

test('a breaker is opened by hand and closed, a limit is set and reset, a batch is closed',
        async (t) => {
                const server = await t.server();
                const page = await t.page(server, '#/breakers');
                await page.getByRole('button', {name: 'Add a breaker'}).click();
                await page.getByLabel('Name', {exact: true}).fill('smtp');
                await answer(page, 'Add the breaker');
                const smtp = inRow(page, 'smtp');
                await smtp.getByRole('button', {name: 'Trip breaker smtp'}).click();
                await page.getByLabel('Why', {exact: true}).fill('moved');
                await answer(page, 'Open it');
                await says(page, smtp, /open.*moved/);
                await smtp.getByRole('button', {name: 'Close breaker smtp'}).click();
                await says(page, smtp, /closed/);
                await page.to('#/limits');
                await page.getByRole('button', {name: 'Add a limit'}).click();
                await page.getByLabel('Name', {exact: true}).fill('stripe');
                await page.getByLabel('How many').fill('2');
                await page.getByLabel('In', {exact: true}).fill('1h');
                await answer(page, 'Add the limit');
                await server.post('limits/stripe/take', {cost: 2});
                const stripe = inRow(page, 'stripe');
                await says(page, stripe, /2 of 2.*used up/);
                await stripe.getByRole('button', {name: 'Reset limit stripe'}).click();
                await answer(page, 'Reset it');
                await says(page, stripe, /0 of 2/);
                await page.to('#/batches');
                await page.getByRole('button', {name: 'Add a batch'}).click();
                await page.getByLabel('Name', {exact: true}).fill('import');
                await answer(page, 'Add the batch');
                await server.add('row', {batch: 'import', in : 3600000});
                await page.getByRole('button', {name: 'Close batch import'}).click();
                await answer(page, 'Close it');
                await says(page, inRow(page, 'import'), /closed/);
                await page.getByRole('button', {name: 'Cancel batch import'}).click();
                await answer(page, 'Cancel 1 job');
                await server.status(1, 'canceled');
        });

test('a worker is seen while it waits, with the job it holds, and as idle when it has gone',
        async (t) => {
                const server = await t.server();
                const page = await t.page(server, '#/workers');
                await page.getByText('No worker is connected').waitFor();
                const fifo = `${server.folder}/fifo`;
                execFileSync('mkfifo', [fifo]);
                const worker = t.worker(
                        server, '--queue', 'mail', '--name', 'web-9', '--exec', `cat ${fifo}`);
                const row = inRow(page, 'web-9');
                await says(page, row, /waits for jobs.*mail/);
                const id = await server.add('x', {queue: 'mail'});
                await says(page, row, new RegExp(`works.*mail.*${id}`));
                fs.writeFileSync(fifo, 'done');
                await server.status(id, 'complete');
                await says(page, row, /waits for jobs/);
                await worker.stop();
                await says(page, row, /idle/);
        });

run();
