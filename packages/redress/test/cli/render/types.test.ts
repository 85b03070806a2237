import { join } from 'node:path'
import { expect, test } from 'vitest'
import { redress as app } from '../../../src/index.ts'
import { folder, redress } from '../command.ts'

test('a policy is previewed without the program that declares its type', async () => {
  const data = folder()
  const program = app({ store: `sqlite:${join(data, 'redress.db')}` })
  program.job('convert', { policy: { retry: { max: 2, unknown: 'transient' } }, run: () => undefined })
  await program.store()
  await program.stop()
  const { code, stdout, stderr } = await redress(['policy', 'preview', 'convert', '--data', data])
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: 'Only the program that declares convert knows its failure codes.\n',
  })
  expect(stdout).toContain('Ends failed after 2 attempts.')
  expect(await redress(['policy', 'preview', 'convert', '--failures', 'GW_5XX', '--data', data])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      'OPTION_INVALID: failures: GW_5XX is unknown: this program has not declared convert',
    ),
  })
})
