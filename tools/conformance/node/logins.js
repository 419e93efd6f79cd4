// Logs in with kafkajs as each line of standard input says, and prints a line with what came of it: {"client": NAME,
// "servers": HOST:PORT, "ca": FILE, "certificate": FILE, "mechanism": NAME, "user": NAME, "password": TEXT, "token":
// TEXT} makes a client, the same with its name alone asks an existing one again.

"use strict";

const fs = require("fs");
const readline = require("readline");
const { Kafka, logLevel } = require("kafkajs");

function made(asked) {
  const config = { brokers: [asked.servers], logLevel: logLevel.NOTHING, retry: { retries: 0 } };
  config.connectionTimeout = config.authenticationTimeout = 1000 * asked.seconds;
  if (asked.ca) {
    config.ssl = { ca: fs.readFileSync(asked.ca, "utf8") };
    if (asked.certificate) {
      const own = fs.readFileSync(asked.certificate, "utf8");
      Object.assign(config.ssl, { key: own, cert: own });
    }
  }
  if (asked.mechanism === "OAUTHBEARER") {
    config.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: asked.token }) };
  } else if (asked.mechanism) {
    config.sasl = { mechanism: asked.mechanism.toLowerCase(), username: asked.user, password: asked.password };
  }
  return new Kafka(config).admin();
}

async function main() {
  const clients = new Map();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    try {
      if (asked.servers) {
        clients.set(asked.client, made(asked));
        await clients.get(asked.client).connect();
      }
      console.log(`ok ${(await clients.get(asked.client).describeCluster()).brokers.length}`);
    } catch (error) {
      console.log(`refused ${error.name}: ${String(error.message).replaceAll("\n", " ")}`);
    }
  }
  for (const client of clients.values()) await client.disconnect().catch(() => {});
}

main();
