import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { folder, redress } from '../command.ts'

const filesIn = (project: string): string[] =>
  readdirSync(project, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(project.length + 1))
    .sort()

test('redress init replaces no file: it names what is there and makes nothing', async () => {
  const project = folder()
  writeFileSync(join(project, 'tsconfig.json'), '{}')
  mkdirSync(join(project, 'src'))
  writeFileSync(join(project, 'src/app.ts'), 'mine')
  const { code, stderr } = await redress(['init', project])
  expect(code).toBe(2)
  expect(stderr).toContain('tsconfig.json, src/app.ts already exist')
  expect(filesIn(project)).toEqual(['src/app.ts', 'tsconfig.json'])
  expect(readFileSync(join(project, 'src/app.ts'), 'utf8')).toBe('mine')
})

test('a second redress init in the same project is refused', async () => {
  const project = folder()
  expect((await redress(['init', project])).code).toBe(0)
  // The project exists now, so this one adds to it.
  expect((await redress(['init', project])).code).toBe(0)
  const before = filesIn(project)
  const { code, stderr } = await redress(['init', project])
  expect(code).toBe(2)
  expect(stderr).toContain('src/redress/app.mts, src/redress/app-test.mjs already exist')
  expect(filesIn(project)).toEqual(before)
})

test('redress init keeps a .gitignore and says what to add to it', async () => {
  const project = folder()
  writeFileSync(join(project, '.gitignore'), 'mine\n')
  const { code, stdout } = await redress(['init', project])
  expect(code).toBe(0)
  expect(stdout).toContain(`Kept ${join(project, '.gitignore')}, which exists`)
  expect(stdout).toContain("echo '.redress/' >> .gitignore")
  expect(readFileSync(join(project, '.gitignore'), 'utf8')).toBe('mine\n')
})

test.each([
  ['a JavaScript project', ['package.json'], 'redress/app.mjs', 'npm install redress@'],
  ['a TypeScript project', ['package.json', 'tsconfig.json'], 'redress/app.mts', 'npm install redress@'],
  ['a project with sources in src', ['package.json', 'src/index.js'], 'src/redress/app.mjs', 'npm install redress@'],
  ['a pnpm project', ['package.json', 'pnpm-lock.yaml'], 'redress/app.mjs', 'pnpm add redress@'],
  ['a yarn project', ['package.json', 'yarn.lock'], 'redress/app.mjs', 'yarn add redress@'],
])('redress init adds two files to %s and changes none', async (_, there, app, add) => {
  const project = folder()
  for (const path of there) {
    mkdirSync(dirname(join(project, path)), { recursive: true })
    writeFileSync(join(project, path), 'mine')
  }
  const { code, stdout } = await redress(['init', project])
  expect(code).toBe(0)
  expect(stdout).toContain(add)
  expect(stdout).toContain(`redress start --app ${app}`)
  expect(filesIn(project)).toEqual([...there, app, app.replace(/app\.m.s/, 'app-test.mjs')].sort())
  for (const path of there) expect(readFileSync(join(project, path), 'utf8')).toBe('mine')
})

test('redress init --dry-run names the files and makes none', async () => {
  const project = folder()
  const { code, stdout } = await redress(['init', project, '--dry-run'])
  expect(code).toBe(0)
  expect(stdout).toContain(`Would make ${join(project, 'src/app.ts')}`)
  expect(stdout).toContain('nothing was made')
  expect(filesIn(project)).toEqual([])
})

test('redress init that cannot write its last file removes those that it made', async () => {
  const project = folder()
  // `test` is a file where the folder of the last file should be.
  writeFileSync(join(project, 'test'), 'mine')
  const { code, stderr } = await redress(['init', project])
  expect(code).toBe(2)
  expect(stderr).toContain('cannot be made')
  expect(filesIn(project)).toEqual(['test'])
})

test.each([
  ['My Jobs!', 'my-jobs'],
  ['.hidden', 'hidden'],
  ['redress', 'my-jobs'],
  ['日本', 'my-jobs'],
])('redress init in a folder %j makes a package with the valid name %j', async (name, expected) => {
  const project = join(folder(), name)
  expect((await redress(['init', project])).code).toBe(0)
  expect(JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')).name).toBe(expected)
})

test('redress init prints a cd command that works for a folder whose name begins with a dash', async () => {
  const { code, stdout } = await redress(['init', '--', '-dash'], { cwd: folder() })
  expect(code).toBe(0)
  expect(stdout).toContain('cd ./-dash\n')
})

test('redress init refuses an empty folder name and makes nothing', async () => {
  const project = folder()
  const { code, stderr } = await redress(['init', ''], { cwd: project })
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('The folder name is empty.') })
  expect(filesIn(project)).toEqual([])
})
