/* first_paint: from the moment an address is entered to the first pixels of the page, by Chromium's
 * own trace.
 *
 *   node bench/first_paint.mjs URL VISITS NEW_BROWSERS
 *
 * A visit is a new tab, left alone for TAB_MS, so that the browser has done what it does for a new
 * window, and then the address.  What counts is firstPaint - navigationStart of that navigation.
 * Every visit is one of
 *
 *   first   the very first address of a browser that was just started
 *   empty   in a browser that is open and has shown another page, by somebody with an empty cache
 *   stale   the same person again, when the files have to be asked for again (Cache-Control)
 *   fresh   the same person straight after that
 *
 * The persons are browser contexts, each with a cache of its own.  One line of JSON comes out: for
 * each kind a list of visits, in milliseconds, with the bytes that came over the wire. */
import http from 'node:http';

import {launch} from '../tests/browser/lib.js';

const TAB_MS = 1000;
const STALE_MS = 11000; /* the files say max-age=10 */
const TRIES = 5;
const CATEGORIES = ['blink.user_timing', 'loading'];
const VIEW = {
        viewport: {width: 1280, height: 900}
};

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/* Of one navigation; there are others, of the tab's own empty page.  null when the trace lacks
 * them: a process that is started for a page may begin to trace too late. */
function read(events, url)
{
        const start = events.find(
                (e) => e.name === 'navigationStart' && e.args.data.documentLoaderURL === url);
        const of = (e) => start && e.args.data?.navigationId === start.args.data.navigationId;
        const paint = events.find((e) => e.name === 'firstPaint' && of(e));
        const content = events.find((e) => e.name === 'firstContentfulPaint' && of(e));
        if (!paint || !content)
                return null;
        return {
                paint_ms: (paint.ts - start.ts) / 1000,
                content_ms: (content.ts - start.ts) / 1000,
        };
}

/* Runs in the page. */
function sumOfBytes()
{
        const kinds = ['navigation', 'resource'];
        return kinds.flatMap((kind) => performance.getEntriesByType(kind))
                .reduce((sum, e) => sum + e.transferSize, 0);
}

async function visit(browser, context, url, ms)
{
        const page = await context.newPage();
        await pause(ms);
        await browser.startTracing(page, {categories: CATEGORIES});
        await page.goto(url);
        /* The screen is there, so the paints were before; a paint is told a moment later. */
        await page.waitForSelector('#main .screen');
        await page.waitForFunction(
                () => performance.getEntriesByName('first-contentful-paint').length > 0, null,
                {polling: 50});
        const bytes = await page.evaluate(sumOfBytes);
        const trace = JSON.parse(String(await browser.stopTracing()));
        await page.close();
        const found = read(trace.traceEvents, url);
        return found && {...found, bytes};
}

/* make(i) until there is a visit with a trace. */
async function insist(make)
{
        for (let i = 0; i < TRIES; i++) {
                const made = await make(i);
                if (made)
                        return made;
        }
        throw new Error(`${TRIES} traces without a navigation and its first paint`);
}

async function firstOfAll(url)
{
        const browser = await launch();
        const made = await visit(browser, await browser.newContext(VIEW), url, 0);
        await browser.close();
        return made;
}

/* A page of somebody else, so that the browser is not new any more. */
async function warmUp(browser)
{
        const other = http.createServer((req, res) => {
                res.setHeader('Content-Type', 'text/html; charset=utf-8');
                res.end('<!doctype html><title>Another page</title><p>It was here before.');
        });
        await new Promise((resolve) => { other.listen(0, '127.0.0.1', resolve); });
        const context = await browser.newContext(VIEW);
        const page = await context.newPage();
        await page.goto(`http://127.0.0.1:${other.address().port}/`);
        await context.close();
        other.close();
        other.closeAllConnections();
}

async function main(url, visits, newBrowsers)
{
        const said = {first: [], empty: [], stale: [], fresh: []};
        for (let i = 0; i < newBrowsers; i++)
                said.first.push(await insist(() => firstOfAll(url)));
        const browser = await launch();
        said.browser = browser.version();
        await warmUp(browser);
        const persons = [];
        for (let i = 0; i < visits; i++)
                said.empty.push(await insist(async () => {
                        persons[i] = await browser.newContext(VIEW);
                        return visit(browser, persons[i], url, TAB_MS);
                }));
        await pause(STALE_MS);
        for (const person of persons) {
                said.stale.push(await insist(async (i) => {
                        await pause(i ? STALE_MS : 0);
                        return visit(browser, person, url, TAB_MS);
                }));
                said.fresh.push(await insist(() => visit(browser, person, url, TAB_MS)));
        }
        await browser.close();
        process.stdout.write(`${JSON.stringify(said)}\n`);
}

await main(process.argv[2], Number(process.argv[3]), Number(process.argv[4]));
