/* The screens of the nouns other than jobs: which file has which. */
import {styled} from './parts.js';

const SCREENS = {
        queues: {load: () => import('./queues.js'), text: 'Queues', one: 'Queue'},
        schedules: {load: () => import('./schedules.js'), text: 'Schedules', one: 'Schedule'},
        workers: {load: () => import('./workers.js'), text: 'Workers', one: 'Worker'},
        batches: {load: () => import('./batches.js'), text: 'Batches', one: 'Batch'},
        locks: {load: () => import('./locks.js'), text: 'Locks', one: 'Lock'},
        limits: {load: () => import('./limits.js'), text: 'Limits', one: 'Limit'},
        breakers: {load: () => import('./breakers.js'), text: 'Breakers', one: 'Breaker'},
};

export const title = (params) => {
        const screen = SCREENS[params.noun];
        return params.name === undefined ? screen.text : `${screen.one} ${params.name}`;
};

export async function mount(root, params, ctx)
{
        const [screen] = await Promise.all([SCREENS[params.noun].load(), styled]);
        if (ctx.signal.aborted)
                return undefined;
        return screen.mount(root, params, ctx);
}
