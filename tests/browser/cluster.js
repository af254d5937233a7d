#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * The machines of a cluster on the screen Now.  How it looks is tried with answers that are made
 * up, while weir itself is alone; a hand-over with two real ones. */
import {
        answer,
        equal,
        expect,
        findings,
        isCalm,
        isClean,
        isForPeople,
        once,
        run,
        says,
        shot,
        test,
        toast,
        until
} from './lib.js';
import {startChild} from './lib_child.js';

function member(node, role, more)
{
        return {
                node,
                address: `weir-${node}.example:7379`,
                role,
                priority: 50,
                seen_ms: 400,
                epoch: 3,
                seq: 48210,
                state: 'same',
                digest: '5a1f0c9e77d2b384',
                digest_seq: 48100,
                ...more
        };
}

const HEALTHY =
        [member('a', 'leader'), member('b', 'follower', {seq: 48207}), member('c', 'follower')];
const GONE = [
        member('a', 'leader'), member('b', 'follower', {seq: 207}),
        member('c', 'gone', {seen_ms: 95000})
];
const DIFFERENT = [
        member('a', 'leader'), member('b', 'follower', {state: 'differs'}),
        member('c', 'follower', {state: 'unknown'})
];
const LEADERLESS = [member('a', 'gone', {seen_ms: 12000}), member('b', 'follower')];

/* Answers v1/cluster from world.members; takes hand-overs and keeps their bodies. */
async function fake(page, members)
{
        const world = {members, asked: 0, handed: []};
        await page.route(/\/v1\/cluster(\/|\?|$)/, (route) => {
                const request = route.request();
                if (request.method() === 'POST') {
                        world.handed.push(request.postDataJSON());
                        return route.fulfill({json: 'OK'});
                }
                const leader = world.members.find((m) => m.role === 'leader');
                world.asked++;
                return route.fulfill({
                        json: {
                                node: 'b',
                                role: 'follower',
                                leader: leader ? leader.node : '',
                                seq: 48210,
                                members: world.members
                        }
                });
        });
        return world;
}

/* Where answers about the cluster are made up, nothing is changed in weir. */
const unchanged = once((t) => t.server());

async function shown(t, members, options = {})
{
        const page = await t.page(await unchanged(), '#/settings', options);
        page.world = await fake(page, members);
        await page.to('#/now');
        await page.getByRole('heading', {name: 'Cluster'}).waitFor();
        await isCalm(page);
        return page;
}

const panelOf = (page) => page.getByRole('region', {name: 'Cluster', exact: true});

test('a weir that is alone shows nothing of a cluster, and is asked once', async (t) => {
        const page = await t.page(await unchanged(), '#/settings');
        let asked = 0;
        let rounds = 0;
        page.on('request', (r) => {
                asked += /\/v1\/cluster$/.test(r.url());
                rounds += /\/v1\/sites$/.test(r.url()); /* at the same pace */
        });
        await page.to('#/now');
        await until(() => rounds >= 3, 'three rounds');
        equal(asked, 1, 'requests');
        equal(await page.getByRole('heading', {name: 'Cluster'}).isVisible(), false, 'the panel');
});

test('machines are told with role, address, batch and how far behind they are', async (t) => {
        const page = await shown(t, HEALTHY);
        await says(page, panelOf(page),
                /a● leaderweir-a\.example:7379348,210–✓ samenow.*b○ followerweir-b.*348,2073✓ same/s);
        equal(await panelOf(page).locator('.note:visible').count(), 0, 'notices');
});

test('who is gone, who is behind, and that nobody leads stand above', async (t) => {
        const page = await shown(t, GONE);
        await says(page, panelOf(page), /b is behind\. .*c is gone\. .*c✕ gone/s);
        const mark = await panelOf(page).locator('.note').first().elementHandle();
        const {asked} = page.world;
        await until(() => page.world.asked > asked + 1, 'another answer');
        expect(await mark.evaluate((el) => el.isConnected), 'a notice that is drawn once');
        page.world.members = LEADERLESS;
        await says(page, panelOf(page), /Nobody leads\. .*a is gone/s);
        equal(await panelOf(page).getByRole('button').count(), 0, 'nothing to hand over');
        page.world.members = HEALTHY;
        await until(async () => await panelOf(page).locator('.note:visible').count() === 0,
                'no notices');
});

test('a machine with another state is named', async (t) => {
        const page = await shown(t, DIFFERENT);
        await says(page, panelOf(page),
                /b has another state than the leader\. .*b○ follower.*✕ differs/s);
});

test('the lead is handed over after a question', async (t) => {
        const page = await shown(t, GONE);
        equal(await panelOf(page).getByRole('button').count(), 1, 'one can take it');
        const button = panelOf(page).getByRole('button', {name: 'Hand over to b'});
        await button.click();
        await page.getByRole('heading', {name: 'Let b lead?'}).waitFor();
        await answer(page, 'Keep as it is');
        equal(page.world.handed, [], 'nothing was sent');
        await button.click();
        await answer(page, 'Hand over');
        await toast(page, /The lead goes to b\./);
        equal(page.world.handed, [{node: 'b'}], 'what was sent');
});

test('who may not hand over has no button for it', async (t) => {
        const token = 'correct horse battery staple';
        const server = await t.server({token});
        for (const [role, wanted] of [['reader', 0], ['operator', 2]]) {
                const {secret} = await server.post(`tokens/${role}`, {role});
                const page = await t.page(server, '#/settings');
                page.watch.allow(/401 \(Unauthorized\)|403 \(Forbidden\)/);
                await page.getByLabel('Access token').fill(secret);
                await page.locator('.login button:not([aria-busy])').click();
                await page.getByRole('button', {name: 'Log out'}).waitFor();
                await fake(page, HEALTHY);
                await page.to('#/now');
                await says(page, panelOf(page), /weir-c\.example/);
                equal(await panelOf(page).getByRole('button').count(), wanted, role);
        }
});

test('it has no serious finding in light and dark, wide and narrow', async (t) => {
        const long = member('x'.repeat(64), 'follower', {address: `${'y'.repeat(250)}:7379`});
        for (const [colorScheme, width, members] of [['light', 1280, GONE],
                     ['dark', 1280, LEADERLESS], ['dark', 360, DIFFERENT],
                     ['light', 360, [...HEALTHY, long]], ['light', 1280, [...HEALTHY, long]]]) {
                const page = await shown(t, members, {colorScheme, viewport: {width, height: 740}});
                const name = `cluster-${colorScheme}-${width}-${members.length}`;
                await isForPeople(page, name);
                await shot(page, name);
                equal(await findings(page), [], name);
                const is = await page.evaluate(() => document.scrollingElement.scrollWidth);
                expect(is <= width, `${name} is ${is} px wide`);
        }
});

test('names of machines are shown as they are', async (t) => {
        const evil = '<img src="x" onerror="alert(1)">';
        const page = await shown(t, [member('a', 'leader'), member(evil, 'gone', {address: evil})]);
        await says(page, panelOf(page), /<img src="x"/);
        await isClean(page, 'Now');
});

/* Two weirs over a PostgreSQL: {leader, follower}, each {node, url}, and leads(), the name. */
async function machines(t)
{
        const {ready, ask} = await startChild(t, 'lib_machines.py');
        return {...ready, leads: () => ask(null)};
}

test('the page of a machine that follows hands over to it, and goes on', async (t) => {
        const {leader, follower, leads} = await machines(t);
        const page = await t.page(follower, '#/now');
        /* Connections are closed on the way, and answered with 503 while nobody leads. */
        page.watch.allow(/request failed/, /Failed to load resource/);
        const row = (m) => panelOf(page).getByRole('row').filter(
                {has: page.getByRole('rowheader', {name: m.node, exact: true})});
        await says(page, row(leader), /leader/);
        await says(page, row(follower), /follower/);
        await panelOf(page).getByRole('button', {name: `Hand over to ${follower.node}`}).click();
        await answer(page, 'Hand over');
        await says(page, row(follower), /leader/);
        await says(page, row(leader), /follower/);
        equal(await leads(), follower.node, 'who leads');
        await until(async () => await panelOf(page).locator('.note:visible').count() === 0,
                'no notices');
});

run();
