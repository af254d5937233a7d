'use strict';
// mysql2 of npm: what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py.
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const mysql = require('../node/node_modules/mysql2/promise');

const { DB_HOST, DB_PORT, DB_USER, DB_PASSWORD, DB_NAME, DB_FILES } = process.env;

const connect = () => mysql.createConnection({
  host: DB_HOST, port: Number(DB_PORT), user: DB_USER, password: DB_PASSWORD, database: DB_NAME,
  multipleStatements: true, supportBigNumbers: true, bigNumberStrings: true, dateStrings: true,
  connectAttributes: { program_name: 'mysql2-test' },
});

const say = (fact, value) => console.log(`${fact}: ${value}`);
const line = (row) => Object.values(row).map((v) => (v === null ? 'NULL' : String(v))).join('|');
const rows = async (db, sql, values) => (await db.query({ sql, rowsAsArray: true }, values))[0];
const one = async (db, sql) => (await rows(db, sql))[0][0];
const failure = (promise) => promise.then(() => ({ errno: 0 }), (error) => error);

async function statements(db) {
  say('text', line((await rows(db, "SELECT 1+1, 'héllo', NULL, ''"))[0]));
  const [got] = await db.execute({ sql: 'SELECT ? + 1, ?, ?', rowsAsArray: true }, [41, "it's", null]);
  say('prepared', line(got[0]));
  say('kinds', JSON.stringify(await rows(db, 'SELECT * FROM kinds')));
  say('kinds_prepared', JSON.stringify((await db.execute('SELECT * FROM kinds'))[0]));
  const [done] = await db.execute('INSERT INTO notes (body) VALUES (?)', ['first']);
  say('new_row', `${done.affectedRows} ${done.insertId}`);
  const many = await rows(db, 'SELECT seq FROM seq_1_to_1000');
  say('many_rows', `${many.length} ${many.reduce((sum, r) => sum + Number(r[0]), 0)}`);
  const stream = db.connection.query('SELECT seq FROM seq_1_to_1000').stream({ highWaterMark: 2 });
  let [n, sum] = [0, 0];
  for await (const row of stream) {
    n += 1;
    sum += Number(row.seq);
  }
  say('cursor', `${n} ${sum}`);
  await db.ping();
  say('ping', 'alive');
  const three = await Promise.all([1, 2, 3].map((i) => one(db, `SELECT ${i}`))); // all are queued at once
  say('pipelined', three.join('/'));
}

async function transactions(db) {
  const counts = [];
  for (const end of ['rollback', 'commit']) {
    await db.beginTransaction();
    await db.query('INSERT INTO up VALUES (1)');
    await db[end]();
    counts.push(await one(db, 'SELECT COUNT(*) FROM up'));
  }
  say('transaction', counts.join(' '));
  for (const sql of ['BEGIN', 'SAVEPOINT a', 'INSERT INTO up VALUES (2)', 'ROLLBACK TO a', 'COMMIT']) {
    await db.query(sql);
  }
  say('savepoint', await one(db, 'SELECT COUNT(*) FROM up'));
  await db.query('DELETE FROM up');
}

async function sizes(db) {
  await db.execute('INSERT INTO notes (body) VALUES (?)', ['x'.repeat(1 << 20)]);
  const text = await one(db, 'SELECT body FROM notes ORDER BY id DESC LIMIT 1');
  say('big', `${text.length} ${crypto.createHash('md5').update(text).digest('hex')}`);
}

async function uploads(db) {
  const load = (name) => db.query({
    sql: `LOAD DATA LOCAL INFILE '${name}' INTO TABLE up`,
    infileStreamFactory: (asked) => fs.createReadStream(path.join(DB_FILES, asked)),
  });
  await load('rows.tsv');
  say('infile', line((await rows(db, 'SELECT COUNT(*), SUM(n) FROM up'))[0]).replace('|', ' '));
  await db.query('DELETE FROM up');
  await load('empty.tsv');
  say('infile_empty', await one(db, 'SELECT COUNT(*) FROM up'));
}

async function several(db) {
  const sets = (all) => all.filter(Array.isArray).map((set) => set.map(line).join('\n')).join('/');
  say('multi', sets(await rows(db, 'SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a')));
  say('call', sets(await rows(db, 'CALL two()')));
  const failed = [];
  const query = db.connection.query({ sql: 'SELECT 1; SELECT * FROM nothing; SELECT 3', rowsAsArray: true });
  await new Promise((resolve) => {
    query.on('result', (row) => failed.push(line(row)));
    query.on('error', (error) => { failed.push(error.errno); resolve(); });
    query.on('end', resolve);
  });
  say('multi_error', failed.join('/'));
  const errors = [];
  for (const sql of ['INSERT INTO counter VALUES (1, 1)', 'SELEKT', 'SELECT * FROM nothing']) {
    const { errno, sqlState } = await failure(db.query(sql));
    errors.push(`${errno} ${sqlState}`);
  }
  say('errors', errors.join(', '));
}

async function kills(db) {
  const victim = await connect();
  victim.connection.on('error', () => {});
  const me = victim.threadId;
  const sleeping = failure(victim.query('SELECT SLEEP(600)'));
  while (!(await rows(db, 'SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ? AND INFO LIKE '
    + "'SELECT SLEEP%'", [me])).length);
  await db.query(`KILL QUERY ${me}`);
  const { errno, sqlState } = await sleeping;
  say('kill_query', `${errno} ${sqlState}, then ${await one(victim, 'SELECT 1')}`);
  await db.query(`KILL ${me}`);
  say('kill_connection', (await failure(victim.query('SELECT 1'))).fatal ? 'gone' : 'alive');
  victim.destroy();
}

async function sessions(db) {
  await db.query('SET @a = 1');
  await db.reset();
  say('reset', line((await rows(db, 'SELECT @a'))[0]));
  await db.changeUser({ user: 'other', password: DB_PASSWORD, database: DB_NAME });
  say('change_user', await one(db, 'SELECT CURRENT_USER()'));
}

// A transaction that is repeated until it is let through.
async function busy() {
  const db = await connect();
  for (;;) {
    try {
      await db.beginTransaction();
      await db.execute('UPDATE counter SET n = n + 1 WHERE id = ?', [1]);
      await db.commit();
      break;
    } catch (error) {
      console.log(`refused: ${error.errno} ${error.sqlState} ${error.sqlMessage}`);
      await db.rollback();
    }
  }
  console.log('done');
  await db.end();
}

async function all() {
  const db = await connect();
  for (const part of [statements, transactions, sizes, uploads, several, kills, sessions]) {
    await part(db);
  }
  await db.end();
}

(process.argv[2] === 'busy' ? busy() : all()).catch((error) => {
  console.error(error);
  process.exit(1);
});
