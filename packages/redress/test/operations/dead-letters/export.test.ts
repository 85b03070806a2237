import { expect, test } from 'vitest'
import { readTasks } from '../../../../../test/support/dead-letter-tasks.ts'
import type { LetterList } from '../../../src/operations/dead-letters/dead-letters.ts'
import { type ExportFormat, exportedLetters } from '../../../src/operations/dead-letters/export.ts'
import { makeBench } from '../bench.ts'

async function benchWithLetters(count: number) {
  const { app, work } = await makeBench({ deadLetter: 'queue' })
  const input = { outcomes: ['GW_4XX'], note: 'ß 💾 "quoted"\n' }
  const jobs = Array.from({ length: count }, () => ({ type: 'step', input }))
  const batch = await app.batches.create('night run', { owner: 'ann', jobs })
  await work()
  const pages: number[] = []
  const list = async (page: object): Promise<LetterList> => {
    const listed = await app.perform('dead-letters.list', page)
    pages.push(listed.deadLetters.length)
    return listed
  }
  const exported = async (format: ExportFormat, filter = {}) => {
    pages.length = 0
    const chunks: Uint8Array[] = []
    for await (const chunk of exportedLetters(list, filter, format)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  return { app, batch, input, pages, exported }
}

test('a protobuf export is readable with the shipped schema: task, failure, attempts, time and offset [F15 F16]', async () => {
  const { app, batch, input, exported } = await benchWithLetters(2)
  const { deadLetters } = await app.deadLetters.list({})
  const tasks = await readTasks(await exported('protobuf'))
  expect(tasks).toHaveLength(2)
  for (const [i, letter] of deadLetters.entries()) {
    const { task, payload, metadata, ...fields } = tasks[i]
    expect(task).toMatchObject({
      id: letter.jobId,
      type: 'step',
      queue: 'default',
      owner: 'ann',
      batch: batch.id,
    })
    expect(payload).toEqual(input)
    expect(fields).toEqual({
      failureCode: 'GW_4XX',
      failureMessage: 'It does not take this.',
      attempts: 1,
      failedAtMs: Date.parse(letter.at),
      offset: letter.offset,
    })
    expect(metadata).toMatchObject({
      fault: 'caller',
      phase: 'execution',
      because: 'GW_4XX is never retried',
      fingerprint: letter.failure.fingerprint,
    })
  }
})

test('a JSON lines export has each letter as the list shows it [F1]', async () => {
  const { app, exported } = await benchWithLetters(2)
  const lines = (await exported('jsonl')).toString('utf8').trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual((await app.deadLetters.list({})).deadLetters)
})

test('an export has all letters that match, each once and in the order of offsets, a page at a time', async () => {
  const { exported, pages } = await benchWithLetters(120)
  const tasks = await readTasks(await exported('protobuf', { owner: 'ann' }))
  expect(tasks.map(({ offset }) => offset)).toEqual(Array.from({ length: 120 }, (_, i) => i + 1))
  expect(pages).toEqual([50, 50, 20])
  expect(await exported('protobuf', { owner: 'bob' })).toHaveLength(0)
  await expect(exported('jsonl', { since: 'yesterday' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
})
