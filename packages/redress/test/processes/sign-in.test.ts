import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { scratchFile } from '../../../../test/support/processes/processes.ts'
import { programFile } from '../../../../test/support/processes/programs.ts'
import { redress } from '../../src/index.ts'
import { authenticate } from '../../src/operations/accounts/authenticate.ts'
import { systemClock } from '../../src/runtime/clock.ts'

const PROCESSES = 4
/** Long enough for all of them to have opened the store. */
const HEAD_START_MS = 3_000

test('of several processes that use one sign-in link at the same moment, one gets a session', async () => {
  const file = scratchFile()
  const app = redress({ store: `sqlite:${file}` })
  const { code } = await app.perform('sign-in-links.create', { actor: 'olga' })
  const atMs = systemClock.nowMs() + HEAD_START_MS
  const args = ['--disable-warning=ExperimentalWarning', programFile('signer'), file, String(code), String(atMs)]
  const tries = Array.from({ length: PROCESSES }, () => promisify(execFile)(process.execPath, args))
  const answers = (await Promise.all(tries)).map(({ stdout }) => stdout)
  const secrets = answers.filter((answer) => answer !== 'refused')
  expect(secrets).toHaveLength(1)
  expect(await authenticate(await app.store(), String(secrets[0]))).toMatchObject({ name: 'olga', role: 'admin' })
  expect((await app.perform('tokens.list', { kind: 'session' })).tokens).toHaveLength(1)
  await app.stop()
})
