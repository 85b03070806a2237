import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TEST_CA, TEST_CLIENT, TEST_SERVER } from '../../../../../test/support/servers/certificates.ts'
import { type OwnPostgres, startOwnPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openPool } from '../../../src/store/postgres/connection/client.ts'
import { tlsOf } from '../../../src/store/postgres/connection/tls.ts'
import { openPostgresDoctor } from '../../../src/store/postgres/doctor.ts'
import { openContext, openPostgres } from '../../../src/store/postgres/store.ts'

/** Certificates of the server name 127.0.0.1 and localhost; it also listens on an address that they do not name. */
const [NAMED, UNNAMED] = ['127.0.0.1', '127.0.0.2'] as const

let folder: string
let server: OwnPostgres
let plain: OwnPostgres
const file = (name: string): string => join(folder, name)

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redress-tls-'))
  chmodSync(folder, 0o755)
  const files = {
    'ca.pem': TEST_CA,
    'server.pem': TEST_SERVER.cert,
    'server-key.pem': TEST_SERVER.key,
    'client-ca.pem': TEST_CLIENT.ca,
    'client.pem': TEST_CLIENT.cert,
    'client-key.pem': TEST_CLIENT.key,
    'hba.conf': `
      hostssl certified all ${NAMED}/32 cert
      hostssl postgres all 127.0.0.0/8 trust`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(file(name), text, { mode: 0o600 })
  const settings = [
    ...['ssl=on', `ssl_cert_file=${file('server.pem')}`, `ssl_key_file=${file('server-key.pem')}`],
    ...[`ssl_ca_file=${file('client-ca.pem')}`, `hba_file=${file('hba.conf')}`],
    `listen_addresses=${NAMED},${UNNAMED}`,
  ]
  ;[server, plain] = await Promise.all([startOwnPostgres({ settings }), startOwnPostgres()])
})
afterAll(async () => {
  await Promise.all([server.stop(), plain.stop()])
  rmSync(folder, { recursive: true, force: true })
})

const addressOf = (query: string, host: string = NAMED, of = server, database = 'postgres'): string =>
  `postgres://postgres@${host}:${of.port}/${database}${query === '' ? '' : `?${query}`}`

/** Whether the connection is encrypted, or why there is none. */
async function connected(url: string): Promise<boolean | string> {
  try {
    const opened = await openContext({ url })
    const [row] = await opened.sql`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
    await opened.stop()
    return row?.ssl
  } catch (error) {
    return (error as { code: string }).code
  }
}

test.each([
  ['no sslmode', '', NAMED, true],
  ['prefer', 'sslmode=prefer', NAMED, true],
  ['disable, where the server wants TLS', 'sslmode=disable', NAMED, 'STORE_DENIED'],
  ['require, of a server of another name', 'sslmode=require', UNNAMED, true],
  ['verify-ca without its authority', 'sslmode=verify-ca', NAMED, 'STORE_DENIED'],
  ['verify-full without its authority', 'sslmode=verify-full', NAMED, 'STORE_DENIED'],
  ['ssl=true, which means verify-full', 'ssl=true', NAMED, 'STORE_DENIED'],
] as const)('the server is let in or refused as with libpq: %s', async (_name, query, host, expected) => {
  expect(await connected(addressOf(query, host))).toBe(expected)
})

test('with a CA, require and verify-ca check the certificate, and verify-full also checks the name', async () => {
  const root = `sslrootcert=${file('ca.pem')}`
  const other = `sslrootcert=${file('client-ca.pem')}`
  for (const mode of ['require', 'verify-ca', 'verify-full']) {
    const isFull = mode === 'verify-full'
    expect(await connected(addressOf(`sslmode=${mode}&${root}`)), mode).toBe(true)
    expect(await connected(addressOf(`sslmode=${mode}&${root}`, UNNAMED)), mode).toBe(isFull ? 'STORE_DENIED' : true)
    expect(await connected(addressOf(`sslmode=${mode}&${other}`)), mode).toBe('STORE_DENIED')
  }
  expect(await connected(addressOf(`sslmode=verify-full&sslnegotiation=direct&${root}`))).toBe(true)
  // Each connection that is made for a store of several hosts, and each look for the primary.
  const both = `postgres://postgres@${NAMED}:${server.port},${NAMED}:${server.port}/postgres?sslmode=verify-full&`
  expect(await connected(both + root)).toBe(true)
})

test('a server that offers no TLS is used by prefer, and refused by all that need it', async () => {
  expect(await connected(addressOf('', NAMED, plain))).toBe(false)
  for (const mode of ['require', 'verify-ca', 'verify-full'])
    expect(await connected(addressOf(`sslmode=${mode}`, NAMED, plain)), mode).toBe('STORE_DENIED')
})

test('a store works and listens through TLS', async () => {
  const store = await openPostgres({ url: addressOf(`sslmode=verify-full&sslrootcert=${file('ca.pem')}`) })
  const woken = new Promise<void>((resolve) => store.onWake(resolve))
  await store.register({ types: [] })
  await woken
  await store.stop()
})

test('a client certificate lets us in where the server wants one', async () => {
  const admin = openPool({ url: addressOf(''), schema: 'public', connectionsMax: 1 })
  await admin.unsafe('CREATE DATABASE certified')
  await admin.end({ timeout: 1 })
  const root = `sslmode=verify-full&sslrootcert=${file('ca.pem')}`
  const own = `sslcert=${file('client.pem')}&sslkey=${file('client-key.pem')}`
  expect(await connected(addressOf(root, NAMED, server, 'certified'))).toBe('STORE_DENIED')
  expect(await connected(addressOf(`${root}&${own}`, NAMED, server, 'certified'))).toBe(true)
})

test('the doctor tells how the connection is checked', async () => {
  const tlsFactsOf = async (query: string) => {
    const doctor = openPostgresDoctor({ url: addressOf(query), nowMs: Date.now })
    const { base } = await doctor.facts({ isDeep: false })
    await doctor.stop()
    return base.kind === 'postgres' ? base.tls : null
  }
  expect(await tlsFactsOf('sslmode=require')).toEqual({
    ...{ mode: 'require', checks: 'nothing', isEncrypted: true, isLocal: true },
  })
  expect(await tlsFactsOf(`sslmode=verify-full&sslrootcert=${file('ca.pem')}`)).toMatchObject({
    checks: 'authority and name',
  })
})

test.each([
  ['sslmode=verify_full', /one of disable, allow, prefer, require, verify-ca, verify-full; got "verify_full"/],
  ['sslmode=require&sslrootcert=/missing/ca.pem', /\/missing\/ca.pem, which cannot be read/],
  ['sslcert=/missing/client.pem', /both sslcert and sslkey/],
  ['sslmode=require&sslrootcert=system', /needs sslmode=verify-full/],
  ['sslnegotiation=direct', /needs sslmode=require/],
  ['sslcrl=/x', /sslcrl .* is not supported/],
])('%s is refused with a sentence that says why', async (query, expected) => {
  await expect(openPostgres({ url: addressOf(query) })).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringMatching(expected),
  })
})

test('sslrootcert=system means verify-full, and the environment counts where the address says nothing', () => {
  expect(tlsOf('postgres://a@b/c?sslrootcert=system')).toMatchObject({ mode: 'verify-full' })
  process.env.PGSSLMODE = 'verify-full'
  try {
    expect(tlsOf('postgres://a@b/c')).toMatchObject({ mode: 'verify-full', checks: 'authority and name' })
    expect(tlsOf('postgres://a@b/c?sslmode=require')).toMatchObject({ mode: 'require', checks: 'nothing' })
  } finally {
    delete process.env.PGSSLMODE
  }
})
