import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { shownLocation } from '../../../src/app/store/open-store.ts'
import { chooseStore } from '../../../src/cli/target/store-option.ts'
import { redactAddresses } from '../../../src/core/text/redact.ts'
import { folder, ROOT, redressAlone, running } from '../command.ts'

/** Nobody listens there. */
const STORES = ['postgres://ann:pa55word@127.0.0.1:1/jobs', 'postgres://127.0.0.1:1/jobs?user=ann&password=pa55word']

test('no command repeats the password of a store, whether it is typed or in the environment', async () => {
  const file = join(folder(), 'copy.db')
  const said = await Promise.all(
    STORES.flatMap((store) => [
      redressAlone(['jobs', 'list', '--store', store]),
      redressAlone(['doctor', '--store', store, '--json']),
      redressAlone(['doctor'], { env: { DATABASE_URL: store } }),
      redressAlone(['migrate'], { env: { REDRESS_STORE: store } }),
      redressAlone(['backup', file, '--store', store]),
      redressAlone(['restore', file, '--store', store]),
      redressAlone(['copy', '--from', store, '--to', `sqlite:${file}`]),
      // Mistakes, in which what was typed is repeated.
      redressAlone(['jobs', 'list', store]),
      redressAlone(['jobs', 'list', '--stroe', store]),
      redressAlone(['jobs', 'list', '--store', store.replace('postgres', 'mysql'), '--json']),
    ]),
  )
  for (const { code, stdout, stderr } of said) {
    expect(code).not.toBe(0)
    expect(stdout + stderr).not.toContain('pa55word')
  }
})

test('a hint names the same store without its password', () => {
  for (const store of STORES) expect(chooseStore({ store }).flags).not.toContain('pa55word')
  const plain = 'postgres://ann@127.0.0.1:1/jobs?sslmode=require'
  expect(chooseStore({ store: plain }).flags).toContain(plain)
  const odd = [
    "postgres://ann:p'a55word@host/db",
    'postgres://ann:p@a55word@host/db',
    'postgres://ann:p/a55word@host/db',
  ]
  for (const store of odd) expect(shownLocation(store)).toBe('postgres://[redacted]@host/db')
  expect(shownLocation('sqlite:a:b@c.db')).toBe('sqlite:a:b@c.db')
})

test('addresses in a text lose their passwords and nothing else', () => {
  const text = 'smtp://ann:pw1@mail, amqp://b:pw2@[::1]:5/x and https://h/?token=pw3&a=1; token: 12 at http://c@d/e'
  expect(redactAddresses(text)).toBe(
    'smtp://[redacted]@mail, amqp://[redacted]@[::1]:5/x and https://h/?token=[redacted]&a=1; token: 12 at http://c@d/e',
  )
})

test('the log, the list of processes and the first lines of a server have no password', async () => {
  const app = join(folder(), 'app.ts')
  const source = `
    import { redress } from ${JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))}
    export default redress({ store: 'sqlite::memory:' })`
  writeFileSync(app, source)
  const { child, stdout, stderr } = await running(
    ['start', '--app', app, '--store', STORES[0] as string, '--no-worker', '--port', '0', '--json'],
    { says: '"store"' },
  )
  await until('its title has changed', () => !readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').includes('pa55word'))
  expect(stdout() + stderr()).not.toContain('pa55word')
  expect(stderr()).toContain('uses its own store')
  child.kill('SIGTERM')
})
