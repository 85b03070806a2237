import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answer } from '../../../test/support/servers/origin-server.ts'
import { until } from '../../../test/support/until.ts'
import { loadHandlers } from '../src/job-handlers.ts'
import { Rig } from './rig.ts'

const ROOT = mkdtempSync(join(tmpdir(), 'redress-fetchbox-'))
afterAll(() => rmSync(ROOT, { recursive: true, force: true }))

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(ROOT, 'handlers-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

/** Each does what its name says; `feed` is the one that does everything right. */
const HANDLERS = {
  'feed.mjs': `
    export function buildTasks({ resources, metadata }) {
      const [first] = resources
      return metadata.pages.map((page) => ({ id: \`page-\${page}\`, url: \`\${first.url}?page=\${page}\` }))
    }
    export function prepare({ id, url, tenant }, { metadata, attempt }) {
      return { url: \`\${url}&for=\${tenant}\`, headers: { 'x-run': metadata.run, 'x-try': String(attempt) } }
    }
    export async function finalize({ status, resourcesTotal }, { resources, metadata }) {
      return { status, resourcesTotal, run: metadata.run, ids: (await resources()).map(({ id }) => id) }
    }`,
  'strict.mjs': `
    export const buildTasks = ({ resources, metadata }, { refuse }) =>
      metadata.contract ? resources : refuse('metadata.contract is missing')
    export const prepare = (task, { metadata, refuse }) => (metadata.contract === 'ended' ? refuse('the contract has ended') : {})`,
  'broken-build.js': `export const buildTasks = () => { throw new Error('secret detail') }`,
  'endless-build.mjs': `export const buildTasks = () => new Promise(() => undefined)`,
  'wrong-build.mjs': `export const buildTasks = () => [{ id: 'a', url: 'http://169.254.169.254/' }]`,
  'broken-prepare.mjs': `export const prepare = () => { throw new Error('secret detail') }`,
  'hanging-prepare.mjs': `export const prepare = () => new Promise(() => undefined)`,
  'wordy-prepare.mjs': `export const prepare = () => 'https://elsewhere.example/'`,
  'wrong-prepare.mjs': `export const prepare = () => ({ headers: { Host: 'elsewhere' } })`,
  'broken-finalize.mjs': `
    import { existsSync } from 'node:fs'
    export function finalize(_, { metadata }) {
      if (!existsSync(metadata.mended)) throw new Error('secret detail')
      return 'well'
    }`,
  'typed.ts': `export const prepare = (task: { url: string }): { url: string } => ({ url: task.url + '?typed' })`,
  'README.md': 'not a handler',
}

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open({ env: { FETCHBOX_HANDLERS: folderWith(HANDLERS), FETCHBOX_HANDLER_TIMEOUT_MS: '200' } })
})

const of = (type: string) => ({ 'x-fetchbox-job-type': type })
const one = (path: string) => [{ id: 'a', url: rig.origin.plan(path, answer(200, 'x')) }]

describe('a handler', () => {
  test('a handler builds the tasks, prepares each download and finalizes the job', async () => {
    rig.origin.plan('/feed', answer(200, 'page'))
    const resources = [{ id: 'feed', url: rig.origin.url('/feed') }]
    const shown = await rig.run(resources, of('feed'), { metadata: { pages: [2, 1], run: 'night' } })
    expect(shown).toMatchObject({ type: 'feed', status: 'complete', resourcesTotal: 2 })
    expect(shown.finalize.result).toEqual({
      status: 'complete',
      resourcesTotal: 2,
      run: 'night',
      ids: ['page-2', 'page-1'],
    })
    const asked = rig.origin.requests.filter(({ path }) => path.startsWith('/feed'))
    expect(asked.map(({ path }) => path).toSorted()).toEqual(['/feed?page=1&for=ann', '/feed?page=2&for=ann'])
    expect(asked[0]?.headers).toMatchObject({ 'x-run': 'night', 'x-try': '1' })
  })

  test('a handler can be written in TypeScript, and the shipped one stays available', async () => {
    expect((await rig.run(one('/typed'), of('typed'))).status).toBe('complete')
    expect(rig.origin.asked('/typed?typed')).toBe(1)
    expect((await rig.run(one('/plain'))).type).toBe('sample')
  })

  test('a handler that refuses a resource fails the ingest, and in the worker the resource is not retried [F9]', async () => {
    const refused = await rig.as('ann').submit({ resources: one('/strict') }, of('strict'))
    expect([refused.status, refused.json.error.code]).toEqual([400, 'HANDLER_REFUSED'])
    expect(refused.json.error.message).toContain('metadata.contract is missing')
    const shown = await rig.run(one('/strict'), of('strict'), { metadata: { contract: 'ended' } })
    expect(shown).toMatchObject({
      status: 'failed',
      lastError: { code: 'HANDLER_REFUSED', message: 'the contract has ended', context: { attempt: 1 } },
    })
    expect(rig.origin.asked('/strict')).toBe(0)
  })

  test.each(['broken-build', 'wrong-build', 'endless-build'])('that is broken accepts nothing: %s', async (type) => {
    const before = (await rig.app.perform('jobs.count', {})).count
    const { status, json } = await rig.as('ann').submit({ resources: one('/b') }, of(type))
    expect([status, json.error.code]).toEqual([500, 'HANDLER_ERROR'])
    expect(JSON.stringify(json)).not.toMatch(/secret detail|169\.254/)
    expect((await rig.app.perform('jobs.count', {})).count).toBe(before)
    expect(rig.log.lines.some(({ fields }) => fields.event === 'handler_failed' && fields.handler === type)).toBe(true)
  })

  test.each(['broken-prepare', 'wrong-prepare', 'wordy-prepare', 'hanging-prepare'])(
    'a handler error in the worker dead-letters the resource at once: %s [F13]',
    async (type) => {
      const shown = await rig.run(one('/p'), of(type))
      expect(shown).toMatchObject({ status: 'failed', lastError: { code: 'HANDLER_ERROR', context: { attempt: 1 } } })
      expect(shown.deadLetter.offset).toBeGreaterThan(0)
      expect(JSON.stringify(shown)).not.toContain('secret detail')
      expect(rig.origin.asked('/p')).toBe(0)
    },
  )

  test('a finalize error leaves the job complete, is dead-lettered, and can be replayed [F13]', async () => {
    const mended = join(ROOT, 'mended')
    const shown = await rig.run(one('/f'), of('broken-finalize'), { metadata: { mended } })
    expect(shown).toMatchObject({
      status: 'complete',
      finalize: { status: 'failed', error: { code: 'HANDLER_ERROR' } },
    })
    const { deadLetters } = await rig.app.deadLetters.list({ type: 'fetchbox.finalize' })
    expect(deadLetters).toMatchObject([{ failure: { code: 'HANDLER_ERROR' }, input: { batch: { id: shown.id } } }])
    expect(deadLetters[0]?.attempts).toBe(1)
    writeFileSync(mended, '')
    await rig.as('operator').post(`/api/dead-letters/${deadLetters[0]?.offset}/replay`, { reason: 'it is mended' })
    const replayed = await until('it was finalized', async () => {
      const { finalize } = await rig.snapshot(shown.id)
      return finalize.status === 'complete' ? finalize : null
    })
    expect(replayed).toMatchObject({ result: 'well', error: null })
  })
})

describe('a folder of handlers that cannot be used stops the start, and says which', () => {
  test.each([
    ['a module that cannot be read', { 'bad.mjs': 'export const =' }, /bad\.mjs cannot be loaded/],
    ['a module with nothing in it', { 'empty.mjs': 'export const other = 1' }, /empty\.mjs exports none of/],
    [
      'what is no function',
      { 'odd.mjs': 'export const prepare = 7' },
      /odd\.mjs exports prepare, which is not a function/,
    ],
    ['an invalid name', { 'My Type.js': 'export const prepare = () => ({})' }, /My Type\.js has an invalid name/],
    ['two of one type', { 'a.js': 'export const prepare = () => ({})', 'a.mjs': '' }, /same type as a\.js/],
  ])('%s', async (_, files, message) => {
    await expect(loadHandlers(folderWith(files))).rejects.toThrow(message)
  })

  test('a folder that is not there', async () => {
    await expect(loadHandlers('/nowhere')).rejects.toThrow('FETCHBOX_HANDLERS names /nowhere, which cannot be read')
  })
})
