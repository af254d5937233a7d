/* The live stream: "now" once a second and "event" for each line of the gate's history.
 *
 * Server-sent events while the tab is seen; nothing while it is hidden, so that forgotten tabs cost
 * nothing.  Where the stream cannot be had (a proxy that buffers, too many listeners) v1/now is
 * asked every 2 s instead, and the stream is tried again after 30 s. */
import {api, released} from './lib.js';

const POLL_MS = 2000;
const AGAIN_MS = 30000;
const QUIET_MS = 6000; /* "now" comes every second: longer silence means it does not come */

async function call(fn, data)
{
        try {
                await fn(data);
        } catch (e) {
                if (e.name !== 'AbortError')
                        console.error(e);
        }
}

export class Live
{
        constructor()
        {
                this.listeners = {now: new Set(), event: new Set(), link: new Set()};
                this.last = null;
                this.source = null;
                this.poll = 0;
                this.watch = 0;
                this.tryAt = 0;
                this.turn = 0; /* an answer that was asked for before shut() is not wanted */
                this.isOn = false;
                document.addEventListener('visibilitychange', () => {
                        if (!this.isOn)
                                return;
                        if (document.hidden)
                                this.rest();
                        else
                                this.open();
                });
        }

        on(kind, fn)
        {
                this.listeners[kind].add(fn);
                return () => this.listeners[kind].delete(fn);
        }

        /* Listeners may be async; one whose screen was left meanwhile ends with an AbortError. */
        tell(kind, data)
        {
                for (const fn of [...this.listeners[kind]])
                        call(fn, data);
        }

        start()
        {
                this.isOn = true;
                if (!document.hidden)
                        this.open();
        }

        stop()
        {
                this.isOn = false;
                this.shut();
        }

        rest()
        {
                this.shut();
                this.tell('link', {state: 'hidden', why: 'The tab is not seen.'});
        }

        shut()
        {
                this.turn += 1;
                if (this.source)
                        this.source.close();
                this.source = null;
                clearTimeout(this.poll);
                clearTimeout(this.watch);
        }

        async take(now)
        {
                this.last = now;
                await released();
                this.tell('now', now);
        }

        open()
        {
                this.shut();
                this.tell('link', {state: 'connecting'});
                const source = new EventSource('v1/live');
                this.source = source;
                this.guard();
                source.addEventListener('now', (ev) => {
                        this.guard();
                        this.tell('link', {state: 'live', why: 'Live.'});
                        this.take(JSON.parse(ev.data));
                });
                source.addEventListener('event', (ev) => this.tell('event', JSON.parse(ev.data)));
                source.addEventListener('error', () => {
                        if (source.readyState === EventSource.CLOSED)
                                this.fallBack();
                        else
                                this.tell('link',
                                        {state: 'lost', why: 'The stream broke; trying again.'});
                });
        }

        guard()
        {
                clearTimeout(this.watch);
                this.watch = setTimeout(() => this.fallBack(), QUIET_MS);
        }

        fallBack()
        {
                this.shut();
                this.tryAt = Date.now() + AGAIN_MS;
                this.ask();
        }

        async ask()
        {
                if (!this.isOn || document.hidden)
                        return;
                if (Date.now() > this.tryAt) {
                        this.open();
                        return;
                }
                const mine = this.turn;
                try {
                        const now = await api.get('now');
                        if (mine !== this.turn)
                                return;
                        this.tell('link', {state: 'polling', why: 'The stream could not be had.'});
                        this.take(now);
                } catch (e) {
                        if (mine !== this.turn)
                                return;
                        this.tryAt = Math.min(this.tryAt, Date.now() + POLL_MS);
                        this.tell('link', {state: e.status ? 'none' : 'lost', why: e.message});
                }
                clearTimeout(this.poll);
                this.poll = setTimeout(() => this.ask(), POLL_MS);
        }
}
