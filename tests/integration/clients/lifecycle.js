'use strict';
// The whole life of jobs through a Redis client of npm.  The client is given as an adapter:
//   connect() -> { call(...words), close() }
// and speaks nothing but plain commands: no plug-in, no script, no special build.
const assert = require('assert');
const fs = require('fs');
const path = require('path');

let failed = 0;

// Replies of RESP2 (flat arrays) and RESP3 (objects, maps) as one shape.
function toObject(reply) {
  if (Array.isArray(reply)) {
    const object = {};
    for (let i = 0; i < reply.length; i += 2) object[String(reply[i])] = reply[i + 1];
    return object;
  }
  if (reply instanceof Map) return Object.fromEntries(reply);
  return reply;
}

const FIELDS = ['id', 'token', 'hook', 'args', 'attempt', 'queue', 'group', 'priority', 'attempts',
  'fence', 'lease_ms', 'created_ms'];

function toGrants(reply) {
  return (reply || []).map((row) => {
    assert.strictEqual(row.length, FIELDS.length);
    return Object.fromEntries(FIELDS.map((name, i) => [name, row[i]]));
  });
}

async function rejects(promise, name, ...words) {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  assert(error, `${name} was expected`);
  assert(error.message.startsWith(name + ' '), error.message);
  for (const word of words) assert(error.message.includes(word), `${error.message}: no ${word}`);
}

const steps = {
  async 'a job is added, found and claimed'(c) {
    const id = await c.call('ENQUEUE', 'mail', '{"to":"ü@example.org"}', 'QUEUE', 'one', 'GROUP',
      'g1', 'PRIORITY', '7', 'ATTEMPTS', '5', 'TIMEOUT', '60000');
    assert(Number(id) > 0);
    const job = toObject(await c.call('JOB', id));
    assert.strictEqual(job.status, 'pending');
    assert.strictEqual(job.args, '{"to":"ü@example.org"}');
    assert.strictEqual(job.group, 'g1');
    assert.strictEqual(Number(job.priority), 7);
    const [grant] = toGrants(await c.call('CLAIM', 'w1', 'MAX', '1', 'QUEUES', 'one'));
    assert.strictEqual(grant.id, id);
    assert.strictEqual(grant.hook, 'mail');
    assert.strictEqual(grant.args, '{"to":"ü@example.org"}');
    assert.strictEqual(Number(grant.attempt), 1);
    assert.strictEqual(Number(grant.lease_ms), 60000);
    assert.match(grant.token, /^[0-9a-f]{32}$/);
    assert.strictEqual(toObject(await c.call('JOB', id)).status, 'in-progress');
    await c.call('COMPLETE', id, grant.token);
  },

  async 'many jobs are added in one command and claimed in one'(c) {
    const ids = await c.call('ENQUEUEMANY', 'QUEUE', 'many', 'PRIORITY', '3', 'JOBS', 'a', '1', 'b',
      '2', 'c', '3');
    assert.strictEqual(ids.length, 3);
    const grants = toGrants(await c.call('CLAIM', 'w', 'MAX', '10', 'QUEUES', 'many'));
    assert.deepStrictEqual(grants.map((g) => g.id), ids);
    assert.deepStrictEqual(grants.map((g) => g.hook), ['a', 'b', 'c']);
    await Promise.all(grants.map((g) => c.call('COMPLETE', g.id, g.token, 'ok')));
    for (const id of ids) assert.strictEqual(toObject(await c.call('JOB', id)).status, 'complete');
  },

  async 'a delayed job comes when it is due, not before'(c) {
    const begin = Date.now();
    const id = await c.call('ENQUEUE', 'later', '', 'QUEUE', 'delayed', 'IN', '1500');
    // Of a slow machine it is due already.
    let [grant] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'delayed'));
    assert(!grant || Date.now() - begin >= 1500);
    if (!grant) [grant] = toGrants(await c.call('CLAIM', 'w', 'WAIT', '10000', 'QUEUES', 'delayed'));
    assert.strictEqual(grant.id, id);
    assert(Date.now() - begin >= 1500);
    await c.call('COMPLETE', grant.id, grant.token);
    const at = await c.call('ENQUEUE', 'past', '', 'QUEUE', 'delayed', 'AT',
      String(Date.now() - 5));
    const [past] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'delayed'));
    assert.strictEqual(past.id, at);
    await c.call('COMPLETE', past.id, past.token);
  },

  async 'a claim without work answers at once, and one that waits gets the next job'(c, fork) {
    assert.deepStrictEqual(toGrants(await c.call('CLAIM', 'w', 'MAX', '5', 'QUEUES', 'empty')), []);
    assert.deepStrictEqual(
      toGrants(await c.call('CLAIM', 'w', 'WAIT', '20', 'QUEUES', 'empty')), []);
    const other = await fork();
    const waiting = other.call('CLAIM', 'w2', 'WAIT', '10000', 'QUEUES', 'empty', 'empty2');
    const id = await c.call('ENQUEUE', 'now', 'x', 'QUEUE', 'empty2');
    const [grant] = toGrants(await waiting);
    assert.strictEqual(grant.id, id);
    await c.call('COMPLETE', id, grant.token);
    await other.close();
  },

  async 'a holder extends its lease, tells its progress and gives a result'(c) {
    const id = await c.call('ENQUEUE', 'long', 'x', 'QUEUE', 'hold');
    const [g] = toGrants(await c.call('CLAIM', 'holder', 'LEASE', '5000', 'QUEUES', 'hold'));
    assert.strictEqual(await c.call('EXTEND', id, g.token, '60000'), 'OK');
    assert.strictEqual(await c.call('PROGRESS', id, g.token, '50 %'), 'OK');
    const job = toObject(await c.call('JOB', id));
    assert.strictEqual(job.progress, '50 %');
    assert.strictEqual(job.worker, 'holder');
    assert.strictEqual(await c.call('COMPLETE', id, g.token, '{"sum":3}'), 'OK');
    const done = toObject(await c.call('JOB', id));
    assert.strictEqual(done.status, 'complete');
    assert.strictEqual(done.result, '{"sum":3}');
  },

  async 'completing one job and claiming the next is one round trip'(c) {
    const [a, b] = await c.call('ENQUEUEMANY', 'QUEUE', 'chain', 'JOBS', 'h', '1', 'h', '2');
    const [first] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'chain'));
    assert.strictEqual(first.id, a);
    const [second] = toGrants(await c.call('COMPLETE', a, first.token, 'r', 'CLAIM', 'w', 'MAX',
      '1', 'QUEUES', 'chain'));
    assert.strictEqual(second.id, b);
    assert.deepStrictEqual(
      toGrants(await c.call('COMPLETE', b, second.token, 'CLAIM', 'w', 'QUEUES', 'chain')), []);
    assert.strictEqual(toObject(await c.call('JOB', a)).status, 'complete');
  },

  async 'a failing job is tried again until its attempts are used up'(c) {
    const id = await c.call('ENQUEUE', 'bad', 'x', 'QUEUE', 'fail', 'ATTEMPTS', '2');
    const [one] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'fail'));
    assert.strictEqual(await c.call('FAIL', id, one.token, 'boom', 'RETRYIN', '1'), 'pending');
    const [two] = toGrants(await c.call('CLAIM', 'w', 'WAIT', '5000', 'QUEUES', 'fail'));
    assert.strictEqual(Number(two.attempt), 2);
    assert(BigInt(two.fence) > BigInt(one.fence));
    assert.strictEqual(await c.call('FAIL', id, two.token, 'boom again'), 'failed');
    const job = toObject(await c.call('JOB', id));
    assert.strictEqual(job.status, 'failed');
    assert.strictEqual(job.error, 'boom again');
  },

  async 'a released job comes back with its attempt unused'(c) {
    const id = await c.call('ENQUEUE', 'r', 'x', 'QUEUE', 'rel', 'ATTEMPTS', '1');
    const [one] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'rel'));
    assert.strictEqual(await c.call('RELEASE', id, one.token), 'OK');
    const [two] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'rel'));
    assert.strictEqual(two.id, id);
    assert.strictEqual(Number(two.attempt), 1);
    assert.strictEqual(await c.call('RELEASE', id, two.token, 'IN', '1'), 'OK');
    const [three] = toGrants(await c.call('CLAIM', 'w', 'WAIT', '5000', 'QUEUES', 'rel'));
    await c.call('COMPLETE', id, three.token);
  },

  async 'a canceled job is never handed out, and its story is told'(c) {
    const id = await c.call('ENQUEUE', 'no', 'x', 'QUEUE', 'cancel');
    assert.strictEqual(await c.call('CANCEL', id), 'OK');
    assert.deepStrictEqual(toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'cancel')), []);
    assert.strictEqual(toObject(await c.call('JOB', id)).status, 'canceled');
    const events = (await c.call('EVENTS', id)).map(toObject);
    assert.deepStrictEqual(events.map((e) => e.event), ['created', 'canceled']);
    await rejects(c.call('CANCEL', id), 'STATE', String(id));
  },

  async 'jobs are listed by filter and page by page'(c) {
    const ids = await c.call('ENQUEUEMANY', 'QUEUE', 'list', 'GROUP', 'lg', 'JOBS',
      ...Array.from({ length: 25 }, (_, i) => ['lister', `needle${i}`]).flat());
    const seen = [];
    let cursor = '';
    do {
      const words = ['JOBS', 'QUEUE', 'list', 'LIMIT', '10'];
      if (cursor) words.push('CURSOR', cursor);
      const page = toObject(await c.call(...words));
      const rows = page.jobs.map(toObject);
      assert(rows.length <= 10);
      seen.push(...rows.map((r) => r.id));
      cursor = page.cursor;
    } while (cursor);
    assert.deepStrictEqual(seen, ids.slice().reverse());
    const count = async (...filter) =>
      toObject(await c.call('JOBS', 'LIMIT', '1000', ...filter)).jobs.length;
    assert.strictEqual(await count('GROUP', 'lg'), 25);
    assert.strictEqual(await count('HOOK', 'lister', 'STATUS', 'pending'), 25);
    assert.strictEqual(await count('HOOK', 'lister', 'STATUS', 'complete'), 0);
    assert.strictEqual(await count('QUEUE', 'list', 'MATCH', 'needle7'), 1);
  },

  async 'a paused queue hands out nothing until it is resumed'(c) {
    const id = await c.call('ENQUEUE', 'h', 'x', 'QUEUE', 'stopgo');
    assert.strictEqual(await c.call('PAUSE', 'stopgo'), 'OK');
    assert.deepStrictEqual(toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'stopgo')), []);
    const find = async () =>
      (await c.call('QUEUES')).map(toObject).find((q) => q.name === 'stopgo');
    assert([1, true].includes((await find()).paused));
    assert.strictEqual(Number((await find()).ready), 1);
    assert.strictEqual(await c.call('RESUME', 'stopgo'), 'OK');
    assert([0, false].includes((await find()).paused));
    const [g] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'stopgo'));
    assert.strictEqual(g.id, id);
    await c.call('COMPLETE', g.id, g.token);
  },

  async 'a wrong token, an unknown id and a wrong word are refused, and the connection goes on'(c) {
    const id = await c.call('ENQUEUE', 'h', 'x', 'QUEUE', 'wrong');
    const [g] = toGrants(await c.call('CLAIM', 'w', 'QUEUES', 'wrong'));
    await rejects(c.call('COMPLETE', id, '0'.repeat(32)), 'NOTOWNER');
    await rejects(c.call('COMPLETE', id, 'zz'), 'BADARG', 'token');
    await rejects(c.call('JOB', '999999999'), 'NOTFOUND', '999999999');
    await rejects(c.call('NOSUCH'), 'UNKNOWN', 'NOSUCH');
    await rejects(c.call('ENQUEUE', 'h'), 'SYNTAX');
    assert.strictEqual(await c.call('COMPLETE', id, g.token), 'OK');
    await rejects(c.call('COMPLETE', id, g.token), 'STATE');
  },

  async 'a hundred commands in one pipeline are answered in order'(c) {
    const all = await Promise.all(Array.from({ length: 100 }, (_, i) =>
      c.call('ENQUEUE', 'h', String(i), 'QUEUE', 'pipe')));
    for (let i = 1; i < all.length; i++) assert(Number(all[i]) > Number(all[i - 1]));
    const grants = toGrants(await c.call('CLAIM', 'w', 'MAX', '100', 'QUEUES', 'pipe'));
    assert.deepStrictEqual(grants.map((g) => g.args), all.map((_, i) => String(i)));
  },
};

module.exports = async function run(name, connect) {
  const c = await connect();
  for (const [sentence, step] of Object.entries(steps)) {
    try {
      await step(c, connect);
      console.log(`ok - ${name}: ${sentence}`);
    } catch (error) {
      failed++;
      console.log(`not ok - ${name}: ${sentence}: ${String(error.message).replace(/\s+/g, ' ')}`);
    }
  }
  await c.close();
  if (failed) process.exitCode = 1;
};

module.exports.address = () => {
  const [host, port] = (process.env.WEIR_RESP || '127.0.0.1:7379').split(/:(?=\d+$)/);
  return { host, port: Number(port), password: process.env.WEIR_TOKEN };
};

// What tls.connect() takes, with a certificate of ours; undefined without WEIR_TLS, the folder of
// `weir tls self-signed`.
module.exports.tls = () => {
  const folder = process.env.WEIR_TLS;
  const read = (name) => fs.readFileSync(path.join(folder, name));
  return folder ? { ca: read('ca.crt'), cert: read('client.crt'), key: read('client.key') } : undefined;
};
