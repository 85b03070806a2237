import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { redress as makeApp } from '../../../src/index.ts'
import { folder, ROOT, redress } from '../command.ts'

const MODULE = `
import { failureCodes, redress } from ${JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))}
const app = redress()
app.job('convert', {
  codes: failureCodes({ SOURCE_GONE: { fault: 'caller', retry: 'never', message: 'The file is gone.' } }),
  policy: { manualRetry: 'in-place' },
  admitRetry: (input, retry) => retry.fail('SOURCE_GONE'),
  run: () => undefined,
})
export default app
`

async function failedJob(data: string): Promise<string> {
  const app = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
  const convert = app.job('convert', { policy: { manualRetry: 'in-place' }, run: () => undefined })
  const { id } = await convert.submit({})
  await app.jobs.markFailed(id, { actor: 'tess', reason: 'a test' })
  await app.stop()
  return id
}

test('with --app a retry asks the hooks of the job type, and a refusal changes nothing [E20]', async () => {
  const data = folder()
  const file = join(data, 'app.ts')
  writeFileSync(file, MODULE)
  const id = await failedJob(data)
  const retry = ['retry', id, '--reason', 'the file is back', '--data', data]
  const refused = await redress([...retry, '--app', file])
  expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining('SOURCE_GONE')])
  expect((await redress(['jobs', 'show', id, '--data', data])).stdout).toMatch(/^status +failed/m)
  expect((await redress([...retry, '--app', join(data, 'none.ts')])).stderr).toContain('APP_NOT_LOADED')
  expect((await redress(retry)).stdout, 'without it, the policy alone is asked').toContain('is back in the queue')
}, 60_000)
