/* The machines that share the log, on the screen Now: who leads, and how far each of the others is.
 *
 * Every machine answers v1/cluster, also while nobody leads and all else waits: it is asked for at
 * a pace of its own.  A weir that is alone is asked once and shows nothing. */
import {
        badge,
        button,
        confirm,
        covered,
        fill,
        fmtNumber,
        fmtSeconds,
        h,
        note,
        panel,
        table,
        toast
} from './lib.js';

const ASK_MS = 2000;
/* Each machine tells its last batch once a second: less than this means nothing under load. */
const BEHIND = 10000;

/* The members as they are shown: all that a cell needs is in its row. */
function rowsOf({members})
{
        const leader = members.find((m) => m.role === 'leader');
        return members.map(({seen_ms: seen, ...m}) => ({
                ...m,
                seen: seen < 1000 ? 'now' : `${fmtSeconds(seen)} ago`,
                lag: leader ? Math.max(0, leader.seq - m.seq) : 0,
                mayLead: Boolean(leader) && m.role === 'follower',
        }));
}

function warning(kind, what, text)
{
        return note(kind, h('p', {role: 'status'}, h('strong', {}, `${what} `), text));
}

function notices(rows)
{
        const out = rows.map((m) => {
                if (m.state === 'differs')
                        return warning('bad', `${m.node} has another state than the leader.`,
                                'Do not let it lead. Start it again: it reads the log anew.');
                if (m.role === 'gone')
                        return warning('warn', `${m.node} is gone.`,
                                'Nothing was heard of it for more than 10 s.');
                return m.lag < BEHIND
                        ? null
                        : warning('warn', `${m.node} is behind.`,
                                  'It cannot take over until it has read what the leader wrote.');
        });
        if (!rows.some((m) => m.role === 'leader'))
                out.unshift(warning('bad', 'Nobody leads.',
                        'Checks are answered. Everything else waits until a machine leads.'));
        return out.filter(Boolean);
}

async function handOver(ctx, node, again)
{
        const ok = await confirm({
                title: `Let ${node} lead?`,
                text: 'The leader finishes and answers what it has taken. Then all connections are ' +
                        'closed; clients connect again and go on.',
                yes: 'Hand over',
                danger: true,
        });
        if (!ok)
                return;
        await ctx.api.post('cluster/handover', {node});
        toast(`The lead goes to ${node}.`);
        await again();
}

function columns(ctx, again)
{
        return [
                {key: 'node', label: 'Machine', cls: 'wrap'},
                {key: 'role', label: 'Role', cell: (m) => badge(m.role)},
                {key: 'address', label: 'Address', cls: 'wrap mono'},
                {key: 'epoch', label: 'Epoch', num: true},
                {key: 'seq', label: 'Batch', num: true},
                {
                        key: 'lag',
                        label: 'Behind',
                        num: true,
                        cell: (m) => (m.role === 'leader' ? '–' : fmtNumber(m.lag))
                },
                {
                        key: 'state',
                        label: 'State',
                        cell: (m) => (m.state === 'unknown' ? '–' : badge(m.state))
                },
                {key: 'seen', label: 'Heard of', num: true},
                {
                        key: 'act',
                        needs: 'HANDOVER',
                        cell: (m) => (m.mayLead
                                        ? button('Hand over', () => handOver(ctx, m.node, again), {
                                                  kind: 'small',
                                                  label: `Hand over to ${m.node}`,
                                                  needs: 'HANDOVER'
                                          })
                                        : null)
                },
        ];
}

export function clusterPanel(ctx)
{
        const p = panel('Cluster');
        const box = h('div');
        const noticeBox = h('div.screen');
        const t = table({
                caption: 'Machines of the cluster',
                hideCaption: true,
                key: (m) => m.node,
                columns: columns(ctx, () => load()),
        });
        let isAlone = false;
        p.body.append(noticeBox, t.node);
        const load = covered(t.node, () => ctx.api.get('cluster', {}, ctx.signal), (answer) => {
                const rows = rowsOf(answer);
                const said = rows.length ? notices(rows) : [];
                const key = said.map((n) => n.textContent).join('\n');
                isAlone = rows.length === 0 && answer.role === 'leader';
                noticeBox.hidden = said.length === 0;
                if (key !== (noticeBox.dataset.key || '')) /* else it would be read out again */
                        fill(noticeBox, said);
                noticeBox.dataset.key = key;
                t.update(rows);
                if (rows.length === 0)
                        p.node.remove();
                else if (!p.node.isConnected)
                        box.append(p.node);
        });
        ctx.every(ASK_MS, () => (isAlone ? null : load()));
        return {node: box};
}
