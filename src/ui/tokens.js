/* Access tokens: who may do what, for how long, and when each was used last.
 *
 * weir keeps hashes only, so a secret is shown once, in a dialog that nothing but its button
 * closes: the first token of an admin locks this page as well, and its secret must be readable
 * then. */
import {
        button,
        copyLine,
        dialog,
        durationPicker,
        facts,
        field,
        fmtDuration,
        h,
        note,
        path,
        select
} from './lib.js';
import {nounList, remove} from './noun.js';
import {by, formDialog, given, running, runTimes, styled, text} from './parts.js';

export const title = 'Tokens';

const MAX_MS = 10 * 365 * 86400000;
const KEEP = [0, 3600000, 86400000, 604800000];
const ROLES = {
        reader: 'looks at everything, changes nothing',
        producer: 'adds jobs and batches',
        worker: 'claims and ends jobs',
        checker: 'asks whether heavy work may go',
        locker: 'takes locks, rate limits and breakers',
        operator: 'all of these, and every action but those of an admin',
        admin: 'everything, with tokens and settings',
};
/* Which names a role can be narrowed to. */
const NARROWED = [
        ['queues', 'Queues', ['producer', 'worker']],
        ['identities', 'Identities', ['checker']],
        ['names', 'Locks, limits, breakers', ['locker']],
];

/* --- the secret ------------------------------------------------------------------------------ */

function showSecret({name, secret, role, until_ms: until, old_until_ms: old})
{
        return dialog(`Secret of ${name}`,
                (close) =>
                        [note('warn',
                                 h('p', {}, h('strong', {}, 'Copy it now. '),
                                         'weir keeps only a hash of it, so it cannot be shown again.')),
                                h('div', {}, copyLine(secret)),
                                facts([
                                        ['Roles', role.split(',').join(', ')],
                                        ['Ends', until ? running(until) : 'never'],
                                        old ? ['Old secret ends', running(old)] : null,
                                ]),
                                h('p.hint', {}, 'Programs send it as ',
                                        h('code', {}, 'Authorization: Bearer …'), ' or with ',
                                        h('code', {}, `AUTH ${name} …`),
                                        '; people log in here with it.'),
                                h('div.actions', {},
                                        h('button.primary',
                                                {type: 'button', onclick: () => close()},
                                                'I have copied it')),
        ],
                {stays: true});
}

/* --- actions --------------------------------------------------------------------------------- */

/* {node, value()}; the fields that narrow are there while a role has a use for them. */
function rolePicker(ctx)
{
        const boxes = ctx.session.roles.map(
                (role) => h('input', {type: 'checkbox', value: role, onchange: () => show()}));
        const lines = boxes.map(
                (box) => h('label.check', {}, box,
                        h('span', {}, h('b', {}, box.value), ` ${ROLES[box.value] || ''}`)));
        const more = NARROWED.map(
                ([name, label]) => field(label, text(name, {placeholder: 'all', maxlength: 1024}),
                        'names with commas, * stands for any text'));
        const value = () => boxes.filter((b) => b.checked).map((b) => b.value);
        function show()
        {
                const roles = value();
                const isAll = roles.includes('operator') || roles.includes('admin');
                NARROWED.forEach(([, , whose], i) => {
                        more[i].hidden = isAll || !whose.some((role) => roles.includes(role));
                        more[i].querySelector('input').disabled = more[i].hidden;
                });
        }
        show();
        return {
                value,
                node: [
                        h('fieldset.checks', {}, h('legend', {}, 'Roles'), lines),
                        h('div.options', {}, more)
                ]
        };
}

function add(ctx, again)
{
        const roles = rolePicker(ctx);
        const picker = durationPicker({
                value: -1,
                presets: ['1d', '7d', '30d', '90d', '365d'],
                endless: 'never',
                max: MAX_MS,
                label: 'Ends after'
        });
        const name = text('name', {
                required: true,
                pattern: '[A-Za-z0-9._\\-]+',
                maxlength: 64,
                placeholder: 'ci',
                title: 'letters, digits, - _ and .'
        });
        const first = note('warn',
                h('p', {}, 'No client has to show a token yet. The first token of an ',
                        'admin ends that: from then on every client must show one, this page too.'));
        return formDialog('Add a token', {
                fields: [
                        ctx.session.needs_login ? null : first, field('Name', name), roles.node,
                        picker.node
                ],
                yes: 'Add the token',
                submit: async (values) => {
                        const role = roles.value().join(',');
                        if (!role)
                                throw new Error('Choose a role.');
                        const ms = picker.check();
                        const body = {
                                role,
                                ...given(values, NARROWED.map(([key]) => key)),
                                ...(ms > 0 ? {for: ms} : {}),
                        };
                        showSecret(await ctx.api.post(path('tokens', values.name.trim()), body));
                        await again();
                },
        });
}

function rotate(ctx, row, again)
{
        const words = (ms) => [ms, ms ? `for ${fmtDuration(ms)}` : 'not at all: it ends now'];
        const keep = select(KEEP.map(words), KEEP[2], {name: 'keep'});
        return formDialog(`Give ${row.name} a new secret?`, {
                hint: 'While both are valid, its clients can change from the old one to the new one.',
                fields: field('The old one stays valid', keep),
                yes: 'Make a new secret',
                submit: async (values) => {
                        const where = path('tokens', row.name, 'rotate');
                        showSecret(await ctx.api.post(where, {keep: Number(values.keep)}));
                        await again();
                },
        });
}

function actions(ctx, row, again, gone)
{
        if (row.source === 'file')
                return [];
        const follows = [
                'Its connections are closed, and clients that show it are refused.',
                row.name === ctx.session.name
                        ? 'You are logged in with it: this page will ask for another token.'
                        : null,
        ];
        return [
                {text: 'Rotate', needs: 'TOKENROTATE', run: () => rotate(ctx, row, again)},
                {
                        text: 'Remove',
                        needs: TOKENS.del,
                        danger: true,
                        run: () => remove(ctx, TOKENS, row, follows, gone, ['Remove', 'removed']),
                },
        ];
}

/* --- the screen ------------------------------------------------------------------------------ */

function narrowed(t)
{
        const all = [...NARROWED.map(([key]) => key), 'certificate'].filter((key) => t[key]);
        return all.length ? all.map((key) => h('div', {}, h('span.muted', {}, `${key} `),
                                            h('span.mono', {}, t[key].split(',').join(', '))))
                          : h('span.muted', {}, 'not narrowed');
}

function source(t)
{
        return t.source === 'file' ? 'configuration file' : ['added ', running(t.made_ms)];
}

function ends(t)
{
        return [
                t.until_ms ? running(t.until_ms) : 'never',
                t.old_until_ms ? h('span.sub', {}, 'old secret ends ', running(t.old_until_ms))
                               : null,
        ];
}

function used(t)
{
        return t.used_ms ? [running(t.used_ms), h('span.sub', {}, t.used_from)]
                         : h('span.muted', {}, 'never');
}

function columns()
{
        const cell = (key, label, fn, sort, cls) => ({key, label, cell: fn, sort, cls});
        return [
                cell('role', 'Roles', (t) => t.role.split(',').join(', '), by('role'), 'wrap'),
                cell('narrowed', 'Narrowed to', narrowed, undefined, 'wrap'),
                cell('source', 'Source', source, by('source'), 'nowrap'),
                cell('ends', 'Ends', ends, (t) => t.until_ms || null, 'nowrap'),
                cell('used', 'Last use', used, (t) => t.used_ms || null),
        ];
}

const TOKENS = {
        route: 'tokens',
        one: 'token',
        title: 'Access tokens',
        hint: 'A token allows what its roles allow. Change those of the configuration file there.',
        empty: 'No token yet: every client of this machine may do everything.',
        put: 'TOKENADD',
        del: 'TOKENREMOVE',
        open: null,
        name: (ctx, t) => [t.name, t.name === ctx.session.name ? h('span.sub', {}, 'yours') : null],
        columns,
        actions,
        top: (ctx, again) => button(
                'Add a token', () => add(ctx, again), {kind: 'primary.small', needs: 'TOKENADD'}),
};

export async function mount(root, params, ctx)
{
        await styled;
        await nounList(root, ctx, TOKENS);
        runTimes(root, ctx);
}
