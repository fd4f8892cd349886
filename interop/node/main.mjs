// Runs every behaviour in a connection of its own and prints a line for each: see ../README.md.

import { createRequire } from 'node:module';
import { connect } from './client.mjs';
import { behaviours } from './behaviours.mjs';

const LIMIT_MS = 30_000;

class Skipped extends Error {}

async function run(behaviour) {
  const connection = await connect();
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`not done in ${LIMIT_MS} ms`)), LIMIT_MS);
  });
  const skip = (why) => {
    throw new Skipped(why);
  };
  try {
    await Promise.race([behaviour(connection, skip), late]);
  } finally {
    clearTimeout(timer);
    await connection.close().catch(() => {});
  }
}

async function introduce() {
  const { version } = createRequire(import.meta.resolve('amqplib'))('./package.json');
  const connection = await connect();
  const { product, version: ofBroker } = connection.connection.serverProperties;
  await connection.close();
  console.log(`client amqplib ${version}`);
  console.log(`broker ${product} ${ofBroker}`);
}

async function main() {
  await introduce();
  let failed = 0;
  for (const [name, behaviour] of Object.entries(behaviours)) {
    try {
      await run(behaviour);
      console.log(`ok ${name}`);
    } catch (error) {
      const isSkipped = error instanceof Skipped;
      failed += isSkipped ? 0 : 1;
      console.log(`${isSkipped ? 'skipped' : 'FAILED'} ${name}: ${String(error.message).split('\n', 1)[0]}`);
    }
  }
  process.exit(failed ? 1 : 0);
}

await main();
