import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { redress as app, failureCodes } from '../../../src/index.ts'
import { json, redress } from '../command.ts'

/** A store whose gateway has just failed ten times, with a job that waits for it. */
async function brokenGateway(): Promise<{ at: string[]; id: string }> {
  const data = temporaryFolder()
  const program = app({ store: `sqlite:${join(data, 'redress.db')}` })
  const convert = program.job('convert', {
    codes: failureCodes({ GW_5XX: { fault: 'dependency', retry: 'never', message: 'It failed.' } }),
    policy: { breaker: { guards: 'gateway', cooldown: '1h' } },
    run: (_: object, attempt) => attempt.fail('GW_5XX'),
  })
  await convert.submitMany(Array(10).fill({}))
  const worker = await program.makeWorker()
  for (let i = 0; i < 3; i++) await worker.tick()
  const { id } = await convert.submit({})
  await program.stop()
  return { at: ['--data', data], id }
}

test('breakers are listed with their held jobs, and a held job names its breaker', async () => {
  const { at, id } = await brokenGateway()
  const listed = await redress(['breakers', ...at])
  expect(listed).toMatchObject({ code: 0, stderr: '' })
  expect(listed.stdout).toMatch(/^BREAKER +STATE +CALLS +FAILED +HELD +MODE +WHY/)
  expect(listed.stdout).toMatch(/^gateway +open +0 +0 +1 +hold +100 % of the last 10 calls failed; tries again in/m)
  const { stdout: explained } = await redress(['explain', id, ...at])
  expect(explained.replaceAll('\n', ' ')).toContain('Held by breaker gateway: 100 % of the last 10 calls failed;')
  expect((await redress(['jobs', 'show', id, ...at])).stdout).toMatch(/^waits +held by breaker gateway: 100 %/m)
})

test('one breaker is shown with its thresholds and its history', async () => {
  const { at } = await brokenGateway()
  const { stdout, code } = await redress(['breakers', 'show', 'gateway', ...at])
  expect(code).toBe(0)
  for (const part of [
    /^state +open$/m,
    /^window +0 of 0 calls failed; it opens at 50 % of 10 or more$/m,
    /^tries +after 1 h, 1 at a time, 3 in a row close it$/m,
    /^types +convert \(hold\)$/m,
    /^held jobs +1$/m,
    /^\S+Z +opened +- +100 % of the last 10 calls failed$/m,
  ]) {
    expect(stdout).toMatch(part)
  }
  expect((await redress(['breakers', 'show', 'nobody', ...at])).code).toBe(3)
})

test('a breaker is forced, released and probed, each with a reason', async () => {
  const { at } = await brokenGateway()
  const act = (words: string[]) => redress(['breakers', ...words, '--reason', 'a test', ...at])
  expect(await redress(['breakers', 'close', 'gateway', ...at])).toMatchObject({ code: 2 })
  expect(await act(['close', 'gateway', '--for', '10m'])).toMatchObject({
    code: 0,
    stdout: 'Breaker gateway is forced closed for 10 m.\n',
    stderr: expect.stringMatching(/redress breakers release gateway .*--reason 'say why'/),
  })
  expect((await redress(['breakers', ...at])).stdout).toContain('closed (forced; else open)')
  expect(await json(['breakers', 'list', ...at])).toMatchObject([
    { status: 'closed', computed: { status: 'open' }, forced: { status: 'closed', actor: 'tess' } },
  ])
  expect(await act(['probe', 'gateway'])).toMatchObject({ code: 4 })
  expect((await act(['release', 'gateway'])).stdout).toBe(
    'Breaker gateway is no longer forced; its computed state is in effect: open.\n',
  )
  expect((await act(['probe', 'gateway'])).stdout).toContain('workers try jobs now')
  expect(await act(['open', 'nobody'])).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('known breakers: gateway'),
  })
})

test('a store without breakers says so', async () => {
  const data = temporaryFolder()
  const program = app({ store: `sqlite:${join(data, 'redress.db')}` })
  await program.store()
  await program.stop()
  expect((await redress(['breakers', '--data', data])).stderr).toContain('No job type has a breaker.')
})
