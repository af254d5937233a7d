/* Payloads: the arguments and the result of a job, the arguments of a schedule.
 *
 * They are bytes, and a form that is saved must not change those that nobody touched.  An answer
 * holds what is JSON as it was once sent, but JSON.parse forgets how: 1e2, { "a":1 } and
 * {"a":1,"a":2} would go back as something else, and plain text would come to be a JSON string.
 * So the text is cut out of the answer itself (getWhole), and a form sends text, always, with
 * args_is_text: the server keeps it byte by byte, be it JSON or not. */
import {field, h, select} from './lib.js';

/* --- answers --------------------------------------------------------------------------------- */

/* JSON.parse, but numbers keep every digit where the browser knows how: 12345678901234567890
 * and 1.10 are written again as they were. */
function parseExact(json)
{
        if (!JSON.rawJSON)
                return JSON.parse(json);
        return JSON.parse(json, (name, value, from) => {
                const isChanged = typeof value === 'number' && from && from.source !== undefined &&
                        String(value) !== from.source;
                return isChanged ? JSON.rawJSON(from.source) : value;
        });
}

/* api.get with such numbers, for lists, where payloads are only looked at. */
export async function getExact(ctx, where, ask = {})
{
        return parseExact(await ctx.api.text(where, ask, ctx.signal));
}

const STRING = '"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"';
const MARKS = new RegExp(`${STRING}|[[\\]{}:,]`, 'g');
const PARTS = new RegExp(`${STRING}|[[\\]{}:,]|[^\\s[\\]{}:,"]+`, 'g');
const SPACES = new RegExp(`(${STRING})|\\s+`, 'g');

/* The members of an object as they are written, with the spaces around them. */
function memberTexts(json)
{
        const out = {};
        let depth = 0;
        let last = '';
        let name = '';
        let from = 0;
        for (const {0: mark, index} of json.matchAll(MARKS)) {
                if (depth === 1 && mark === ':') {
                        name = JSON.parse(last);
                        from = index + 1;
                } else if (depth === 1 && (mark === ',' || mark === '}')) {
                        out[name] = json.slice(from, index);
                }
                if (mark === '{' || mark === '[')
                        depth++;
                else if (mark === '}' || mark === ']')
                        depth--;
                last = mark;
        }
        return out;
}

/* api.get of one job or schedule; args_text and result_text have the bytes of its payloads, where
 * they are text.  A result of null is none. */
export async function getWhole(ctx, where)
{
        const json = await ctx.api.text(where, {}, ctx.signal);
        const it = JSON.parse(json);
        const texts = memberTexts(json);
        for (const name of ['args', 'result'])
                if (it[name] !== undefined && (name === 'args' || it[name] !== null))
                        it[`${name}_text`] = it[`${name}_is_text`] ? it[name] : texts[name];
        return it;
}

/* --- to look at ------------------------------------------------------------------------------ */

/* What getWhole() gave, to be shown; '' when there is none. */
export function payloadText(it, name)
{
        const bytes = it[`${name}_base64`];
        if (bytes !== undefined)
                return `${bytes}\n\n(base64: these bytes are no text)`;
        const text = it[`${name}_text`] ?? '';
        try {
                return JSON.stringify(parseExact(text), null, 2);
        } catch {
                return text;
        }
}

/* --- to send --------------------------------------------------------------------------------- */

const KINDS = [['json', 'JSON'], ['text', 'plain text']];
const LABELS = {
        json: 'Arguments, as JSON',
        text: 'Arguments, as plain text'
};
const KEPT = 'JSON is kept without the spaces between its parts, plain text as it is typed. ' +
        'What is not touched stays as it is.';

function kindOf(was)
{
        return was.args_is_text && was.args !== '' ? 'text' : 'json';
}

/* JSON in lines of its own, to be changed: only the spaces between its parts are others. */
function spread(json)
{
        let out = '';
        let line = '\n';
        let last = '';
        for (const [part] of json.matchAll(PARTS)) {
                const isEmpty = last === '{' || last === '[';
                if (part === '}' || part === ']') {
                        out = isEmpty ? out.slice(0, -line.length) : out;
                        line = line.slice(0, -2);
                        out += (isEmpty ? '' : line) + part;
                } else if (part === '{' || part === '[') {
                        line += '  ';
                        out += part + line;
                } else {
                        out += {',': `,${line}`, ':': ': '}[part] || part;
                }
                last = part;
        }
        return out;
}

/* What the field begins with: nothing for bytes that are no text. */
function typedOf(was)
{
        const text = was.args_text ?? '';
        return was.args_is_text ? text : spread(text);
}

/* The field for the arguments.  was: what getWhole() gave; without it they are new, and `first` is
 * what the field begins with. */
export function argsField(was, rows, first = '')
{
        const kind = was ? kindOf(was) : 'json';
        const area = h('textarea', {
                name: 'args',
                rows,
                spellcheck: 'false',
                value: was ? typedOf(was) : first,
                placeholder: was && was.args_base64 ? 'bytes that are no text; left empty they stay'
                                                    : '',
        });
        const el = field(LABELS[kind], area, KEPT);
        area.after(select(KINDS, kind, {
                name: 'args_kind',
                'aria-label': 'Kind of arguments',
                onchange: (
                        ev) => { el.querySelector('label').textContent = LABELS[ev.target.value]; },
        }));
        return el;
}

/* The arguments of what getWhole() gave, byte by byte. */
export function sameArgs(was)
{
        if (was.args_base64 !== undefined)
                return {args_base64: was.args_base64};
        return {args: was.args_text ?? '', args_is_text: true};
}

/* The arguments that argsField() holds; values are those of its form. */
export function readArgs(values, was)
{
        const lines = (text) => text.replace(/\r\n?/g, '\n'); /* as a textarea has them */
        const typed = lines(values.args);
        const isText = values.args_kind === 'text';
        if (was && values.args_kind === kindOf(was) && typed === lines(typedOf(was)))
                return sameArgs(was);
        if (isText || typed.trim() === '')
                return {args: isText ? typed : '', args_is_text: true};
        try {
                JSON.parse(typed);
        } catch (e) {
                throw new Error(`The arguments are not JSON: ${e.message}.`);
        }
        return {args: typed.replace(SPACES, '$1'), args_is_text: true};
}
