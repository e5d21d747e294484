// C1 from JavaScript, with PostgreSQL's ordinary driver only. The invoices are in the database of
// the queue. check_back.mjs is the producer.
//
//   npm install                                  (once, in this folder)
//   export MQPG_DATABASE_URL=postgresql://…      the broker
//   node bill.mjs setup
//   node bill.mjs once [before]                  handles what is there; dies before its commit
//   node bill.mjs run                            until it is stopped

import pg from "pg";

const GROUP = "billing-node";
const TOPIC = "shop-node";

const broker = new pg.Client({ connectionString: process.env.MQPG_DATABASE_URL });

async function setup() {
  await broker.query("select mqpg.subscribe($1, $2, start => 'earliest', retry_delay => '1 s')", [GROUP, TOPIC]);
  await broker.query("create table if not exists invoices (order_id int primary key)");
}

// Receive, effect and acknowledgement are one transaction, so each effect happens once. An effect
// that fails is undone by its savepoint, and its message comes again, later.
async function oneDelivery(death) {
  await broker.query("begin");
  try {
    const delivery = await broker.query(
      "select message_id, payload ->> 'id' as id, receipt from mqpg.receive($1, $2)",
      [GROUP, TOPIC],
    );
    const receipt = delivery.rows[0]?.receipt;
    let done = 0;
    for (const message of delivery.rows) done += await handle(message);
    if (done > 0) await broker.query("select mqpg.ack($1)", [receipt]); // those that did not fail
    if (death === "before" && receipt) process.kill(process.pid, "SIGKILL");
    await broker.query("commit");
    return delivery.rows.length;
  } catch (error) {
    await broker.query("rollback");
    throw error;
  }
}

async function handle(message) {
  await broker.query("savepoint before_effect");
  try {
    await broker.query("insert into invoices values ($1::text::int)", [message.id]);
    console.log(`${message.id} billed`);
    return 1;
  } catch (error) {
    await broker.query("rollback to savepoint before_effect");
    await broker.query("select mqpg.nack($1, array[$2::bigint], reason => $3)", [
      message.receipt,
      message.message_id,
      error.message,
    ]);
    console.log(`${message.id} failed`);
    return 0;
  }
}

async function run() {
  for (;;) {
    const messages = await oneDelivery();
    if (messages === 0) await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const [command, death] = process.argv.slice(2);
await broker.connect();
try {
  if (command === "setup") await setup();
  else if (command === "once") while ((await oneDelivery(death)) > 0);
  else if (command === "run") await run();
  else throw new Error("usage: node bill.mjs setup | once [before] | run");
} finally {
  await broker.end();
}
