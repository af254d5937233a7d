'use strict';
const Redis = require('../node/node_modules/ioredis');
const run = require('./lifecycle');

const { host, port, password } = run.address();

async function connect() {
  const redis = new Redis({
    host, port, password, tls: run.tls(), lazyConnect: true, connectionName: 'ioredis-test',
  });
  redis.on('error', () => {});
  await redis.connect();
  return { call: (...words) => redis.call(...words), close: () => redis.quit() };
}

run('ioredis', connect);
