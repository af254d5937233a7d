/* Locks: who holds what, for how long, with which fence; and the way to take one away. */
import {
        badge,
        copyLine,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        h,
        panel,
        path,
        plural,
        table,
        toast
} from './lib.js';
import {nounList, nounOne} from './noun.js';
import {by, formDialog, fromNow, runTimes, text} from './parts.js';
import {offBox} from './settings.js';

function switchedOff(ctx)
{
        return offBox(ctx, {
                flag: 'locks_enabled',
                name: 'locks.enabled',
                what: 'Locks are switched off.',
                means: 'Nobody is granted one, and whoever asks is told why. Holders keep theirs.',
                link: 'Switch them on in Settings',
        });
}

/* The holder is not told, so the dialog says what protects it: the fence. */
function release(ctx, lock, after)
{
        const held = lock.held ?? lock.holders.length;
        const owners = lock.holders ? lock.holders.map((x) => x.owner).filter(Boolean).join(', ')
                                    : lock.owner;
        const who = held > 1 ? `${plural(held, 'holder')}: ${owners || 'without names'}.`
                             : `Held by ${owners || 'somebody without a name'}.`;
        const others = plural(lock.waiting, 'other waits', 'others wait');
        return formDialog(`Release ${lock.name}?`, {
                fields: [
                        h('p', {}, who),
                        h('p', {},
                                'The holder is not told: it goes on until its renewal is refused. ',
                                'The fence tells its writes from those of the next holder.'),
                        lock.waiting ? h('p', {}, `${others} for it.`) : null,
                        field('Why, for the log', text('reason', {maxlength: 1024})),
                ],
                yes: 'Release the lock',
                danger: true,
                submit: async ({reason}) => {
                        await ctx.api.del(path('locks', lock.name), {reason: reason.trim()});
                        toast(`Lock ${lock.name} was released.`);
                        await after();
                },
        });
}

function heldBadge(l)
{
        const held = l ? l.held ?? l.holders.length : 0;
        if (held === 0)
                return badge('free');
        return l.count > 1 ? badge('held', `${held} of ${l.count} held`) : badge('held');
}

function columns()
{
        return [
                {key: 'held', label: 'State', cell: heldBadge},
                {key: 'owner', label: 'Owner', cls: 'wrap', cell: (l) => l.owner || '–'},
                {key: 'fence', label: 'Fence', num: true, cell: (l) => String(l.fence)},
                {
                        key: 'age',
                        label: 'For',
                        cls: 'nowrap',
                        sort: by('age_ms'),
                        cell: (l) => fromNow(-l.age_ms, 'for'),
                },
                {
                        key: 'left',
                        label: 'Left',
                        cls: 'nowrap',
                        sort: by('remaining_ms'),
                        cell: (l) => fromNow(l.remaining_ms, 'left'),
                },
                {key: 'waiting', label: 'Waiting', num: true, sort: by('waiting')},
        ];
}

function actions(ctx, l, again)
{
        const isHeld = l.held ?? l.holders.length;
        return [isHeld ? {
                text: 'Release',
                needs: 'FORCEUNLOCK',
                danger: true,
                run: () => release(ctx, l, again)
        }
                       : null];
}

const LOCKS = {
        route: 'locks',
        one: 'lock',
        needs: 'FORCEUNLOCK',
        title: 'Held locks',
        hint: 'A lock is free again when its time is over, unless its owner renews it.',
        empty: [
                h('p', {},
                        'No lock is held. A lock keeps two programs from doing one thing at the ',
                        'same time, on any machine. This holds one while a command runs:'),
                copyLine('weir lock run nightly-report -- ./report.sh'),
        ],
        isPaged: true,
        hasSearch: true,
        columns,
        actions,
};

/* --- one lock -------------------------------------------------------------------------------- */

function holders()
{
        const t = table({
                caption: 'Holders of this lock',
                hideCaption: true,
                key: by('fence'),
                empty: 'Nobody holds it.',
                columns: [
                        {key: 'owner', label: 'Owner', cls: 'wrap', cell: (x) => x.owner || '–'},
                        {key: 'fence', label: 'Fence', num: true, cell: (x) => String(x.fence)},
                        {key: 'age', label: 'For', cell: (x) => fromNow(-x.age_ms, 'for')},
                        {key: 'ttl', label: 'Granted for', cell: (x) => fmtDuration(x.ttl_ms)},
                        {key: 'left', label: 'Left', cell: (x) => fromNow(x.remaining_ms, 'left')},
                ],
        });
        t.node.classList.add('rows');
        return t;
}

function one(root, name, ctx)
{
        const p = panel('Holders');
        const counts = h('div');
        const t = holders();
        p.body.append(counts, t.node);
        return nounOne(root, ctx, LOCKS, name, {
                body: p.node,
                state: heldBadge,
                gone: 'Nobody holds this lock.',
                draw: (l) => {
                        fill(counts, facts([
                                ['Places', l.count ? fmtNumber(l.count) : '–'],
                                ['Held', fmtNumber(l.holders.length)],
                                ['Waiting', fmtNumber(l.waiting)],
                        ]));
                        t.update(l.holders);
                },
        });
}

export async function mount(root, params, ctx)
{
        root.append(switchedOff(ctx));
        await (params.name === undefined ? nounList(root, ctx, LOCKS, params)
                                         : one(root, params.name, ctx));
        runTimes(root, ctx);
}
