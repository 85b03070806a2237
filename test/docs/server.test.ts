import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/stores/sqlite.ts'

const ROOT = join(import.meta.dirname, '../..')
const guide = readFileSync(join(ROOT, 'docs/guides/operate/server.md'), 'utf8')
const blocks = (language: string): string[] =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, code = '']) => code)

test('the code of the guide to the server runs as it stands, but for its port', async () => {
  const [first = '', second = '', ...more] = blocks('ts')
  expect(more).toEqual([])
  expect(first).toContain('port: 7373')
  expect(second).toContain('await startServer({\n  app,\n')
  // What the guide leaves to its reader, and what a program that ends has to do.
  const program = [
    first.replace('port: 7373', 'port: 0'),
    'const artifacts: any = null, ownsCampaign = (account: string | null, id: string) => account === id',
    second.replace('await startServer({\n  app,\n', 'const own = await startServer({\n  app,\n  port: 0,\n'),
    `const answers = [await fetch(server.url + '/healthz'), await fetch(own.url + '/hello'), await fetch(own.url + '/api/jobs/7')]`,
    'console.log(JSON.stringify(await Promise.all(answers.map((answer) => answer.json()))))',
    'await server.stop()',
    'await own.stop()',
    'await app.stop()',
  ].join('\n')
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(ROOT, 'packages/redress'), join(folder, 'node_modules/redress'))
  writeFileSync(join(folder, 'program.ts'), program)
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning', 'program.ts']
  const { stdout } = await promisify(execFile)(process.execPath, options, { cwd: folder })
  expect(JSON.parse(stdout)).toMatchObject([
    { status: 'ok' },
    { hello: 'stranger' },
    { error: { code: 'SIGN_IN_REQUIRED' } },
  ])
})

test('the refusal that the guide shows has the shape of every refusal', () => {
  const [shown = ''] = blocks('json')
  expect(JSON.parse(shown)).toEqual({
    error: { code: 'JOB_NOT_FOUND', message: 'There is no job 7.', action: expect.any(String), jobId: '7' },
  })
})
