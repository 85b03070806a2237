import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, programOfOperation } from '../../../src/cli/operation-program.ts'
import { CATALOG, type CatalogEntry, type OperationName } from '../../../src/operations/catalog.ts'
import { json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let at: string[]
beforeAll(async () => {
  store = await prepareStore()
  at = ['--data', store.data]
})
afterAll(() => store.remove())

const entries = Object.entries(CATALOG) as [OperationName, CatalogEntry][]
const optionsOf = (name: OperationName) => programOfOperation(name).options.map(({ option }) => option)

test('every mutating command has --dry-run', () => {
  for (const [name, { mutates }] of entries)
    expect([name, optionsOf(name).includes('dry-run')]).toEqual([name, mutates])
})

test('every command that cannot be undone has --yes, and no other has it', () => {
  for (const [name, { needsConfirmation = false }] of entries) {
    expect([name, optionsOf(name).includes('yes')]).toEqual([name, needsConfirmation])
  }
})

test('without a terminal, a command that cannot be undone exits with 2', async () => {
  const cancel = ['jobs', 'cancel', store.ids.queued, '--reason', 'not wanted', ...at]
  expect(await redress(cancel)).toEqual({
    code: 2,
    stdout: '',
    stderr:
      'CONFIRMATION_REQUIRED: redress jobs cancel cannot be undone and needs confirmation, but this is not a terminal.\n' +
      'Look with --dry-run, then add --yes.\n',
  })
  const dry = await redress([...cancel, '--dry-run'])
  expect(dry).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing was done\. /) })
  expect(await json(['jobs', 'show', store.ids.queued, ...at])).toMatchObject({ status: 'queued' })
  expect(await redress([...cancel, '--yes'])).toMatchObject({ code: 0 })
})

describe('on a terminal', () => {
  async function answered(answer: string | null): Promise<{ shown: string; refused: string | null }> {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const asked = ask('This purges 3 dead letters for good. Do it?', { input, output })
    if (answer === null) input.end()
    else input.write(`${answer}\n`)
    const refused = await asked.then(
      () => null,
      (error: Error) => error.message,
    )
    return { shown: String(output.read()), refused }
  }

  test.each(['y', 'Y', 'yes', ' yes '])('%j confirms', async (answer) => {
    const { shown, refused } = await answered(answer)
    expect(refused).toBeNull()
    expect(shown).toContain('This purges 3 dead letters for good. Do it? [y/N] ')
  })

  test.each(['', 'n', 'no', 'yeah, why not', null])('%j does not confirm', async (answer) => {
    expect((await answered(answer)).refused).toBe('Nothing was done: the confirmation is missing.')
  })
})
