'use strict';
const { createClient } = require('../node/node_modules/redis');
const run = require('./lifecycle');

const { host, port, password } = run.address();

const RESP = Number(process.argv[2] || 2);

async function connect() {
  const tls = run.tls();
  const socket = tls ? { host, port, tls: true, ...tls } : { host, port };
  const client = createClient({ RESP, password, name: 'node-redis-test', socket });
  client.on('error', () => {});
  await client.connect();
  return { call: (...words) => client.sendCommand(words.map(String)), close: () => client.close() };
}

run(`node-redis RESP${RESP}`, connect);
