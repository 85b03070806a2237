import { afterEach, beforeEach, expect, test } from 'vitest'
import { readExposition } from '../../../../test/support/exposition.ts'
import { Scene } from '../../../../test/support/scene.ts'
import { failureCodes } from '../../src/core/failure/taxonomy.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

test('metric labels are declared types and codes, never job data [D33 E22]', async () => {
  const codes = failureCodes({ BROKEN: { fault: 'system', retry: 'never', message: 'It broke.' } })
  scene.app.job('plain', {
    codes,
    run: ({ n }: { n: number }, attempt) => {
      if (n % 3 === 0) attempt.fail(`MADE_UP_${n}` as 'BROKEN')
      if (n % 3 === 1) throw Object.assign(new Error(`job ${n}`), { code: `E_${n}` })
      attempt.fail('BROKEN')
    },
  })
  await scene.worker({ concurrency: 100 })
  await scene.app.submitMany(
    'plain',
    Array.from({ length: 60 }, (_, n) => ({ n })),
  )
  for (let n = 0; n < 20; n++) await scene.app.submit(`nobody.${n}`, {}).catch(() => undefined)
  await scene.pass(0)
  await scene.pass(0)
  const { of } = readExposition(await scene.app.metrics.text())
  const failed = of('jobs_failed_total')
  expect(failed.reduce((sum, [, count]) => sum + count, 0)).toBe(60)
  const declared = Object.keys(scene.app.describe('plain')?.codes ?? {})
  expect(declared).toEqual(expect.arrayContaining(failed.map(([{ error_code }]) => error_code)))
  expect(of('jobs_created_total').map(([{ type }]) => type)).toEqual(['plain'])
})
