'use strict';

/** Finds the programs that some tests need, and reports which of them this machine lacks. */

const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');

const FOLDERS = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin', '/usr/local/bin'];

/** @param {...string} names @returns {string | undefined} the first program that exists */
const find = (...names) =>
  names
    .flatMap((name) => FOLDERS.map((folder) => path.join(folder, name)))
    .find((file) => fs.existsSync(file));

/** @returns {string | undefined} the folder of the programs of the newest PostgreSQL */
function postgresFolder() {
  const root = process.env.POSTGRES_BIN ?? '/usr/lib/postgresql';
  if (fs.existsSync(path.join(root, 'initdb'))) return root;
  if (!fs.existsSync(root)) return undefined;
  const versions = fs.readdirSync(root).sort((a, b) => Number(b) - Number(a));
  return versions
    .map((version) => path.join(root, version, 'bin'))
    .find((folder) => fs.existsSync(path.join(folder, 'initdb')));
}

/** @returns {string | undefined} the library that changes the time that a program sees */
function faketimeLibrary() {
  const folders = fs.existsSync('/usr/lib') ? fs.readdirSync('/usr/lib') : [];
  return ['', ...folders]
    .map((folder) => path.join('/usr/lib', folder, 'faketime/libfaketime.so.1'))
    .find((file) => fs.existsSync(file));
}

/** The path of each program, or of the folder of PostgreSQL's programs. */
const programs = {
  chromium: find('chromium', 'chromium-browser', 'google-chrome'),
  etcd: process.env.ETCD_SERVER || find('etcd'),
  faketime: process.env.FAKETIME ?? faketimeLibrary(),
  gcc: find('gcc'),
  openssl: find('openssl'),
  pgbouncer: process.env.PGBOUNCER || find('pgbouncer'),
  postgres: postgresFolder(),
  redis: process.env.REDIS_SERVER || find('redis-server', 'valkey-server'),
};

/** @param {keyof programs} name @param {string} title @param {string} debian */
const lack = (name, title, debian) =>
  programs[name] ? false : `${title} is not installed (Debian: ${debian})`;

/** For `skip`: the reason why tests of a program cannot run, and how to install it, or false. */
const lacks = {
  chromium: lack('chromium', 'Chromium', 'chromium'),
  etcd: lack('etcd', 'etcd', 'etcd-server'),
  faketime: lack('faketime', 'libfaketime', 'libfaketime'),
  gcc: lack('gcc', 'gcc', 'gcc libc6-dev'),
  openssl: lack('openssl', 'openssl', 'openssl'),
  pgbouncer: lack('pgbouncer', 'pgbouncer', 'pgbouncer'),
  postgres: lack('postgres', 'PostgreSQL', 'postgresql'),
  redis: lack('redis', 'Redis', 'redis-server'),
};

module.exports = { lacks, programs };
