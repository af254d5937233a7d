#!/usr/bin/env node
/* weir-test: timeout=300 long
 *
 * The screen of WordPress sites.  How it looks, and what hostile texts do to it, is tried with
 * answers that are made up; everything else with a real database. */
import {
        answer,
        equal,
        expect,
        findingsOfBoth,
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
import {fakeSites, plainSite, startSite} from './lib_sites.js';

const SCREENS = {
        now: '#/now',
        sites: '#/sites',
        site: '#/sites/shop',
        action: '#/sites/shop?action=17',
};

const ERROR = 'the user weir may not UPDATE wp_actionscheduler_actions: GRANT SELECT, UPDATE ' +
        '(scheduled_date_gmt, scheduled_date_local) ON shop.wp_actionscheduler_actions TO weir';

/* A site in each state. */
const ROWS = [
        {},
        {name: 'blog', mode: 'observe', level: 'normal', would_move: 41},
        {name: 'b2b', mode: 'enforce', error: ERROR, returning: true},
        {name: 'old', mode: 'off', surveyed_ms: 0, url: '', server: '', store: ''},
];

/* Where answers about sites are made up, nothing is changed in weir. */
const unchanged = once((t) => t.server({target: true}));

const reportOf = (page) => page.getByRole('region', {name: 'Report', exact: true});

async function openReport(page)
{
        await reportOf(page).locator('summary').click();
        await says(page, reportOf(page), /Read at/);
}

async function faked(t, where, {name, rows, ...options} = {})
{
        const page = await t.page(await unchanged(), '#/settings', options);
        page.world = await fakeSites(page, name, rows);
        await page.to(where);
        return page;
}

/* --- how it looks ----------------------------------------------------------------------------- */

test('without a site the screen says how to guard one', async (t) => {
        const page = await t.page(await t.server(), '#/sites');
        await page.getByRole('heading', {name: 'Guard a WordPress site'}).waitFor();
        await says(page, '#main', /wordpress "shop" \{/);
        await says(page, '#main', /weir\.conf\(5\)/);
        await page.to('#/now');
        await isCalm(page);
        equal(await page.getByRole('heading', {name: 'Sites'}).isVisible(), false, 'sites on Now');
});

test('sites are shown without a serious finding, in light and dark', async (t) => {
        const page = await faked(t, '#/sites', {rows: ROWS});
        for (const [name, hash] of Object.entries(SCREENS)) {
                await page.to(hash);
                if (name === 'site')
                        await openReport(page);
                await isCalm(page);
                equal(await page.locator('.missing').allTextContents(), [], name);
                await isForPeople(page, name);
                equal(await findingsOfBoth(page, `sites-${name}`), [], name);
        }
});

test('no screen of sites is wider than the window, however long the texts are', async (t) => {
        const long = (kind) =>
                (/error|url/.test(kind) ? plainSite(kind)
                                        : plainSite(kind)
                                                  .replace(/\W/g, '_')
                                                  .padEnd(kind === 'site' ? 64 : 190, 'x'));
        for (const [width, name, as] of [
                     [360, plainSite, 'narrow'], [360, long, 'long'], [1280, long, 'long-wide']]) {
                const page = await faked(t, '#/sites', {
                        name,
                        rows: name === long ? [{}] : ROWS,
                        viewport: {width, height: 740},
                });
                for (const [where, hash] of Object.entries(SCREENS)) {
                        await page.to(hash.replace('shop', name('site')));
                        if (where === 'site')
                                await openReport(page);
                        await isCalm(page);
                        if (as === 'narrow')
                                await shot(page, `sites-${where}-${as}`);
                        const is = await page.evaluate(() => document.scrollingElement.scrollWidth);
                        expect(is <= width, `${where}, ${as}, is ${is} px wide`);
                }
        }
});

test('a card tells how a site is, and a number of it leads to its actions', async (t) => {
        const page = await faked(t, '#/sites', {rows: ROWS});
        const card = (name) => page.getByRole('region', {name});
        await says(page, card('shop'), /load critical.*1,016\+due.*1,610moved.*8running.*4failed/s);
        await says(page, card('shop'), /deferrable1,001\+1,400.*waits 1 h/s);
        await says(page, card('blog'), /41would be moved.*would wait 5 min/s);
        await says(page, card('b2b'), /cannot look after this site: The user weir may not UPDATE/);
        await says(page, card('b2b'), /coming back/);
        await says(page, card('old'), /The guard of this site is off/);
        await card('shop').getByRole('link', {name: /failed/}).click();
        await page.getByRole('heading', {name: 'Site shop', level: 1}).waitFor();
        await until(() => page.world.asked.includes('GET shop actions?status=failed&limit=25'),
                'the failed actions');
        await page.to('#/now');
        await says(page, page.getByRole('region', {name: 'Sites'}),
                /shop.*critical.*enforce.*1,016\+1,610.*41 would be moved in the mode enforce/s);
});

test('of the last moves the newest are shown, with the way to all', async (t) => {
        const page = await faked(t, '#/sites/shop');
        const panel = page.getByRole('region', {name: 'Last moves', exact: true});
        await says(page, panel, /1,700 moved, 12 moved on, 90 given back, 12 put in front/);
        equal(await panel.locator('tbody tr').count(), 10, 'moves');
        await panel.getByRole('link', {name: 'All that are moved now'}).click();
        await until(() => page.world.asked.includes('GET shop actions?status=moved&limit=25'),
                'the moved actions');
});

test('hooks are sorted by what is due or moved, and lead to their actions', async (t) => {
        const page = await faked(t, '#/sites/shop');
        const panel = page.getByRole('region', {name: 'By hook', exact: true});
        const first = panel.locator('tbody tr').first();
        await says(page, first, /klaviyo_sync/);
        await panel.getByRole('button', {name: 'Moved'}).click();
        await says(page, first, /klaviyo_sync/);
        await panel.getByRole('button', {name: 'Moved'}).click();
        await says(page, first, /wc_payment_capture|subscription_payment/);
        await panel.getByRole('link', {name: 'wc_payment_capture'}).click();
        await until(() => page.world.asked.includes(
                            'GET shop actions?hook=wc_payment_capture&limit=25'),
                'its actions');
});

/* --- actions and locks ------------------------------------------------------------------------ */

test('actions come in pages and by status and hook, and the address keeps which', async (t) => {
        const page = await faked(t, '#/sites/shop');
        const panel = page.getByRole('region', {name: 'Actions', exact: true});
        await panel.getByRole('link', {name: '120', exact: true}).waitFor();
        await panel.getByRole('button', {name: 'Older →'}).click();
        await panel.getByRole('link', {name: '95', exact: true}).waitFor();
        expect(page.url().endsWith('#/sites/shop?cursor=96'), page.url());
        await panel.getByRole('button', {name: '← Newer'}).click();
        await panel.getByRole('link', {name: '120', exact: true}).waitFor();
        await panel.getByLabel('Status').selectOption('failed');
        await panel.getByLabel('Hook').fill('klaviyo_sync');
        await until(() => page.world.asked.includes(
                            'GET shop actions?status=failed&hook=klaviyo_sync&limit=25'),
                'the filter');
        await until(async () => await panel.locator('tbody tr').count() === 7, 'failed ones only');
        await page.reload();
        equal(await panel.getByLabel('Status').inputValue(), 'failed', 'status of the address');
        equal(await panel.getByLabel('Hook').inputValue(), 'klaviyo_sync', 'hook of the address');
});

test('an action opens by key, tells why it waits, and Back returns', async (t) => {
        const page = await faked(t, '#/sites/shop?status=moved');
        const panel = page.getByRole('region', {name: 'Actions', exact: true});
        await panel.getByRole('link', {name: '119', exact: true}).waitFor();
        await isCalm(page);
        await page.keyboard.press('j');
        await page.keyboard.press('Enter');
        await page.getByRole('heading', {name: 'Action 119 of shop', level: 1}).waitFor();
        await says(page, '.note.warn', /weir moved it: the load of shop is critical/);
        await says(page, '.timeline', /weir: deferred to.*action created/s);
        const link = page.getByRole('link', {name: /Show it in WordPress/});
        equal(await link.getAttribute('target'), '_blank', 'target');
        equal(await link.getAttribute('rel'), 'noopener noreferrer', 'rel');
        expect((await link.getAttribute('href'))
                        .startsWith('https://shop.example/wp-admin/tools.php'),
                'its address');
        await page.goBack();
        await panel.getByRole('link', {name: '119', exact: true}).waitFor();
        equal(await panel.getByLabel('Status').inputValue(), 'moved', 'the filter');
});

test('a lock is taken away only after a question', async (t) => {
        const page = await faked(
                t, '#/sites/shop', {name: (kind) => (kind === 'key' ? 'a/b c' : plainSite(kind))});
        const take = page.getByRole('button', {name: 'Take away lock a/b c'});
        const deleted = () => page.world.asked.filter((x) => x.startsWith('DELETE'));
        await take.click();
        await answer(page, 'Keep as it is');
        equal(deleted(), [], 'deleted by no');
        await take.click();
        await answer(page, 'Take it away');
        await toast(page, 'Lock a/b c was taken away.');
        equal(deleted(), ['DELETE shop locks a/b c?force=true'], 'deleted');
        await page.getByText('No lock is held.').waitFor();
});

/* --- the report ------------------------------------------------------------------------------- */

test('the report is read when it is opened and by its button, and at no other time', async (t) => {
        const page = await faked(t, '#/sites/shop');
        const reads = () => page.world.asked.filter((x) => x === 'GET shop report').length;
        const again = reportOf(page).getByRole('button', {name: 'Read again'});
        await isCalm(page);
        equal(reads(), 0, 'reports before anybody wants one');
        await reportOf(page).locator('summary').focus();
        await page.keyboard.press('Enter');
        await says(page, reportOf(page), /Read at \d\d:\d\d:\d\d/);
        await comesIntoSight(page);
        equal(reads(), 1, 'reports after it was opened');

        page.world.refusal = 'the site is busy: ask again';
        page.watch.allow(/status of 503.*\/v1\/sites\/shop\/report/);
        await again.click();
        await says(page, reportOf(page), /Not available: The site is busy: ask again\..*813 MB/s);
        page.world.refusal = '';
        await again.click();
        await until(
                async () => await reportOf(page).locator('.missing').count() === 0, 'its answer');
        equal(reads(), 3, 'reports');

        const failed = page.getByRole('region', {name: 'Failed of shop'});
        await failed.getByRole('link', {name: 'klaviyo_sync'}).click();
        await until(() => page.world.asked.includes(
                            'GET shop actions?status=failed&hook=klaviyo_sync&limit=25'),
                'its failed actions');
        await page.goBack();
        await says(page, reportOf(page), /Read at/);
        equal(reads(), 3, 'reports after the way to its actions and back');
        await reportOf(page).locator('summary').click();
        await reportOf(page).locator('summary').click();
        await until(() => reads() === 4, 'a report that was closed and opened');
});

test('a list of the report says what is estimated, and a sentence when it is empty', async (t) => {
        const page = await faked(t, '#/sites/shop');
        await openReport(page);
        const list = (name) => page.getByRole('region', {name: `${name} of shop`});
        await says(page, list('Tables'), /actionscheduler_actionsabout 1,402,311about 813 MB/);
        await says(page, list('Actions by status'), /pending3,211.*completeabout 1,391,002/);
        await says(
                page, list('Completed by day'), /2026-11-27about 17,211.*2026-11-21about 35,600/);
        await says(page, list('Slowest'), /erp_export31 h 30 minklaviyo_sync811under 1 s/);
        await says(page, list('Scheduled most'), /klaviyo_syncabout 31,022wc_yearlyless than 1/);
        await says(page, reportOf(page),
                /No action is past due\..*Past their timeabout 1,204,000.*The rest takesabout 31 min 22 s/);
});

/* --- hostile texts ---------------------------------------------------------------------------- */

for (const payload of ['<img src=x onerror=window.__xss=1>',
             '"><script>window.__xss=1</script><x-evil onclick=__xss=1>',
             'javascript:window.__xss=1', 'data:text/html,<script>window.__xss=1</script>'])
        test(`${payload.slice(0, 12)} in every text of a site is shown as the text it is`,
                async (t) => {
                        const name = (kind) => (kind === 'site' ? 'shop' : payload);
                        const page = await faked(t, '#/sites', {name});
                        for (const [where, hash] of Object.entries(SCREENS)) {
                                await page.to(hash);
                                if (where === 'site')
                                        await openReport(page);
                                await isCalm(page);
                                await page.locator('#main').filter({hasText: payload}).waitFor();
                                await isClean(page, where);
                                equal(await page.locator('#main a[target=_blank]').count(), 0,
                                        `ways out of ${where}`);
                        }
                        await page.to('#/sites/shop');
                        await page.getByRole('button', {name: /^Take away lock/}).click();
                        await isClean(page, 'the question about a lock');
                        await answer(page, 'Take it away');
                        await toast(page, 'was taken away');
                        await isClean(page, 'the message about it');
                });

/* --- a real site ------------------------------------------------------------------------------ */

/* What the page asks for now and then, it asks for at once when its tab comes into sight. */
function comesIntoSight(page)
{
        return page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
}

const ago = (seconds) => Math.floor(Date.now() / 1000) - seconds;

/* A site with three syncs and a payment that are due, its weir, and a page of it. */
async function guarded(t, mode)
{
        const site = await startSite({mode});
        const server = await t.server({target: true, more: site.section});
        await server.post('registry/klaviyo_sync', {tier: 'deferrable'});
        await server.post('registry/wc_payment', {tier: 'critical'});
        site.syncs = [];
        for (let i = 0; i < 3; i++)
                site.syncs.push(await site.call('add_simple', ['klaviyo_sync', ago(60)]));
        site.payment = await site.call('add_simple', ['wc_payment', ago(60)]);
        site.date = async (id) => (await site.call('action', [id])).scheduled_date_gmt;
        /* The page shows it soon after weir knows it: an answer to what the page asks for now and
         * then must not be waited for. */
        site.is = async (what, test) => {
                await until(async () => test(await server.get('sites/shop')), what);
                if (site.page)
                        await comesIntoSight(site.page);
        };
        await site.is('4 due', (s) => s.due === 4);
        const page = await t.page(server, '#/sites/shop');
        site.page = page;
        const card = page.getByRole('region', {name: 'State'});
        await says(page, card, /4due/);
        return {site, server, page, card};
}

test('the mode is changed on the page, and moved actions are seen until they are given back',
        async (t) => {
                const {site, server, page, card} = await guarded(t, 'observe');
                const [id] = site.syncs;
                const date = await site.date(id);
                server.load(20);
                await site.is('3 to be moved', (s) => s.would_move === 3);
                await says(page, card, /load critical.*3would be moved/s);
                const mode = page.getByLabel('Mode of site shop');
                await mode.selectOption('enforce');
                await says(page, 'dialog', /it would move 3 actions/);
                await answer(page, 'Keep as it is');
                equal(await mode.inputValue(), 'observe', 'mode after no');
                equal(await site.date(id), date, 'date in the mode observe');
                await mode.selectOption('enforce');
                await answer(page, 'Change to enforce');
                await site.is('3 moved', (s) => s.due === 1 && s.moved === 3);
                await says(page, card, /1due.*3moved/s);
                expect(await site.date(id) > date, 'its date was not moved');
                await says(page, page.getByRole('region', {name: 'Last moves'}),
                        new RegExp(`3 moved.*${id}.*klaviyo_sync`, 's'));
                await mode.selectOption('observe');
                await says(page, 'dialog', /3 actions were moved and not given back yet/);
                await answer(page, 'Keep as it is');
                server.load(0);
                await site.is('none moved', (s) => s.due === 4 && s.moved === 0);
                await says(page, card, /load normal.*4due.*0moved/s);
                equal(await site.date(id), date, 'date when the load is over');
                await page.to('#/settings?match=site.shop');
                await says(page, page.getByRole('region', {name: 'WordPress sites'}),
                        /site\.shop\.mode.*enforce.*changed/s);
        });

test('a moved action tells why, its original date and its log', async (t) => {
        const {site, server, page} = await guarded(t, 'enforce');
        server.load(20);
        const [id] = site.syncs;
        const panel = page.getByRole('region', {name: 'Actions', exact: true});
        await until(async () => (await server.get('sites/shop')).moved === 3, 'three moved');
        await panel.getByLabel('Status').selectOption('moved');
        await until(async () => await panel.locator('tbody tr').count() === 3, 'the moved ones');
        await panel.getByRole('link', {name: String(id), exact: true}).click();
        await page.getByRole('heading', {name: `Action ${id} of shop`, level: 1}).waitFor();
        await says(page, '.note', /weir moved it: the load of shop is critical.*It was made for/s);
        await says(page, '.timeline', /weir: deferred to.*action created/s);
        const link = page.getByRole('link', {name: /Show it in WordPress/});
        expect((await link.getAttribute('href')).startsWith('http://shop.example/wp-admin/'),
                'its address');
        await page.to(`#/sites/shop?action=${site.payment}`);
        await says(page, '.note', /due and waits for a runner/);
});

test('a lock of the site is seen and taken away', async (t) => {
        const {server, page} = await guarded(t, 'observe');
        await server.post('sites/shop/locks/nightly%2Fexport', {ttl: 600});
        await comesIntoSight(page);
        await page.getByRole('button', {name: 'Take away lock nightly/export'}).click();
        await answer(page, 'Take it away');
        await toast(page, 'Lock nightly/export was taken away.');
        equal((await server.get('sites/shop/locks')).locks, [], 'locks');
});

test('a site that is switched off says so, and what it does not tell', async (t) => {
        const {site, server, page, card} = await guarded(t, 'enforce');
        server.load(20);
        await site.is('3 moved', (s) => s.moved === 3);
        await says(page, card, /3moved/);
        await page.getByLabel('Mode of site shop').selectOption('off');
        await answer(page, 'Change to off');
        await says(page, card, /is off.*Moved actions run at the date that they were moved to/s);
        page.watch.allow(/status of 503.*\/v1\/sites\/shop\/(actions|locks|report)/);
        const panel = page.getByRole('region', {name: 'Actions', exact: true});
        const answered = () => server.get('sites/shop/actions').catch(() => null);
        await until(async () => !await answered(), 'no answer of the site');
        await comesIntoSight(page);
        await says(page, panel, /Not available: The site is off/);
        await reportOf(page).locator('summary').click();
        await says(page, reportOf(page), /Not available: The site is off/);
        await page.getByLabel('Mode of site shop').selectOption('enforce');
        await answer(page, 'Change to enforce');
        await until(answered, 'an answer of the site');
        await comesIntoSight(page);
        await says(page, card, /enforce.*3moved/s);
        await until(async () => !/Not available/.test(await panel.textContent()), 'its actions');
        await reportOf(page).getByRole('button', {name: 'Read again'}).click();
        await says(page, reportOf(page), /klaviyo_sync3.*pending4.*failed0.*No action has failed/s);
});

test('what is wrong with a site is told in plain words', async (t) => {
        const {site, page, card} = await guarded(t, 'observe');
        await site.call('sql', ['RENAME TABLE wp_actionscheduler_actions TO wp_away']);
        await site.is('an error', (s) => s.error);
        await says(page, card, /weir cannot look after this site: .*wp_actionscheduler_actions/s);
        page.watch.allow(/the server responded with a status of [45]\d\d.*\/v1\/sites\/shop/);
        await reportOf(page).locator('summary').click();
        await says(page, reportOf(page), /Not available: .*wp_actionscheduler_actions/s);
        await site.call('sql', ['RENAME TABLE wp_away TO wp_actionscheduler_actions']);
        await site.is('no error', (s) => !s.error);
        await until(
                async () => !/cannot look after/.test(await card.textContent()), 'its recovery');
});

run();
